"""Fine-tuning: tasks, their files, evaluation and prediction."""

import dataclasses
import math
from typing import Optional, Union

from xlnet.errors import UserError
from xlnet.settings.data import InputSettings, TextSettings
from xlnet.settings.fields import Need, Settings, as_in, of_model, setting, share
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import RunSettings

QUESTION_SPECIAL_TOKENS = 3     # <sep> <sep> <cls> of a paragraph's window with its question


@dataclasses.dataclass(frozen=True)
class TaskSettings(RunSettings, TextSettings, need=Need.EVALUATION):
    """What fine-tuning on a task of any kind has: the task, what to do."""
    task_name: str = of_model("", "a known task (cola, sst-2, ..., imdb, race, tnews, xnli-de, "
                              "...; an unknown name lists them all) or custom for your own files",
                              need=Need.TASK, resume="any")
    data_dir: str = setting("", "directory with the task's files; custom: train, dev (or "
                            "validation) and test as .tsv, .csv, .json, .jsonl or .parquet, or one "
                            "file", need=Need.TEXT)
    train_file: Optional[str] = setting(None, "files to train on, in place of those in data_dir: "
                                        "paths or glob patterns with commas between, read as one "
                                        "file", need=Need.TEXT)
    dev_file: Optional[str] = setting(None, "files to evaluate on while training and with do_eval, "
                                      "in the same way", aliases=("validation_file", "eval_file"),
                                      need=Need.TEXT, resume="evaluation")
    test_file: Optional[str] = setting(None, "files that split test is read from, in the same way",
                                       need=Need.TEXT, resume="any")
    output_dir: str = setting("", "directory for tokenized records; without it those of evaluation "
                              "and prediction are dropped at the end", need=Need.RECORDS,
                              resume="any")
    spiece_model_file: str = as_in(RunSettings, "spiece_model_file", default="",
                                   help="SentencePiece model; that of model_dir, or beside "
                                   "init_checkpoint, if not given")
    model_config_path: str = as_in(RunSettings, "model_config_path", default="",
                                   help="JSON with the architecture, or tiny, base or large; that "
                                   "of model_dir, or beside init_checkpoint, if not given")
    # None until the rows of an epoch are known (`finetuning.lengths.in_steps`).
    save_steps: int = as_in(RunSettings, "save_steps", default=None,
                            help="steps between checkpoints; if not given once an epoch, or every "
                            "1000 steps where that is more often")
    eval_steps: int = as_in(RunSettings, "eval_steps", default=None, help="training steps between "
                            "evaluations that choose model_dir/best; 0: none; if not given once an "
                            "epoch")
    max_save: int = as_in(RunSettings, "max_save", default=3)
    do_train: bool = setting(False, "fine-tune on the train file", need=Need.TASK, resume="any")
    do_eval: bool = as_in(PretrainingSettings, "do_eval", help="evaluate on eval_split")
    do_predict: bool = setting(False, "write predictions for predict_split or predict_file",
                               need=Need.TASK, resume="any")

    dev_share: Optional[float] = setting(None, "share of the training rows held out as dev where "
                                         "there is no dev file, 0: none; 0.05 for known tasks and "
                                         "0.1 for custom if not given", minimum=0.0, below=1.0,
                                         need=Need.TEXT)
    eval_split: str = setting("dev", "file evaluated: dev, test, train (mnli: dev_matched, ...)",
                              resume="evaluation")
    eval_all_ckpt: bool = setting(False, "evaluate every checkpoint in model_dir, not one",
                                  resume="any")
    metric: Optional[str] = of_model(None, "metric that chooses the best; the task's first if not "
                                     "given", resume="evaluation")
    patience: int = setting(0, "evaluations without a better one after which training stops; 0: "
                            "never", minimum=0, resume="any")
    num_trials: int = setting(1, "runs with seed, seed + 1, ...; the best one is kept", minimum=1,
                              resume="any")
    learning_rates: Optional[str] = setting(None, "the trials' learning rates in turn: 2e-5,3e-5",
                                            resume="any")
    predict_split: str = setting("test", "file predicted: test, dev, ...", need=Need.PREDICTION,
                                 resume="any")
    predict_file: Optional[str] = setting(None, "any file to be predicted in place of "
                                          "predict_split, labelled or not; - is the standard input",
                                          aliases=("input",), need=Need.PREDICTION, resume="any")
    predict_dir: Optional[str] = setting(None, "directory for predictions; model_dir if not given",
                                         need=Need.PREDICTION, resume="any")
    predict_output: Optional[str] = setting(
        None, "file for the predictions alone, in place of predict_dir; - is the standard output",
        aliases=("output",), is_result=True, need=Need.PREDICTION, resume="any")

    max_seq_length: int = of_model(128, "tokens of an example, special ones included",
                                   need=Need.LENGTH)
    padding: str = setting("longest", "batches as long as their longest example, or all of them "
                           "max_seq_length for XLA and TPUs", choices=("longest", "fixed"),
                           need=Need.LENGTH, resume="any")
    encoding: Optional[str] = as_in(InputSettings, "encoding", help="of the files' text (cp1252, "
                                    "gb18030, ...); if not given UTF-16 where a file shows it, or "
                                    "UTF-8")
    overwrite_data: bool = setting(False, "tokenize again even if the records fit",
                                   need=Need.ORIGINAL, resume="any")

    eval_batch_size: int = setting(32, "examples that a device evaluates or predicts together; a "
                                   "CPU answers them as two halves side by side", minimum=1,
                                   resume="any")
    epochs: Optional[float] = setting(None, "train_steps in passes over the training rows; 3 if "
                                      "neither is given", above=0.0, instead_of="train_steps",
                                      need=Need.STEPS, resume="any")
    freeze_layers: int = setting(0, "freeze the embeddings and this many of the lowest layers; 0: "
                                 "none", minimum=0, need=Need.REGULARIZATION)
    class_weights: Optional[str] = setting(None, "weights of the labels in the loss: balanced, or "
                                           "label:weight,...", need=Need.REGULARIZATION)
    label_smoothing: float = share(0.0, "probability spread evenly over all labels",
                                   need=Need.REGULARIZATION)
    cls_scope: Optional[str] = of_model(None, "name of the output layer; the task's if not given",
                                        need=Need.MODEL)

    # Not fields, so no flags: what holds in programs that have no setting of the name.
    program = ""
    long_document, max_segments = "split", 1
    summary_type, use_summ_proj = "last", True
    predict_threshold, is_regression = 0.5, False

    def check(self) -> None:
        super().check()
        if not (self.do_train or self.do_eval or self.do_predict):
            raise UserError("nothing to do: give --do_train=True, --do_eval=True or "
                            "--do_predict=True")
        if self.eval_steps == 0:
            self.check_without_evaluations("--eval_steps")
        if self.trial_rates() and self.do_train and self.num_trials == 1:
            raise UserError("learning_rates is for several trials; give --num_trials=2 or more, or "
                            "one rate as --learning_rate")

    def check_without_evaluations(self, needed: str) -> None:
        """Raises UserError where something looks at evaluations while training, of which there are
        none; needed: what they need, in words."""
        if self.patience or self.num_trials > 1:
            raise UserError("%s needs %s: it looks at evaluations while training"
                            % ("patience" if self.patience else "num_trials", needed))

    def trial_rates(self) -> list[float]:
        """`learning_rates` as numbers, none where they are not given.

        Raises:
          UserError: they are not finite numbers above 0.
        """
        if not self.learning_rates:
            return []
        try:
            rates = [float(rate) for rate in self.learning_rates.split(",") if rate.strip()]
        except ValueError:
            rates = [math.nan]
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise UserError("learning_rates: '%s', expected finite numbers above 0 with commas "
                            "between" % self.learning_rates)
        return rates

    @property
    def named_files(self) -> dict[str, str]:
        """The files that flags name in place of those in `data_dir`, by split."""
        named = {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}
        return {split: paths for split, paths in named.items() if paths}

    @property
    def needs_data_dir(self) -> bool:
        """Whether files are read that only `data_dir` can say."""
        needed = {*(["train"] if self.do_train else ()),
                  *([self.eval_split] if self.do_eval else ()),
                  *([self.predict_split] if self.do_predict and not self.predict_file else ())}
        held_out = {"dev"} if self.do_train and self.train_file else set()
        return not needed <= {*self.named_files, *held_out}


