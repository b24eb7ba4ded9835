"""Writes models as SavedModels, for TensorFlow Serving and any process with TensorFlow.

Of the signatures `ids` takes the features of records, `text` raw text, `vectors` raw text for a
vector of each.
"""

from __future__ import annotations

import logging
import os
import sys
import unicodedata
import warnings
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import (
    SPACES,
    SPIECE_NAME,
    Tokenizer,
    character_class,
)
from xlnet.engine import checkpoint
from xlnet.engine.devices import connect, without_registered_gradients
from xlnet.finetuning.model import TaskModel, placeholders
from xlnet.inference import vectors
from xlnet.model import heads
from xlnet.runs import model_files, run_document
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import MIN_SEQ_LENGTH
from xlnet.settings.network import CONFIG_NAME, DTYPES, NetworkSettings
from xlnet.support import files
from xlnet.support.errors import UserError, wrong
from xlnet.tasks import encoding
from xlnet.tasks.contract import Task

_log = logging.getLogger(__name__)

_EXTRA = "assets.extra"  # files beside the graph, which TensorFlow Serving ignores
# Replaces code points that are not characters (U+FFFE) and bytes that are not UTF-8: for private
# use, so unknown to any vocabulary, as those are.
_NO_CHARACTER = 0xE000


def export(
    model_dir: str,
    export_dir: str,
    *,
    precision: str = "fp32",
    **given: str | None,
) -> str:
    """Writes a model as a SavedModel into `export_dir`, as its next version; returns the directory
    of that.

    A fine-tuned model has `ids`, and `text` or a note that it cannot have it, such as without
    tensorflow-text; a pretrained one has `vectors`.

    Args:
      precision: of its stored matrices and of the network, "fp32" or "bf16".
      given: `model_config_path`, `spiece_model_file`, in place of those of the model.
    """
    files.require_writable(export_dir, "output")
    # The model is read first, so that no directory is left if it is refused.
    network = NetworkSettings(precision=precision)
    model = model_files.read(model_dir, network=network, **given)

    # A server of the directory takes the highest number; an incomplete version has no such name.
    os.makedirs(export_dir, exist_ok=True)
    versions = [int(name) for name in os.listdir(export_dir) if name.isdecimal()]
    target = os.path.join(export_dir, str(1 + max(versions, default=0)))
    with files.new_directory(target) as directory:
        made = _write(model, directory)
    _log.info(
        "exported %s to %s: signatures %s, %s",
        model.prefix,
        target,
        ", ".join(made),
        DTYPES[precision],
    )
    return target


def _write(model: LoadedModel, directory: str) -> list[str]:
    """Writes the SavedModel, with what the model is beside it; returns the names of its
    signatures."""
    devices = connect(DeviceSettings(device="cpu", num_hosts=1))
    with (
        without_registered_gradients(),
        tf.Graph().as_default(),
        tf.Session(config=devices.session_config()) as session,
    ):
        made = _build(model)
        checkpoint.restore(session, model.prefix, tf.global_variables())
        found = {}
        for name, signature in made.items():
            found[name] = tf.saved_model.predict_signature_def(*signature)
        # The most convenient signature is the default one, too.
        default = list(made)[-1]
        builder = tf.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            strip_default_attrs=True,
            signature_def_map={"serving_default": found[default], **found},
        )
        builder.save()
    extra = os.path.join(directory, _EXTRA)
    os.makedirs(extra, exist_ok=True)
    model.config.to_json(os.path.join(extra, CONFIG_NAME))
    model.tokenizer.save(os.path.join(extra, SPIECE_NAME))
    if model.run:
        run_document.write(extra, run_document.to_share(model.run))
    return list(made)


# ---- the signatures, built in one graph on the same weights


# Inputs and outputs of a part of the graph, tensors by name.
Signature = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]


def _build(loaded: LoadedModel) -> dict[str, Signature]:
    """The signatures that a model can have, the most convenient one last."""
    tuned = loaded.tuned
    if tuned is None:
        return {"vectors": _of_vectors(loaded)}
    inputs = placeholders(tuned)
    made = {"ids": (inputs, _answers(loaded, tuned, inputs))}
    try:
        made["text"] = _of_text(loaded, tuned)
    except UserError as e:
        _log.warning("note: no signature text: %s", e)
    return made


