"""What record files hold: nothing here makes text into records or records into batches.

`feature_spec` has the features of pretraining and fine-tuning records, `manifest` describes a
directory of pretraining records; `legacy` does both for those of the authors' program;
`example_bytes` serializes many records at once, `tfrecord` puts a frame around each.
"""
