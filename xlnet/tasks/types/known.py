"""The task types, and the public tasks as data: GLUE, other English sets, CLUE and other Chinese
ones, XNLI, rankings.

`task` explains the fields; `custom` makes tasks of a user's own columns.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
from typing import Any, Optional, Union

from xlnet.support import files, own_modules
from xlnet.support.errors import UserError, did_you_mean
from xlnet.tasks.questions.spans import SPANS
from xlnet.tasks.ranking.ranking import RANKING
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
    each.name: each
    for each in (
        SPANS,
        TAGGING,
        RANKING,
        REGRESSION,
        MULTIPLE_CHOICE,
        MULTI_LABEL,
        CLASSIFICATION,
    )
}


DEV_SHARE = 0.05  # of the train file of a known task that has no file of dev

# How most published sets are written: quotation marks are characters of the text.
_PLAIN = Form("tsv", quoting="none", header="names")


def _task(
    name: str,
    text_a: Union[str, tuple[str, ...]],
    text_b: Union[None, str, tuple[str, ...]],
    label: str,
    labels: Optional[tuple[str, ...]],
    metrics: tuple[str, ...],
    type: str = "classification",
    **more: Any,
) -> Task:
    """A `Task` whose columns and type are given as plain names; more: fields of `Columns`, `Files`,
    `Published` and `Task`."""

    def part(group: Any) -> dict[str, Any]:
        return {
            each: more.pop(each)
            for each in list(more)
            if each in group.__dataclass_fields__
        }

    columns = Columns(_names(text_a), _names(text_b), _names(label), **part(Columns))
    files_of_task = Files(**{"form": _PLAIN, "forms": {".csv": Form()}, **part(Files)})
    published = Published(**part(Published))
    return Task(
        name,
        columns,
        labels,
        metrics,
        TASK_TYPES[type],
        files_of_task,
        published,
        **more,
    )


def _names(names: Union[None, str, tuple[str, ...]]) -> tuple[str, ...]:
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


# --- GLUE (https://gluebenchmark.com)

_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")

_GLUE_TASKS = (
    _task(
        "cola",
        "sentence",
        None,
        "label",
        ("0", "1"),
        ("matthews", "accuracy"),
        form=Form(
            "tsv",
            quoting="none",
            header="none",
            names=("source", "label", "mark", "sentence"),
        ),
        forms={"test.tsv": _PLAIN, ".csv": Form()},
        submissions={"test": "CoLA.tsv"},
    ),
    _task(
        "sst-2",
        "sentence",
        None,
        "label",
        ("0", "1"),
        ("accuracy",),
        submissions={"test": "SST-2.tsv"},
    ),
    _task(
        "mrpc",
        "#1 String",
        "#2 String",
        "Quality",
        ("0", "1"),
        ("f1", "accuracy"),
        submissions={"test": "MRPC.tsv"},
    ),
    _task(
        "sts-b",
        "sentence1",
        "sentence2",
        "score",
        None,
        ("pearson", "spearman"),
        type="regression",
        submissions={"test": "STS-B.tsv"},
        submitted_range=(0.0, 5.0),
    ),
    _task(
        "qqp",
        "question1",
        "question2",
        "is_duplicate",
        ("0", "1"),
        ("f1", "accuracy"),
        id="id",
        submissions={"test": "QQP.tsv"},
        has_broken_rows=True,
    ),
    _task(
        "mnli",
        "sentence1",
        "sentence2",
        "gold_label",
        _NLI,
        ("accuracy",),
        by_split={
            "train": "train.tsv",
            "dev_matched": "dev_matched.tsv",
            "dev_mismatched": "dev_mismatched.tsv",
            "test_matched": "test_matched.tsv",
            "test_mismatched": "test_mismatched.tsv",
        },
        groups={
            "dev": ("dev_matched", "dev_mismatched"),
            "test": ("test_matched", "test_mismatched"),
        },
        submissions={"test_matched": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"},
    ),
    _task(
        "qnli",
        "question",
        "sentence",
        "label",
        _ENTAILMENT,
        ("accuracy",),
        submissions={"test": "QNLI.tsv"},
    ),
    _task(
        "rte",
        "sentence1",
        "sentence2",
        "label",
        _ENTAILMENT,
        ("accuracy",),
        submissions={"test": "RTE.tsv"},
    ),
    _task(
        "wnli",
        "sentence1",
        "sentence2",
        "label",
        ("0", "1"),
        ("accuracy",),
        submissions={"test": "WNLI.tsv"},
    ),
    # The diagnostic set is predicted with a model that was trained on MNLI.
    _task(
        "ax",
        "sentence1",
        "sentence2",
        "label",
        _NLI,
        ("matthews",),
        by_split={"test": "diagnostic.tsv"},
        submissions={"test": "AX.tsv"},
        trained_as="mnli",
    ),
)
GLUE = {task.name: task for task in _GLUE_TASKS}


# --- Other English sets

_NUMBERS = tuple(str(number) for number in range(120))
_TRAIN_TEST_CSV = {"train": "train.csv", "test": "test.csv"}
# The reviews' CSV files write a line break as \n and a quotation mark as \".
_ESCAPED = (("\\n", " "), ('\\"', '"'))
# AG News writes a line break as a lone backslash.
_BACKSLASHES = (("\\", " "),)


def _csv_task(
    name: str,
    columns: tuple[str, ...],
    text_a: Any,
    num_labels: int,
    replacements: tuple[tuple[str, str], ...] = _ESCAPED,
) -> Task:
    """A set of https://arxiv.org/abs/1509.01626: CSV files without header, labels from 1 on."""
    return _task(
        name,
        text_a,
        None,
        "label",
        _NUMBERS[1 : num_labels + 1],
        ("accuracy", "macro_f1"),
        by_split=dict(_TRAIN_TEST_CSV),
        form=Form("csv", quoting="standard", header="none", names=columns),
        forms={},
        replacements=replacements,
        dev_share=DEV_SHARE,
    )