@dataclasses.dataclass(frozen=True)
class ClassifierSettings(TaskSettings, need=Need.COLUMNS):
    """run_classifier.py: the task, its files, what to do."""
    text_a_column: str = of_model("text_a", "custom: column of the text; a,b joins two")
    text_b_column: Optional[str] = of_model(None, "custom: column of the second text")
    label_column: str = of_model("label", "custom: column of the label; multi_label: or a column "
                                 "of 0 and 1 for each label")
    id_column: Optional[str] = of_model(None, "custom: column of the row's name; row number if not "
                                        "given")
    choice_columns: Optional[str] = of_model(None, "custom: columns of the answers of which one is "
                                             "right, or one column of JSON lines that lists them")
    is_regression: bool = of_model(False, "checked against the task; custom: labels are numbers",
                                   need=Need.TASK)
    multi_label: bool = of_model(False, "custom: a row has any number of labels")
    label_separator: str = of_model(",", "custom: between the labels in a multi_label cell")
    label_thresholds: Optional[str] = of_model(
        None, "multi_label: least probability of single labels, in place of predict_threshold: "
        "label:0.3,other:0.6", need=Need.PREDICTION, resume="evaluation")
    query_id_column: Optional[str] = of_model(None, "custom: column of a query's name; makes the "
                                              "task a ranking: text_a is the query, text_b and id "
                                              "the document, label its grade")
    ranking_loss: str = setting("pairwise", "ranking: trained on pairs of a query's documents, the "
                                "logistic loss on the difference of their scores; or on each "
                                "document, the squared error of its grade",
                                choices=("pairwise", "pointwise"), need=Need.HEAD)
    highest_grade: int = of_model(0, "ranking: grade of a perfect document, for ERR; 0: the "
                                  "highest one of the file", minimum=0, need=Need.EVALUATION,
                                  resume="evaluation")
    delimiter: Optional[str] = setting(None, "between the columns of .csv, .tsv and .txt files: a "
                                       "character, or tab; found by the columns' names if not "
                                       "given", need=Need.TEXT)

    predict_form: Optional[str] = setting(
        None, "form of predict_file; from its extension if not given. text: a text on each line, "
        "tabs between a pair; run, qrels: TREC's",
        choices=("tsv", "csv", "json", "jsonl", "text", "run", "qrels"), need=Need.PREDICTION,
        resume="any")
    on_error: str = as_in(InputSettings, "on_error", help="rows that cannot be read: fail, or skip "
                          "and count them; in predictions of a table each has an empty answer in "
                          "its place")
    predict_threshold: float = of_model(0.5, "least probability for the second of two labels, or "
                                        "for each one of multi_label", minimum=0.0, maximum=1.0,
                                        need=Need.PREDICTION, resume="evaluation")

    long_document: str = of_model(
        "truncate", "texts that do not fit: lose the end, lose the middle, become several windows "
        "whose answers are averaged, or go through the network in segments of max_seq_length, each "
        "remembering the one before", choices=("truncate", "head_tail", "sliding", "memory"),
        need=Need.LENGTH)
    max_segments: int = of_model(8, "long_document=memory: segments of a text, the rest is cut off",
                                 minimum=1, need=Need.LENGTH)

    summary_type: str = of_model("last", "how a text becomes one vector",
                                 choices=("last", "first", "mean", "attn"), need=Need.HEAD)
    use_summ_proj: bool = of_model(True, "dense tanh layer over the summary", need=Need.ORIGINAL)

    program = "run_classifier.py"


