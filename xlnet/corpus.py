"""Text to pretraining records: documents, one token array, streams of windows, TFRecords.

Everything between reading and writing is a pure function of arrays and a seed.

Shape letters: T corpus tokens, N sentences, D documents, W windows of a stream in one pass,
Q tokens of a window (`seq_len`), G = Q - reuse_len - 3 tokens of segments A and B together.
"""

import collections
import contextlib
import dataclasses
import glob
import itertools
import os
import time

import numpy as np

from xlnet import files, records
from xlnet.errors import UserError
from xlnet.tokenization import Tokenizer

FORWARD, BACKWARD = 0, 1
MODEL_NAME = "spiece.model"
SPECIAL_TOKENS = 3               # <sep> <sep> <cls> of every window
MOST_STREAMS = 32                # when the number is not given
FEWEST_WINDOWS = 8               # per stream and pass, when the number of streams is not given
_BATCH_LINES = 10000
_BATCH_WINDOWS = 1024
_OPEN_FILES = 64
_EOP = "<eop>"

Line = collections.namedtuple("Line", "path number document text")


# Reading: files to tokens.

@dataclasses.dataclass(frozen=True)
class Corpus:
    """All documents, one after the other.

    `ids` int32 [T]; `sentences` int64 [N] and `documents` int64 [D] are the positions, ascending,
    at which sentences and documents begin. An <eod> belongs to its document's last sentence.
    """
    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray


def read_corpus(paths, tokenizer, from_raw_text=True, use_eod=True, advance=lambda n: None):
    """Reads text files (or files of ids) into a `Corpus`; `advance(bytes)` reports progress.

    Raises:
      UserError: bad UTF-8, NUL bytes, a bad id, or no text at all.
    """
    encode = tokenizer.encode_lines if from_raw_text else None
    tokens, lengths, documents = [], [], []
    lines = read_lines(paths, advance)
    for batch in iter(lambda: list(itertools.islice(lines, _BATCH_LINES)), []):
        encoded = _encode_text(batch, encode, tokenizer.eop_id) if encode else \
            _parse_ids(batch, tokenizer.vocab_size)
        lengths.append(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        tokens.append(np.fromiter(itertools.chain.from_iterable(encoded), np.int32,
                                  lengths[-1].sum()))
        documents.append(np.fromiter((line.document for line in batch), np.int64, len(batch)))
    if not sum(map(len, tokens)):
        raise UserError("input_glob: no text in %s" % _some(paths))
    return make_corpus(np.concatenate(tokens), np.concatenate(lengths), np.concatenate(documents),
                       tokenizer.eod_id if use_eod else None)


def make_corpus(ids, lengths, documents, eod_id=None):
    """Joins sentences into a `Corpus`.

    Args:
      ids: [sum of lengths] tokens. lengths: [sentences] tokens of each, 0 is skipped.
      documents: [sentences] number of the document each belongs to, ascending.
      eod_id: put after each document unless None.
    """
    lengths, documents = lengths[lengths > 0], documents[lengths > 0]
    is_last = np.append(documents[1:] != documents[:-1], True)
    if eod_id is not None:
        ids = np.insert(ids, np.cumsum(lengths)[is_last], eod_id)
        lengths = lengths + is_last
    sentences = np.cumsum(lengths) - lengths
    is_first = np.append(True, is_last[:-1])
    return Corpus(ids.astype(np.int32), sentences, sentences[is_first])


def read_lines(paths, advance=lambda n: None):
    """Yields every line that is not blank; a blank line or the end of a file ends a document."""
    document = 0
    for path in paths:
        with _open(path) as f:
            for number, raw in enumerate(f, 1):    # bytes: split at \n only, never at U+0085
                advance(len(raw))
                text = _decode(raw, path, number)
                if text:
                    yield Line(path, number, document, text)
                else:
                    document += 1
        document += 1


def _open(path):
    try:
        return open(path, "rb")
    except OSError as e:
        raise UserError("input_glob: cannot read %s: %s" % (path, e.strerror)) from None


def _decode(raw, path, number):
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as e:
        raise UserError("%s, line %d: not UTF-8: byte 0x%02x at column %d; convert the file first"
                        % (path, number, e.object[e.start], e.start + 1)) from None
    if "\0" in text:
        raise UserError("%s, line %d: a NUL byte at column %d; expected plain UTF-8 text"
                        % (path, number, text.index("\0") + 1))
    return text.strip()


def _encode_text(batch, encode, eop_id):
    """Pieces of each line; an <eop> that ends a line becomes `eop_id`, with no blank before it."""
    texts = [line.text for line in batch]
    ends = [eop_id is not None and text.endswith(_EOP) for text in texts]
    encoded = encode([text[:-len(_EOP)].rstrip() if end else text
                      for text, end in zip(texts, ends)])
    return [ids + [eop_id] if end else ids for ids, end in zip(encoded, ends)]


def _parse_ids(batch, vocab_size):
    return [_parse_line_of_ids(line, vocab_size) for line in batch]


def _parse_line_of_ids(line, vocab_size):
    words = line.text.split()
    try:
        ids = list(map(int, words))
        fits = min(ids) >= 0 and max(ids) < vocab_size
    except ValueError:
        fits = False
    if not fits:
        wrong = next(word for word in words if not _is_id(word, vocab_size))
        raise UserError("%s, line %d: '%.40s' is not a token id, expected whole numbers from 0 to "
                        "%d (from_raw_text is False)"
                        % (line.path, line.number, wrong, vocab_size - 1))
    return ids


def _is_id(word, vocab_size):
    return word.isascii() and word.isdigit() and len(word) < 20 and int(word) < vocab_size


def _some(paths):
    return paths[0] if len(paths) == 1 else "%d files (%s, ...)" % (len(paths), paths[0])


def shuffle_documents(corpus, rng):
    """Returns the corpus with its documents in random order, each whole."""
    lengths = np.diff(np.append(corpus.documents, len(corpus.ids)))
    order = rng.permutation(len(lengths))
    lengths = lengths[order]
    documents = np.cumsum(lengths) - lengths
    source = np.repeat(corpus.documents[order] - documents, lengths)
    source += np.arange(len(source))
    begins_sentence = np.zeros(len(corpus.ids), bool)
    begins_sentence[corpus.sentences] = True
    return Corpus(corpus.ids[source], np.flatnonzero(begins_sentence[source]), documents)


# Streams: how many, how long, in which direction.

@dataclasses.dataclass(frozen=True)
class StreamPlan:
    """`parts` parts of `part_len` tokens; each gives one stream, or one forward and one backward.

    With both directions stream 2i reads part i forward and stream 2i + 1 reads it backward, so
    that any run of an even number of streams is balanced. Every stream has `windows` windows in
    each pass.
    """
    num_streams: int
    bi_data: bool
    part_len: int
    windows: int

    @property
    def parts(self):
        return self.num_streams // (1 + self.bi_data)

    def direction(self, stream):
        return stream % 2 if self.bi_data else FORWARD

    def begins(self, stream, num_tokens, reuse_len):
        """Window starts [W] of a stream, as positions in the reading of its direction."""
        part = stream // (1 + self.bi_data)
        first = part * self.part_len
        if self.direction(stream) == BACKWARD:
            first = num_tokens - first - self.part_len
        return first + reuse_len * np.arange(self.windows)


def count_windows(part_len, seq_len, reuse_len):
    """Windows that fit into a part: each moves on by `reuse_len` and reads Q - 3 tokens."""
    return max(0, (part_len - (seq_len - SPECIAL_TOKENS)) // reuse_len + 1)


def plan_streams(num_tokens, seq_len, reuse_len, num_streams=0, bi_data=True):
    """Returns the `StreamPlan` for a corpus; `num_streams` 0 chooses a power of two.

    Raises:
      UserError: an odd number with `bi_data`, or fewer tokens than one window for each stream.
    """
    directions = 1 + bi_data
    if num_streams < 0 or num_streams % directions:
        raise UserError("num_streams (or bsz_per_host) is %d, expected %s" % (
            num_streams, "an even number: with bi_data half of the streams run backward"
            if bi_data else "at least 1; 0 chooses"))

    def plan(streams):
        part_len = num_tokens // (streams // directions)
        return StreamPlan(streams, bi_data, part_len, count_windows(part_len, seq_len, reuse_len))

    if num_streams:
        chosen = plan(num_streams)
    else:
        sizes = [MOST_STREAMS >> i for i in range(6) if MOST_STREAMS >> i >= directions]
        plans = [plan(size) for size in sizes]
        chosen = next((p for p in plans if p.windows >= FEWEST_WINDOWS), plans[-1])
    if not chosen.windows:
        raise UserError(
            "the text has %d tokens, too few for num_streams=%d with seq_len=%d: at least %d are "
            "needed; give more text or lower num_streams or seq_len" % (
                num_tokens, chosen.num_streams, seq_len,
                chosen.parts * (seq_len - SPECIAL_TOKENS)))
    return chosen


# Windows: one stream to arrays.

@dataclasses.dataclass(frozen=True)
class Reading:
    """A corpus as it is read in one direction; positions count from where the reader begins.

    `ids` int32 [T]; `sentences` int64 [N], ascending, where a sentence begins for this reader;
    `words` bool [T], true where a word begins for this reader.
    """
    ids: np.ndarray
    sentences: np.ndarray
    words: np.ndarray


def read_forward(corpus, is_word_start, special_ids):
    """Returns the corpus read forward; special tokens are words of their own.

    Args:
      is_word_start: bool [V], pieces that begin a word. special_ids: tokens that are words alone.
    """
    special = np.isin(corpus.ids, special_ids)
    words = is_word_start[corpus.ids] | special
    words[1:] |= special[:-1]
    words[corpus.sentences] = True
    return Reading(corpus.ids, corpus.sentences, words)


def read_backward(forward):
    """Returns the reversed reading: a word begins at what was its last piece, sentences alike."""
    size = len(forward.ids)
    last = np.append(forward.sentences[1:], size) - 1
    is_last_piece = np.append(forward.words[1:], True)
    return Reading(forward.ids[::-1], (size - 1 - last)[::-1], is_last_piece[::-1])


Segments = collections.namedtuple("Segments", "a_len b_begin label")  # each int64 [W]


def draw_segments(reading, begins, seq_len, reuse_len, rng):
    """Draws segments A and B of each window: lengths add up to G, A follows the reused part.

    A ends at a sentence boundary, or anywhere if none is within reach. With probability 1/2 B
    continues A (label 1); otherwise it begins at a sentence elsewhere in the corpus and overlaps
    neither the window's own text nor A's continuation. Where the corpus is too small for that it
    begins anywhere else, and where even that is impossible B continues A.

    Args:
      begins: int64 [W], where the windows begin.
    """
    both = seq_len - reuse_len - SPECIAL_TOKENS
    a_begin, end = begins + reuse_len, begins + reuse_len + both
    where_a, where_b, which = rng.random((3, len(begins)))
    low = np.searchsorted(reading.sentences, a_begin, "right")
    count = np.searchsorted(reading.sentences, end, "left") - low
    anywhere = 1 + (where_a * (both - 1)).astype(np.int64)
    boundary = _take(reading.sentences, low + (where_a * count).astype(np.int64))
    a_len = np.where(count > 0, boundary - a_begin, anywhere)
    elsewhere = _draw_elsewhere(reading, begins, end, both - a_len, where_b)
    label = (which < 0.5) | (elsewhere < 0)
    return Segments(a_len, np.where(label, a_begin + a_len, elsewhere), label.astype(np.int64))


def _draw_elsewhere(reading, begins, ends, b_len, uniform):
    """Draws starts [W] of `b_len` tokens outside of [begins, ends); -1 where there is no room.

    All starts that fit before the window, then all that fit behind it, are numbered through and
    one number is drawn: exact and without rejection.
    """
    size = len(reading.ids)
    before = np.searchsorted(reading.sentences, begins - b_len, "right")
    behind = np.searchsorted(reading.sentences, ends, "left")
    count = before + np.maximum(np.searchsorted(reading.sentences, size - b_len, "right") - behind,
                                0)
    number = (uniform * count).astype(np.int64)
    sentence = _take(reading.sentences, np.where(number < before, number, number - before + behind))
    before = np.maximum(begins - b_len + 1, 0)           # the same among all positions
    positions = before + np.maximum(size - b_len + 1 - ends, 0)
    number = (uniform * positions).astype(np.int64)
    position = np.where(number < before, number, number - before + ends)
    return np.where(count > 0, sentence, np.where(positions > 0, position, -1))


def _take(values, index):
    """`values[index]`, with indices that the caller will discard clipped into range."""
    return values[np.minimum(index, len(values) - 1)]


def fill_windows(reading, begins, segments, seq_len, reuse_len, sep_id, cls_id):
    """Lays windows out as [reuse_len tokens][A]<sep>[B]<sep><cls>.

    Returns:
      `input` int32, `seg_id` int8 (0 to A's <sep>, 1 to B's, 2 <cls>), `word_start` bool, all
      [W, Q]; `label` int64 [W]. Besides the words of the text, the window, A, B and each special
      token begin a word.
    """
    column = np.arange(seq_len)[None, :]
    a_end = (reuse_len + segments.a_len)[:, None]        # the column of A's <sep>
    in_b = column > a_end
    source = np.where(in_b, segments.b_begin[:, None] - a_end - 1, begins[:, None]) + column
    source = np.clip(source, 0, len(reading.ids) - 1)    # columns of special tokens
    is_sep = (column == a_end) | (column == seq_len - 2)
    ids = np.where(is_sep, sep_id, reading.ids[source])
    ids[:, -1] = cls_id
    words = reading.words[source] | is_sep | (column == a_end + 1)
    words[:, [0, reuse_len, -1]] = True
    seg_id = in_b.astype(np.int8)
    seg_id[:, -1] = 2
    return {"input": ids.astype(np.int32), "seg_id": seg_id, "word_start": words,
            "label": segments.label}


def stream_windows(reading, begins, rng, seq_len, reuse_len, sep_id, cls_id):
    """Yields the windows of one stream in one pass, in order, some hundreds at a time."""
    drawn = draw_segments(reading, begins, seq_len, reuse_len, rng)
    for low in range(0, len(begins), _BATCH_WINDOWS):
        part = slice(low, low + _BATCH_WINDOWS)
        yield fill_windows(reading, begins[part], Segments(*(value[part] for value in drawn)),
                           seq_len, reuse_len, sep_id, cls_id)


# Writing: windows to record files.

@contextlib.contextmanager
def silent(description, total, unit):
    """The default `progress`: a context manager that yields a function `advance(n)`."""
    yield lambda n: None


@dataclasses.dataclass(frozen=True)
class Summary:
    """What `make_records` did; `dropped` tokens at the ends of parts are in no window."""
    manifest: records.Manifest
    unknown: int
    dropped: int
    seconds: float


def make_records(settings, progress=silent):
    """Turns text into the record directory that `settings` (`CorpusSettings`) describe.

    One seed gives the same bytes on every run. Records of an earlier run are removed only when
    the new text has been read; the manifest is written last, so a directory that has one is whole.

    Raises:
      UserError: settings that do not fit together, unreadable or too little text.
    """
    began = time.time()
    check_settings(settings)
    tokenizer = Tokenizer(settings.sp_path, settings.uncased, settings.keep_accents)
    paths = files.expand(settings.input_glob, "input_glob")
    with progress("reading", sum(map(os.path.getsize, paths)), "B") as advance:
        corpus = read_corpus(paths, tokenizer, settings.from_raw_text, settings.use_eod, advance)
    plan = plan_streams(len(corpus.ids), settings.seq_len, settings.reuse_len,
                        settings.num_streams or settings.bsz_per_host or 0, settings.bi_data)
    clear_records(settings.save_dir)
    tokenizer.save(os.path.join(settings.save_dir, MODEL_NAME))
    total = plan.windows * plan.num_streams * settings.num_passes
    with progress("writing", total, " windows") as advance:
        _write_streams(corpus, tokenizer, settings, plan, advance)
    manifest = _make_manifest(corpus, tokenizer, settings, plan)
    manifest.write(settings.save_dir)
    used = (plan.windows - 1) * settings.reuse_len + settings.seq_len - SPECIAL_TOKENS
    return Summary(manifest, unknown=int(np.sum(corpus.ids == tokenizer.unk_id)),
                   dropped=len(corpus.ids) - plan.parts * used, seconds=time.time() - began)


def check_settings(settings):
    """Raises UserError for settings that no text could fit."""
    smallest = SPECIAL_TOKENS + 3    # one token of the reused part, of A and of B
    if settings.seq_len < smallest:
        raise UserError("sequence too short: seq_len is %d, expected at least %d"
                        % (settings.seq_len, smallest))
    if not 1 <= settings.reuse_len <= settings.seq_len - SPECIAL_TOKENS - 2:
        raise UserError("reuse_len is %d, expected 1 <= reuse_len <= seq_len - 5 = %d (the rest of "
                        "a window is two segments, <sep> <sep> <cls>)"
                        % (settings.reuse_len, settings.seq_len - SPECIAL_TOKENS - 2))
    if settings.seed < 0:
        raise UserError("seed is %d, expected at least 0" % settings.seed)
    if settings.bsz_per_host is not None and settings.bsz_per_host < 1:
        raise UserError("bsz_per_host is %d, expected at least 1" % settings.bsz_per_host)
    if settings.num_streams and settings.bsz_per_host not in (None, settings.num_streams):
        raise UserError("num_streams is %d but bsz_per_host, its other name, is %d; give one"
                        % (settings.num_streams, settings.bsz_per_host))
    if os.path.exists(settings.save_dir) and not os.path.isdir(settings.save_dir):
        raise UserError("save_dir: %s is a file, expected a directory" % settings.save_dir)


def clear_records(directory):
    """Makes `directory`, or removes the records in it: first the manifest that vouches for them."""
    try:
        os.makedirs(directory, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(directory, records.MANIFEST_NAME))
        stale = os.path.join(glob.escape(directory), "stream-*-of-*.tfrecord*")
        for path in glob.glob(stale):
            os.remove(path)
    except OSError as e:
        raise UserError("save_dir: cannot write to %s: %s" % (directory, e.strerror)) from None


def stream_name(stream, num_streams):
    return "stream-%05d-of-%05d.tfrecord" % (stream, num_streams)


def _write_streams(corpus, tokenizer, settings, plan, advance):
    """Writes all stream files, `_OPEN_FILES` at a time (passes are laid out anew for each)."""
    import tensorflow as tf
    for low in range(0, plan.num_streams, _OPEN_FILES):
        streams = range(low, min(low + _OPEN_FILES, plan.num_streams))
        with contextlib.ExitStack() as stack:
            writers = []
            for stream in streams:
                name = stream_name(stream, plan.num_streams)
                path = stack.enter_context(files.replacing(os.path.join(settings.save_dir, name)))
                writers.append(stack.enter_context(tf.io.TFRecordWriter(path)))
            for number in range(settings.num_passes):
                readings = lay_out_pass(corpus, tokenizer, settings.seed, number)
                for stream, writer in zip(streams, writers):
                    _write_pass(writer, readings, settings, plan, tokenizer, number, stream,
                                advance)


def lay_out_pass(corpus, tokenizer, seed, number):
    """Returns the forward and the backward `Reading` of a pass; pass 0 keeps the order given."""
    if number:
        # The last word of the seed is 0 here and 1 + stream in _write_pass.
        corpus = shuffle_documents(corpus, np.random.default_rng([seed, number, 0]))
    special = [i for i in (tokenizer.cls_id, tokenizer.sep_id, tokenizer.eod_id, tokenizer.eop_id)
               if i is not None]
    forward = read_forward(corpus, tokenizer.is_word_start, special)
    return forward, read_backward(forward)


def _write_pass(writer, readings, settings, plan, tokenizer, number, stream, advance):
    """Writes the windows of one stream in one pass."""
    direction = plan.direction(stream)
    begins = plan.begins(stream, len(readings[direction].ids), settings.reuse_len)
    rng = np.random.default_rng([settings.seed, number, 1 + stream])
    starts_stream = 1
    for windows in stream_windows(readings[direction], begins, rng, settings.seq_len,
                                  settings.reuse_len, tokenizer.sep_id, tokenizer.cls_id):
        windows["direction"] = np.full(len(windows["label"]), direction)
        windows["starts_stream"] = np.zeros(len(windows["label"]), np.int64)
        windows["starts_stream"][0] = starts_stream
        starts_stream = 0
        for example in encode_windows(records.pretraining_features(settings.seq_len), windows):
            writer.write(example)
        advance(len(windows["label"]))


def encode_windows(features, windows):
    """Serializes arrays [W, ...] of integers >= 0 to W examples, byte for byte as `records.encode`.

    That takes 0.2 ms a window, more than all the rest; here the numbers of all windows become
    bytes together, and only their joining is done window by window.
    """
    names = sorted(feature.name for feature in features)
    columns = [_pack_integers(windows[name]) for name in names]
    # Example{features=1: Features{feature=1: map entry{key=1, value=2: Feature{int64_list=3:
    # Int64List{value=1, packed}}}}}
    keys = [_field(1, name.encode()) for name in names]
    for row in zip(*columns):
        yield _field(1, b"".join([_field(1, key + _field(2, _field(3, _field(1, packed))))
                                  for key, packed in zip(keys, row)]))


def _field(number, payload):
    """A length-delimited protocol buffer field."""
    size = len(payload)
    header = [number << 3 | 2]
    while size > 127:
        header.append(size & 127 | 128)
        size >>= 7
    header.append(size)
    return bytes(header) + payload


def _pack_integers(values):
    """Writes each row of `values` [W, ...] as base-128 varints; returns W byte strings."""
    values = values.reshape(len(values), -1).astype(np.int64)
    width = max(1, -(-int(values.max()).bit_length() // 7))
    groups = values[:, :, None] >> (7 * np.arange(width))
    used = groups > 0
    used[:, :, 0] = True
    octets = (groups & 127).astype(np.uint8)
    octets[:, :, :-1] |= used[:, :, 1:].astype(np.uint8) << 7    # more bytes follow
    packed = octets[used].tobytes()
    ends = np.cumsum(used.sum(axis=(1, 2))).tolist()
    return [packed[begin:end] for begin, end in zip([0] + ends, ends)]


def _make_manifest(corpus, tokenizer, settings, plan):
    streams = []
    for stream in range(plan.num_streams):
        name = stream_name(stream, plan.num_streams)
        path = os.path.join(settings.save_dir, name)
        streams.append({"file": name, "direction": plan.direction(stream),
                        "windows": plan.windows * settings.num_passes,
                        "bytes": os.path.getsize(path), "sha256": files.sha256(path)})
    return records.Manifest(
        vocab_size=tokenizer.vocab_size, sp_model=MODEL_NAME, sp_model_sha256=tokenizer.sha256,
        uncased=tokenizer.uncased, keep_accents=tokenizer.keep_accents,
        seq_len=settings.seq_len, reuse_len=settings.reuse_len,
        bi_data=settings.bi_data, num_streams=plan.num_streams, num_passes=settings.num_passes,
        windows_per_stream=plan.windows * settings.num_passes, documents=len(corpus.documents),
        sentences=len(corpus.sentences), tokens=len(corpus.ids), seed=settings.seed,
        streams=tuple(streams))
