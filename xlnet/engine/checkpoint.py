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
#     memory-500-0.npy                              memories of the batch elements from 0 on,
#                                                   written before the checkpoint
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
    """The prefix of the checkpoint that `path` means. For a directory that is the newest checkpoint
    of a run or, where there is none, the released weights.

    Args:
      path: a prefix, a directory, or DIRECTORY/latest.
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
    if not os.path.isdir(directory):
        return []
    prefixes = []
    for file_name in os.listdir(directory):
        match = re.fullmatch(r"(model\.ckpt-(\d+))\.index", file_name)
        if match:
            name, step = match.groups()
            prefixes.append((int(step), os.path.join(directory, name)))
    return sorted(prefixes)


def newest(directory: str) -> str | None:
    """The prefix of the checkpoint of the highest step; None if there is none."""
    prefixes = [prefix for _, prefix in all_prefixes(directory)]
    return prefixes[-1] if prefixes else None


def step_in_name(prefix: str) -> int:
    """The step in the name of a checkpoint; 0 of released weights, which have none."""
    last = prefix.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def newest_step(directory: str) -> int:
    """The global step of the newest checkpoint of a run, 0 if there is none."""
    prefix = newest(directory)
    return step_in_name(prefix) if prefix else 0


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
    """Writes a checkpoint of all variables of a session, `model.ckpt-<step>`, and removes all but
    the newest `max_save` ones; 0: keeps all."""
    with staged(directory) as staging:
        saver.save(
            session,
            os.path.join(staging, "model.ckpt"),
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
    staging = os.path.join(directory, _UNFINISHED)
    os.makedirs(staging)
    try:
        yield staging
        # False sorts before True: the index is the last one.
        moved = sorted(os.listdir(staging), key=lambda name: name.endswith(".index"))
        for name in moved:
            source, target = os.path.join(staging, name), os.path.join(directory, name)
            files.sync_and_rename(source, target)
    finally:
        # Also after an error: a disk that is full needs the space.
        remove_unfinished(directory)


def remove(prefix: str) -> None:
    """Removes a checkpoint: the index first, without which it does not exist. That the pattern
    names the index again is no error."""
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


def variable_of_weights(prefix: str) -> dict[str, str]:
    """From which variable of a checkpoint each weight is read, for inference and as initial
    weights: a dict from the name of the weight to that of the variable. (A run that resumes
    restores all variables under their own names.)

    The variable is `<weight>/average` if the run kept an EMA, or else the weight itself. Before the
    first update the EMA is 0, and the weight itself is read, too.
    """
    stored = set(names(prefix))
    # Where there is no loss scale, each step is an update, and a checkpoint follows a step. Where
    # there is one, it counts the updates, as steps may be skipped.
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
    """The weights of a checkpoint by name, EMA weights where the run kept them, as float32 arrays;
    a UserError if one of them has NaN or infinity."""
    weights = {}
    for name, array in _finite_weights(prefix, variable_of_weights(prefix)):
        weights[name] = array.astype(np.float32)
    return weights


def _finite_weights(
    prefix: str, variable_of: Mapping[str, str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (name, array) of weights, one at a time, in the checkpoint's dtypes; a UserError if
    one has NaN or infinity. variable_of: of these weights, entries of `variable_of_weights`."""
    # A model with one weight that is not finite predicts NaN for every input, or, which is worse,
    # for some inputs only.
    for name, array in zip(variable_of, arrays(prefix, variable_of.values())):
        if not np.isfinite(array).all():
            count = int(np.sum(~np.isfinite(array)))
            where = f"checkpoint {prefix}: {variable_of[name]}"
            found = f"{count:,} of {array.size:,} values that are NaN or infinite"
            raise errors.wrong(where, found, "finite weights")
        yield name, array


def write_arrays(prefix: str, values: Arrays) -> None:
    """Writes a checkpoint of arrays by name, in their dtypes. The directory of `prefix` is a new
    one, see `staged`, as a write that fails leaves files behind."""
    names = sorted(values)
    with tf.Graph().as_default(), tf.Session() as session:
        # The arrays are fed, as a graph cannot have constants of more than 2 GiB.
        feed = {}
        for name in names:
            tensor = tf.placeholder(values[name].dtype, values[name].shape)
            feed[tensor] = values[name]
        save = tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),  # "": all of the variable
            tensors=list(feed),
        )
        session.run(save, feed)


def check_config(prefix: str, config: XLNetConfig) -> None:
    """Raises UserError if the `xlnet_config.json` next to a checkpoint describes another network
    than `config`; names the first key that differs. Nothing is checked without such a file."""
    path = os.path.join(os.path.dirname(prefix), CONFIG_NAME)
    if not os.path.exists(path):
        return
    stored = XLNetConfig(json_path=path).to_dict()
    for key, expected in config.to_dict().items():
        if stored[key] != expected:
            raise errors.wrong(path, f"{key} {stored[key]}", str(expected))


def start_from(session: tf.Session, prefix: str) -> None:
    """Sets the weights of a session, in the default graph, to those of a checkpoint; those that it
    lacks stay as they are. Logs how many it has, and the names of the others."""
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
    checkpoint, EMA weights where the run kept them; a UserError if the checkpoint lacks one."""
    missing = _set_values(session, prefix, variables)
    if missing:
        # The first of them as an example.
        where, found = f"checkpoint {prefix}", f"no {missing[0]}"
        raise errors.wrong(where, found, "all variables of the model")


def _set_values(
    session: tf.Session, prefix: str, variables: Iterable[tf.Variable]
) -> list[str]:
    """Sets those of the variables that the checkpoint has, see `variable_of_weights`; returns the
    names of the others, sorted. A UserError if it has none of them, one of another shape, or one
    that is not float32."""
    by_name = {devices.base_name(v): v for v in variables}
    stored = variable_of_weights(prefix)
    matched = {name: stored[name] for name in by_name if name in stored}
    if not matched:
        # One name of each as an example.
        found = f"no variable of the model, but {min(stored, default='none')}, ..."
        raise errors.wrong(f"checkpoint {prefix}", found, f"{min(by_name)}, ...")
    for name, array in _finite_weights(prefix, matched):
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
