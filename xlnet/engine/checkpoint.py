"""Checkpoints: find, read, write, compare with the graph, start from."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import devices
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.settings.training import RELEASED_NAME
from xlnet.support import errors, files

# A model directory after step 500 of a run:
#
#     model.ckpt-500.index, .data-00000-of-00001    made in unfinished/; the index is moved last
#     checkpoint                                    names the newest and all others, for TensorFlow
#     memory-500-0.npy                              of the batch elements from 0 on: made before it
#     best/                                         weights alone, see `best_checkpoint`


class Comparison(NamedTuple):
    """Variables of a graph and of a checkpoint: sorted names of those that are in both, in the
    graph only, in the checkpoint only."""

    matched: list[str]
    missing: list[str]
    unexpected: list[str]


UPDATES = (
    "loss_scale/updates"  # the number of updates, where steps may be skipped (fp16)
)

_SLOT = re.compile(
    r"/(Adam(_1)?|adam_[mv]|average)$"
    r"|^(global_step|beta[12]_power|(.*/)?loss_scale/.*)$"
)
_log = logging.getLogger(__name__)

_UNFINISHED = (
    "unfinished"  # where a checkpoint is written before it is moved into place
)
_REMEDY = "it is not complete: copy it again, or use another one"


def resolve(path: str, flag: str = "init_checkpoint") -> str:
    """The checkpoint prefix that `path` means, which is a prefix, a directory, or DIRECTORY/latest.

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
    if os.path.isdir(directory):
        released = os.path.join(directory, RELEASED_NAME)
        prefix = newest(directory) or newest_of_run(directory) or released
    else:
        prefix = path
    if not os.path.exists(prefix + ".index"):
        raise errors.wrong(
            flag, f"no checkpoint {path}", f"{prefix}.index, or a directory"
        )
    return prefix


def newest(directory: str) -> Optional[str]:
    """The prefix of the checkpoint that the file `checkpoint` in `directory` points to; None if
    there is none.

    Raises:
      UserError: that file is damaged, or points out of the directory, to a file that may be
        private.
    """
    path = os.path.join(directory, "checkpoint")
    if not os.path.exists(path):
        return None
    with errors.reading("file " + path, "remove it: a run makes it again"):
        state = tf.train.get_checkpoint_state(directory)
        if not state:
            raise ValueError("it is not a list of checkpoints")
    prefix = state.model_checkpoint_path
    if os.path.dirname(os.path.abspath(prefix)) != os.path.abspath(directory):
        raise errors.wrong(path, prefix, "a checkpoint in its own directory")
    return prefix if os.path.exists(prefix + ".index") else None


def all_prefixes(directory: str) -> list[tuple[int, str]]:
    """The checkpoints of a run by ascending step: list of (step, prefix)."""
    found = []
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        match = re.fullmatch(r"model\.ckpt-(\d+)\.index", name)
        if match:
            found.append(
                (int(match.group(1)), os.path.join(directory, name[: -len(".index")]))
            )
    return sorted(found)


def newest_of_run(directory: str) -> Optional[str]:
    """The prefix of the checkpoint of the highest step; None if there is none."""
    prefixes = all_prefixes(directory)
    return prefixes[-1][1] if prefixes else None


def step_named(prefix: str) -> int:
    """The step in the name of a run's checkpoint."""
    return int(prefix.rpartition("-")[2])


def step_of(directory: str) -> int:
    """The global step of the newest checkpoint of a run, 0 if there is none."""
    prefix = newest_of_run(directory)
    return step_named(prefix) if prefix else 0


def step_in(prefix: str) -> int:
    """The global step of a checkpoint that has one."""
    return int(_read(prefix, lambda reader: reader.get_tensor("global_step")))


def write_state_file(directory: str) -> None:
    """Writes the file `checkpoint`, by which TensorFlow knows all checkpoints and the newest."""
    names = [os.path.basename(prefix) for _, prefix in all_prefixes(directory)]
    tf.train.update_checkpoint_state(  # else names are relative to the working directory
        os.path.abspath(directory), names[-1], all_model_checkpoint_paths=names
    )


