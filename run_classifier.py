"""Fine-tunes an XLNet on a task, evaluates, predicts. `python run_classifier.py --help`."""

import os

from xlnet import cli
from xlnet.config import (ClassifierSettings, DeviceSettings, NetworkSettings,
                          OptimizationSettings, XLNetConfig)
from xlnet.errors import UserError

ABOUT = """fine-tunes an XLNet to classify or score texts and pairs of texts.

For a task of GLUE data_dir holds the official files; for --task_name=tsv it holds train.tsv,
dev.tsv and test.tsv with a header, whose columns the *_column flags name. Records are kept in
output_dir and made anew when text or settings change. A run found in model_dir is continued.
"""

_NO_TPU = "no TPU is addressed"

NO_LONGER_NEEDED = {
    "iterations": "it is a TPU loop's length",
    "master": _NO_TPU,
    "tpu": _NO_TPU,
    "tpu_job_name": _NO_TPU,
    "tpu_zone": _NO_TPU,
    "gcp_project": _NO_TPU,
    "shuffle_buffer": "the training rows are shuffled whole",
    "num_passes": "training repeats the records until train_steps",
    "predict_batch_size": "eval_batch_size is for predictions too",
    "predict_ckpt": "predictions are those of the newest checkpoint in model_dir",
    "predict_threshold": "the likeliest label is predicted; the file has all probabilities",
}

_OWN_COLUMNS = ("text_a_column", "text_b_column", "label_column", "id_column")


def main(settings, network, optimization, device):
    device.check()
    check(settings)
    config = XLNetConfig(json_path=settings.model_config_path)
    from xlnet import tasks
    tokenizer = read_vocabulary(settings, config)
    if settings.task_name.lower() != "tsv":
        check_glue_flags(tasks.find_task(settings.task_name))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from xlnet import finetuning
    task = finetuning.find_task(settings)
    run = finetuning.Run(settings, config, network, optimization, task, tokenizer)
    if settings.do_train:
        run.train()
    if settings.do_eval:
        run.evaluate()
    if settings.do_predict:
        run.predict()


def check(settings):
    """Raises UserError for settings that make no sense whatever the data."""
    if not (settings.do_train or settings.do_eval or settings.do_predict):
        raise UserError("nothing to do: give --do_train=True, --do_eval=True or --do_predict=True")
    if not os.path.isdir(settings.data_dir):
        raise UserError("data_dir: no such directory: %s" % settings.data_dir)
    for name in ("model_dir", "output_dir", "predict_dir"):
        path = getattr(settings, name)
        if path and os.path.exists(path) and not os.path.isdir(path):
            raise UserError("%s: %s is a file, expected a directory" % (name, path))


def read_vocabulary(settings, config):
    """The `Tokenizer`, cleaning text as in pretraining, with as many pieces as the network has
    tokens."""
    from xlnet.tokenization import Tokenizer, descriptions_beside
    tokenizer = Tokenizer(settings.spiece_model_file, settings.uncased, settings.keep_accents,
                          descriptions=descriptions_beside(settings.model_dir,
                                                           settings.init_checkpoint))
    if tokenizer.vocab_size != config.n_token:
        raise UserError("n_token is %d in %s, but %s has %d pieces" % (
            config.n_token, settings.model_config_path, settings.spiece_model_file,
            tokenizer.vocab_size))
    return tokenizer


def check_glue_flags(task):
    """Raises UserError for flags that contradict what is known of a task of GLUE."""
    for name in _OWN_COLUMNS:
        if cli.given(name):
            raise UserError("%s is for --task_name=tsv; the columns of task %s are known"
                            % (name, task.name))
    if task.is_regression and cli.given("is_regression") and not cli.FLAGS.is_regression:
        raise UserError("is_regression is False, but task %s has scores" % task.name)


if __name__ == "__main__":
    cli.run(main, ClassifierSettings, NetworkSettings, OptimizationSettings, DeviceSettings,
            no_longer_needed=NO_LONGER_NEEDED, about=ABOUT)
