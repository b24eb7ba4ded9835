"""Programs for fault injection: their input, command line, and the results that are compared with
those of an undisturbed run.
"""

import dataclasses
import functools
import json
import shutil
from typing import Callable

from helpers import command, finetuning, pretraining
from helpers.paths import GOLDEN
from xlnet.support import files


@dataclasses.dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
      module: imported once before all starts.
      make: fills a folder with the input; runs in another process.
      arguments: function of (input folder, results folder), the command line.
      results: function of the results folder, the values to compare.
      hosts: number of processes that work together.
    """

    name: str
    module: str
    make: Callable
    arguments: Callable
    results: Callable
    hosts: int = 1


# ---- files that must be complete, and results to compare


def files_of(folder):
    """Checksums by name of all files that have their final name."""
    return {
        str(path.relative_to(folder)): files.sha256(str(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _is_unfinished(path.relative_to(folder))
    }


# Temporary names, and journals, to which lines are added.
def _is_unfinished(path):
    return (
        any(
            ".partial-" in part
            or part in ("unfinished", "training.lock", "training.csv")
            or "tfevents" in part
            for part in path.parts
        )
        or path.suffix == ".parts"
    )


def faults_of(folder):
    """The damaged ones among the files that have their final names."""
    from xlnet.engine import checkpoint

    found = []
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        if not path.is_file() or _is_unfinished(path.relative_to(folder)):
            continue
        if path.suffix == ".json":
            try:
                json.loads(path.read_text())
            except ValueError as e:
                found.append(f"{path}: {e}")
        elif path.suffix == ".index" and "variables" not in path.parts:
            prefix = str(path)[: -len(".index")]
            try:
                list(checkpoint.arrays(prefix, checkpoint.names(prefix)))
            except ValueError as e:
                found.append(str(e))
        elif path.suffix == ".tfrecord":
            from xlnet.corpus import tfrecord

            damaged = tfrecord.first_damaged(str(path)) if path.stat().st_size else 0
            found += [] if damaged is None else [f"{path}: record {damaged}"]
        elif not path.stat().st_size:
            found.append(f"{path} is empty")
    return found


def _last_weights(folder):
    """(step, checksum) of the last checkpoint."""
    from helpers.damage import fingerprint
    from xlnet.engine import checkpoint

    step, prefix = checkpoint.all_prefixes(str(folder))[-1]
    return step, fingerprint(
        list(checkpoint.arrays(prefix, sorted(checkpoint.names(prefix))))
    )


def _weights_and_losses(folder):
    """Of the last checkpoint, and of each step."""
    curve, evaluations = (
        folder / "m" / "training.csv",
        folder / "m" / "evaluations.json",
    )
    return [
        *_last_weights(folder / "m"),
        pretraining.curve(folder, "m").tolist() if curve.exists() else [],
        evaluations.read_text() if evaluations.exists() else None,
    ]


def _saved_model(folder):
    """A SavedModel without its graph, whose nodes may be in another order."""
    return {
        name: digest
        for name, digest in files_of(folder).items()
        if not name.endswith(("saved_model.pb", "fingerprint.pb"))
    }


# ---- the programs


def make_sentences(folder, sentences=6000):
    pretraining.make_text(folder / "text.txt", seed=0, sentences=sentences)
    finetuning.make_vocabulary(folder / "sp.model", 37)


def _data_flags(inputs, folder):
    return [
        "data_utils.py",
        *command.flags(
            dict(
                input_glob=inputs / "text.txt",
                save_dir=folder / "records",
                sp_path=inputs / "sp.model",
                seq_len=32,
                reuse_len=16,
                num_streams=4,
                num_workers=1,
                num_passes=3,
            )
        ),
    ]


def _pretraining_flags(inputs, folder, **changes):
    return [
        "train_gpu.py",
        *pretraining.flags_of(
            inputs,
            folder / "m",
            **dict(
                dict(
                    train_steps=12,
                    save_steps=3,
                    max_save=0,
                    n_layer=1,
                    eval_record_info_dir=inputs / "heldout",
                    eval_steps=6,
                ),
                **changes,
            ),
        ),
    ]


def _finetuning_flags(inputs, folder, *verbs, **changes):
    place = finetuning.Workspace(inputs)
    return [
        "run_classifier.py",
        *place.arguments(
            *(verbs or ("--do_train=True",)),
            **dict(
                dict(
                    model_dir=folder / "m",
                    output_dir=folder / "records",
                    train_steps=12,
                    save_steps=3,
                    eval_steps=6,
                ),
                **changes,
            ),
        ),
    ]


def _make_tuned(folder):
    finetuning.make_workspace(folder)
    command.succeed(*_finetuning_flags(folder, folder, train_steps=2))


def _prediction_flags(inputs, folder):
    return _finetuning_flags(
        inputs,
        folder,
        "--do_predict=True",
        model_dir=inputs / "m",
        predict_dir=folder / "answers",
    )


def _export_flags(inputs, folder):
    return [
        "xlnet export",
        "--model_dir=%s" % (inputs / "m"),
        "--output=%s" % (folder / "served"),
    ]


def _make_theirs(folder):
    shutil.copytree(GOLDEN / "hf" / "sequence_classification", folder / "theirs")


def _conversion_flags(inputs, folder):
    return [
        "xlnet convert",
        "--input=%s" % (inputs / "theirs"),
        "--output=%s" % (folder / "ours"),
    ]


PROGRAMS = (
    Program(
        "data preparation",
        "xlnet.corpus.preparation",
        make_sentences,
        _data_flags,
        files_of,
    ),
    Program(
        "pretraining",
        "xlnet.pretraining.run",
        pretraining.make_place,
        _pretraining_flags,
        _weights_and_losses,
    ),
    Program(
        "pretraining, two replicas",
        "xlnet.pretraining.run",
        pretraining.make_place,
        functools.partial(_pretraining_flags, num_core_per_host=2),
        _weights_and_losses,
    ),
    Program(
        "pretraining, two hosts",
        "xlnet.pretraining.run",
        pretraining.make_place,
        functools.partial(_pretraining_flags, num_hosts=2),
        _weights_and_losses,
        hosts=2,
    ),
    Program(
        "fine-tuning",
        "xlnet.finetuning.resolve",
        finetuning.make_workspace,
        _finetuning_flags,
        _weights_and_losses,
    ),
    Program(
        "prediction",
        "xlnet.finetuning.resolve",
        _make_tuned,
        _prediction_flags,
        lambda folder: files_of(folder / "answers"),
    ),
    Program(
        "export",
        "xlnet.inference.exporter",
        _make_tuned,
        _export_flags,
        _saved_model,
    ),
    Program(
        "conversion",
        "xlnet.convert.conversion",
        _make_theirs,
        _conversion_flags,
        files_of,
    ),
)
