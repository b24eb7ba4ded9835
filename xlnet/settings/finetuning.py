"""Fine-tuning: tasks, their files, evaluation and prediction."""

import csv
from typing import ClassVar, Optional, Union, cast

from xlnet.settings.data import TextSettings
from xlnet.settings.fields import HelpGroup, Settings, same_as, setting
from xlnet.settings.training import OptimizationSettings, RunSettings
from xlnet.support.errors import wrong

MIN_SEQ_LENGTH = 4  # <sep> <sep> <cls> of a pair of texts, and one token of text
# <sep> <sep> <cls> of a paragraph's window with its question.
QUESTION_SPECIAL_TOKENS = 3

# The column of programs without a setting of it; the cast widens the type for those with one.
_NO_COLUMN = cast(Optional[str], None)


class FormSettings(Settings, help_group=HelpGroup.TEXT):
    """What files are. Nothing is found by their content."""

    input_format: Optional[str] = setting(
        None,
        "form of the files, if it is not that of their extensions (.csv, .tsv, .jsonl, .json, "
        ".parquet); text: a text a line",
        choices=(
            "csv",
            "tsv",
            "jsonl",
            "json",
            "parquet",
            "text",
            "conll",
            "run",
            "qrels",
        ),
    )
    encoding: Optional[str] = setting(
        None,
        "encoding of the files, such as cp1252, gb18030 or utf-16; UTF-8 if not given",
    )
    delimiter: Optional[str] = setting(
        None,
        "character between columns, or tab; if not given, a comma in .csv, a tab in .tsv, else "
        "blanks",
    )
    quoting: Optional[str] = setting(
        None,
        "quotation marks in CSV and TSV. standard: around cells that need them, as spreadsheets "
        "and pandas write; none: they are characters of the text; if not given, standard, and "
        "rows that may not be meant so are an error",
        choices=("standard", "none"),
    )
    header: Optional[str] = setting(
        None,
        "first line of CSV and TSV. names: of the columns; none: a row like the others, and "
        "columns are numbered from 1; names if not given",
        choices=("names", "none"),
    )


class CommandSettings(Settings, help_group=HelpGroup.PREDICTION, belongs_to=None):
    """What one command does, by which files: no run or model keeps it."""

    # What to do: train, evaluate, predict.
    do_train: bool = setting(False, "fine-tune on the train split", HelpGroup.TASK)
    do_eval: bool = setting(False, "evaluate on eval_split", HelpGroup.TASK)
    do_predict: bool = setting(
        False,
        "write predictions for predict_split or predict_file",
        HelpGroup.TASK,
    )
    # What is predicted, and where results go.
    predict_split: str = setting(
        "test",
        "split to predict: test, dev, ...",
    )
    predict_file: Optional[str] = setting(
        None,
        "file to predict instead of predict_split, with or without labels; -: the standard input",
    )
    predict_dir: Optional[str] = setting(
        None,
        "directory for predictions and results; model_dir/results if not given",
    )
    output: Optional[str] = setting(
        None,
        "file for the predictions instead of predict_dir, in a directory that exists, such as .tsv "
        "or .csv; -: the standard output",
    )
    # Files and modules that are read, and those that are made on the way.
    own_module: Optional[str] = setting(
        None,
        "FILE.py, or an installed module, that registers an own task type, which custom files then "
        "have",
        HelpGroup.TASK,
    )
    spiece_model_file: str = setting(
        "",
        "SentencePiece model; if not given, that of model_dir or of init_checkpoint",
        HelpGroup.TEXT,
    )
    output_dir: str = setting(
        "",
        "directory that keeps tokenized records; if not given, model_dir/cache/records",
        HelpGroup.RECORDS,
    )


