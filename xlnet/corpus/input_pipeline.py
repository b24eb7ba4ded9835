"""From record files to batches of tensors.

Shape letters: B batch, R those of its rows that are computed here, Q sequence length, P target
positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus import permutation, record_files
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.record_files import Feature
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.pretraining import SamplingSettings
from xlnet.support.errors import wrong

POOL_BATCHES = 32  # batches that are sorted by length together

# For the functions of datasets: TensorFlow would otherwise rewrite their source at each start.
_without_autograph = tf.autograph.experimental.do_not_convert


def steps_per_epoch(manifest: Manifest, batch_size: int) -> int:
    """Steps in which every sequence is seen once; a UserError if the batch size does not divide the
    number of streams."""
    if manifest.num_streams % batch_size:
        expected = f"a divisor of the {manifest.num_streams} streams of the data"
        # Streams of both directions come in pairs.
        multiple = 2 if manifest.bi_data and batch_size % 2 else 1
        remedy = f"or records with --num_streams={batch_size * multiple}"
        raise wrong("train_batch_size", batch_size, expected, remedy)
    return manifest.num_streams // batch_size * manifest.windows_per_stream


def pretraining_batches(
    directory: str,
    manifest: Manifest,
    *,
    batch_size: int,
    sampling: SamplingSettings,
    tokenizer: Tokenizer,
    seed: int,
    start_step: int = 0,
    rows: slice = slice(None),
) -> tf.data.Dataset:
    """Batches of sequences whose row b continues row b of the batch before, without end.

    Each row reads its own streams one after the other (`rounds`); `starts_stream` says where the
    memory must be cleared. Targets and orders are sampled again in each epoch, as a function of
    (seed, epoch, stream, sequence): step n and each row are always the same, wherever reading
    starts and whichever rows are read.

    Args:
      directory: of the records.
      manifest: their description.
      batch_size: B, which divides the number of streams, see `steps_per_epoch`.
      sampling: how targets and orders are sampled, as `permutation` reads them.
      tokenizer: that of the records.
      seed: of the sampling.
      start_step: the first step, for resuming; earlier ones are not read.
      rows: the R rows of the batch that this host computes.

    Returns:
      A `tf.data.Dataset` of dicts: input_ids, seg_ids, rank int32 [R,Q]; positions int32 [R,P],
      weights float32 [R,P], 0 for positions that predict nothing; direction, starts_stream, label
      int32 [R].
    """
    # An epoch consists of rounds, each of `windows_per_stream` steps. Example: with three sequences
    # a stream, step 7 is sequence 1 of round 2.
    streams = rounds(manifest.num_streams, batch_size, 1 + manifest.bi_data)[:, rows]
    num_rounds, num_rows = streams.shape  # of an epoch, R
    length = manifest.windows_per_stream
    features = record_files.pretraining_features(manifest.seq_len)
    special_ids = [tokenizer.sep_id, tokenizer.cls_id]
    paths, first_stream = manifest.stream_paths(directory), manifest.streams[0]
    record_bytes = first_stream["bytes"] // first_stream["windows"]
    files: dict[int, record_files.EqualRecords] = {}  # of the streams of a round

    def read_records(step: np.ndarray) -> np.ndarray:
        """The serialized sequences of a step [R]."""
        number, sequence = divmod(int(step), length)
        if not sequence:
            files.clear()
        serialized = []
        for stream in streams[number % num_rounds].tolist():
            if stream not in files:
                path = paths[stream]
                files[stream] = record_files.EqualRecords(path, record_bytes)
            serialized.append(files[stream].read(sequence))
        return np.array(serialized, object)

    def sample_targets(
        step: np.ndarray, ids: np.ndarray, word_start: np.ndarray, direction: np.ndarray
    ) -> permutation.Sampled:
        """Targets and orders of the sequences of a step; its number, then features [R,Q], [R,Q] and
        [R]."""
        number, sequence = divmod(int(step), length)
        epoch, in_epoch = divmod(number, num_rounds)
        random = permutation.Random(seed, epoch, streams[in_epoch], sequence)
        starts = word_start > 0
        if sampling.mask_mode == "legacy":
            starts = tokenizer.is_legacy_word_start[ids]
        is_special = np.isin(ids, special_ids)
        return permutation.sample(
            random, is_special, starts, direction, sampling, manifest.reuse_len
        )

    @_without_autograph
    def batch(step: tf.Tensor) -> dict[str, tf.Tensor]:
        """The features of a step."""
        serialized = tf.numpy_function(read_records, [step], tf.string)
        serialized = tf.ensure_shape(serialized, [num_rows])
        parsed = record_files.parse(features, serialized)
        given = [step, parsed["input"], parsed["word_start"], parsed["direction"]]
        types = [tf.int32, tf.int32, tf.float32]
        rank, positions, weights = tf.numpy_function(sample_targets, given, types)
        rank = tf.ensure_shape(rank, [num_rows, manifest.seq_len])
        positions = tf.ensure_shape(positions, [num_rows, sampling.num_predict])
        weights = tf.ensure_shape(weights, [num_rows, sampling.num_predict])
        # The names that the model expects.
        return {
            "input_ids": parsed["input"],
            "seg_ids": parsed["seg_id"],
            "rank": rank,
            "positions": positions,
            "weights": weights,
            "direction": parsed["direction"],
            "starts_stream": parsed["starts_stream"],
            "label": parsed["label"],
        }

    # One call at a time: two would wait for Python's lock, and be slower.
    steps = tf.data.Dataset.range(start_step, 1 << 62)
    return _ahead(steps.map(batch, num_parallel_calls=1), 2)


def _ahead(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Prefetches `count` elements. For iterators of a graph: with eager iteration, threads that
    work ahead would call Python while the interpreter exits, a deadlock."""
    options = tf.data.Options()
    # The numbers of threads and elements are all given, so there is nothing to tune. The tuning
    # thread would also cost time: it may sleep for up to a minute when an iterator begins a file
    # again, and the iterator waits for it. A held-out evaluation after training hung that long.
    options.autotune.enabled = False
    return dataset.prefetch(count).with_options(options)


