"""Writes models as SavedModels, for TensorFlow Serving and any process with TensorFlow.

Of the signatures `ids` takes the features of records, `text` raw text.
"""

from __future__ import annotations

import logging
import os
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import (
    SPACES,
    Tokenizer,
    character_class,
)
from xlnet.engine import checkpoint
from xlnet.engine.devices import connect, unregistering_gradients
from xlnet.finetuning.model import TaskModel, placeholders
from xlnet.model.ops import Tensors
from xlnet.runs import run_document
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.finetuning import MIN_SEQ_LENGTH
from xlnet.settings.network import DTYPES
from xlnet.settings.training import DeviceSettings
from xlnet.support import files
from xlnet.support.errors import UserError, wrong
from xlnet.tasks import encoding
from xlnet.tasks.contract import Task

_log = logging.getLogger(__name__)

_EXTRA = "assets.extra"  # files next to the graph, which TensorFlow Serving ignores
# A code point for private use, which replaces code points that are not characters (U+FFFE) and
# bytes that are not UTF-8: no vocabulary knows either.
_NO_CHARACTER = 0xE000


def export(model: LoadedModel, export_dir: str) -> str:
    """Writes a model as a SavedModel into `export_dir`, as its next version, 1, 2, ...; returns the
    directory of this version.

    The SavedModel has the signature `ids`, and `text` if the model can have it; a note in the log
    says why not, such as without tensorflow-text.

    Args:
      model: a fine-tuned one; the precision of its network, "fp32" or "bf16", is that of the
        stored matrices, too.
      export_dir: made if it does not exist.
    """
    files.require_writable(export_dir, "output")
    tuned = model.tuned
    if tuned is None:
        raise wrong("model_dir", "a pretrained model", "one fine-tuned for a task")

    # A server of the directory takes the highest number; an incomplete version has no such name.
    os.makedirs(export_dir, exist_ok=True)
    versions = [int(name) for name in os.listdir(export_dir) if name.isdecimal()]
    target = os.path.join(export_dir, str(1 + max(versions, default=0)))
    with files.new_directory(target) as directory:
        signature_names = _write(model, tuned, directory)
    _log.info(
        "exported %s to %s: signatures %s, %s",
        model.prefix,
        target,
        ", ".join(signature_names),
        DTYPES[model.network.precision or "fp32"],
    )
    return target


def _write(model: LoadedModel, tuned: FineTunedTask, directory: str) -> list[str]:
    """Writes the SavedModel and, in `assets.extra`, the document of the run, the architecture and
    the vocabulary; returns the names of the signatures."""
    devices = connect(DeviceSettings(device="cpu", num_hosts=1))
    with (
        unregistering_gradients(),  # these would keep the graph in memory
        tf.Graph().as_default(),
        tf.Session(config=devices.session_config()) as session,
    ):
        signatures = _build(model, tuned)
        checkpoint.restore(session, model.prefix, tf.global_variables())
        # The last signature is the most convenient one; it is the default one, too.
        names = list(signatures)
        signatures["serving_default"] = signatures[names[-1]]
        builder = tf.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            strip_default_attrs=True,  # older versions of TensorFlow can read it, too
            signature_def_map=signatures,
        )
        builder.save()
    extra = os.path.join(directory, _EXTRA)
    os.makedirs(extra)
    assert model.document, "a fine-tuned model has the document of its run"
    shared = run_document.without_run_settings(model.document)
    run_document.write(extra, shared, model.config, model.tokenizer)
    return names


# ---- the signatures, built in one graph on the same weights


def _build(loaded: LoadedModel, tuned: FineTunedTask) -> dict[str, Any]:
    """Builds the signatures that a model can have: a `SignatureDef` by name, the most convenient
    one last."""
    # By signature: (the placeholders that it takes, the features that the network reads).
    features = placeholders(tuned)
    inputs_and_features = {"ids": (features, features)}
    try:
        inputs_and_features["text"] = _text_inputs(loaded, tuned)
    except UserError as e:
        _log.warning("note: no signature text: %s", e)
    model = TaskModel(loaded.config, tuned, loaded.network)
    signatures = {}
    for name, (inputs, features) in inputs_and_features.items():
        outputs = model.outputs(features)
        named = tuned.task.named_outputs(outputs, tuned.settings.threshold)
        signatures[name] = tf.saved_model.predict_signature_def(inputs, named)
    return signatures


