"""Records to batches.

`records` says what files hold, `input_pipeline` reads them; `legacy_records` reads the reference
implementation's; `example_bytes` writes many records at once.
"""