class TaskSettings(
    FormSettings,
    CommandSettings,
    RunSettings,
    TextSettings,
    help_group=HelpGroup.EVALUATION,
):
    """Settings of fine-tuning on a task of any type: the task, its files, what to do."""

    # The task and its files.
    task_name: str = setting(
        "custom",
        "a known task (sst-2, xnli-de, race, conll2003, squad2, ...; an unknown name lists all); "
        "custom: files of your own",
        HelpGroup.TASK,
        belongs_to="model",
    )
    data_dir: str = setting(
        "",
        "directory of the task's files; custom: train, dev (or validation) and test in any form, "
        "such as train.csv, train.jsonl, eng.train or train-v2.0.json, or one file",
        HelpGroup.TEXT,
    )
    train_file: Optional[str] = setting(
        None,
        "files to train on instead of those in data_dir: comma-separated paths or glob patterns",
        HelpGroup.TEXT,
    )
    dev_file: Optional[str] = setting(
        None, "files to evaluate on instead of those in data_dir", HelpGroup.TEXT
    )
    on_error: str = setting(
        "fail",
        "what to do at rows of the train file that cannot be read: fail, or skip and count them",
        HelpGroup.TEXT,
        choices=("fail", "skip"),
    )
    # None until the number of rows is known (`finetuning.resolve.with_defaults` and `in_steps`).
    train_batch_size: int = same_as(
        RunSettings,
        "train_batch_size",
        default=None,
        help="examples per training step, over all devices; if not given, 8 to 32, by the number "
        "of rows",
    )
    save_steps: int = same_as(
        RunSettings,
        "save_steps",
        default=None,
        help="interval between checkpoints [steps]; if not given, an epoch, at most 1000",
    )
    eval_steps: int = same_as(
        RunSettings,
        "eval_steps",
        default=None,
        help="interval between the evaluations that choose model_dir/best [steps]; if not given, "
        "an epoch; 0: none",
    )
    log_steps: int = same_as(
        RunSettings,
        "log_steps",
        default=None,
        help="interval between log lines [steps]; if not given, a twentieth of the training, at "
        "most 50",
    )
    max_save: int = same_as(RunSettings, "max_save", default=2)
    # What training is evaluated on, and how its best checkpoint is chosen.
    dev_share: Optional[float] = setting(
        None,
        "fraction of the training examples held out where there is no dev file; if not given, 0.1 "
        "for custom, and 0.05 for known sets that have no dev file or with train_file alone; "
        "0: none",
        HelpGroup.TEXT,
        minimum=0.0,
        below=1.0,
    )
    eval_split: str = setting(
        "dev", "split to evaluate on: dev, test, train, dev_matched, ..."
    )
    metric: Optional[str] = setting(
        None,
        "metrics besides those of the task, comma-separated; the first chooses the best "
        "checkpoint. A name, or FILE.py:FUNCTION, with :min if lower is better; if not given, the "
        "task's first metric chooses",
        belongs_to="model",
    )
    patience: int = setting(
        0,
        "evaluations without improvement until training stops (early stopping); 0: never",
        minimum=0,
    )

    # From text to batches.
    max_seq_length: int = setting(
        128,
        "length of an example with its special tokens [tokens]",
        HelpGroup.LENGTH,
        minimum=MIN_SEQ_LENGTH,
        belongs_to="model",
    )
    eval_batch_size: int = setting(
        32,
        "examples per batch and device in evaluation and prediction",
        minimum=1,
        belongs_to=None,
    )
    epochs: Optional[float] = setting(
        None,
        "length of training in epochs instead of train_steps; if neither is given, 3 to 20, by the "
        "number of rows",
        HelpGroup.STEPS,
        above=0.0,
        instead_of="train_steps",
    )
    # Against overfitting, of which small files have much.
    freeze_layers: int = setting(
        0,
        "freeze the embeddings, the biases of attention, and this many of the lowest layers; 0: "
        "none",
        HelpGroup.REGULARIZATION,
        minimum=0,
    )
    class_weights: Optional[str] = setting(
        None,
        "weights of the labels in the loss. balanced: rare labels weigh more; all 1 if not given",
        HelpGroup.REGULARIZATION,
        choices=("balanced",),
    )
    label_smoothing: float = setting(
        0.0,
        "probability spread evenly over all labels; 0: off",
        HelpGroup.REGULARIZATION,
        minimum=0.0,
        maximum=1.0,
    )
    cls_scope: Optional[str] = setting(
        None,
        "name of the output layer; that of the task if not given",
        HelpGroup.ORIGINAL,
        belongs_to="model",
    )

    # Attributes of the class, not fields: they have no annotation, or ClassVar. A program that has
    # a setting of the name declares it; for the others this is the value.
    program = ""
    summary_type, use_summ_proj = "last", True
    predict_threshold = cast(Optional[float], None)
    is_regression = multi_label = False
    text_b_column = label_form = choice_columns = _NO_COLUMN
    query_id_column = id_column = _NO_COLUMN
    # Whether a file without the column that `id_column` names is refused.
    requires_id = True
    # Settings that only do_predict uses: without it they are an error.
    for_prediction_only: ClassVar[tuple[str, ...]] = ("output", "predict_file")

    def check(self) -> None:
        super().check()
        if not self.does_run:
            raise wrong(
                "flags", "nothing to do", "--do_train, --do_eval or --do_predict"
            )
        for name in self.for_prediction_only:
            if getattr(self, name) and not self.do_predict:
                raise wrong(name, "no do_predict", "it, too", "--do_predict")
        if self.patience and self.eval_steps == 0:
            raise wrong("patience", "no --eval_steps", "evaluations while training")

    @property
    def does_run(self) -> bool:
        """Whether there is something to do."""
        return self.do_train or self.do_eval or self.do_predict

    @property
    def threshold(self) -> float:
        """`predict_threshold`, a probability; 0.5 if it is not given."""
        return 0.5 if self.predict_threshold is None else self.predict_threshold

    @property
    def named_files(self) -> dict[str, str]:
        """The files that flags name instead of those in `data_dir`: comma-separated paths or glob
        patterns by split, "train" or "dev"."""
        named = {"train": self.train_file, "dev": self.dev_file}
        return {split: paths for split, paths in named.items() if paths}

    @property
    def needs_data_dir(self) -> bool:
        """Whether a split is read whose files no other flag names, and which is not held out."""
        needed = set()
        if self.do_train:
            needed.add("train")
        if self.do_eval:
            needed.add(self.eval_split)
        if self.do_predict and not self.predict_file:
            needed.add(self.predict_split)
        available = {*self.named_files}
        if self.train_file:  # a fraction of its examples is held out as "dev"
            available.add("dev")
        return bool(needed - available)


