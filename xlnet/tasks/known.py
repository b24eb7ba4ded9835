"""The registry of task types and of tasks: the library's, whose data sets are in `known.json`, and
those of a user.

`known.json` has groups of tasks from one source: the fields of `Task` by their names, those that a
group has in common first. An entry with `each` is one for each of these names, in place of {}.
`custom` makes tasks of a user's own columns.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import json
import os
from typing import Any, Optional

from xlnet.support import files, own_modules
from xlnet.support.errors import UserError
from xlnet.tasks.questions.spans import SPANS
from xlnet.tasks.ranking import RANKING
from xlnet.tasks.tagging.tags import TAGGING
from xlnet.tasks.task import CUSTOM, Columns, Files, Form, Published, Task
from xlnet.tasks.types.contract import TaskType
from xlnet.tasks.types.simple import (
    CLASSIFICATION,
    MULTI_LABEL,
    MULTIPLE_CHOICE,
    REGRESSION,
)

# The task types by name; the flags for your own files choose the first one that fits. `register`
# adds others.
TASK_TYPES = {
    "spans": SPANS,
    "tagging": TAGGING,
    "ranking": RANKING,
    "regression": REGRESSION,
    "multiple_choice": MULTIPLE_CHOICE,
    "multi_label": MULTI_LABEL,
    "classification": CLASSIFICATION,
}

DEV_SHARE = 0.05  # of the train file of a known task that has no file of dev


# ---- the library's tasks


def _read_tasks() -> dict[str, Task]:
    path = importlib.resources.files(__package__) / "known.json"
    tasks: dict[str, Task] = {}
    for group in json.loads(path.read_text("utf-8")):
        for pattern, entry in group["tasks"].items():
            for each in entry.get("each", [""]):
                fields = _filled(_merged(group["common"], entry), each)
                name = pattern.replace("{}", each)
                tasks[name] = _task(name, fields)
    return tasks


def _merged(common: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """The fields of a task: those that a group has in common, and its own in place of them."""
    merged = {**common, **entry}
    for name, value in common.items():
        if isinstance(value, dict):
            merged[name] = {**value, **entry.get(name, {})}
    return merged


def _task(name: str, fields: dict[str, Any]) -> Task:
    found = dict(fields["files"])
    if "form" in found:
        found["form"] = Form(**found["form"])
    forms = {}
    for key, form in found.get("forms", {}).items():
        forms[key] = Form(**form)
    task = Task(
        name,
        Columns(**fields["columns"]),
        fields["labels"],
        fields["metrics"],
        TASK_TYPES[fields["type"]],
        Files(**{**found, "forms": forms}),
        Published(**fields.get("published", {})),
        cut_first=fields.get("cut_first", False),
    )
    return task.with_options(**fields.get("options", {}))


def _filled(value: Any, name: str) -> Any:
    """A value of JSON with a name in place of {}, and tuples in place of lists."""
    if isinstance(value, str):
        return value.replace("{}", name)
    if isinstance(value, list):
        return tuple(_filled(each, name) for each in value)
    if isinstance(value, dict):
        return {_filled(key, name): _filled(each, name) for key, each in value.items()}
    return value


TASKS = _read_tasks()


# ---- own task types

_GROUP = "xlnet.tasks"  # of entry points
_OURS = frozenset(TASK_TYPES)
# The types that a module registered: Python runs it once in a process.
_of_module: dict[str, tuple[TaskType, ...]] = {}


def is_built_in(its_type: TaskType) -> bool:
    """Whether a task type is one of the library's."""
    return its_type.name in _OURS


def register(part: Any) -> Any:
    """As `tasks.register`."""
    if not isinstance(part, (TaskType, Task)):
        raise TypeError(f"found {type(part).__name__}, expected a TaskType or a Task")
    if isinstance(part, TaskType) and part.name in _OURS:
        raise ValueError(
            f"task type '{part.name}' is the library's, expected another name"
        )
    registry: dict[str, Any] = TASK_TYPES if isinstance(part, TaskType) else TASKS
    registry[part.name] = part
    return part


def load(module: Optional[str]) -> tuple[TaskType, ...]:
    """Imports `module`, FILE.py or the name of an installed one, which registers own task types;
    returns those that it has. None: imports nothing."""
    if not module:
        return ()
    if module.endswith(".py"):
        files.require_file(module, "own_module")
        # A relative path is another file after a `chdir`.
        module = os.path.abspath(module)
    own_modules.require_unchanged(module, "own_module")
    if module not in _of_module:
        before = [*TASK_TYPES.values(), *TASKS.values()]
        variables = vars(own_modules.load(module, "own_module")).values()
        parts = []
        for part in (*TASK_TYPES.values(), *TASKS.values()):
            # A module that was imported before may have its parts as variables.
            is_new = not any(part is each for each in before)
            if is_new or any(part is each for each in variables):
                parts.append(part)
        if not parts:
            raise UserError(
                f"own_module: {module} calls xlnet.tasks.register with no task type"
            )
        types = [each for each in parts if isinstance(each, TaskType)]
        _of_module[module] = tuple(each for each in types if not is_built_in(each))
    return _of_module[module]


def _load_packages() -> None:
    """Imports the entry points of the group, as packages declare them."""
    points: Any = importlib.metadata.entry_points()
    if hasattr(points, "select"):
        points = points.select(group=_GROUP)
    else:  # Python 3.9
        points = points.get(_GROUP, ())
    for point in points:
        try:
            point.load()
        except Exception as e:
            raise UserError(
                f"entry point {point.name} of {_GROUP}, {point.value}, cannot be "
                f"imported: {type(e).__name__}: {e}"
            ) from e


def type_of(stored: dict, path: str) -> TaskType:
    """The type of the `task` in a model's `run.json`. What that names is never imported: a model
    may come from a stranger."""
    kind = str(stored.get("kind"))
    if kind not in TASK_TYPES:
        _load_packages()
    if kind not in TASK_TYPES:
        module = f" ({stored['module']})" if stored.get("module") else ""
        raise UserError(
            f"{path}: of task type {kind}, which is not installed; import the module that "
            f"registers it{module}, or give --own_module=FILE.py (there are "
            f"{', '.join(TASK_TYPES)})"
        )
    return TASK_TYPES[kind]


def module_of(its_type: TaskType) -> Optional[str]:
    """The module of an own task type; None: the library's."""
    own = its_type.own_modules
    return own[0] if own else None


# ---- which task


def find_task(name: str) -> Task:
    """The known task of that name; case, hyphens and underscores do not matter. `mnli_matched` and
    `mnli_mismatched` are MNLI with this half of its dev and test files."""
    wanted = canonical_name(name)
    if wanted not in map(canonical_name, TASKS):
        _load_packages()
    for task in TASKS.values():
        if canonical_name(task.name) == wanted:
            return task
    for half in ("matched", "mismatched"):
        if wanted == "mnli" + half:
            groups = {"dev": ("dev_" + half,), "test": ("test_" + half,)}
            return TASKS["mnli"].with_files(groups=groups)
    names = [*TASKS, CUSTOM]
    raise UserError(f"task_name: unknown task '{name}' (tasks: {', '.join(names)})")


def canonical_name(name: str) -> str:
    """A task's name without case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")
