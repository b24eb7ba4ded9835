"""Fixtures of the scripts: a pretrained model, and scripts that use it."""

import io
import sys

import pytest
from helpers import command

import xlnet


@pytest.fixture(scope="module")
def model(permuted, quick_start):
    with xlnet.load(str(permuted.folder), device="cpu") as loaded:
        yield loaded


@pytest.fixture
def runs(model, monkeypatch):
    """Runs a subcommand on the model, which stays loaded; returns its `command.Done`."""
    for user in ("query", "plot"):
        opens = f"xlnet.commands.{user}.open_model"
        monkeypatch.setattr(opens, lambda settings: model)
    monkeypatch.setattr(type(model), "close", lambda self: None)

    def run(program, *flags, typed=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        return command.run("xlnet " + program, "--model_dir=model", *flags)

    return run
