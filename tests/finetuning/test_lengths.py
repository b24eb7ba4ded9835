"""How long a run is, and how often it is evaluated and saved."""

import dataclasses

import pytest

from xlnet.finetuning.data import MOST_LENGTHS, compiled_multiple
from xlnet.finetuning.run import in_steps
from xlnet.runs import task_settings
from xlnet.runs.run_document import RunDocument
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings


def settings_of(directory, **values):
    return ClassifierSettings(model_dir=str(directory), do_train=True, **values)


def length_of(directory, *given, run=None, **values):
    """The settings of a run, on the files of a released checkpoint."""
    settings = settings_of(
        directory,
        task_name="rte",
        data_dir="d",
        spiece_model_file="x",
        model_config_path="y",
        **values,
    )
    found = task_settings.resolve(
        settings, NetworkSettings(), OptimizationSettings(), given, run
    )
    return found[0], found[2]


def run_of(directory, **resolved):
    task = dict(task="rte", kind="classification")
    return RunDocument(
        str(directory / "run.json"), "xlnet classify", resolved, task=task
    )


def test_without_a_length_it_is_three_epochs(tmp_path, caplog):
    caplog.set_level("INFO", "xlnet")
    for run in (
        None,
        dataclasses.replace(run_of(tmp_path), program=None),
    ):  # a converted model
        settings, optimization = length_of(tmp_path, run=run)
        assert settings.epochs == 3
        message = caplog.messages.pop()
        assert message == "note: neither epochs nor train_steps is given: 3 epochs"
    settings, optimization = in_steps(settings, optimization, 400)
    assert (optimization.train_steps, settings.eval_steps, settings.save_steps) == (
        150,
        50,
        50,
    )


def test_a_run_that_goes_on_has_its_own_length(tmp_path):
    settings, optimization = length_of(tmp_path, run=run_of(tmp_path, train_steps=500))
    assert (settings.epochs, optimization.train_steps) == (None, 500)
    run = run_of(tmp_path, epochs=4.0, train_steps=8)
    assert length_of(tmp_path, run=run)[0].epochs == 4
    assert length_of(tmp_path, "train_steps", run=run)[0].epochs is None


def test_a_length_that_is_given_is_taken(tmp_path):
    assert length_of(tmp_path, "train_steps")[0].epochs is None
    assert length_of(tmp_path, "epochs", epochs=2.0)[0].epochs == 2


@pytest.mark.parametrize(
    "rows, changes, expected",
    [
        (21, {}, (8, 3, 3)),  # an epoch that is begun counts
        (80000, {}, (30000, 10000, 1000)),
        (80, dict(eval_steps=0, save_steps=7), (30, 0, 7)),
        (3, {}, (1, 1, 1)),
    ],
)
def test_once_an_epoch(tmp_path, rows, changes, expected):
    settings = settings_of(tmp_path, epochs=3.0, **changes)
    settings, optimization = in_steps(settings, OptimizationSettings(), rows)
    assert (
        optimization.train_steps,
        settings.eval_steps,
        settings.save_steps,
    ) == expected


def test_batches_of_compiled_steps_have_few_lengths():
    assert compiled_multiple(128, 8) == 24
    for longest in range(8, 600):
        for multiple in (1, 8, 16):
            found = compiled_multiple(longest, multiple)
            assert found % multiple == 0
            assert len(range(0, longest, found)) <= MOST_LENGTHS
