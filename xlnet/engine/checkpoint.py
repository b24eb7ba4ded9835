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

from xlnet import errors, files
from xlnet.engine import devices
from xlnet.errors import UserError
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.settings.training import RELEASED_NAME

# A model directory after step 500 of a run:
#
#     model.ckpt-500.index, .data-00000-of-00001    made in unfinished/; the index is moved last
#     checkpoint                                    names the newest and all others, for TensorFlow
#     memory-500-0.npy                              of the batch elements from 0 on: made before it
#     damaged-model.ckpt-400.*                      could not be read when the run was resumed
#     best/                                         weights alone, see `best_checkpoint`


class Comparison(NamedTuple):
    """Variables of a graph and of a checkpoint: sorted names of those that are in both, in the
    graph only, in the checkpoint only."""

    matched: list[str]
    missing: list[str]
    unexpected: list[str]


UPDATES = "loss_scale/updates"  # the number of updates, where steps may be skipped (fp16)

_SLOT = re.compile(
    r"/(Adam(_1)?|adam_[mv]|average)$"
    r"|^(global_step|beta[12]_power|(.*/)?loss_scale/.*)$"
)
_log = logging.getLogger(__name__)

_UNFINISHED = "unfinished"  # where a checkpoint is written before it is moved into place
_REMEDY = "it is not complete: copy it again, or use another one"


def resolve(path: str, flag: str = "init_checkpoint") -> str:
    """The checkpoint prefix that `path` means, which is a prefix, a directory, or DIRECTORY/latest;
    a UserError if there is no checkpoint. flag: that gave the path, for errors."""
    files.require_no_pattern(path, flag)
    is_directory = os.path.isdir(path) or os.path.basename(path) != "latest"
    directory = path if is_directory else os.path.dirname(path)
    if os.path.isdir(directory):
        prefix = newest(directory)
        released = os.path.join(directory, RELEASED_NAME)
        if prefix is None and os.path.exists(released + ".index"):
            prefix = released
        if prefix is None:
            others = all_prefixes(directory)
            if not others:
                raise UserError(f"{flag}: no checkpoint in directory {directory}")
            raise UserError(
                f"{flag}: no file 'checkpoint' in {directory} says which of its checkpoints is "
                f"meant; give one, such as {others[-1][1]}"
            )
        return prefix
    if not os.path.exists(path + ".index"):
        raise UserError(f"{flag}: no checkpoint {path} (expected {path}.index)")
    return path


def newest(directory: str, remedy: str = "remove it: a run makes it again") -> Optional[str]:
    """The prefix of the checkpoint that the file `checkpoint` in `directory` points to; None if
    there is none. A UserError, with a remedy, if that file is damaged, or points out of the
    directory, to a file that may be private."""
    path = os.path.join(directory, "checkpoint")
    if not os.path.exists(path):
        return None
    with errors.reading("file " + path, remedy):
        state = tf.train.get_checkpoint_state(directory)
        if not state:
            raise ValueError("it is not a list of checkpoints")
    prefix = state.model_checkpoint_path
    if os.path.dirname(os.path.abspath(prefix)) != os.path.abspath(directory):
        raise UserError(
            "{} points to {}, expected a checkpoint in its own directory".format(
                os.path.join(directory, "checkpoint"), prefix
            )
        )
    return prefix if os.path.exists(prefix + ".index") else None


def all_prefixes(directory: str) -> list[tuple[int, str]]:
    """The checkpoints of a run by ascending step: list of (step, prefix)."""
    found = []
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        match = re.fullmatch(r"model\.ckpt-(\d+)\.index", name)
        if match:
            found.append((int(match.group(1)), os.path.join(directory, name[: -len(".index")])))
    return sorted(found)


def named_by_state_file(directory: str) -> Optional[tuple[int, str]]:
    """(step, prefix) of the checkpoint that the file `checkpoint` in `directory` points to; None
    if there is no such file. Other checkpoints there may be unfinished. A UserError if the file, or
    what it points to, is damaged or missing."""
    path = os.path.join(directory, "checkpoint")
    if not os.path.exists(path):
        return None
    with errors.reading("checkpoint " + path, _REMEDY):
        prefix = newest(directory, _REMEDY)
        if not prefix:
            raise ValueError("it names no checkpoint that is there")
    return int(prefix.rpartition("-")[2]), prefix