_TITLE_AND_TEXT = ("label", "title", "text")
_REVIEW = ("label", "text")

_OTHER_TASKS = (
    _task(
        "snli",
        "sentence1",
        "sentence2",
        "gold_label",
        _NLI,
        ("accuracy",),
        id="pairID",
        by_split={
            split: (f"snli_1.0_{split}.jsonl", f"snli_1.0_{split}.txt", split + ".tsv")
            for split in ("train", "dev", "test")
        },
        skipped_labels=("-",),
        # GLUE's train.tsv has the labels of one person, or of five, before that of the row.
        forms={
            ".tsv": Form(quoting="none", header="names", is_wider=True),
            ".txt": Form("tsv", quoting="none", header="names", is_wider=True),
        },
    ),
    _task(
        "imdb",
        "text",
        None,
        "label",
        ("neg", "pos"),
        ("accuracy", "auc"),
        id="id",
        by_split={"train": "train", "test": "test"},
        directory_form="folders",
        dev_share=DEV_SHARE,
        replacements=(("<br />", " "),),
    ),
    _csv_task("yelp-2", _REVIEW, "text", 2),
    _csv_task("yelp-5", _REVIEW, "text", 5),
    _csv_task(
        "ag_news", _TITLE_AND_TEXT, ("title", "text"), 4, replacements=_BACKSLASHES
    ),
    _csv_task("dbpedia", _TITLE_AND_TEXT, ("title", "text"), 14),
    _csv_task("amazon-2", _TITLE_AND_TEXT, ("title", "text"), 2),
    _csv_task("amazon-5", _TITLE_AND_TEXT, ("title", "text"), 5),
)


def _race(name: str, folders: Any) -> Task:
    return _task(
        name,
        "article",
        "question",
        "answer",
        ("A", "B", "C", "D"),
        ("accuracy",),
        type="multiple_choice",
        id="id",
        choices=("options",),
        directory_form="race",
        forms={".txt": Form("race")},
        cut_first=True,
        by_split={
            split: tuple(f"{split}/{folder}" for folder in folders)
            if len(folders) == 1
            else split
            for split in ("train", "dev", "test")
        },
    ).with_options(fills_gaps=True)


_RACE_TASKS = (
    _race("race", ("middle", "high")),
    _race("race-middle", ("middle",)),
    _race("race-high", ("high",)),
)


# --- Chinese sets, and XNLI

_JSON_FILES = {"train": "train.json", "dev": "dev.json", "test": "test.json"}