def _of_text(loaded: LoadedModel, tuned: FineTunedTask) -> Signature:
    # The graph makes the inputs of plain texts and pairs.
    kind = type(tuned.task)
    has_own_pairs = kind.parse_pairs is not Task.parse_pairs
    if has_own_pairs or kind.encode is not Task.encode:
        raise UserError(
            f"texts of task type {tuned.task.kind} cannot be encoded in the graph; serve "
            "the model directory (xlnet serve), or the signature ids of an export"
        )
    encoder = GraphEncoder(
        loaded.tokenizer,
        tuned.layout,
        tuned.task.published.replacements,
    )
    texts = {}
    for name in tuned.task.texts:
        texts[name] = tf.placeholder(tf.string, [None], name)
    return texts, _answers(loaded, tuned, encoder.pairs(*texts.values()))


def _answers(
    loaded: LoadedModel, tuned: FineTunedTask, features: dict[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    model = TaskModel(loaded.config, tuned, loaded.network)
    return tuned.task.named_outputs(model.outputs(features), tuned.settings.threshold)


def _of_vectors(loaded: LoadedModel) -> Signature:
    """The mean of the last layer over the tokens of a text, including <sep> and <cls>."""
    texts = tf.placeholder(tf.string, [None], "text_a")
    layout = vectors.layout_of(loaded)
    encoder = GraphEncoder(loaded.tokenizer, layout)
    features = encoder.pairs(texts)
    # As `Model.vectors` with its defaults, whose graph has all layers and poolings.
    sequence = vectors.hidden_states(loaded, features)[-1]
    vector = heads.summarize(
        loaded.config,
        loaded.network.run_config(False),
        sequence,
        summary_type="mean",
        padding=features["input_mask"],
        use_proj=False,
    )
    return {"text_a": texts}, {"vector": vector}


# ---- texts to the features of a record, in the graph
#
# By the operations of tensorflow-text: the ids are those of `tokenizer.Tokenizer`, the features
# those of `encoding`, batches as long as their longest text. Shape letters: N texts, T tokens of
# the longest text.
#
# 1. Cleaning: rules for spaces and quotes, the compatibility decomposition (NFKD), combining
#    characters removed, lower case. Characters that are newer than the Unicode of the process that
#    serves the graph stay as they are there.
# 2. SentencePiece.
# 3. A piece that ends in a digit and a comma is split again, by a table of all pieces.


class GraphEncoder:
    """Makes features of texts, UTF-8 strings, for records of a layout; UserError without
    tensorflow-text.

    Args:
      replacements: (old, new) in every text, as of `Task`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        layout: encoding.Layout,
        replacements: Sequence[tuple[str, str]] = (),
    ):
        try:
            with warnings.catch_warnings():  # of its own imports
                warnings.simplefilter("ignore")
                import tensorflow_text
        except ImportError:
            version = tf.version.VERSION.rpartition(".")[0]
            expected = f"pip install 'tensorflow-text=={version}.*'"
            raise wrong(
                "raw text", "no tensorflow-text", expected, "or take the signature ids"
            ) from None
        self._text = tensorflow_text
        self._tokenizer, self._layout = tokenizer, layout
        self._replacements = replacements

    def clean(self, texts: tf.Tensor) -> tf.Tensor:
        """`Tokenizer.clean` of each text, UTF-8: string [N] -> string [N]."""
        texts = tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", replacement_char=_NO_CHARACTER
        )
        # `" ".join(text.split())`, and the quotes of TeX.
        texts = tf.strings.regex_replace(texts, f"[{SPACES}]+", " ")
        texts = tf.strings.regex_replace(texts, "^ | $", "")
        for quote in ("``", "''"):
            texts = tf.strings.regex_replace(texts, quote, '"')
        if not self._tokenizer.keep_accents:
            texts = self._text.normalize_utf8(texts, "NFKD")
            every = range(sys.maxunicode + 1)
            combining = [code for code in every if unicodedata.combining(chr(code))]
            pattern = f"[{character_class(combining)}]"
            texts = tf.strings.regex_replace(texts, pattern, "")
        if self._tokenizer.uncased:  # TensorFlow's operation would end a text at a NUL
            texts = tf.strings.regex_replace(texts, r"\x{0}", chr(_NO_CHARACTER))
            texts = tf.strings.lower(texts, "utf-8")
        return texts

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """`Tokenizer.encode_lines`: string [N] -> int32 [N, (pieces)]."""
        model = self._text.SentencepieceTokenizer(
            self._tokenizer.model_bytes, out_type=tf.int32
        )
        ids = model.tokenize(self.clean(texts))
        # The rule for commas after digits: each piece is replaced by its parts.
        every_id = range(self._tokenizer.vocab_size)
        parts = [self._tokenizer.split_ids.get(id, [id]) for id in every_id]
        table = tf.ragged.constant(parts, tf.int32, row_splits_dtype=tf.int64)
        found = tf.gather(table, ids.flat_values)  # [pieces, (parts)]
        return tf.RaggedTensor.from_row_splits(
            found.flat_values,
            tf.gather(found.row_splits, ids.row_splits),
            validate=False,
        )

    def pairs(
        self, text_a: tf.Tensor, text_b: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Texts, or pairs of texts, string [N] -> the features of N records."""
        long_document = self._layout.long_document
        if long_document != "truncate":
            expected = "truncate, which a graph has"
            instead = "serve the model directory, or take the signature ids"
            raise wrong("long_document", long_document, expected, instead)
        ids = [self.ids(self._replaced(text_a))]
        if text_b is not None:
            ids.append(self.ids(self._replaced(text_b)))
        return self._laid_out(self._cut(ids))

    def _replaced(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts, string of any shape, after the replacements of the task."""
        for old, new in self._replacements:
            # RE2 matches a character that is given by its number literally, whatever it is.
            literal = "".join(f"\\x{{{ord(character):x}}}" for character in old)
            texts = tf.strings.regex_replace(texts, literal, new.replace("\\", "\\\\"))
        return texts

    def _cut(self, texts: Sequence[tf.RaggedTensor]) -> list[tf.RaggedTensor]:
        """The first ids of each text, as many as fit beside the special tokens. The rule is that of
        `encoding.fit_to_length`: of a budget of 10 ids, lengths of (8, 6) become (5, 5), (8, 3)
        become (7, 3), and (2, 9) become (2, 8)."""
        lengths = [ids.row_lengths() for ids in texts]
        budget = self._layout.max_seq_length - 1 - len(texts)
        # Both are cut where neither is short: then the first has half of the budget, rounded up.
        least = 1 if self._layout.cut_first else budget - budget // 2
        rest = sum(lengths[1:], tf.zeros_like(lengths[0]))
        kept = [tf.minimum(lengths[0], tf.maximum(budget - rest, least))]
        for length in lengths[1:]:
            kept.append(tf.minimum(length, budget - kept[0]))
        found = []
        for ids, length, size in zip(texts, lengths, kept):
            is_kept = tf.ragged.range(length) < size[:, None]
            found.append(tf.ragged.boolean_mask(ids, is_kept))
        return found

    def _laid_out(self, texts: Sequence[tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """`encoding.lay_out` of one or two texts, ids int32 [N, (pieces)]: `encoding.IDS` [N,T],
        where T is the length of the longest record."""
        count = texts[0].nrows()

        def column(id: int) -> tf.RaggedTensor:
            """A special token in each record."""
            ids = tf.fill([count], id)
            return tf.RaggedTensor.from_uniform_row_length(ids, 1, nrows=count)

        # text <sep> (text <sep>) <cls>, with the segment of each part.
        parts, segments = [], []
        for ids, segment in zip(texts, (encoding.SEG_A, encoding.SEG_B)):
            for part in (ids, column(self._tokenizer.sep_id)):
                parts.append(part)
                segments.append(tf.zeros_like(part) + segment)
        parts.append(column(self._tokenizer.cls_id))
        segments.append(column(encoding.SEG_CLS))
        ids = tf.concat(parts, axis=1)
        least = tf.constant([MIN_SEQ_LENGTH], tf.int64)
        length = tf.reduce_max(tf.concat([ids.row_lengths(), least], 0))
        is_token = tf.sequence_mask(ids.row_lengths(), length, tf.float32)
        return {
            "input_ids": _left_padded(ids, length, 0),
            "input_mask": 1 - is_token[:, ::-1],
            "segment_ids": _left_padded(
                tf.concat(segments, axis=1), length, encoding.SEG_PAD
            ),
        }


def _left_padded(rows: tf.RaggedTensor, length: tf.Tensor, padding: int) -> tf.Tensor:
    """Ragged [N, (items)] as [N,T], padded on the left; length: T."""
    shape = tf.stack([rows.nrows(), length])
    backward = tf.reverse(rows, [1]).to_tensor(padding, shape=shape)
    return tf.reverse(backward, [1])
