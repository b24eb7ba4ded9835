"""Reads the tensors of a folder of Hugging Face's library: one safetensors file or several."""

from __future__ import annotations

import collections
import os

import numpy as np

from xlnet import files
from xlnet.convert import safetensors
from xlnet.errors import UserError

WEIGHTS_NAME = "model.safetensors"
_INDEX_NAME = WEIGHTS_NAME + ".index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
NAMES = (WEIGHTS_NAME, _INDEX_NAME, *_PICKLES)      # such a folder has one of them


def read_tensors(folder: str, class_name: str) -> dict[str, np.ndarray]:
    """All tensors by name, float32 arrays.

    Args:
      class_name: of that library, for the error that says how to get safetensors.

    Raises:
      UserError: there is no safetensors file, one is damaged, or the index names a file outside of
        the folder, or a missing file or tensor.
    """
    path, index = (os.path.join(folder, name) for name in (WEIGHTS_NAME, _INDEX_NAME))
    if os.path.exists(path):
        return safetensors.read(path)
    if os.path.exists(index):
        return _read_shards(folder, index)
    for name in _PICKLES:
        if os.path.exists(os.path.join(folder, name)):
            raise UserError(
                "%s has its weights as %s, a pickle, which can run any code when it is read; where "
                "you trust it, and have that library: python -c \"import transformers; "
                "transformers.%s.from_pretrained('%s').save_pretrained('%s', "
                "safe_serialization=True)\"" % (folder, name, class_name, folder, folder))
    raise UserError("%s: no %s and no %s" % (folder, WEIGHTS_NAME, _INDEX_NAME))


def _read_shards(folder, index):
    weight_map = files.read_json(index, "index").get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError("index %s: expected weight_map, an object of names and files" % index)
    tensors: dict[str, np.ndarray] = {}
    shards = collections.Counter(_inside(index, name) for name in weight_map.values())
    for name, count in sorted(shards.items()):
        if not os.path.exists(os.path.join(folder, name)):
            raise UserError("index %s: no file %s next to it, expected %d of its tensors there"
                            % (index, name, count))
        tensors.update(safetensors.read(os.path.join(folder, name)))
    missing = sorted(set(weight_map) - set(tensors))
    if missing:
        raise UserError("index %s: no tensor %s in %s" % (index, missing[0],
                                                          weight_map[missing[0]]))
    return tensors


def _inside(index, name):
    """The name of a file, if it is a plain one, which cannot lead out of the folder."""
    if not isinstance(name, str) or os.path.basename(name) != name or "\\" in name \
            or not name.endswith(".safetensors"):
        raise UserError("index %s: %r is not a file of this folder; expected a plain name that "
                        "ends in .safetensors" % (index, name))
    return name
