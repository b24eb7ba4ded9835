"""Checkpoints: find, read, write, compare with the graph, start from."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import devices
from xlnet.model.ops import Arrays
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.settings.training import RELEASED_NAME
from xlnet.support import errors, files

# A model directory after step 500 of a run:
#
#     model.ckpt-500.index, .data-00000-of-00001    made in unfinished/; the index is moved last
#     checkpoint                                    names the newest and all others, for TensorFlow
#     memory-500-0.npy                              of the batch elements from 0 on: made before it
#     best/                                         weights alone, see `best_checkpoint`


# The variable with the number of updates, where steps may be skipped (fp16).
UPDATES = "loss_scale/updates"

# What is no weight: slots of the optimizer, its counters, the loss scale; `adam_m` and `adam_v` are
# of checkpoints of the original.
_NO_WEIGHT = re.compile(
    r"/(Adam(_1)?|adam_[mv]|average)$"
    r"|^(global_step|beta[12]_power|(.*/)?loss_scale/.*)$"
)
_log = logging.getLogger(__name__)

_UNFINISHED = "unfinished"  # where a checkpoint is until it is moved into place
_REMEDY = "it is not complete: copy it again, or use another one"


def resolve(path: str, flag: str = "init_checkpoint") -> str:
    """The checkpoint prefix that `path` means, which is a prefix, a directory, or DIRECTORY/latest:
    of a directory the newest checkpoint of a run, or released weights.

    Args:
      path: what was given.
      flag: that gave the path, for errors.

    Raises:
      UserError: there is no checkpoint.
    """
    files.require_no_pattern(path, flag)
    directory = path
    if os.path.basename(path) == "latest" and not os.path.isdir(path):
        directory = os.path.dirname(path)
    prefix = path
    if os.path.isdir(directory):
        prefix = newest(directory) or os.path.join(directory, RELEASED_NAME)
    if not os.path.exists(prefix + ".index"):
        expected = f"{prefix}.index, or a directory"
        raise errors.wrong(flag, f"no checkpoint {path}", expected)
    return prefix


def all_prefixes(directory: str) -> list[tuple[int, str]]:
    """The checkpoints of a run by ascending step: list of (step, prefix)."""
    found = []
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        match = re.fullmatch(r"(model\.ckpt-(\d+))\.index", name)
        if match:
            found.append((int(match[2]), os.path.join(directory, match[1])))
    return sorted(found)


def newest(directory: str) -> str | None:
    """The prefix of the checkpoint of the highest step; None if there is none."""
    prefixes = all_prefixes(directory)
    return prefixes[-1][1] if prefixes else None


def step_named(prefix: str) -> int:
    """The step in the name of a checkpoint; 0 of released weights, which have none."""
    last = prefix.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def step_of(directory: str) -> int:
    """The global step of the newest checkpoint of a run, 0 if there is none."""
    prefix = newest(directory)
    return step_named(prefix) if prefix else 0


def write_state_file(directory: str) -> None:
    """Writes the file `checkpoint`, by which TensorFlow knows all checkpoints of a directory and
    the newest."""
    names = [os.path.basename(prefix) for _, prefix in all_prefixes(directory)]
    if not names:
        return
    # Of a relative path TensorFlow would write names relative to the working directory.
    path = os.path.abspath(directory)
    tf.train.update_checkpoint_state(path, names[-1], all_model_checkpoint_paths=names)


def write(
    saver: tf.train.Saver,
    session: tf.Session,
    directory: str,
    step: int,
    max_save: int = 0,
) -> None:
    """Writes a checkpoint to a temporary directory, moves it into place, and removes all but the
    last `max_save` (0: none)."""
    with staged(directory) as aside:
        saver.save(
            session,
            os.path.join(aside, "model.ckpt"),
            global_step=step,
            write_meta_graph=False,
            write_state=False,
        )
    if max_save:
        for _, prefix in all_prefixes(directory)[:-max_save]:
            remove(prefix)
    write_state_file(directory)


@contextlib.contextmanager
def staged(directory: str) -> Iterator[str]:
    """Yields an empty directory for the files of a checkpoint, which are moved into `directory` at
    the end of the block; the index last, as without it a checkpoint does not exist."""
    remove_unfinished(directory)
    aside = os.path.join(directory, _UNFINISHED)
    os.makedirs(aside)
    try:
        yield aside
        # False sorts before True: the index is the last one.
        for name in sorted(os.listdir(aside), key=lambda name: name.endswith(".index")):
            source, target = os.path.join(aside, name), os.path.join(directory, name)
            files.sync_and_rename(source, target)
    finally:
        remove_unfinished(directory)  # it would waste a full disk


def remove(prefix: str) -> None:
    """Removes a checkpoint: the index first, without which it does not exist."""
    files.remove([prefix + ".index", *glob.glob(glob.escape(prefix) + ".*")])


def remove_unfinished(directory: str) -> None:
    """Removes a checkpoint that a killed run left unfinished."""
    shutil.rmtree(os.path.join(directory, _UNFINISHED), ignore_errors=True)


@contextlib.contextmanager
def _reader(prefix: str) -> Iterator[tf.train.NewCheckpointReader]:
    """Yields TensorFlow's reader of a checkpoint. An error within the block is raised as a
    `UserError`: the checkpoint cannot be read."""
    with errors.reading("checkpoint " + prefix, _REMEDY):
        yield tf.train.NewCheckpointReader(prefix)


def names(prefix: str) -> list[str]:
    """Names of the variables in a checkpoint. One of TensorFlow 2 also describes its objects, in a
    text, which is left out."""
    with _reader(prefix) as reader:
        dtypes = reader.get_variable_to_dtype_map()
    return [name for name, dtype in dtypes.items() if dtype != tf.string]


def stored_names(prefix: str) -> dict[str, str]:
    """Which variables of a checkpoint are its weights, for inference and as initial weights: a dict
    from the name of a weight to the variable to read. Only a run that resumes reads the variables
    themselves.

    That is `<weight>/average` if the run kept an EMA. Before the first update the EMA is 0, and the
    weight itself is read.
    """
    stored = set(names(prefix))
    # Without a loss scale, which counts updates, each step is one.
    is_updated = UPDATES not in stored or next(arrays(prefix, [UPDATES])) > 0
    variable_of = {}
    for name in sorted(stored):
        if is_weight(name):
            average = name + "/average"
            has_average = is_updated and average in stored
            variable_of[name] = average if has_average else name
    return variable_of


def is_weight(name: str) -> bool:
    """Whether a variable is a weight, not a slot of the optimizer or a counter."""
    return not _NO_WEIGHT.search(name)


def arrays(prefix: str, wanted: Iterable[str]) -> Iterator[np.ndarray]:
    """Yields the values of the variables of these names, in this order and in the checkpoint's
    dtypes. One at a time is in memory."""
    with _reader(prefix) as reader:
        for name in wanted:
            yield reader.get_tensor(name)


def read_weights(prefix: str) -> Arrays:
    """The weights of a checkpoint by name, as `stored_names` says, as float32 arrays; a UserError
    if one of them has NaN or infinity."""
    weights = {}
    for name, array in _finite(prefix, stored_names(prefix)):
        weights[name] = array.astype(np.float32)
    return weights


def _finite(prefix: str, stored: Mapping[str, str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (name, array) of weights, one at a time; a UserError if one has NaN or infinity.
    stored: the variable of each weight, as of `stored_names`."""
    # A model with one weight that is not finite predicts NaN for every input, or, which is worse,
    # for some inputs only.
    for name, array in zip(stored, arrays(prefix, stored.values())):
        if not np.isfinite(array).all():
            count = int(np.sum(~np.isfinite(array)))
            where = f"checkpoint {prefix}: {stored[name]}"
            found = f"{count:,} of {array.size:,} values that are NaN or infinite"
            raise errors.wrong(where, found, "finite weights")
        yield name, array