def step_of(directory: str) -> int:
    """The global step of the newest checkpoint in `directory`, 0 if there is none."""
    prefix = newest(directory)
    return step_in(prefix) if prefix else 0


def step_in(prefix: str) -> int:
    """The global step of a checkpoint that has one."""
    return int(_read(prefix, lambda reader: reader.get_tensor("global_step")))


def newest_whole(directory: str, is_chief: bool = True) -> int:
    """The step of the newest checkpoint that can be read to its last byte; 0 if there is none.

    Damaged newer ones are logged, skipped and, on the chief, renamed to `damaged-...`.

    Raises:
      UserError: there are checkpoints, but none is complete; or the disk does not answer, and
        nothing was changed.
    """
    # Checkpoints are tried from the newest one back. Each is read completely: a damaged byte would
    # otherwise be found in the middle of training, or never.
    prefixes = all_prefixes(directory)
    if is_chief:  # what a killed run left unfinished
        shutil.rmtree(os.path.join(directory, _UNFINISHED), ignore_errors=True)
    for step, prefix in reversed(prefixes):
        fault = fault_of(prefix)
        if fault:
            if prefix == prefixes[0][1]:
                raise UserError(
                    f"{fault}; no checkpoint in {directory} is complete: give another model_dir, "
                    "or remove this one"
                )
            _log.info("note: %s; the one before it is used", fault)
            if is_chief:
                for path in glob.glob(glob.escape(prefix) + ".*"):
                    os.replace(path, os.path.join(directory, "damaged-" + os.path.basename(path)))
            continue
        if is_chief:
            write_state_file(directory)
        return step
    return 0


def fault_of(prefix: str) -> Optional[str]:
    """Reads a checkpoint to its last byte; returns what is wrong with it, None if it is complete. A
    UserError if it could not be read for another reason than damage (`errors.Unreadable`)."""
    try:
        for _ in arrays(prefix, names(prefix)):  # one at a time, so that not all are in memory
            pass
    except errors.Unreadable as e:
        return e.fault
    return None


def write_state_file(directory: str) -> None:
    """Writes the file `checkpoint`, by which TensorFlow knows all checkpoints and the newest."""
    names = [os.path.basename(prefix) for _, prefix in all_prefixes(directory)]
    tf.train.update_checkpoint_state(  # else names are relative to the working directory
        os.path.abspath(directory), names[-1], all_model_checkpoint_paths=names
    )


def write(saver: tf.train.Saver, session: tf.Session, directory: str, step: int) -> None:
    """Writes a checkpoint to a temporary directory, then moves it into place."""
    aside = os.path.join(directory, _UNFINISHED)
    shutil.rmtree(aside, ignore_errors=True)
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
            files.sync_and_rename(os.path.join(aside, name), os.path.join(directory, name))
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # it would waste a full disk
    write_state_file(directory)


def keep_some(
    directory: str, max_save: int, is_needed: Callable[[int], bool] = lambda step: False
) -> None:
    """Removes all checkpoints but the last `max_save` (0: none are removed) and those whose step
    `is_needed`."""
    prefixes = all_prefixes(directory)
    for step, prefix in prefixes[:-max_save] if max_save else []:
        if not is_needed(step):
            # The index is removed first: without it a checkpoint does not exist.
            for path in sorted(
                glob.glob(glob.escape(prefix) + ".*"), key=lambda path: not path.endswith(".index")
            ):
                os.remove(path)
    write_state_file(directory)


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
    stored = stored_names(prefix)
    found = {}
    for name, array in zip(stored, arrays(prefix, stored.values())):
        _require_finite(prefix, stored[name], array)
        found[name] = array.astype(np.float32)
    return found


def check_finite(prefix: str) -> None:
    """Reads the weights of a checkpoint, as `stored_names` says; a UserError names the first with
    NaN or infinity."""
    stored = sorted(stored_names(prefix).values())
    for name, array in zip(stored, arrays(prefix, stored)):
        _require_finite(prefix, name, array)