def _text_inputs(loaded: LoadedModel, tuned: FineTunedTask) -> tuple[Tensors, Tensors]:
    """(Placeholders of texts by name, string [N]; the features that the graph makes of them);
    UserError if it cannot make them."""
    # `GraphEncoder` makes features as `Task` does, so not for a type with methods of its own.
    task_type = type(tuned.task)
    has_own_pairs = task_type.parse_pairs is not Task.parse_pairs
    if has_own_pairs or task_type.encode is not Task.encode:
        raise UserError(
            f"texts of task type {tuned.task.kind} cannot be encoded in the graph; serve "
            "the model directory (xlnet serve), or the signature ids of an export"
        )
    # Some published tasks have (old, new) parts of texts that are replaced.
    encoder = GraphEncoder(
        loaded.tokenizer, tuned.layout, tuned.task.published.replacements
    )
    texts = {}
    for name in tuned.task.texts:
        texts[name] = tf.placeholder(tf.string, [None], name)
    return texts, encoder.features(list(texts.values()))


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
      tokenizer: of the vocabulary.
      layout: how long records are, and how long texts are cut.
      replacements: (old, new) in every text, as of `Published`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        layout: encoding.Layout,
        replacements: Sequence[tuple[str, str]] = (),
    ):
        try:
            import tensorflow_text
        except ImportError:
            # Major and minor number, which must be the same for both.
            version = tf.version.VERSION.rpartition(".")[0]
            expected = f"pip install 'tensorflow-text=={version}.*'"
            raise wrong(
                "raw text", "no tensorflow-text", expected, "or take the signature ids"
            ) from None
        self._text = tensorflow_text
        self._tokenizer, self._layout = tokenizer, layout
        self._replacements = replacements

    def clean(self, texts: tf.Tensor) -> tf.Tensor:
        """`Tokenizer.clean` of each text, UTF-8, after the replacements: string [N] -> string
        [N]."""
        texts = tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", replacement_char=_NO_CHARACTER
        )
        for old, new in self._replacements:
            # RE2 matches a character that is given by its number literally, whatever it is. In the
            # new text a single backslash would be special.
            literal = "".join(f"\\x{{{ord(character):x}}}" for character in old)
            texts = tf.strings.regex_replace(texts, literal, new.replace("\\", "\\\\"))
        # `" ".join(text.split())`, and the quotes of TeX.
        texts = tf.strings.regex_replace(texts, f"[{SPACES}]+", " ")
        texts = tf.strings.regex_replace(texts, "^ | $", "")
        texts = tf.strings.regex_replace(texts, "``|''", '"')
        if not self._tokenizer.keep_accents:
            texts = self._text.normalize_utf8(texts, "NFKD")
            every_code = range(sys.maxunicode + 1)
            combining = [c for c in every_code if unicodedata.combining(chr(c))]
            pattern = f"[{character_class(combining)}]"
            texts = tf.strings.regex_replace(texts, pattern, "")
        if self._tokenizer.uncased:
            # At a NUL `lower` would end a text. Its replacement is as unknown to vocabularies.
            texts = tf.strings.regex_replace(texts, r"\x{0}", chr(_NO_CHARACTER))
            texts = tf.strings.lower(texts, "utf-8")
        return texts

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """`Tokenizer.encode_lines`: string [N] -> int32 [N, (pieces)]."""
        model = self._text.SentencepieceTokenizer(
            self._tokenizer.model_bytes, out_type=tf.int32
        )
        ids = model.tokenize(self.clean(texts))
        # The rule for commas after digits: each piece is replaced by its parts, [N, (pieces),
        # (parts)]; most pieces have themselves as the only part.
        every_id = range(self._tokenizer.vocab_size)
        parts = [self._tokenizer.split_ids.get(id, [id]) for id in every_id]
        table = tf.ragged.constant(parts, tf.int32, row_splits_dtype=tf.int64)
        return tf.gather(table, ids).merge_dims(1, 2)

    def features(self, texts: Sequence[tf.Tensor]) -> Tensors:
        """The features of N records by name, `encoding.IDS` [N,T], as of `encoding.encode_pairs`.

        Args:
          texts: string [N], the text of each record; or two of these, first and second texts.
        """
        # The first ids of each text, as many as fit with <cls> and a <sep> after each text.
        budget = self._layout.max_seq_length - 1 - len(texts)
        trimmer = self._text.RoundRobinTrimmer(budget)
        ids_of_texts = trimmer.trim([self.ids(text) for text in texts])

        # text <sep> (text <sep>) <cls>, with the segment of each part. zip ends with the texts.
        parts, segments = [], []
        for ids, segment in zip(ids_of_texts, (encoding.SEG_A, encoding.SEG_B)):
            for part in (ids, _column(self._tokenizer.sep_id, ids)):
                parts.append(part)
                segments.append(tf.zeros_like(part) + segment)
        parts.append(_column(self._tokenizer.cls_id, ids_of_texts[0]))
        segments.append(_column(encoding.SEG_CLS, ids_of_texts[0]))
        segment_ids = _left_padded(tf.concat(segments, axis=1), encoding.SEG_PAD_LEFT)
        is_padding = tf.equal(segment_ids, encoding.SEG_PAD_LEFT)
        return {
            "input_ids": _left_padded(tf.concat(parts, axis=1), 0),
            "input_mask": tf.cast(is_padding, tf.float32),
            "segment_ids": segment_ids,
        }


def _column(id: int, rows: tf.RaggedTensor) -> tf.RaggedTensor:
    """The same id for each of N rows, ragged [N,1], to be concatenated with them."""
    return tf.RaggedTensor.from_tensor(tf.fill([rows.nrows(), 1], id))


def _left_padded(rows: tf.RaggedTensor, padding: int) -> tf.Tensor:
    """Ragged [N, (items)] as [N,T], padded on the left. T is the length of the longest row, and at
    least `MIN_SEQ_LENGTH`, so that there are columns where there are no rows, too."""
    length = tf.maximum(rows.bounding_shape(axis=1), MIN_SEQ_LENGTH)
    shape = tf.stack([rows.nrows(), length])
    # `to_tensor` pads on the right.
    reversed_rows = tf.reverse(rows, [1]).to_tensor(padding, shape=shape)
    return tf.reverse(reversed_rows, [1])
