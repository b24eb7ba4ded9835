"""Which settings hold: what a run leaves in its model directory, read, written and compared.

    model.ckpt-<step>.*, checkpoint   the last checkpoints; `checkpoint` names the newest
    best/                             the best one: weights alone, and copies of the next four files
    xlnet_config.json                 the architecture
    spiece.model, spiece.model.json   the vocabulary, and how text is cleaned for it
    task.json                         fine-tuned: the task, its labels, and the settings that
                                      predictions depend on
    pretraining.json, finetuning.json all settings of the run, and digests of what it has read;
                                      ..._history.json: those that they replaced
    evaluations.json                  the evaluations while training, which choose `best`
    training.lock                     held by the process that trains here
    huggingface_config.json           settings that a model of another library came with

`task_settings` resolves the settings of a task from flags and `task.json`, `run_settings` compares
those of a run that resumes, `model_files` reads a trained model without its weights.
"""
