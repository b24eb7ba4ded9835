"""Every setting, once: name, type, default, meaning. Flags and JSON keys are derived from here.

Two lifetimes: `XLNetConfig` is the architecture and travels with the checkpoint as
`xlnet_config.json`; everything else says how to run and does not.
"""

import dataclasses
import typing
from typing import Optional

from xlnet import files
from xlnet.errors import UserError, did_you_mean


def setting(default, help, choices=None, minimum=None):
    """A dataclass field with its meaning [unit], the allowed names, the minimum."""
    return dataclasses.field(default=default, metadata={
        "help": help, "choices": choices, "minimum": minimum})


def required(help):
    """A dataclass field that has no default."""
    return dataclasses.field(metadata={"help": help, "choices": None, "minimum": None})


def as_in(settings, name):
    """The setting `name` of another dataclass, word for word."""
    field = settings.__dataclass_fields__[name]
    return dataclasses.field(default=field.default, metadata=field.metadata)


def setting_type(field):
    """The plain Python type of a field: `Optional[int]` is int."""
    arguments = [a for a in typing.get_args(field.type) if a is not type(None)]
    return arguments[0] if arguments else field.type


@dataclasses.dataclass(frozen=True)
class Architecture:
    """The shape of the network (paper, appendix A.4). Equal for all uses of a checkpoint."""
    n_layer: int = required("number of layers")
    d_model: int = required("width of the hidden states")
    n_head: int = required("number of attention heads")
    d_head: int = required("width of one attention head")
    d_inner: int = required("width inside the feed-forward layer")
    ff_activation: str = dataclasses.field(metadata={
        "help": "activation of the feed-forward layer", "choices": ("relu", "gelu")})
    untie_r: bool = required("each layer has its own r_w, r_r and r_s biases")
    n_token: int = required("vocabulary size")


CONFIG_NAME = "xlnet_config.json"   # the architecture's file beside a checkpoint
ARCHITECTURE_KEYS = tuple(field.name for field in dataclasses.fields(Architecture))


class XLNetConfig:
    """The architecture of an XLNet, as attributes `n_layer d_model n_head d_head d_inner
    ff_activation untie_r n_token`.

    Made from flags (`FLAGS`, any object with these attributes), from a released
    `xlnet_config.json` (`json_path`), or by keyword; from exactly one of the three.

    Raises:
      UserError: an unknown, missing or wrongly typed value, named with the nearest match.
    """

    def __init__(self, FLAGS=None, json_path=None, **values):
        if (FLAGS is not None) + (json_path is not None) + bool(values) != 1:
            raise UserError("XLNetConfig: give FLAGS, json_path or keywords, exactly one of them")
        source = "XLNetConfig"
        if FLAGS is not None:
            values = {key: getattr(FLAGS, key) for key in ARCHITECTURE_KEYS}
        elif json_path is not None:
            source = "model config %s" % json_path
            values = files.read_json(json_path, "model config")
        self.__dict__.update(_checked_architecture(values, source))

    def to_dict(self):
        return {key: getattr(self, key) for key in ARCHITECTURE_KEYS}

    def to_json(self, path):
        """Writes the architecture as JSON to `path`."""
        files.write_json(path, dict(sorted(self.to_dict().items())))

    def __eq__(self, other):
        return isinstance(other, XLNetConfig) and self.to_dict() == other.to_dict()

    def __repr__(self):
        return "XLNetConfig(%s)" % ", ".join("%s=%r" % item for item in self.to_dict().items())


def _checked_architecture(values, source):
    for key in values:
        if key not in ARCHITECTURE_KEYS:
            raise UserError("%s: unknown key '%s'%s" % (
                source, key, did_you_mean(key, ARCHITECTURE_KEYS)))
    missing = [key for key in ARCHITECTURE_KEYS if values.get(key) is None]
    if missing:
        raise UserError("%s: missing %s" % (source, ", ".join(missing)))
    for field in dataclasses.fields(Architecture):
        check_value(field, values[field.name], source)
        if field.type is int and values[field.name] < 1:
            raise UserError("%s: %s is %d, expected at least 1" % (
                source, field.name, values[field.name]))
    if values["d_model"] % 2:
        raise UserError("%s: d_model is %d, expected an even number (sine and cosine halves)"
                        % (source, values["d_model"]))
    return values