def _clue(
    name: str,
    text_a: Any,
    text_b: Any,
    labels: Any,
    submitted: Optional[str] = None,
    **more: Any,
) -> Task:
    """A classification set of CLUE (https://www.cluebenchmarks.com) in its JSON lines.

    submitted: what its server calls the task, with the version of the test set (CLUE 1.1).
    """
    return _task(
        name,
        text_a,
        text_b,
        "label",
        labels,
        ("accuracy", "macro_f1"),
        submissions={"test": "%s_predict.json" % (submitted or name)},
        submission_form="json",
        **{
            "id": "id",
            "by_split": dict(_JSON_FILES),
            "forms": {".json": Form("jsonl")},  # an object on each line
            **more,
        },
    )


_CLUE_TASKS = (
    _clue(
        "tnews",
        "sentence",
        None,
        (
            "100",
            "101",
            "102",
            "103",
            "104",
            "106",
            "107",
            "108",
            "109",
            "110",
            "112",
            "113",
            "114",
            "115",
            "116",
        ),
        "tnews11",
    ),
    _clue("afqmc", "sentence1", "sentence2", ("0", "1")),
    _clue("iflytek", "sentence", None, _NUMBERS[:119]),
    _clue("cmnli", "sentence1", "sentence2", _NLI, skipped_labels=("-",)),
    _clue(
        "ocnli",
        "sentence1",
        "sentence2",
        _NLI,
        "ocnli_50k",
        skipped_labels=("-",),
        by_split={
            "train": ("train.json", "train.50k.json"),
            "dev": "dev.json",
            "test": "test.json",
        },
    ),
    _clue("csl", "keyword", "abst", ("0", "1")),
    _clue(
        "cluewsc",
        "text",
        ("target.span2_text", "target.span1_text"),
        ("false", "true"),
        "cluewsc11",
    ),
    _task(
        "chnsenticorp",
        "text_a",
        None,
        "label",
        ("0", "1"),
        ("accuracy", "auc"),
        id="qid",
    ),
)

XNLI_LANGUAGES = (
    "ar",
    "bg",
    "de",
    "el",
    "en",
    "es",
    "fr",
    "hi",
    "ru",
    "sw",
    "th",
    "tr",
    "ur",
    "vi",
    "zh",
)


def _xnli(language: str) -> Task:
    """XNLI (https://arxiv.org/abs/1809.05053): MultiNLI in translation, one language at a time."""
    train = f"multinli.train.{language}.tsv"
    return _task(
        "xnli-" + language,
        "sentence1",
        "sentence2",
        "gold_label",
        _NLI,
        ("accuracy",),
        id="pairID",
        rows_where={"language": language},
        column_aliases={
            "premise": "sentence1",
            "hypo": "sentence2",
            "label": "gold_label",
        },
        label_names={"contradictory": "contradiction"},
        by_split={
            "train": (train, "multinli/" + train, "XNLI-MT-1.0/multinli/" + train),
            "dev": ("xnli.dev.tsv", "XNLI-1.0/xnli.dev.tsv"),
            "test": ("xnli.test.tsv", "XNLI-1.0/xnli.test.tsv"),
        },
    )


# --- Ranking: tables, or TREC's files (`readers` reads both)

_RANKING = _task(
    "ranking",
    "query",
    "document",
    "grade",
    None,
    TASK_TYPES["ranking"].default_metrics,
    type="ranking",
    id="document_id",
    id_required=True,
    query="query_id",
    form=Form(),
    forms={},
    by_split={
        split: tuple(
            f"{split}.{form}" for form in ("tsv", "csv", "jsonl", "run", "qrels")
        )
        for split in ("train", "dev", "test")
    },
)

# --- Tagging: columns of words and tags; labels and scheme are those of the train file


def _tagging(name: str, tag_column: str, scheme: str, files: Any) -> Task:
    task = _task(
        name,
        "1",
        None,
        tag_column,
        (),
        TASK_TYPES["tagging"].default_metrics,
        type="tagging",
        id=None,
        by_split=files,
        form=Form("conll"),
        forms={},
    )
    return task.with_options(scheme=scheme)


_TAGGING_TASKS = (
    _tagging(
        "conll2003",
        "4",
        "iob1",
        {
            "train": ("eng.train", "train.txt"),
            "dev": ("eng.testa", "valid.txt"),
            "test": ("eng.testb", "test.txt"),
        },
    ),
    _tagging(
        "msra_ner",
        "2",
        "bio2",
        {split: split + ".txt" for split in ("train", "dev", "test")},
    ),
    _tagging(
        "resume_ner",
        "2",
        "bmes",
        {split: split + ".char.bmes" for split in ("train", "dev", "test")},
    ),
)