class TaskOptimizationSettings(OptimizationSettings):
    """Learning rate, optimizer and clipping of fine-tuning. A value of None is replaced by one that
    follows from the network and the number of examples (`finetuning.resolve.with_defaults`)."""

    learning_rate: float = same_as(
        OptimizationSettings,
        "learning_rate",
        default=None,
        help="peak learning rate; if not given, by the width of the network and whether its "
        "weights are pretrained",
    )
    train_steps: int = same_as(OptimizationSettings, "train_steps", default=None)
    warmup_steps: int = same_as(
        OptimizationSettings,
        "warmup_steps",
        default=None,
        help="length of the warm-up of the learning rate [steps]; 0: none; if not given, a tenth "
        "of the training",
    )


class ClassifierSettings(
    TaskSettings, help_group=HelpGroup.COLUMNS, belongs_to="model"
):
    """xlnet classify: the task, its files, what to do."""

    # The columns of own files; the labels say which task type it is.
    text_a_column: str = setting(
        "text_a",
        'custom: column of the text; a,b joins two columns, "a, b" is one name',
    )
    text_b_column: Optional[str] = setting(None, "custom: column of the second text")
    label_column: str = setting(
        "label",
        "custom: column of the label; with multi_label also a column of 0 and 1 per label",
    )
    id_column: Optional[str] = setting(
        None,
        "custom: column of an example's name; row number if not given",
    )
    choice_columns: Optional[str] = setting(
        None,
        "custom: columns of the choices, of which one is right, or one column of lists of them "
        "in JSON or Parquet",
    )
    is_regression: bool = setting(
        False, "custom: labels are numbers; compared with known tasks", HelpGroup.TASK
    )
    multi_label: bool = setting(False, "custom: an example has any number of labels")
    label_form: Optional[str] = setting(
        None,
        "custom: how a cell has its labels. multi_label: names with commas between, or json, a "
        "list as text. choice_columns: letters from A (if not given), numbers from 1, or indices "
        "from 0",
        choices=("json", "letters", "numbers", "indices"),
    )
    # Several labels, and rankings.
    query_id_column: Optional[str] = setting(
        None,
        "custom: column of a query's name; makes a ranking: text_a is the query, text_b and id the "
        "document, label its relevance",
    )

    input_format: Optional[str] = same_as(
        TaskSettings,
        "input_format",
        help="form of the files, if it is not that of their extensions (.csv, .tsv, .jsonl, "
        ".json, .parquet). text: a text on each line, tabs between a pair; run, qrels: TREC's",
        choices=("csv", "tsv", "jsonl", "json", "parquet", "text", "run", "qrels"),
    )

    # Prediction.
    predict_threshold: Optional[float] = setting(
        None,
        "minimum probability of the second of two labels, or of each label with multi_label; if "
        "not given, 0.5, and with multi_label the one that training chooses on eval_split",
        HelpGroup.PREDICTION,
        minimum=0.0,
        maximum=1.0,
    )

    # The output layer.
    summary_type: str = setting(
        "last",
        "how a text is pooled to one vector",
        HelpGroup.HEAD,
        choices=("last", "first", "mean", "attn"),
    )
    use_summ_proj: bool = setting(
        True, "apply a dense tanh layer to the summary", HelpGroup.ORIGINAL
    )

    program = "xlnet classify"