@dataclasses.dataclass(frozen=True)
class TaggerSettings(TaskSettings, need=Need.COLUMNS):
    """run_tagger.py: the task, its files, what to do."""
    task_name: str = as_in(TaskSettings, "task_name", help="a known task (conll2003, msra_ner, "
                           "resume_ner) or custom for your own files")
    data_dir: str = as_in(TaskSettings, "data_dir", help="directory with the task's files; custom: "
                          "train, dev and test as train.txt or eng.train and the like, or .jsonl, "
                          "or one file to train on")
    word_column: str = of_model("1", "custom: column of the words, its number from 1 on or its "
                                "name in the first line; in JSON the key of the text (text) or the "
                                "tokens (tokens)")
    tag_column: Optional[str] = of_model(None, "custom: column of the tags in the same way, the "
                                         "last one if not given; in JSON the key of the entities "
                                         "(entities, spans, label) or the tags (ner_tags, tags)")
    scheme: str = of_model(
        "auto", "how tags say where entities begin and end: as the train file does, which then is "
        "refused where its schemes are mixed; or given, so that illegal tags are repaired",
        choices=("auto", "iob1", "bio2", "bmes", "bioes", "bilou"), need=Need.TEXT)
    tagged_pieces: str = setting("first", "pieces of a word that are trained to tell its tag; the "
                                 "first one tells it", choices=("first", "all"), need=Need.HEAD)
    on_error: str = as_in(ClassifierSettings, "on_error")
    delimiter: Optional[str] = as_in(ClassifierSettings, "delimiter", help="between the columns of "
                                     "a line: a character, or tab; if not given tabs where there "
                                     "are some, or spaces")
    predict_form: Optional[str] = as_in(ClassifierSettings, "predict_form",
                                        help="form of predict_file: columns, JSON, or raw text, a "
                                        "sentence a line; if not given recognized by its content",
                                        choices=("conll", "jsonl", "text"))

    program = "run_tagger.py"