def write(
    saver: tf.train.Saver,
    session: tf.Session,
    directory: str,
    step: int,
    max_save: int = 0,
) -> str:
    """Writes a checkpoint to a temporary directory, moves it into place, and removes all but the
    last `max_save` (0: none); returns its prefix."""
    remove_unfinished(directory)
    aside = os.path.join(directory, _UNFINISHED)
    os.makedirs(aside)
    try:
        saver.save(
            session,
            os.path.join(aside, "model.ckpt"),
            global_step=step,
            write_meta_graph=False,
            write_state=False,
        )
        # The index is moved last: without it a checkpoint does not exist.
        for name in sorted(os.listdir(aside), key=lambda name: name.endswith(".index")):
            files.sync_and_rename(
                os.path.join(aside, name), os.path.join(directory, name)
            )
    finally:
        remove_unfinished(directory)  # it would waste a full disk
    # Of those removed the index goes first.
    for _, prefix in all_prefixes(directory)[:-max_save] if max_save else []:
        os.remove(prefix + ".index")
        files.remove(glob.glob(glob.escape(prefix) + ".*"))
    write_state_file(directory)
    return os.path.join(directory, f"model.ckpt-{step}")


def remove_unfinished(directory: str) -> None:
    """Removes a checkpoint that a killed run left unfinished."""
    shutil.rmtree(os.path.join(directory, _UNFINISHED), ignore_errors=True)


def reading(prefix: str) -> contextlib.AbstractContextManager[None]:
    """Turns errors inside into a `UserError`: the checkpoint `prefix` cannot be read."""
    return errors.reading("checkpoint " + prefix, _REMEDY)


def _read(prefix: str, read: Callable[[Any], Any]) -> Any:
    with reading(prefix):
        return read(tf.train.NewCheckpointReader(prefix))


def names(prefix: str) -> list[str]:
    """Names of the variables in a checkpoint; those of TensorFlow 2 have a text, too."""
    types = _read(prefix, lambda reader: reader.get_variable_to_dtype_map())
    return [name for name, type in types.items() if type != tf.string]


def shapes(prefix: str) -> dict[str, list[int]]:
    """The shapes of the variables in a checkpoint, by name."""
    return _read(prefix, lambda reader: reader.get_variable_to_shape_map())


def stored_names(prefix: str) -> dict[str, str]:
    """Which variables of a checkpoint are its weights, for inference and as initial weights: a dict
    from the name of a weight to the variable to read. Only a run that resumes reads the variables
    themselves.

    That is `<weight>/average` if the run kept an EMA. Before the first update the EMA is 0, and the
    weight itself is read.
    """
    stored = set(names(prefix))
    # model/lm_loss/bias/average is the EMA of model/lm_loss/bias, and is read in its place.
    averaged = {name for name in stored if name.endswith("/average")}
    counts = [name for name in (UPDATES, "global_step") if name in stored]
    if averaged and counts and not next(arrays(prefix, counts)):
        averaged = set()
    return {
        name: name + "/average" if name + "/average" in averaged else name
        for name in stored
        if is_weight(name)
    }


def is_weight(name: str) -> bool:
    """Whether a variable is a weight, not a slot of the optimizer or a counter."""
    return not _SLOT.search(name)


def arrays(prefix: str, wanted: Iterable[str]) -> Iterator[np.ndarray]:
    """Yields the variables of these names, in the checkpoint's types, one at a time."""
    with reading(prefix):
        reader = tf.train.NewCheckpointReader(prefix)
        for name in wanted:
            yield reader.get_tensor(name)


def read_weights(prefix: str) -> dict[str, np.ndarray]:
    """The weights of a checkpoint by name, as `stored_names` says, as float32 arrays; a UserError
    if one of them has NaN or infinity."""
    # A model with one such weight predicts NaN for every input, or, which is worse, for some inputs
    # only.
    stored = stored_names(prefix)
    found = {}
    for name, array in zip(stored, arrays(prefix, stored.values())):
        count = (
            int(np.size(array) - np.isfinite(array).sum())
            if array.dtype.kind == "f"
            else 0
        )
        if count:
            raise errors.wrong(
                f"checkpoint {prefix}: {stored[name]}",
                f"{count:,} of {array.size:,} values that are NaN or infinite",
                "finite weights",
            )
        found[name] = array.astype(np.float32)
    return found


def check_type(prefix: str) -> None:
    """Raises UserError unless the weights of a checkpoint are float32, as the network's are."""
    types = _read(prefix, lambda reader: reader.get_variable_to_dtype_map())
    for name in sorted(stored_names(prefix).values()):
        if types[name] != tf.float32:
            raise errors.wrong(
                f"checkpoint {prefix}: {name}", types[name].name, "float32"
            )


def write_arrays(prefix: str, values: Mapping[str, np.ndarray]) -> None:
    """Writes a checkpoint of arrays by name, in their types. For a new directory: a write that
    fails leaves files behind."""
    names = sorted(values)
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = [
            tf.placeholder(values[name].dtype, values[name].shape) for name in names
        ]
        session.run(
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=tensors,
            ),
            {tensor: values[name] for tensor, name in zip(tensors, names)},
        )


