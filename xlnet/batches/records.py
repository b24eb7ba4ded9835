"""What TFRecord files hold: each layout is stated once, for the writer and for the parser.

Shape letters: Q tokens in a window, T tokens in a fine-tuning example.
"""

import collections
import dataclasses
import os

from xlnet import files
from xlnet.errors import UserError

Feature = collections.namedtuple("Feature", "name shape dtype")  # dtype: "int" or "float"

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 3      # 2: punctuation belonged to the word before it
READABLE_VERSIONS = (2, FORMAT_VERSION)


def pretraining_features(seq_len):
    """Layout of one pretraining window of `seq_len` = Q tokens."""
    return (
        Feature("input", (seq_len,), "int"),         # token ids
        Feature("seg_id", (seq_len,), "int"),        # 0 context and A, 1 B, 2 <cls>
        Feature("word_start", (seq_len,), "int"),    # 1 where, in reading order, a word begins
        Feature("label", (), "int"),                 # 1: B continues A
        Feature("direction", (), "int"),             # 0 forward, 1 backward
        Feature("starts_stream", (), "int"),         # 1: nothing precedes, the memory is zeroed
    )


def finetuning_features(max_seq_length, is_regression=False, num_choices=1, num_labels=0):
    """Layout of one fine-tuning example of T = `max_seq_length` × `num_choices` tokens.

    `num_labels`: of a multi-label task, one 0 or 1 for each of them; 0: a single label or score.
    """
    length = max_seq_length * num_choices
    return (
        Feature("input_ids", (length,), "int"),
        Feature("input_mask", (length,), "float"),   # 1 is padding
        Feature("segment_ids", (length,), "int"),
        Feature("label_ids", (num_labels,) if num_labels else (),
                "float" if is_regression or num_labels else "int"),
        Feature("is_real_example", (), "int"),       # 0 fills up the last batch
    )


def encode(features, values):
    """Serializes NumPy arrays or scalars, a dict by feature name, to `tf.train.Example` bytes."""
    import tensorflow as tf
    example = tf.train.Example()
    for name, shape, dtype in features:
        value = values[name]
        flat = value.ravel().tolist() if hasattr(value, "ravel") else (value if shape else [value])
        target = example.features.feature[name]
        (target.int64_list if dtype == "int" else target.float_list).value.extend(flat)
    return example.SerializeToString(deterministic=True)


def parse(features, serialized):
    """Parses a batch of serialized examples to a dict of int32 and float32 tensors `[B, ...]`."""
    import tensorflow as tf
    kinds = {"int": tf.int64, "float": tf.float32}
    parsed = tf.io.parse_example(serialized, {
        name: tf.io.FixedLenFeature(shape, kinds[dtype]) for name, shape, dtype in features})
    return {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in parsed.items()}


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a directory of pretraining records is; `manifest.json` beside the record files.

    `streams` lists, in order, dicts of `file`, `direction`, `windows`, `bytes`, `sha256`. All
    streams have `windows_per_stream` windows.
    """
    vocab_size: int
    sp_model: str                # file name of the SentencePiece model, in the same directory
    sp_model_sha256: str
    uncased: bool                # how text was cleaned, as in `tokenization.clean_text`
    keep_accents: bool
    seq_len: int
    reuse_len: int
    bi_data: bool
    num_streams: int
    num_passes: int
    windows_per_stream: int
    documents: int
    sentences: int
    tokens: int                  # corpus tokens, before windows are cut
    unknown: int                 # those of them that are <unk>
    dropped: int                 # those that are in no window of a pass
    skipped: dict                # lines left out, by reason
    seed: int
    made_from: dict              # settings and input, as data_utils.py compares them
    streams: tuple
    format_version: int = FORMAT_VERSION

    def write(self, directory):
        files.write_json(os.path.join(directory, MANIFEST_NAME), dataclasses.asdict(self))

    @classmethod
    def read(cls, directory):
        """Reads and checks the manifest of `directory`: version, fields, sizes of the files."""
        path = os.path.join(directory, MANIFEST_NAME)
        if not os.path.exists(path):
            raise UserError("record_info_dir: no %s in %s, nor the reference's record_info-*.json; "
                            "make the records with data_utils.py" % (MANIFEST_NAME, directory))
        values = files.read_json(path, "manifest")
        if values.get("format_version") not in READABLE_VERSIONS:
            raise UserError("%s: format_version is %r, this program reads %s; regenerate the records"
                            % (path, values.get("format_version"),
                               " and ".join(map(str, READABLE_VERSIONS))))
        names = {field.name for field in dataclasses.fields(cls)}
        if set(values) != names:
            raise UserError("%s: missing fields %s, unexpected fields %s" % (
                path, sorted(names - set(values)), sorted(set(values) - names)))
        for stream in values["streams"]:
            file = os.path.join(directory, stream["file"])
            size = os.path.getsize(file) if os.path.exists(file) else None
            if size != stream["bytes"]:
                raise UserError("%s: %s has %s bytes, expected %d; make the records anew" % (
                    path, stream["file"], "no" if size is None else size, stream["bytes"]))
        return cls(**dict(values, streams=tuple(values["streams"])))

    def stream_paths(self, directory):
        return [os.path.join(directory, stream["file"]) for stream in self.streams]