def check_value(field, value, source):
    """Raises UserError unless `value` has the type, and is one of the choices, of `field`."""
    kind = setting_type(field)
    fits = type(value) in ((int, float) if kind is float else (kind,))
    if not fits:
        raise UserError("%s: %s is %r, expected %s" % (source, field.name, value, kind.__name__))
    choices = field.metadata["choices"]
    if choices and value not in choices:
        raise UserError("%s: %s is %r, expected one of %s%s" % (
            source, field.name, value, ", ".join(choices), did_you_mean(str(value), choices)))


PRECISIONS = ("fp32", "bf16", "fp16")
POSITION_DROPOUTS = ("none", "row", "batch")


class RunConfig:
    """How the network is run: dropout, initialization, memory. Not part of a checkpoint.

    Args:
      is_training: whether dropout is applied.
      use_tpu: kept for the documented API; devices are chosen by the strategy.
      use_bfloat16: the documented name of precision="bf16".
      dropout: rate for hidden states. dropatt: rate for attention probabilities.
      init: "normal" (with `init_std`) or "uniform" (within ±`init_range`).
      mem_len: positions kept as memory. reuse_len: positions of a window that enter the memory.
      bi_data: the second half of the batch runs backward.
      clamp_len: relative distances beyond it count as it; -1: none.
      same_length: every position attends over the same span (with `attn_type="uni"`).
      precision: "fp32", "bf16" or "fp16", the number format of the matrix products; weights,
        softmax, layer norm and loss stay float32. None: as `use_bfloat16` says.
      recompute: the backward pass computes each layer's activations again rather than to keep
        them: less memory for a third more work, the same gradients.
      position_dropout: whether the sinusoids of the relative distances are dropped out too, at
        rate `dropout`: "none"; "row", each row of the batch draws its own, as in the published
        code; "batch", one draw for all rows.
    """

    def __init__(self, is_training, use_tpu, use_bfloat16, dropout, dropatt, init="normal",
                 init_range=0.1, init_std=0.02, mem_len=None, reuse_len=None, bi_data=False,
                 clamp_len=-1, same_length=False, *, precision=None, recompute=False,
                 position_dropout="none"):
        precision = precision or ("bf16" if use_bfloat16 else "fp32")
        if precision not in PRECISIONS:
            raise UserError("precision is %r, expected one of %s" % (
                precision, ", ".join(PRECISIONS)))
        if use_bfloat16 and precision != "bf16":
            raise UserError("use_bfloat16 is True and precision is %s: give one of them"
                            % precision)
        if init not in ("normal", "uniform"):
            raise UserError("init is %r, expected normal or uniform" % (init,))
        if position_dropout not in POSITION_DROPOUTS:
            raise UserError("position_dropout is %r, expected one of %s" % (
                position_dropout, ", ".join(POSITION_DROPOUTS)))
        for name, rate in (("dropout", dropout), ("dropatt", dropatt)):
            if not 0 <= rate < 1:
                raise UserError("%s is %r, expected 0 <= rate < 1" % (name, rate))
        self.is_training = is_training
        self.use_tpu = use_tpu
        self.use_bfloat16 = precision == "bf16"
        self.precision = precision
        self.recompute = recompute
        self.dropout = dropout
        self.dropatt = dropatt
        self.position_dropout = position_dropout
        self.init = init
        self.init_range = init_range
        self.init_std = init_std
        self.mem_len = mem_len
        self.reuse_len = reuse_len
        self.bi_data = bi_data
        self.clamp_len = clamp_len
        self.same_length = same_length


# What a run configuration takes from the flags, and its value where a program has no such flag.
_RUN_FLAGS = dict(use_tpu=False, use_bfloat16=False, dropout=0.1, dropatt=0.1, init="normal",
                  init_range=0.1, init_std=0.02, clamp_len=-1, precision=None, recompute=False,
                  position_dropout="none")
_RECURRENCE_FLAGS = dict(mem_len=None, reuse_len=None, bi_data=False, same_length=False)


def create_run_config(is_training, is_finetune, FLAGS):
    """Returns the `RunConfig` that `FLAGS` (any object with the attributes) describes.

    Fine-tuning (`is_finetune`) has no memory, so nothing of the recurrence is read.
    """
    defaults = dict(_RUN_FLAGS) if is_finetune else dict(_RUN_FLAGS, **_RECURRENCE_FLAGS)
    return RunConfig(is_training, **{name: getattr(FLAGS, name, default)
                                     for name, default in defaults.items()})


_UNCASED = ("lower-case the text; if not given as the vocabulary was trained, which the file "
            "beside it says, or False")