def _require_finite(prefix: str, name: str, array: np.ndarray) -> None:
    """Raises UserError if the weight `name` of a checkpoint has a value that is not a finite
    number."""
    # A model with one such weight predicts NaN for every input, or, which is worse, for some inputs
    # only.
    if array.dtype.kind != "f":
        return
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        first = tuple(wrong[0].tolist())
        raise UserError(
            f"checkpoint {prefix}: {name} is {array[first]} at {list(first)}, in all NaN or "
            f"infinite in {len(wrong):,} of {array.size:,} values, expected finite weights; the "
            "run that wrote it had diverged: take an earlier checkpoint"
        )


def check_type(prefix: str) -> None:
    """Raises UserError unless the weights of a checkpoint are float32, as the network's are."""
    types = _read(prefix, lambda reader: reader.get_variable_to_dtype_map())
    for name in sorted(stored_names(prefix).values()):
        if types[name] != tf.float32:
            raise UserError(
                f"checkpoint {prefix}: {name} is of type {types[name].name}, expected float32"
            )


def write_arrays(prefix: str, values: Mapping[str, np.ndarray]) -> None:
    """Writes a checkpoint of arrays by name, in their types. For a new directory: a write that
    fails leaves files behind."""
    names = sorted(values)
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = [tf.placeholder(values[name].dtype, values[name].shape) for name in names]
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
        raise UserError(
            "checkpoint {}{} has none of the model's variables (it has {}, ...; the "
            "model {}, ...)".format(
                prefix, _in_words(stored), min(stored, default="none"), min(wanted)
            )
        )
    for name in matched:
        if stored[name] != wanted[name]:
            raise UserError(
                f"checkpoint {prefix}: {name} has shape {stored[name]}, the model's is "
                f"{wanted[name]}"
            )
    return Comparison(matched, sorted(set(wanted) - set(stored)), sorted(set(stored) - set(wanted)))


def _in_words(names: Iterable[str]) -> str:
    """A hint what a checkpoint with other names is, if they show it, or an empty string."""
    if any(".ATTRIBUTES/" in name for name in names):
        return (
            ", which is object-based, as tf.train.Checkpoint and Keras of TensorFlow 2 write it, "
            "and not by names of variables,"
        )
    if any(name.startswith("module/") for name in names):
        return ", a module of TensorFlow Hub, whose names begin with module/,"
    return ""


def check_config(prefix: str, config: XLNetConfig) -> None:
    """Raises UserError if the `xlnet_config.json` of a checkpoint describes another network; names
    each key that differs."""
    path = os.path.join(os.path.dirname(prefix), CONFIG_NAME)
    if not os.path.exists(path):
        return
    stored = XLNetConfig(json_path=path).to_dict()
    different = [
        f"{key} {stored[key]}, not {now}"
        for key, now in config.to_dict().items()
        if stored[key] != now
    ]
    if different:
        raise UserError("{} has {}".format(path, "; ".join(different)))


def warm_start(
    prefix: str, config: XLNetConfig, log: Callable[[str], None] = _log.info
) -> Comparison:
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
    log(
        "started from {}: {} of {} variables{}".format(
            prefix,
            len(comparison.matched),
            len(variables),
            ", the EMA of the weights"
            if any(stored[name].endswith("/average") for name in comparison.matched)
            else "",
        )
    )
    for kind, found in (
        ("not in the checkpoint, started fresh", comparison.missing),
        ("only in the checkpoint, not used", comparison.unexpected),
    ):
        if found:
            log("  {} {}: {}".format(len(found), kind, ", ".join(found)))
    return comparison


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
                    tf.cast(tf.ensure_shape(value, part.shape), part.dtype), read_value=False
                )
                for variable, value in zip(self._variables, values)
                for part in devices.local_parts(variable)
            ]
        )

    def __call__(self, session: tf.Session, prefix: str) -> None:
        """Reads a checkpoint; a UserError if it is not complete, not float32, not finite or lacks a
        variable."""
        named = zip(self._names, self._variables)
        missing = compare(prefix, [variable for name, variable in named if is_weight(name)]).missing
        if missing:
            first = ", ".join(missing[:3]) + ", ..." * (len(missing) > 3)
            raise UserError(
                f"checkpoint {prefix} lacks {len(missing)} of the model's variables: {first}; were "
                "its weights trained with another objective or task?"
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
            check_finite(prefix)  # names the weight
