"""Pretrained models that the tests of this folder share; they are never changed."""

import pytest


@pytest.fixture(scope="session")
def permuted(tmp_path_factory):
    return _loaded(tmp_path_factory.mktemp("permuted"), is_causal=False)


@pytest.fixture(scope="session")
def causal(tmp_path_factory):
    return _loaded(tmp_path_factory.mktemp("causal"), is_causal=True)


def _loaded(folder, is_causal):
    from helpers.language_model import Pretrained
    return Pretrained(folder, is_causal)