_KEEP_ACCENTS = ("keep accents, syllables and full-width letters for the vocabulary's own "
                 "normalization; if not given as the vocabulary was trained, or False")


@dataclasses.dataclass(frozen=True)
class CorpusSettings:
    """data_utils.py: text to pretraining records."""
    input_glob: str = required(
        "text: comma-separated files, glob patterns and directories (their *.txt, *.jsonl and "
        "*.gz); .jsonl is a JSON object a line, a document each; anything else is text_format")
    save_dir: str = required("directory for the records and their manifest")
    sp_path: str = required("SentencePiece model")
    seq_len: int = setting(512, "length of a window [tokens]", minimum=1)
    reuse_len: int = setting(256, "leading part of a window that continues the stream [tokens]",
                             minimum=1)
    num_streams: int = setting(0, "streams that are trained side by side; the batch size must "
                                  "divide it; 0: bsz_per_host, or as many of 32 as the text fills",
                               minimum=0)
    bi_data: bool = setting(True, "half of the streams run backward")
    from_raw_text: bool = setting(True, "input is text; False: each line holds token ids")
    use_eod: bool = setting(True, "put <eod> at the end of each document")
    uncased: Optional[bool] = setting(None, _UNCASED)
    keep_accents: Optional[bool] = setting(None, _KEEP_ACCENTS)
    num_passes: int = setting(1, "times the corpus is laid out, each with other A/B pairs and "
                                 "document order", minimum=1)
    seed: int = setting(0, "seed of every random choice", minimum=0)
    num_workers: int = setting(0, "processes; 0: one for each core", minimum=0)
    num_task: int = setting(1, "machines, or runs, that share the input", minimum=1)
    task: int = setting(0, "which of them this is, from 0", minimum=0)
    overwrite: bool = setting(False, "replace records of other settings in save_dir")
    text_format: str = setting(
        "lines", "lines: a sentence a line, a blank line between documents; paragraphs: the same "
                 "with a paragraph a line, cut into sentences; wikitext: WikiText's files, cut "
                 "into sentences; book: hard-wrapped paragraphs with blank lines between, cut into "
                 "sentences, a file (or its part up to a form feed) a document",
        choices=("lines", "paragraphs", "wikitext", "book"))
    json_field: str = setting("text", ".jsonl: the field that holds the text")
    on_error: str = setting(
        "fail", "bad UTF-8, NUL bytes, a line of more than 1 MiB, bad records, damaged .gz: fail, "
                "or skip the line and count it", choices=("fail", "skip"))
    split: str = setting("all", "the documents to take: all, the held-out ones, or the others",
                         choices=("all", "train", "heldout"))
    heldout_percent: float = setting(5.0, "share of documents held out, drawn by a hash of their "
                                          "text [percent]", minimum=0.0)
    bsz_per_host: Optional[int] = setting(None, "the reference's name for num_streams", minimum=1)


@dataclasses.dataclass(frozen=True)
class ArchitectureSettings:
    """The architecture as flags, in place of model_config_path; see `Architecture`."""
    n_layer: Optional[int] = setting(None, "number of layers")
    d_model: Optional[int] = setting(None, "width of the hidden states")
    n_head: Optional[int] = setting(None, "number of attention heads")
    d_head: Optional[int] = setting(None, "width of one attention head")
    d_inner: Optional[int] = setting(None, "width inside the feed-forward layer")
    ff_activation: Optional[str] = setting(None, "activation of the feed-forward layer",
                                           choices=("relu", "gelu"))
    untie_r: Optional[bool] = setting(None, "each layer has its own attention biases")
    n_token: Optional[int] = setting(None, "vocabulary size; from the data if not given")


@dataclasses.dataclass(frozen=True)
class NetworkSettings:
    """How the network is initialized and regularized."""
    dropout: float = setting(0.1, "dropout rate of hidden states", minimum=0.0)
    dropatt: float = setting(0.1, "dropout rate of attention probabilities", minimum=0.0)
    position_dropout: str = setting(
        "none", "dropout of the sinusoids of the relative distances: none; drawn for each row of "
                "the batch, as in the authors' code; or one draw for all rows",
        choices=POSITION_DROPOUTS)
    init: str = setting("normal", "initialization", choices=("normal", "uniform"))
    init_std: float = setting(0.02, "standard deviation of normal initialization")
    init_range: float = setting(0.1, "half width of uniform initialization")
    clamp_len: int = setting(-1, "relative distances beyond it count as it [tokens]; -1: none")
    use_bfloat16: bool = setting(False, "the reference's name of --precision=bf16")
    precision: Optional[str] = setting(None, "number format of matrix products; fp32 if not given",
                                       choices=PRECISIONS)
    recompute: bool = setting(False, "keep no activations of a layer, compute them again in the "
                                     "backward pass: less memory, a third more time")


