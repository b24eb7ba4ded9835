"""What record files hold, but neither how they are made of text nor how they become batches.

`feature_spec` has the features of pretraining and fine-tuning records, `manifest` describes a
directory of pretraining records, `example_bytes` serializes many records at once, `tfrecord` puts a
frame around each and reads them.
"""
