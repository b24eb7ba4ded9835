"""Small models of any kind of task, with random weights, as a training leaves them."""

import dataclasses
import json

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.config import NetworkSettings, XLNetConfig
from xlnet.engine import checkpoint
from xlnet.models import layout, task_json
from xlnet.models.task_model import TaskModel
from xlnet.serving import loaded, session
from xlnet.tasks import custom
from xlnet.tokenization import Tokenizer


def quick_session():
    """A session that runs its graph as it was built: see the fixture `quick_start`."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def make_model(directory, vocabulary, settings, labels=None, **described):
    """Writes a model directory for own files of the kind that the settings ask for.

    described: what else its `task.json` says of its files, as `Kind.from_model` reads it.
    """
    directory.mkdir()
    settings = dataclasses.replace(settings, model_dir=str(directory), do_predict=True,
                                   task_name="custom", predict_file="-")
    tokenizer = Tokenizer(vocabulary)
    tokenizer.save(str(directory / "spiece.model"))
    config = XLNetConfig(n_layer=1, d_model=16, n_head=2, d_head=12, d_inner=24,
                         ff_activation="gelu", untie_r=True, n_token=tokenizer.vocab_size)
    config.to_json(str(directory / "xlnet_config.json"))
    task = custom.get_task(settings, dict(described, labels=labels)) if labels else \
        custom.get_task(settings)
    said = task_json.describe(settings, task, tokenizer)
    (directory / "task.json").write_text(json.dumps(said))
    with tf.Graph().as_default(), quick_session() as sess:
        tf.set_random_seed(1)
        network = NetworkSettings(init_std=0.5)
        tuned = loaded.TunedFor(task, settings, said["head"])
        TaskModel(config, task, network, settings, said["head"]).predictions(
            session.placeholders(tuned))
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(directory / "model.ckpt-1"), write_meta_graph=False)
    checkpoint.note_newest(str(directory))
    return directory


def expected(directory, rows, precision="fp32"):
    """The `Answers.values` to rows, and the arrays of their records, as --do_predict has them."""
    model = loaded.read(str(directory), network=NetworkSettings(precision=precision))
    task, tuned = model.tuned.task, model.tuned
    arrays, windows = task.kind.encode(task.kind.examples(task, rows), model.tokenizer,
                                       layout.of_records(tuned.settings, task))
    with tf.Graph().as_default(), quick_session() as sess:
        inputs = session.placeholders(tuned)
        answers = model.task_model().predictions(inputs)
        session.restore(sess, model.prefix, tf.global_variables())
        outputs = sess.run(answers, {inputs[name]: arrays[name] for name in inputs})
    outputs["loss"] = np.zeros(len(arrays["input_ids"]))
    return task.kind.join(task, outputs, windows).values, arrays