def compare(prefix: str, variables: Iterable[tf.Variable]) -> Comparison:
    """Compares a checkpoint with `variables` by name, optimizer slots left out; a UserError if
    nothing matches, a shape differs, or weights are not float32."""
    check_type(prefix)
    # Weights, and their averages, have the names that they have in the graph.
    found = shapes(prefix)
    stored = {name: found[place] for name, place in stored_names(prefix).items()}
    wanted = {devices.base_name(v): v.shape.as_list() for v in variables}
    matched = sorted(set(stored) & set(wanted))
    if not matched:
        raise errors.wrong(
            f"checkpoint {prefix}",
            f"no variable of the model, but {min(stored, default='none')}, ...",
            f"{min(wanted)}, ...",
        )
    for name in matched:
        if stored[name] != wanted[name]:
            raise errors.wrong(
                f"checkpoint {prefix}: {name}",
                f"shape {stored[name]}",
                f"{wanted[name]}",
            )
    return Comparison(
        matched, sorted(set(wanted) - set(stored)), sorted(set(stored) - set(wanted))
    )


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


def warm_start(prefix: str, config: XLNetConfig) -> Comparison:
    """Makes the network's variables start from the weights of a checkpoint, as `stored_names` says;
    call it in a `model_fn`. Logs the counts and names of matched, missing and unexpected
    variables."""
    check_config(prefix, config)
    by_name = {devices.base_name(v): v for v in tf.global_variables()}
    variables = [variable for name, variable in by_name.items() if is_weight(name)]
    comparison = compare(prefix, variables)
    # The names are those in the checkpoint, also of averages. This replaces the initializers of the
    # variables.
    stored = stored_names(prefix)
    tf.train.init_from_checkpoint(
        prefix, {stored[name]: by_name[name] for name in comparison.matched}
    )
    matched, missing, unexpected = map(len, comparison)
    _log.info("started from %s: %d of %d variables", prefix, matched, len(variables))
    if missing:
        names = ", ".join(comparison.missing)
        _log.info("  %d not in the checkpoint, started fresh: %s", missing, names)
    if unexpected:
        names = ", ".join(comparison.unexpected)
        _log.info("  %d only in the checkpoint, not used: %s", unexpected, names)
    return comparison


def start_from(
    init_checkpoint: Optional[str], config: XLNetConfig, model_dir: str
) -> None:
    """Makes the network's variables start from the weights of `init_checkpoint`, unless the run in
    `model_dir` has a checkpoint; call it in a `model_fn`."""
    if init_checkpoint and not newest_of_run(model_dir):
        warm_start(resolve(init_checkpoint), config)


class Restoring:
    """Restores variables (None: all) of the default graph, on all devices of the current strategy:
    the weights of a checkpoint, as `stored_names` says, which must be finite. Built once, for any
    number of checkpoints."""

    def __init__(self, variables: Optional[Sequence[tf.Variable]] = None) -> None:
        self._variables = tf.global_variables() if variables is None else variables
        self._names = [devices.base_name(variable) for variable in self._variables]
        # One operation reads all variables; the file and the names in it are fed.
        with tf.device("/cpu:0"):
            self._prefix = tf.placeholder(tf.string, [])
            self._stored = tf.placeholder(tf.string, [len(self._variables)])
            values = tf.raw_ops.RestoreV2(
                prefix=self._prefix,
                tensor_names=self._stored,
                shape_and_slices=[""] * len(self._variables),
                dtypes=[
                    tf.float32 if variable.dtype.is_floating else variable.dtype
                    for variable in self._variables
                ],
            )
            self._are_finite = [
                tf.reduce_all(tf.math.is_finite(value))
                for value in values
                if value.dtype.is_floating
            ]
        self._restore = tf.group(
            *[
                part.assign(
                    tf.cast(tf.ensure_shape(value, part.shape), part.dtype),
                    read_value=False,
                )
                for variable, value in zip(self._variables, values)
                for part in devices.local_parts(variable)
            ]
        )

    def __call__(self, session: tf.Session, prefix: str) -> None:
        """Reads a checkpoint; a UserError if it is not complete, not float32, not finite or lacks a
        variable."""
        named = zip(self._names, self._variables)
        missing = compare(
            prefix, [variable for name, variable in named if is_weight(name)]
        ).missing
        if missing:
            raise errors.wrong(
                f"checkpoint {prefix}", f"no {missing[0]}", "all variables of the model"
            )
        with reading(prefix):
            stored = stored_names(prefix)
            _, are_finite = session.run(
                [self._restore, self._are_finite],
                {
                    self._prefix: prefix,
                    self._stored: [stored.get(name, name) for name in self._names],
                },
            )
        if not all(are_finite):
            read_weights(prefix)  # names the weight
