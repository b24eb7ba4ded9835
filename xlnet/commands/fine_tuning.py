"""The programs that fine-tune: xlnet classify, squad and tag."""

from __future__ import annotations

import dataclasses

from xlnet.commands import cli
from xlnet.settings.finetuning import (
    ClassifierSettings,
    SpanSettings,
    TaggerSettings,
    TaskOptimizationSettings,
    TaskSettings,
)
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import DeviceSettings, TaskDeviceSettings
from xlnet.support import system


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

    Files are SQuAD's JSON, or tables with a question in each row: train_file and predict_file, or
    those of a known task in data_dir. A run found in model_dir is resumed. Training evaluates once
    an epoch and keeps the best checkpoint as model_dir/best.

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
    """Runs the program whose task settings are those of `group`; about: the text of `--help`."""
    with cli.command(
        group,
        NetworkSettings,
        TaskOptimizationSettings,
        TaskDeviceSettings,
        about=about,
        unused=cli.UNUSED,
        preset_table="finetune",
        elsewhere=(DeviceSettings,),  # a preset may have them, without effect
    ) as line:
        settings, network, optimization, machine = line.settings
        system.import_tensorflow()
        from xlnet.finetuning.fine_tune import fine_tune

        device = DeviceSettings(**vars(machine), num_hosts=1)
        # On command lines of the original for a TPU, which fine-tuning does not use,
        # num_core_per_host counts the cores of that, not GPUs.
        if line.is_for_tpu:
            device = dataclasses.replace(device, num_core_per_host=1)
        fine_tune(settings, network, optimization, device, line.given)
