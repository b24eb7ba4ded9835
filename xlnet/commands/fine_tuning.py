"""The programs that fine-tune: xlnet classify, squad and tag."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from xlnet.commands import cli
from xlnet.settings.devices import DeviceSettings, TaskDeviceSettings
from xlnet.settings.finetuning import (
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaggerSettings,
    TaskOptimizationSettings,
    TaskSettings,
)
from xlnet.settings.network import NetworkSettings
from xlnet.support import errors, system

if TYPE_CHECKING:
    from xlnet.runs.task_settings import TaskRun


def main(
    settings: FineTuningSettings,
    network: NetworkSettings,
    optimization: TaskOptimizationSettings,
    device: TaskDeviceSettings,
) -> None:
    """Makes records, trains, evaluates and predicts as the settings say."""
    from xlnet.runs import task_settings
    from xlnet.tasks import known

    if cli.on_command_line("use_tpu"):  # as on the original's command lines for TPUs
        device = dataclasses.replace(device, num_core_per_host=1)
    known.load(settings.own_module)
    given = set(cli.given_names())
    if isinstance(settings, SpanSettings):
        # A training that resumes has the files that it began with.
        resumes = settings.do_train and task_settings.read_model(settings.model_dir)
        if settings.evaluates_predict_file and not resumes:
            settings = dataclasses.replace(settings, dev_file=settings.predict_file)
            given.add("dev_file")
        if settings.do_prepro:
            system.import_tensorflow()
            from xlnet.finetuning import data

            data.make_records(settings)
            if not settings.does_run:
                return
    run = task_settings.resolve_run(settings, network, optimization, given)
    fine_tune(run, device.devices())


def fine_tune(run: TaskRun, device: DeviceSettings) -> None:
    """Trains, evaluates and predicts as the settings of a run ask.

    Raises:
      UserError: something in the settings or the files is wrong.
      Unfinished: a signal stopped the training, or what follows it.
    """
    system.import_tensorflow()
    from xlnet.engine import devices, loop
    from xlnet.engine.best_checkpoint import BestCheckpoint
    from xlnet.finetuning import resolve
    from xlnet.finetuning.data import TaskData
    from xlnet.finetuning.evaluate import Evaluator
    from xlnet.finetuning.model import TaskModel

    settings, task = run.tuned.settings, run.tuned.task
    data = TaskData(run.tuned, run.tokenizer)
    resolve.check_files(run.tuned, data)
    used = devices.connect(device, compiles_on_gpus=True)
    resolve.check(run, used)

    # Read all files before any work: bad rows are found first. Then train, evaluate and predict.
    if settings.do_eval:
        data.of_split(settings.eval_split, need_labels=True)  # which keeps them
    to_predict = data.to_predict() if settings.do_predict else {}
    model = TaskModel(run.config, run.tuned, run.network)
    evaluator = Evaluator(model, data, used)
    with contextlib.ExitStack() as stack:
        if settings.do_train:
            training = resolve.training_run(run, model, data, device, used)
            selection = BestCheckpoint(
                settings.model_dir,
                task.metrics[0],
                settings.patience,
                lower_is_better=task.lower_is_better,
            )
            evaluates = bool(training.settings.eval_steps)
            with errors.translated_errors(records=training.records.path):
                loop.fit(training, selection, evaluator if evaluates else None)
            evaluator.keep_threshold(selection.best() or {})
            # A signal still means that the run is not done.
            stack.enter_context(loop.StopSignal(ends_at_once=True))
        if settings.do_eval:
            evaluator.evaluate()
        if settings.do_train or settings.do_eval:
            evaluator.note_verdict()
        if to_predict:
            evaluator.predict(to_predict)


def classify() -> None:
    """Fine-tunes an XLNet to classify or score texts and pairs of texts.

    Files of your own are .tsv, .csv, .json, .jsonl or .parquet: --train_file, --dev_file, or a
    directory --data_dir of train, dev and test; the *_column flags name their columns. For a known
    task (--task_name) data_dir holds the official files. A run found in model_dir is resumed.
    Training evaluates once an epoch and keeps the best checkpoint as model_dir/best.

    Examples:
      xlnet classify --config=sst-2-base --data_dir=glue/SST-2 --model_dir=model \\
          --init_checkpoint=xlnet/xlnet_model.ckpt --do_train --do_eval
      xlnet classify --train_file=news.csv --text_a_column=title,text --label_column=topic \\
          --init_checkpoint=pretrained --model_dir=model --do_train --epochs=3
      xlnet classify --model_dir=model --do_predict --predict_file=new.csv --output=-
    """
    _run(ClassifierSettings, classify.__doc__)


def squad() -> None:
    """Fine-tunes an XLNet to find the answer to a question in a text, or that there is none.

    Files are SQuAD's JSON, Hugging Face's flat form of it, or tables with a question in each row:
    train_file and predict_file, or those of a known task in data_dir. A run found in model_dir is
    resumed. Training evaluates once an epoch and keeps the best checkpoint as model_dir/best.

    Examples:
      xlnet squad --config=squad2-base --data_dir=SQuAD --model_dir=model \\
          --init_checkpoint=xlnet/xlnet_model.ckpt --do_train --do_eval
      xlnet squad --model_dir=model --do_predict --predict_file=questions.csv --output=-
    """
    _run(SpanSettings, squad.__doc__)


def tag() -> None:
    """Fine-tunes an XLNet to find entities: a tag for each word of a sentence.

    Files of your own are CoNLL-style columns (a word a line, a blank line between sentences), or
    .jsonl, .json or .parquet (tokens and their tags, or a text and its entities as [start, end,
    label] in characters). Tags of any scheme are read; BIO2 is predicted unless --scheme says
    another one. Files to predict may also be raw text, a sentence a line (--input_format=text). A
    run found in model_dir is resumed. Training evaluates once an epoch and keeps the best
    checkpoint as model_dir/best.

    Examples:
      xlnet tag --config=conll2003-base --data_dir=CoNLL2003 --model_dir=model \\
          --init_checkpoint=xlnet/xlnet_model.ckpt --do_train --do_eval
      xlnet tag --model_dir=model --do_predict --predict_file=new.jsonl --output=-
    """
    _run(TaggerSettings, tag.__doc__)


def _run(group: type[TaskSettings], about: str | None) -> None:
    with cli.command(
        group,
        NetworkSettings,
        TaskOptimizationSettings,
        TaskDeviceSettings,
        about=about,
        unused=cli.UNUSED,
        preset_table="finetune",
        elsewhere=(DeviceSettings,),
    ) as settings:
        main(*settings)