class TaggerSettings(TaskSettings, help_group=HelpGroup.COLUMNS, belongs_to="model"):
    """xlnet tag: the task, its files, what to do."""

    # The columns, by other defaults than those of tables of texts.
    text_a_column: str = setting(
        "1",
        "custom: column of the words, by number from 1 or by name; in JSON the key of the text or "
        "the tokens (a number: text)",
    )
    label_column: Optional[str] = setting(
        None,
        "custom: column of the tags, by number or name; in JSON the key of the entities or the "
        "tags; if not given, the last column, the key entities of a text, the key tags of tokens",
    )
    scheme: Optional[str] = setting(
        None,
        "tagging scheme of predictions, whichever the files have; plain: labels without prefixes, "
        "such as parts of speech; if not given, that of a known task, or bio2",
        HelpGroup.TEXT,
        choices=("bio2", "bioes", "bmes", "plain"),
    )
    input_format: Optional[str] = same_as(
        TaskSettings,
        "input_format",
        help="form of the files. conll: a word a line with its columns (if not given, of any "
        "extension but those of the others); jsonl, json, parquet: texts with entities, or tokens "
        "with tags; text: a sentence a line, without tags",
        choices=("conll", "jsonl", "json", "parquet", "text"),
    )
    program = "xlnet tag"


