"""Fine-tunes an XLNet on a task, evaluates, predicts. `python run_classifier.py --help`."""

import dataclasses
import os

from xlnet import cli
from xlnet.config import (
    ClassifierSettings,
    DeviceSettings,
    NetworkSettings,
    OptimizationSettings,
    XLNetConfig,
)
from xlnet.errors import UserError

ABOUT = """fine-tunes an XLNet to classify or score texts and pairs of texts.

For a known task data_dir holds the official files; for --task_name=custom it holds train, dev and
test as .tsv, .csv or .jsonl, whose columns the *_column flags name, or is one such file. Records
are kept in output_dir and regenerated when text or settings change. A run found in model_dir is
continued. With --eval_steps the best checkpoint on the way is kept as model_dir/best.
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
    "max_qa_length": "questions and answers are kept whole, articles are cut",
    "high_only": "--task_name=race-high is for it",
    "middle_only": "--task_name=race-middle is for it",
    "predict_batch_size": "eval_batch_size is for predictions too",
    "predict_ckpt": "predictions are those of model_dir/best, or of the newest checkpoint",
}

_OWN_FILES = ("text_a_column", "text_b_column", "label_column", "id_column", "choice_columns",
              "multi_label", "label_separator", "query_id_column")


def main(settings, network, optimization, device):
    device = device.on_one_machine()
    check(settings)
    config = XLNetConfig(json_path=settings.model_config_path)
    from xlnet.tasks import known
    tokenizer = read_vocabulary(settings, config)
    if known.plain(settings.task_name) not in (known.CUSTOM, "tsv"):
        check_known_task(known.find_task(settings.task_name))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from xlnet.engine import distribution
    from xlnet.finetuning import task_json, trials
    from xlnet.finetuning.run import Run
    task = task_json.find_task(settings)
    devices = distribution.connect(device)

    def make_run(settings, optimization):
        return Run(settings, config, network, optimization, device, task, tokenizer, devices)

    if settings.do_train and settings.num_trials > 1:
        if not trials.run(make_run, settings, optimization, task.metrics[0]):
            return
        settings = dataclasses.replace(settings, do_train=False)
    if settings.do_train or settings.do_eval or settings.do_predict:
        run = make_run(settings, optimization)
        run.prepare()
    if settings.do_train and not run.train():
        return
    if settings.do_eval:
        run.evaluate()
    if settings.do_predict:
        run.predict()


def check(settings):
    """Raises UserError for files and directories that are not what they should be."""
    if not os.path.exists(settings.data_dir):
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


def check_known_task(task):
    """Raises UserError for flags that contradict what is known of a task."""
    for name in _OWN_FILES:
        if cli.given(name):
            raise UserError("%s is for --task_name=custom; the columns of task %s are known"
                            % (name, task.name))
    if task.is_regression and cli.given("is_regression") and not cli.FLAGS.is_regression:
        raise UserError("is_regression is False, but task %s has scores" % task.name)


if __name__ == "__main__":
    cli.run(main, ClassifierSettings, NetworkSettings, OptimizationSettings, DeviceSettings,
            no_longer_needed=NO_LONGER_NEEDED, about=ABOUT)