def rounds(num_streams: int, batch_size: int, directions: int) -> np.ndarray:
    """Which streams are read side by side: int [rounds,B].

    Eight streams of both directions, forward (even) and backward (odd) of four parts of the text,
    in batches of four; of three sequences each the steps are

        round 0, streams 0 1 | 6 7:   steps 0, 1, 2 have sequences 0, 1, 2 of each
        round 1, streams 2 3 | 4 5:   steps 3, 4, 5 have sequences 0, 1, 2 of each

    Batch elements 0 and 1 read the first half of the text, 2 and 3 the second. Element b of a step
    continues element b of the step before; where a round begins its memory is zeroed.
    """
    # Streams follow the order of the text. A round takes streams at equal distances, so that every
    # step has sequences from all over the text, whose files may differ. With two `directions`, half
    # of an even batch is backward in every round.
    together = directions if batch_size % directions == 0 else 1
    # [B/together,rounds,together]
    stretches = np.arange(num_streams).reshape(batch_size // together, -1, together)
    # Stretch r is turned by r rounds. So in an odd batch of two `directions` neighbours are read in
    # different ones; in any other batch it only changes in which round a stream is read.
    turned = [np.roll(stretch, r, axis=0) for r, stretch in enumerate(stretches)]
    return np.stack(turned, axis=1).reshape(-1, batch_size)


def for_replicas(dataset: tf.data.Dataset, replicas: int) -> tf.data.Dataset:
    """Cuts batches into those of a host's replicas, which take them in turn: each row of the batch
    always has the same position in the same replica."""
    if replicas == 1:
        return dataset
    size = dataset.element_spec["input_ids"].shape[0] // replicas
    parts = dataset.unbatch().batch(size, drop_remainder=True)
    return _ahead(parts, 2 * replicas)  # two batches


def finetuning_batches(
    path: str,
    features: Sequence[Feature],
    *,
    batch_size: int,
    row_length: int,
    shuffle_seed: int,
    start_step: int = 0,
    multiple: int = 8,
    pads: str = "left",
    token_features: Sequence[str] = (),
) -> tf.data.Dataset:
    """Batches of fine-tuning examples of about equal length, without end.

    The complete file is shuffled in each epoch, in an order that the seed alone decides. Which
    examples make a batch does not depend on `multiple`.

    Args:
      path: of the records.
      features: of a record.
      batch_size: examples of a batch.
      row_length: T, tokens of one choice.
      shuffle_seed: of the order.
      start_step: batches to leave out.
      multiple: batches are as long as their longest example, rounded up to a multiple of this
        [tokens]; T: all are equally long, for TPUs and XLA.
      pads: "left" or "right", where padding is.
      token_features: names of further features [T].

    Returns:
      A `tf.data.Dataset` of dicts of `features`, and `index` int64 [B], the records' numbers.
    """
    # The examples of a pool are sorted by length, so that batches need little padding. A pool is
    # not larger than the file, so that no batch has an example twice, see `_shuffled_pools`.
    records = record_files.EqualRecords(path)
    pool_batches = max(1, min(POOL_BATCHES, len(records) // batch_size))
    size = pool_batches * batch_size
    first_pool, rest = divmod(start_step, pool_batches)

    def read_pools() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the numbers of the records of a pool, and the records, [size] each."""
        pools = _shuffled_pools(len(records), size, shuffle_seed)
        for numbers in itertools.islice(pools, first_pool, None):
            serialized = [records.read(number) for number in numbers.tolist()]
            yield numbers, np.array(serialized, object)

    def longest_choice(input_mask: tf.Tensor) -> tf.Tensor:
        """The tokens of the longest choice of each example, int32 [B]; input_mask: [B,C*T]."""
        padding = tf.reshape(input_mask, [input_mask.shape[0], -1, row_length])
        lengths = tf.reduce_sum(1.0 - padding, axis=2)  # [B,C]
        return tf.cast(tf.reduce_max(lengths, axis=1), tf.int32)

    @_without_autograph
    def batches_of(
        pool_index: tf.Tensor, indexed: tuple[tf.Tensor, tf.Tensor]
    ) -> tf.data.Dataset:
        """The batches of a pool that is sorted by length, in random order."""
        parsed = dict(record_files.parse(features, indexed[1]), index=indexed[0])
        by_length = tf.argsort(longest_choice(parsed["input_mask"]), stable=True)
        order = tf.random.experimental.stateless_shuffle(
            tf.range(pool_batches), seed=[shuffle_seed, pool_index]
        )
        batches = {}
        for name, values in parsed.items():
            shape = [pool_batches, batch_size, *values.shape[1:]]
            in_batches = tf.reshape(tf.gather(values, by_length), shape)
            batches[name] = tf.gather(in_batches, order)
        return tf.data.Dataset.from_tensor_slices(batches)

    @_without_autograph
    def without_padding(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Cuts off the columns on the side `pads` in which no example of the batch has a token."""
        # The length is that of the longest choice in the batch, rounded up: there are few different
        # lengths, as TensorFlow makes a plan for each.
        longest = tf.reduce_max(longest_choice(batch["input_mask"]))
        length = tf.minimum(-(-longest // multiple) * multiple, row_length)
        kept = slice(row_length - length, None)
        if pads == "right":
            kept = slice(None, length)
        shorter = dict(batch)
        for name in ("input_ids", "input_mask", "segment_ids", *token_features):
            choices = batch[name].shape[1] // row_length
            rows = tf.reshape(batch[name], [-1, choices, row_length])[:, :, kept]
            shorter[name] = tf.reshape(rows, [batch_size, choices * length])
        return shorter

    pools = tf.data.Dataset.from_generator(
        read_pools,
        output_signature=(
            tf.TensorSpec([size], tf.int64),
            tf.TensorSpec([size], tf.string),
        ),
    )
    dataset = pools.enumerate(first_pool).flat_map(batches_of).skip(rest)
    if multiple < row_length:
        dataset = dataset.map(without_padding, num_parallel_calls=2)
    return _ahead(dataset, 4)


def _shuffled_pools(count: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """Yields pools, the numbers of `size` of `count` records, without end.

    Each epoch has all records in a random order, a function of (seed, epoch), and pools are cut
    from the epochs one after the other. The pool where two epochs meet has no record twice. Seven
    records in pools of three:

        epoch 0, in random order   4 0 6 | 2 5 1 | 3
        epoch 1, in random order   3 1 5 0 2 6 4        the last pool of epoch 0 has 3 already, so
        epoch 1, as it is read     1 5 | 3 0 2 | 6 4    1 and 5 complete it, and 3 comes later
    """
    begun = np.zeros(0, np.int64)  # the last pool of the epoch before
    for epoch in itertools.count():
        order = np.random.default_rng([seed, epoch]).permutation(count)
        if size <= count:  # a larger pool has records twice anyway
            is_new = ~np.isin(order, begun)
            missing = -len(begun) % size  # to complete the pool that is begun
            others = np.flatnonzero(is_new)[:missing]
            order = np.concatenate([order[others], np.delete(order, others)])
        order = np.concatenate([begun, order])
        complete = len(order) // size * size
        yield from order[:complete].reshape(-1, size)
        begun = order[complete:]
