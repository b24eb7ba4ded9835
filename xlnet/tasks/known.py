"""The registry of task types and of tasks: the library's, whose data sets are in `known.json`, and
those of a user.

`known.json` has groups of tasks from one source: the fields of `Task` by their names, in place of
those that a group has in common. An entry with `languages` is a task for each, in place of
{language}.
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
        for name, entry in group["tasks"].items():
            pattern = json.dumps([name, {**group["common"], **entry}])
            for language in entry.get("languages", [""]):
                filled = pattern.replace("{language}", language)
                task = _task(*json.loads(filled, object_hook=_with_tuples))
                tasks[task.name] = task
    return tasks


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """An object of JSON with tuples in place of its lists."""
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    return values


def _task(name: str, fields: dict[str, Any]) -> Task:
    files = fields["files"]
    forms = {}
    for key, form in files.get("forms", {}).items():
        forms[key] = Form(**form)
    files.update(form=Form(**files.get("form", {})), forms=forms)
    task = Task(
        name,
        Columns(**fields["columns"]),
        fields["labels"],
        fields["metrics"],
        TASK_TYPES[fields["type"]],
        Files(**files),
        Published(**fields.get("published", {})),
    )
    return task.with_options(**fields.get("options", {}))


TASKS = _read_tasks()


_OURS = frozenset([*TASK_TYPES, *TASKS])


# ---- own task types


def is_built_in(its_type: TaskType) -> bool:
    """Whether a task type is one of the library's."""
    return its_type.name in _OURS


def register(part: Any) -> Any:
    """As `tasks.register`."""
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
    own = []
    for part in vars(own_modules.load(module, "own_module")).values():
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