@dataclasses.dataclass(frozen=True)
class OptimizationSettings:
    """Learning rate, optimizer and clipping."""
    learning_rate: float = setting(1e-4, "peak learning rate", minimum=0.0)
    train_steps: int = setting(100000, "optimizer steps in all", minimum=1)
    warmup_steps: int = setting(0, "steps over which the learning rate rises from 0", minimum=0)
    warmup_share: float = setting(0.0, "warmup_steps as a share of train_steps", minimum=0.0)
    decay_method: str = setting("poly", "learning rate after warm-up",
                                choices=("poly", "cos", "constant"))
    min_lr_ratio: float = setting(0.001, "last learning rate as a share of the peak", minimum=0.0)
    weight_decay: float = setting(0.0, "decoupled weight decay, not on biases and layer norms",
                                  minimum=0.0)
    adam_epsilon: float = setting(1e-8, "Adam's epsilon", minimum=0.0)
    clip: float = setting(1.0, "largest global norm of the gradients", minimum=0.0)
    lr_layer_decay_rate: float = setting(1.0, "learning rate of a layer as a share of the next "
                                              "higher one's; the embedding is the lowest",
                                         minimum=0.0)
    average_decay: float = setting(0.0, "moving average of the weights, decay per step (0.999); "
                                        "0: none", minimum=0.0)
    legacy_optimizer: bool = setting(False, "the reference's rules: no bias correction where there "
                                            "is weight decay, layer decay on gradients")


@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """Where to run; see the README's chapter on pretraining."""
    num_hosts: int = setting(1, "machines; above 1 each has TF_CONFIG", minimum=1)
    num_core_per_host: int = setting(1, "GPUs of a machine; without GPUs, replicas on its CPU",
                                     minimum=1)
    use_tpu: bool = setting(False, "run on a TPU (never tried)")
    tpu_name: str = setting("local", "with use_tpu: name or grpc address of the TPU")
    parallel_ops: bool = setting(False, "on one CPU, operations side by side: small networks train "
                                        "faster, but a run that is repeated or resumed differs in "
                                        "the last bit")

    def check(self):
        """Raises UserError unless the devices are those of one machine: fine-tuning runs on one."""
        if self.num_hosts != 1:
            raise UserError("num_hosts is %d: fine-tuning runs on one machine; leave it 1"
                            % self.num_hosts)
        if self.use_tpu:
            raise UserError("use_tpu is True: fine-tuning runs on GPUs or the CPU; leave it False")


