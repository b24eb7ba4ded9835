"""Models and texts for measurements for which their content does not matter."""

import os
import random

import numpy as np

from xlnet import files
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import XLNetConfig

LABELS = ["no", "yes"]


def make_model(directory, model_config_path, spiece_model_file):
    """A model directory as training leaves it, of a classifier with weights at random."""
    import tensorflow.compat.v1 as tf

    from xlnet.engine import checkpoint, devices
    from xlnet.finetuning.model import TaskModel
    from xlnet.model_directory import task_settings
    from xlnet.model_directory.task_settings import FineTunedTask
    from xlnet.serving import session
    from xlnet.settings.network import NetworkSettings
    from xlnet.tasks.types import custom
    from xlnet.tokenization.tokenizer import Tokenizer
    devices.set_up_process()
    os.makedirs(directory)
    config = XLNetConfig(json_path=model_config_path)
    tokenizer = Tokenizer(spiece_model_file)
    tokenizer.save(os.path.join(directory, "spiece.model"))
    config.to_json(os.path.join(directory, "xlnet_config.json"))
    tuned_with = ClassifierSettings(model_dir=directory, task_name="custom", do_predict=True,
                                    predict_file="-", max_seq_length=512)
    task = custom.known_or_own(tuned_with, {"labels": LABELS})
    files.write_json(os.path.join(directory, "task.json"),
                     task_settings.describe(tuned_with, task, tokenizer))
    with tf.Graph().as_default():
        tuned = FineTunedTask(task, tuned_with)
        TaskModel(config, tuned, NetworkSettings()).outputs(session.placeholders(tuned))
        draw = np.random.default_rng(0)
        checkpoint.write_arrays(os.path.join(directory, "model.ckpt-1"), {
            devices.base_name(variable): draw.normal(
                variable.op.name.endswith("gamma"), .02, variable.shape.as_list()
            ).astype(np.float32) for variable in tf.global_variables()})
    checkpoint.note_newest(directory)


def make_texts(spiece_model_file, pieces, count, spread=0.0):
    """English-like texts of about `pieces` pieces, whose lengths differ by up to the fraction
    `spread`."""
    from xlnet.tokenization.tokenizer import Tokenizer
    tokenizer, draw = Tokenizer(spiece_model_file), random.Random(0)
    words = [tokenizer.id_to_piece(id)[1:] for id in range(max(tokenizer.vocab_size // 10, 200))
             if id < tokenizer.vocab_size and tokenizer.id_to_piece(id)[1:].isalpha()]
    return [" ".join(draw.choices(words, k=round(pieces * draw.uniform(1 - spread, 1 + spread))))
            for _ in range(count)]