def write_arrays(prefix: str, values: Arrays) -> None:
    """Writes a checkpoint of arrays by name, in their dtypes. For a new directory: a write that
    fails leaves files behind."""
    names = sorted(values)
    with tf.Graph().as_default(), tf.Session() as session:
        feed = {}
        for name in names:
            tensor = tf.placeholder(values[name].dtype, values[name].shape)
            feed[tensor] = values[name]
        save = tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=list(feed),
        )
        session.run(save, feed)


def check_config(prefix: str, config: XLNetConfig) -> None:
    """Raises UserError if the `xlnet_config.json` of a checkpoint describes another network; names
    each key that differs."""
    path = os.path.join(os.path.dirname(prefix), CONFIG_NAME)
    if not os.path.exists(path):
        return
    stored = XLNetConfig(json_path=path).to_dict()
    for key, now in config.to_dict().items():
        if stored[key] != now:
            raise errors.wrong(path, f"{key} {stored[key]}", str(now))


def start_from(session: tf.Session, path: str) -> None:
    """Sets the network's variables of a session to the initial weights `path`, see `resolve`; those
    that the checkpoint lacks stay as they are. Logs how many it has, and the names of the others.
    """
    prefix = resolve(path)
    variables = [v for v in tf.global_variables() if is_weight(devices.base_name(v))]
    missing = _set_values(session, prefix, variables)
    _log.info(
        "started from %s: %d of %d variables",
        prefix,
        len(variables) - len(missing),
        len(variables),
    )
    if missing:
        names = ", ".join(missing)
        _log.info("  %d not in the checkpoint, started fresh: %s", len(missing), names)


def restore(session: tf.Session, prefix: str, variables: Iterable[tf.Variable]) -> None:
    """Sets `variables` of a session, on all devices of the current strategy, to the weights of a
    checkpoint, as `read_weights` says; a UserError if the checkpoint lacks one of them."""
    missing = _set_values(session, prefix, variables)
    if missing:
        where, found = f"checkpoint {prefix}", f"no {missing[0]}"
        raise errors.wrong(where, found, "all variables of the model")


def _set_values(
    session: tf.Session, prefix: str, variables: Iterable[tf.Variable]
) -> list[str]:
    """Sets those of the variables that the checkpoint has; returns the names of the others, sorted.
    A UserError if it has none of them, or one of another shape, or weights that are not float32."""
    by_name = {devices.base_name(v): v for v in variables}
    stored = stored_names(prefix)
    matched = {name: stored[name] for name in by_name if name in stored}
    if not matched:
        # One name of each as an example.
        found = f"no variable of the model, but {min(stored, default='none')}, ..."
        raise errors.wrong(f"checkpoint {prefix}", found, f"{min(by_name)}, ...")
    for name, array in _finite(prefix, matched):
        variable, where = by_name[name], f"checkpoint {prefix}: {matched[name]}"
        shape, expected = list(array.shape), variable.shape.as_list()
        if shape != expected:
            raise errors.wrong(where, f"shape {shape}", f"{expected}")
        if array.dtype != np.float32:
            raise errors.wrong(where, array.dtype.name, "float32")
        # Weights of inference may be kept in another dtype, such as bfloat16.
        for copy in devices.local_parts(variable):
            value = array.astype(copy.dtype.base_dtype.as_numpy_dtype)
            devices.set_value(session, copy, value)
    return sorted(set(by_name) - set(matched))