# --- Questions on paragraphs


def _questions(name: str, scoring: str, files: Any) -> Task:
    spans = TASK_TYPES["spans"]
    columns = Columns(
        ("context",), ("question",), ("answers",), id="id", query="context"
    )
    return Task(
        name,
        columns,
        None,
        spans.default_metrics,
        spans,
        Files(by_split=files, form=Form("json")),
    ).with_options(scoring=scoring)


_QUESTION_TASKS = (
    _questions(
        "squad1", "squad1.1", {"train": "train-v1.1.json", "dev": "dev-v1.1.json"}
    ),
    _questions(
        "squad2", "squad2.0", {"train": "train-v2.0.json", "dev": "dev-v2.0.json"}
    ),
    _questions(
        "cmrc2018",
        "characters",
        {
            split: f"cmrc2018_{split}.json"
            for split in ("train", "dev", "trial", "test")
        },
    ),
)


TASKS = {
    task.name: task
    for task in (
        *_GLUE_TASKS,
        *_OTHER_TASKS,
        *_RACE_TASKS,
        *_CLUE_TASKS,
        *map(_xnli, XNLI_LANGUAGES),
        _RANKING,
        *_TAGGING_TASKS,
        *_QUESTION_TASKS,
    )
}


# --- Own task types

_GROUP = "xlnet.tasks"  # of entry points
_OURS = frozenset(TASK_TYPES)


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
        module = os.path.abspath(
            module
        )  # a relative path is another file after a `chdir`
    own_modules.require_unchanged(module, "own_module")
    return _types_of(module)


@functools.cache  # Python runs a module once in a process, so it registers its parts once
def _types_of(module: str) -> tuple[TaskType, ...]:
    before = [*TASK_TYPES.values(), *TASKS.values()]
    found = own_modules.load(module, "own_module")
    parts = []
    for part in (*TASK_TYPES.values(), *TASKS.values()):
        is_new = all(part is not each for each in before)
        # A module that was imported before may have its parts as variables.
        if is_new or any(part is each for each in vars(found).values()):
            parts.append(part)
    if not parts:
        raise UserError(
            f"own_module: {module} calls xlnet.tasks.register with no task type"
        )
    return tuple(
        part for part in parts if isinstance(part, TaskType) and not is_built_in(part)
    )


def _load_packages() -> None:
    """Imports the entry points of the group, as packages declare them."""
    points: Any = importlib.metadata.entry_points()
    for point in (
        points.select(group=_GROUP)
        if hasattr(points, "select")
        else points.get(_GROUP, ())
    ):  # Python 3.9
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
        raise UserError(
            "{}: of task type {}, which is not installed; import the module that "
            "registers it{}, or give --own_module=FILE.py (there are {})".format(
                path,
                kind,
                " ({})".format(stored["module"]) if stored.get("module") else "",
                ", ".join(TASK_TYPES),
            )
        )
    return TASK_TYPES[kind]


def module_of(its_type: TaskType) -> Optional[str]:
    """The module of an own task type; None: the library's."""
    own = its_type.own_modules
    return own[0] if own else None


# --- Which task


def find_task(name: str) -> Task:
    """The known task of that name; case, hyphens and underscores do not matter. `mnli_matched` and
    `mnli_mismatched` are MNLI with this half of its dev and test files."""
    if not any(canonical_name(name) == canonical_name(each) for each in TASKS):
        _load_packages()
    by_name = {canonical_name(task.name): task for task in TASKS.values()}
    for half in ("matched", "mismatched"):
        by_name["mnli" + half] = GLUE["mnli"].with_files(
            groups={"dev": ("dev_" + half,), "test": ("test_" + half,)}
        )
    if canonical_name(name) not in by_name:
        known = [*TASKS, CUSTOM]
        raise UserError(
            "task_name: unknown task '{}'{} (tasks: {})".format(
                name, did_you_mean(name.lower(), known), ", ".join(known)
            )
        )
    return by_name[canonical_name(name)]


def canonical_name(name: str) -> str:
    """A task's name without case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")
