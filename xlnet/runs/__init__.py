"""What a run leaves in its model directory, read, written and compared.

    model.ckpt-<step>.*, checkpoint   the last checkpoints; `checkpoint` names the newest
    best/                             the best one: weights alone, and copies of the next files
    xlnet_config.json                 the architecture, as in released checkpoints
    spiece.model, spiece.model.json   the vocabulary, and how text is cleaned for it
    run.json                          what was asked for, what it resolved to, what the model is
                                      trained for, digests of what was read
    evaluations.json                  the evaluations while training, which choose `best`
    cache/                            what may be deleted
    training.lock                     locked by the process that trains here

`run_document` reads, writes and compares `run.json`, `task_settings` has the settings of
fine-tuning, `model_files` reads a trained model without its weights.
"""
