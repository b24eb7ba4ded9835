"""The registry of task types and of tasks: the library's, whose data sets are in `known.json`, and
those of a user.

`known.json` has groups of tasks from one source: the fields of `Task` by their names, those that a
group has in common first. An entry with `each` is one for each of these names, in place of {}.
`custom` makes tasks of a user's own columns.
"""

from __future__ import annotations

import importlib.resources
import json
from typing import Any, Optional

from xlnet.support import own_modules
from xlnet.support.errors import wrong
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

# The task types by name. `register` adds others.
TASK_TYPES = {
    "spans": SPANS,
    "tagging": TAGGING,
    "ranking": RANKING,
    "regression": REGRESSION,
    "multiple_choice": MULTIPLE_CHOICE,
    "multi_label": MULTI_LABEL,
    "classification": CLASSIFICATION,
}

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


_OURS = frozenset([*TASK_TYPES, *TASKS])


# ---- own task types


def is_built_in(its_type: TaskType) -> bool:
    """Whether a task type is one of the library's."""
    return its_type.name in _OURS


def register(part: Any) -> Any:
    """As `tasks.register`."""
    if not isinstance(part, (TaskType, Task)):
        raise TypeError(f"found {type(part).__name__}, expected a TaskType or a Task")
    if part.name in _OURS:
        raise ValueError(f"'{part.name}' is the library's, expected another name")
    registry: dict[str, Any] = TASK_TYPES if isinstance(part, TaskType) else TASKS
    registry[part.name] = part
    return part


def load(module: Optional[str]) -> list[TaskType]:
    """Imports `module`, FILE.py or the name of an installed one, which registers own task types or
    tasks, its variables; returns the types. None: imports nothing."""
    if not module:
        return []
    variables = vars(own_modules.load(module, "own_module")).values()
    own = []
    for part in variables:
        if isinstance(part, (TaskType, Task)) and part.name not in _OURS:
            own.append(register(part))
    if not own:
        expected = "NAME = xlnet.tasks.register(...)"
        raise wrong(f"own_module: {module}", "no task type", expected)
    return [part for part in own if isinstance(part, TaskType)]


def type_of(stored: dict, path: str) -> TaskType:
    """The type of the `task` in a model's `run.json`. What that names is never imported: a model
    may come from a stranger."""
    kind = str(stored.get("kind"))
    if kind not in TASK_TYPES:
        found = f"task type {kind}, which no module has registered"
        expected = f"one of {', '.join(TASK_TYPES)}"
        raise wrong(path, found, expected, "--own_module=FILE.py")
    return TASK_TYPES[kind]


# ---- which task


def find_task(name: str) -> Task:
    """The known task of that name; case, hyphens and underscores do not matter."""
    for task in TASKS.values():
        if canonical_name(task.name) == canonical_name(name):
            return task
    names = ", ".join([*TASKS, CUSTOM])
    raise wrong("task_name", f"unknown task '{name}'", f"one of {names}")


def canonical_name(name: str) -> str:
    """A task's name without case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")