@dataclasses.dataclass(frozen=True)
class SpanSettings(TaskSettings, need=Need.COLUMNS):
    """run_squad.py: questions, what to do with them."""
    task_name: str = as_in(TaskSettings, "task_name", default="custom", help="a known task "
                           "(squad1, squad2, cmrc2018), whose files are in data_dir, or custom for "
                           "your own files")
    data_dir: str = as_in(TaskSettings, "data_dir", default="", help="directory with the task's "
                          "files; custom: train, dev and test as SQuAD's .json, or as .tsv, .csv "
                          "or .jsonl with a question in each row; or one file to train on")
    predict_file: Optional[str] = as_in(TaskSettings, "predict_file", help="the file to be "
                                        "predicted, with or without answers; with answers do_eval "
                                        "and eval_steps look at it too")
    do_prepro: bool = setting(False, "make the records of the files, as training and evaluation do "
                              "by themselves", need=Need.TASK, resume="any")
    model_dir: str = as_in(TaskSettings, "model_dir", default="")
    context_column: str = of_model("context", "tables: column of the text with the answer")
    question_column: str = of_model("question", "tables: column of the question")
    answer_column: str = of_model("answer", "tables: column of the answer, empty where there is "
                                  "none; in JSON lines a text or a list of them")
    answer_start_column: Optional[str] = of_model(
        None, "tables: column of the answer's first character in the context, from 0 on; if not "
        "given answers are searched for, which stand there once")
    id_column: str = as_in(ClassifierSettings, "id_column", default="id", help="tables: column of "
                           "the question's name; row number without it")
    on_error: str = as_in(ClassifierSettings, "on_error")
    delimiter: Optional[str] = as_in(ClassifierSettings, "delimiter")

    max_seq_length: int = as_in(TaskSettings, "max_seq_length", default=512,
                                help="tokens of a window, question and special ones included")
    doc_stride: int = of_model(128, "tokens from one window of a long paragraph to the next",
                               minimum=1, need=Need.LENGTH)
    max_query_length: int = of_model(64, "tokens of a question that are kept", minimum=1,
                                     need=Need.LENGTH)
    long_document: str = as_in(ClassifierSettings, "long_document", default="sliding",
                               choices=("sliding", "memory"), help="windows of a long paragraph: "
                               "each by itself, or with memories of the text before it, which is "
                               "read together with the question")
    max_segments: int = as_in(ClassifierSettings, "max_segments", default=2,
                              help="long_document=memory: segments of max_seq_length that are read "
                              "for a window, itself included")
    max_answer_length: int = of_model(64, "tokens of the longest answer", minimum=1,
                                      need=Need.PREDICTION)
    start_n_top: int = of_model(5, "beginnings of an answer that are looked at", minimum=1,
                                need=Need.PREDICTION)
    end_n_top: int = of_model(5, "ends that are looked at for each of them", minimum=1,
                              need=Need.PREDICTION)
    n_best_size: int = setting(5, "answers that are written of each question", minimum=1,
                               need=Need.PREDICTION, resume="any")
    span_head: str = of_model("joint", "output layer: joint looks for the end beside each start "
                              "and judges whether there is an answer, as in the authors' code; "
                              "separate finds both by themselves, as Hugging Face's simple form",
                              choices=("joint", "separate"), need=Need.HEAD)
    scoring: Optional[str] = of_model(
        None, "how answers are compared: words as SQuAD's script of that version, or characters as "
        "CMRC's, for languages without spaces; if not given 2.0 where some questions have no "
        "answer, else 1.1", choices=("squad1.1", "squad2.0", "characters"), need=Need.EVALUATION)
    predict_threshold: float = as_in(ClassifierSettings, "predict_threshold", help="probability "
                                     "that there is no answer above which none is given")
    predict_form: Optional[str] = as_in(ClassifierSettings, "predict_form",
                                        help="form of predict_file; from its extension if not "
                                        "given", choices=("json", "jsonl", "tsv", "csv"))

    program = "run_squad.py"

    @property
    def named_file(self) -> Optional[str]:
        """`predict_file` where it is a file, which can be read more than once."""
        return None if self.predict_file == "-" else self.predict_file

    @property
    def needs_data_dir(self) -> bool:
        """As in other programs; but `predict_file` alone can be evaluated too."""
        return self.do_train and not self.train_file \
            or not self.named_file and super().needs_data_dir

    @property
    def does_run(self) -> bool:
        """Whether more is asked for than records."""
        return self.do_train or self.do_eval or self.do_predict

    def check(self) -> None:
        if self.does_run or not self.do_prepro:
            super().check()
            if not self.model_dir:
                raise UserError("model_dir is missing; only --do_prepro=True does without it")
        else:
            Settings.check(self)
        to_predict = self.predict_file if self.does_run else self.named_file
        if not (self.data_dir or self.named_files or to_predict):
            raise UserError("no questions: give data_dir, or train_file and predict_file")
        room = self.max_seq_length - self.max_query_length - QUESTION_SPECIAL_TOKENS
        if room < 1:
            raise UserError("max_query_length is %d: with %d special tokens it leaves nothing of "
                            "max_seq_length %d for the paragraph" % (
                                self.max_query_length, QUESTION_SPECIAL_TOKENS,
                                self.max_seq_length))
        if self.doc_stride > room:
            raise UserError("doc_stride is %d, expected at most max_seq_length - max_query_length "
                            "- 3 = %d: windows would leave out parts of a paragraph"
                            % (self.doc_stride, room))


# The settings of any program that fine-tunes.
FineTuningSettings = Union[ClassifierSettings, TaggerSettings, SpanSettings]