class SpanSettings(TaskSettings, help_group=HelpGroup.COLUMNS, belongs_to="model"):
    """xlnet squad: questions, what to do with them."""

    predict_file: Optional[str] = same_as(
        TaskSettings,
        "predict_file",
        help="file to predict; without dev_file, do_eval and eval_steps evaluate on it, too",
    )
    do_prepro: bool = setting(
        False,
        "alone: does nothing, as a training makes its records",
        HelpGroup.ORIGINAL,
        belongs_to=None,
    )
    model_dir: str = same_as(TaskSettings, "model_dir", default="")
    # The columns of tables.
    text_a_column: str = setting(
        "context", "tables: column of the text with the answer"
    )
    text_b_column: str = setting("question", "tables: column of the question")
    label_column: str = setting(
        "answer",
        "tables: column of the answer, empty where there is none; in JSON lines a text or a list "
        "of texts; answer,start: with that of its offset in the context [characters]. Without, "
        "answers that occur once are found",
    )
    id_column: str = setting(
        "id", "tables: column of the question's name; row number without it"
    )

    max_seq_length: int = same_as(
        TaskSettings,
        "max_seq_length",
        default=512,
        help="length of a window with its question and special tokens [tokens]",
    )
    # A paragraph is cut into windows, each with the complete question.
    doc_stride: int = setting(
        128,
        "stride between the windows of a long paragraph [tokens]",
        HelpGroup.LENGTH,
        minimum=1,
    )
    max_query_length: int = setting(
        64, "maximum length of a question [tokens]", HelpGroup.LENGTH, minimum=1
    )
    # Which answers are considered: a beam of starts, for each a beam of ends.
    max_answer_length: int = setting(
        64, "maximum length of an answer [tokens]", HelpGroup.PREDICTION, minimum=1
    )
    start_n_top: int = setting(
        5,
        "beam size of the start of an answer, at most 8",
        HelpGroup.PREDICTION,
        minimum=1,
        maximum=8,  # the fewest tokens of a batch
    )
    end_n_top: int = setting(
        5,
        "beam size of the end for each start, at most 8",
        HelpGroup.PREDICTION,
        minimum=1,
        maximum=8,
    )
    n_best_size: int = setting(
        5,
        "answers written for each question",
        HelpGroup.PREDICTION,
        minimum=1,
        belongs_to=None,
    )
    predict_threshold: float = same_as(
        ClassifierSettings,
        "predict_threshold",
        default=0.5,
        help="probability of no answer above which none is given",
    )
    input_format: Optional[str] = same_as(
        TaskSettings,
        "input_format",
        help="form of the files, if it is not that of their extensions",
        choices=("json", "jsonl", "tsv", "csv", "parquet"),
    )

    program = "xlnet squad"
    requires_id = False
    for_prediction_only = ("output",)  # predict_file is evaluated, too

    @property
    def query_id_column(self) -> str:  # type: ignore[override]
        """The column of the paragraph: rows with an equal one are held out together, as the rows of
        a query are in a ranking."""
        return names_in(self.text_a_column)[0]

    @property
    def evaluates_predict_file(self) -> bool:
        """Whether `predict_file` is the `dev_file`, too, as in the original program."""
        reads_dev_file = self.do_eval or self.do_train
        is_file = self.predict_file not in (None, "-")  # "-" is the standard input
        return reads_dev_file and is_file and not self.dev_file

    def check(self) -> None:
        if self.do_prepro and not self.does_run:
            return
        super().check()
        if not self.model_dir:
            raise wrong("model_dir", "none", "it, unless --do_prepro is alone")
        # `room` is for the paragraph [tokens]. A longer stride than that would skip parts of it.
        room = self.max_seq_length - self.max_query_length - QUESTION_SPECIAL_TOKENS
        if room < 1:
            expected = f"less: {QUESTION_SPECIAL_TOKENS} special tokens and the paragraph must fit"
            raise wrong("max_query_length", self.max_query_length, expected)
        if self.doc_stride > room:
            expected = f"at most max_seq_length - max_query_length - 3 = {room}"
            raise wrong("doc_stride", self.doc_stride, expected)


def names_in(flag: Optional[str]) -> tuple[str, ...]:
    """The names of columns in the value of a flag, which is one row of CSV: commas separate names,
    and a name that has a comma or a line break is in quotation marks. () if the flag is None."""
    rows = csv.reader([flag or ""], skipinitialspace=True)
    try:
        names = next(rows)
    except csv.Error:
        expected = "quotation marks around a name of several lines"
        raise wrong("columns", repr(flag), expected) from None
    return tuple(name.strip() for name in names if name.strip())


# The settings of any fine-tuning program.
FineTuningSettings = Union[ClassifierSettings, TaggerSettings, SpanSettings]