@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
    """train_gpu.py: data, memory, permutation, checkpoints."""
    record_info_dir: str = required("directory made by data_utils.py (its manifest is read), or "
                                    "the reference's records")
    model_dir: str = required("directory for checkpoints; a run found there is continued")
    spiece_model_file: Optional[str] = setting(
        None, "SentencePiece model of the reference's records, if corpus_info.json beside them "
              "does not name it; ours have their own")
    eval_record_info_dir: Optional[str] = setting(None, "held-out records, as record_info_dir")
    model_config_path: Optional[str] = setting(None, "JSON with the architecture")
    init_checkpoint: Optional[str] = setting(
        None, "weights to start from: a checkpoint prefix, its directory, or DIRECTORY/latest")
    train_batch_size: int = setting(16, "windows per step over all devices and hosts; divides the "
                                        "number of streams", minimum=1)
    grad_accum_steps: int = setting(1, "micro-batches, one after the other, that a device cuts its "
                                       "rows into to save memory", minimum=1)
    objective: str = setting("permutation", "what is predicted: tokens in a random order (XLNet), "
                             "the next token (Transformer-XL), masked tokens (as BERT)",
                             choices=("permutation", "causal", "masked"))
    next_segment_loss: float = setting(0.0, "weight of the loss of judging whether segment B "
                                            "continues A; 0: not judged", minimum=0.0)
    same_length: bool = setting(False, "objective causal: every position sees mem_len others")
    eval_mem_len: Optional[int] = setting(None, "mem_len of held-out evaluation; mem_len if not "
                                                "given", minimum=0)
    mem_len: int = setting(384, "positions remembered from earlier windows [tokens]", minimum=0)
    perm_size: int = setting(256, "tokens permuted among themselves [tokens]", minimum=1)
    num_predict: int = setting(85, "tokens predicted in a window", minimum=1)
    mask_mode: str = setting("whole_word", "what is predicted together: n-grams of 1 to 5 whole "
                             "words; single tokens; or n pieces by the reference's rule",
                             choices=("whole_word", "token", "legacy"))
    mask_alpha: int = setting(6, "targets lie evenly: about one of each mask_alpha / mask_beta "
                                 "n-grams in a row is one", minimum=1)
    mask_beta: int = setting(1, "see mask_alpha", minimum=1)
    seed: int = setting(0, "seed of initialization, dropout, targets and permutations", minimum=0)
    save_steps: int = setting(1000, "steps between checkpoints", minimum=1)
    eval_steps: int = setting(0, "steps between held-out evaluations; 0: before and after",
                              minimum=0)
    log_steps: int = setting(50, "steps between log lines", minimum=1)
    max_save: int = setting(5, "checkpoints kept; 0: all", minimum=0)
    keep_every: int = setting(0, "steps whose multiples keep their checkpoint for good; 0: none",
                              minimum=0)
    on_nan: str = setting("stop", "loss that is no number or explodes: stop, or go back to the "
                                  "last checkpoint and skip the data since",
                          choices=("stop", "rollback"))
    allow_changes: bool = setting(False, "go on in model_dir though settings differ that change "
                                         "what the run learns")
    seq_len: Optional[int] = setting(None, "checked against the data if given", minimum=1)
    reuse_len: Optional[int] = setting(None, "checked against the data if given", minimum=1)
    bi_data: Optional[bool] = setting(None, "checked against the data if given")
    uncased: Optional[bool] = setting(None, "checked against the data if given")
    keep_accents: Optional[bool] = setting(None, "checked against the data if given")


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
    """run_classifier.py: the task, its files, what to do."""
    task_name: str = required("a known task (cola, sst-2, ..., imdb, race, tnews, xnli-de, ...; an "
                              "unknown name lists them all) or custom for your own files")
    data_dir: str = required("directory with the task's files; custom: train, dev and test as "
                             ".tsv, .csv, .json or .jsonl, or one file to train on")
    model_dir: str = required("directory for checkpoints")
    output_dir: str = required("directory for tokenized records")
    spiece_model_file: str = required("SentencePiece model")
    model_config_path: str = required("JSON with the architecture")
    init_checkpoint: Optional[str] = setting(
        None, "weights to start from: a checkpoint prefix, its directory, or DIRECTORY/latest")
    do_train: bool = setting(False, "fine-tune on the train file")
    do_eval: bool = setting(False, "evaluate on eval_split")
    do_predict: bool = setting(False, "write predictions for predict_split or predict_file")

    text_a_column: str = setting("text_a", "custom: column of the text; a,b joins two")
    text_b_column: Optional[str] = setting(None, "custom: column of the second text")
    label_column: str = setting("label", "custom: column of the label; multi_label: or a column of "
                                         "0 and 1 for each label")
    id_column: Optional[str] = setting(None, "custom: column of the row's name; row number if not "
                                             "given")
    choice_columns: Optional[str] = setting(
        None, "custom: columns of the answers of which one is right, or one column of JSON lines "
              "that lists them")
    is_regression: bool = setting(False, "checked against the task; custom: labels are numbers")
    multi_label: bool = setting(False, "custom: a row has any number of labels")
    label_separator: str = setting(",", "custom: between the labels in a multi_label cell")
    query_id_column: Optional[str] = setting(
        None, "custom: column of a query's name; makes the task a ranking: text_a is the query, "
              "text_b and id the document, label its grade")
    ranking_loss: str = setting(
        "pairwise", "ranking: trained on pairs of a query's documents, the logistic loss on the "
                    "difference of their scores; or on each document, the squared error of its "
                    "grade", choices=("pairwise", "pointwise"))
    pairs_per_query: int = setting(50, "pairwise: pairs of a query, drawn among those of different "
                                       "grades; 0: all", minimum=0)
    ranking_cutoff: int = setting(10, "ranking: documents of a query that NDCG and ERR look at",
                                  minimum=1)
    highest_grade: int = setting(0, "ranking: grade of a perfect document, for ERR; 0: the highest "
                                    "one of the file", minimum=0)
    dev_share: Optional[float] = setting(
        None, "share of the training rows held out as dev where there is no dev file; 0.05 for "
              "known tasks and 0.1 for custom if not given", minimum=0.0)

    eval_split: str = setting("dev", "file evaluated: dev, test, train (mnli: dev_matched, ...)")
    eval_all_ckpt: bool = setting(False, "evaluate every checkpoint in model_dir, not one")
    eval_steps: int = setting(0, "training steps between evaluations that choose model_dir/best; "
                                 "0: none", minimum=0)
    metric: Optional[str] = setting(None, "metric that chooses the best; the task's first if not "
                                          "given")
    patience: int = setting(0, "evaluations without a better one after which training stops; 0: "
                               "never", minimum=0)
    num_trials: int = setting(1, "runs with seed, seed + 1, ...; the best one is kept", minimum=1)
    learning_rates: Optional[str] = setting(None, "the trials' learning rates in turn: 2e-5,3e-5")
    use_checkpoint: str = setting("best", "evaluate and predict with model_dir/best if it is "
                                          "there, or with the newest", choices=("best", "newest"))
    predict_split: str = setting("test", "file predicted: test, dev, ...")
    predict_file: Optional[str] = setting(None, "any file to be predicted in place of "
                                                "predict_split, labelled or not; - is the "
                                                "standard input")
    predict_form: Optional[str] = setting(
        None, "form of predict_file; from its extension if not given. text: a text on each line, "
              "tabs between a pair; run, qrels: TREC's",
        choices=("tsv", "csv", "json", "jsonl", "text", "run", "qrels"))
    predict_dir: Optional[str] = setting(None, "directory for predictions; model_dir if not given")
    predict_threshold: float = setting(0.5, "least probability for the second of two labels, or "
                                            "for each one of multi_label", minimum=0.0)

    uncased: Optional[bool] = setting(None, _UNCASED)
    keep_accents: Optional[bool] = setting(None, _KEEP_ACCENTS)
    max_seq_length: int = setting(128, "tokens of an example, special ones included")
    long_document: str = setting(
        "truncate", "texts that do not fit: lose the end, lose the middle, become several windows "
                    "whose answers are averaged, or go through the network in segments of "
                    "max_seq_length, each remembering the one before",
        choices=("truncate", "head_tail", "sliding", "memory"))
    max_segments: int = setting(8, "long_document=memory: segments of a text, the rest is cut off",
                                minimum=1)
    padding: str = setting("longest", "batches as long as their longest example, or all of them "
                                      "max_seq_length for XLA and TPUs",
                           choices=("longest", "fixed"))
    data_workers: int = setting(0, "processes that tokenize large files; 0: one a core", minimum=0)
    overwrite_data: bool = setting(False, "tokenize again even if the records fit")

    train_batch_size: int = setting(8, "examples per training step, over all devices", minimum=1)
    grad_accum_steps: int = setting(1, "micro-batches, one after the other, that a device cuts its "
                                       "examples into to save memory", minimum=1)
    eval_batch_size: int = setting(32, "examples that a device evaluates or predicts together",
                                 minimum=1)
    epochs: Optional[float] = setting(None, "train_steps in passes over the training rows",
                                      minimum=0.0)
    freeze_layers: int = setting(0, "so many of the lowest layers, and the embeddings, keep their "
                                    "weights; 0: none", minimum=0)
    mixout: float = setting(0.0, "chance that a weight of a dense kernel is its pretrained value "
                                 "in a training step; needs init_checkpoint", minimum=0.0)
    class_weights: Optional[str] = setting(None, "how much labels count in training: balanced, or "
                                                 "label:weight,...")
    label_smoothing: float = setting(0.0, "share of the target spread over all labels", minimum=0.0)
    summary_type: str = setting("last", "how a text becomes one vector",
                                choices=("last", "first", "mean", "attn"))
    use_summ_proj: bool = setting(True, "dense tanh layer over the summary")
    cls_scope: Optional[str] = setting(None, "name of the output layer; the task's if not given")
    seed: int = setting(0, "seed of initialization, dropout and shuffling", minimum=0)
    save_steps: int = setting(500, "steps between checkpoints", minimum=1)
    log_steps: int = setting(50, "steps between log lines", minimum=1)
    max_save: int = setting(0, "checkpoints kept; 0: all", minimum=0)
    allow_changes: bool = as_in(PretrainingSettings, "allow_changes")
