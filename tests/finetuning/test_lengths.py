"""How long a run is, and how often it is evaluated and saved."""

import dataclasses

import pytest

from xlnet.finetuning.resolve import in_steps, with_defaults
from xlnet.finetuning.run import MOST_LENGTHS, compiled_multiple
from xlnet.runs import task_settings
from xlnet.runs.run_document import RunDocument
from xlnet.settings.finetuning import ClassifierSettings, TaskOptimizationSettings
from xlnet.settings.network import NetworkSettings


def length_of(directory, *given, run=None, optimization=None, **values):
    """The settings of a run, on the files of a released checkpoint."""
    settings = ClassifierSettings(
        model_dir=str(directory),
        do_train=True,
        task_name="rte",
        data_dir="d",
        spiece_model_file="x",
        model_config_path="y",
        **values,
    )
    optimization = optimization or TaskOptimizationSettings()
    found = task_settings.inherited_settings(
        settings, NetworkSettings(), optimization, given, run
    )
    return found[0], found[2]


def run_of(directory, **resolved):
    task = dict(task="rte", kind="classification")
    return RunDocument(
        str(directory / "run.json"), "xlnet classify", resolved, task=task
    )


@pytest.mark.parametrize(
    "width, rows, start, rate, batch, epochs, steps, warmup",
    [
        (1024, 400000, "x", 2e-5, 32, 3, 37500, 3750),
        (768, 2000, "x", 3e-5, 32, 5, 312, 31),
        (768, 500, None, 1e-4, 16, 10, 312, 31),
        (128, 64, "x", 1e-3, 8, 20, 160, 16),
        (128, 5, "x", 1e-3, 5, 20, 20, 2),
        (128, 2000, None, 2e-3, 32, 5, 312, 31),
    ],
)
def test_what_follows_from_the_network_and_the_rows(
    tmp_path, width, rows, start, rate, batch, epochs, steps, warmup
):
    """As the table of docs/how_to/finetuning_options.md says."""
    settings, optimization = length_of(tmp_path)
    settings = dataclasses.replace(settings, init_checkpoint=start)
    settings, optimization = with_defaults(settings, optimization, width, rows, 1)
    found = (optimization.learning_rate, settings.train_batch_size, settings.epochs)
    assert found == (rate, batch, epochs)
    assert (optimization.train_steps, optimization.warmup_steps) == (steps, warmup)
    # Batches are divided among the replicas.
    settings = dataclasses.replace(settings, train_batch_size=None)
    assert (
        with_defaults(settings, optimization, width, rows, 6)[0].train_batch_size % 6
        == 0
    )


def test_what_is_given_is_taken(tmp_path):
    given = TaskOptimizationSettings(learning_rate=0.5, train_steps=7, warmup_steps=0)
    settings, optimization = length_of(
        tmp_path,
        optimization=given,
        train_batch_size=4,
        eval_steps=0,
        save_steps=7,
        log_steps=3,
    )
    assert with_defaults(settings, optimization, 128, 80, 1) == (settings, given)
    assert in_steps(settings, 80, 7, can_evaluate=True) == settings


def test_a_run_that_goes_on_has_its_own_length(tmp_path):
    settings, optimization = length_of(tmp_path, run=run_of(tmp_path, train_steps=500))
    assert (settings.epochs, optimization.train_steps) == (None, 500)
    run = run_of(tmp_path, epochs=4.0, train_steps=8)
    assert length_of(tmp_path, run=run)[0].epochs == 4
    # Of the two names of a length, the given one counts.
    assert length_of(tmp_path, "train_steps", run=run)[0].epochs is None
    run = run_of(tmp_path, train_steps=500)
    assert length_of(tmp_path, "epochs", run=run)[1].train_steps is None


@pytest.mark.parametrize("rows, expected", [(21, (3, 3)), (80000, (10000, 1000))])
def test_once_an_epoch(tmp_path, rows, expected):
    settings, _ = length_of(tmp_path, train_batch_size=8)
    without_file = in_steps(settings, rows, 100, can_evaluate=False)
    settings = in_steps(settings, rows, 100, can_evaluate=True)
    assert without_file == dataclasses.replace(settings, eval_steps=0)
    assert (settings.eval_steps, settings.save_steps) == expected
    assert settings.log_steps == 5


def test_batches_of_compiled_steps_have_few_lengths():
    assert compiled_multiple(128, 8) == 24
    for longest in range(8, 600):
        for multiple in (1, 8, 16):
            found = compiled_multiple(longest, multiple)
            assert found % multiple == 0
            assert len(range(0, longest, found)) <= MOST_LENGTHS
