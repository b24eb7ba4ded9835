"""From record files to batches of tensors.

Shape letters: B batch, R those of its rows that this host computes, Q sequence length, P target
positions, C choices of an example (1 but for multiple-choice tasks), T tokens of a choice.
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
        # Streams of both directions come in pairs, so their number is even.
        multiple = 2 if manifest.bi_data and batch_size % 2 else 1
        remedy = f"or records with --num_streams={batch_size * multiple}"
        raise wrong("train_batch_size", batch_size, expected, remedy)
    num_rounds = manifest.num_streams // batch_size
    return num_rounds * manifest.windows_per_stream


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
    directions = 1 + manifest.bi_data  # 2: every other stream is backward
    streams_of_rounds = rounds(manifest.num_streams, batch_size, directions)[:, rows]
    num_rounds, num_rows = streams_of_rounds.shape  # of an epoch; R
    steps_of_round = manifest.windows_per_stream
    features = record_files.pretraining_features(manifest.seq_len)
    special_ids = [tokenizer.sep_id, tokenizer.cls_id]
    paths, first_stream = manifest.stream_paths(directory), manifest.streams[0]
    record_bytes = first_stream["bytes"] // first_stream["windows"]  # all are equal
    readers: dict[int, record_files.EqualRecords] = {}  # by stream, of this round

    def read_records(step: np.ndarray) -> np.ndarray:
        """The serialized sequences of a step: bytes [R], the stream's next record in each row."""
        round_number, sequence = divmod(int(step), steps_of_round)
        if not sequence:  # another round begins
            readers.clear()
        serialized = []
        for stream in streams_of_rounds[round_number % num_rounds].tolist():
            if stream not in readers:
                path = paths[stream]
                readers[stream] = record_files.EqualRecords(path, record_bytes)
            serialized.append(readers[stream].read(sequence))
        return np.array(serialized, object)

    def sample_targets(
        step: np.ndarray, ids: np.ndarray, word_start: np.ndarray, direction: np.ndarray
    ) -> permutation.Sampled:
        """Targets and orders of the sequences of a step, by its number, the sequences' ids int32
        [R,Q], and their features `word_start` int32 [R,Q] and `direction` int32 [R]."""
        round_number, sequence = divmod(int(step), steps_of_round)
        epoch, round_of_epoch = divmod(round_number, num_rounds)
        streams = streams_of_rounds[round_of_epoch]  # [R]
        random = permutation.Random(seed, epoch, streams, sequence)
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
        inputs = [step, parsed["input"], parsed["word_start"], parsed["direction"]]
        types = [tf.int32, tf.int32, tf.float32]
        rank, positions, weights = tf.numpy_function(sample_targets, inputs, types)
        # The shapes, which TensorFlow cannot know of a Python function.
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

    steps = tf.data.Dataset.range(start_step, 1 << 62)  # without end
    # One call at a time: two would wait for Python's lock, and be slower.
    return _prefetch(steps.map(batch, num_parallel_calls=1), 2)


def _prefetch(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Returns the dataset with `count` elements prefetched, by a thread of its own.

    Only for iterators of a graph: with eager iteration, that thread would call Python while the
    interpreter exits, a deadlock.
    """
    options = tf.data.Options()
    # The numbers of threads and elements are all given, so there is nothing to tune. The tuning
    # thread would also cost time: it may sleep for up to a minute when an iterator begins a file
    # again, and the iterator waits for it.
    options.autotune.enabled = False
    return dataset.prefetch(count).with_options(options)


def rounds(num_streams: int, batch_size: int, directions: int) -> np.ndarray:
    """Which streams are read in each round, side by side in the batch: int [rounds,B].

    directions: 2 if streams are forward and backward in turn, otherwise 1.

    Eight streams of both directions, forward (even) and backward (odd) of four parts of the text,
    in batches of four; with three sequences in each stream the steps are

        round 0, streams 0 1 | 6 7:   steps 0, 1, 2 have sequences 0, 1, 2 of each
        round 1, streams 2 3 | 4 5:   steps 3, 4, 5 have sequences 0, 1, 2 of each

    Batch elements 0 and 1 read the first half of the text, 2 and 3 the second. Element b of a step
    continues element b of the step before; where a round begins its memory is zeroed.
    """
    # Streams follow the order of the text. They are divided into stretches of neighbours, and a
    # round takes the next streams of each stretch, so that every step has sequences from all over
    # the text, whose files may differ. With two `directions`, an even batch takes a forward and a
    # backward stream of each stretch together: half of it is backward in every round.
    together = directions if batch_size % directions == 0 else 1
    # [B/together,rounds,together]
    stretches = np.arange(num_streams).reshape(batch_size // together, -1, together)
    # Stretch number s is rolled by s rounds. Without this an odd batch would read all stretches
    # forward in one round and backward in the next; with it neighbouring elements have
    # different directions. In other batches it only changes in which round a stream is read.
    rolled = [np.roll(stretch, s, axis=0) for s, stretch in enumerate(stretches)]
    return np.stack(rolled, axis=1).reshape(-1, batch_size)


def for_replicas(dataset: tf.data.Dataset, replicas: int) -> tf.data.Dataset:
    """Cuts each batch of a host into equal ones of its `replicas`, in order: replica r takes the
    batches r, r + replicas, ... of the result. So batch element b always goes to the same replica
    and position, as the memories of pretraining need."""
    if replicas == 1:
        return dataset
    replica_batch_size = dataset.element_spec["input_ids"].shape[0] // replicas
    # The size divides the batch; `drop_remainder` makes it a part of the static shape.
    of_replicas = dataset.unbatch().batch(replica_batch_size, drop_remainder=True)
    return _prefetch(of_replicas, 2 * replicas)  # two batches of the host


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
      path: of the record file.
      features: the layout of a record (`record_files.finetuning_features`).
      batch_size: B, examples of a batch.
      row_length: T, tokens of one choice.
      shuffle_seed: of the order.
      start_step: the first step, for resuming; the batches of earlier ones are left out.
      multiple: batches are as long as their longest example, rounded up to a multiple of this
        [tokens]; T: all are equally long, for TPUs and XLA.
      pads: "left" or "right", where padding is.
      token_features: names of features [C*T] that are shortened with the ids, mask and segments.

    Returns:
      A `tf.data.Dataset` of dicts of `features`, and `index` int64 [B], the records' numbers.
    """
    # The examples of a pool, `pool_batches` batches, are sorted by length, so that batches need
    # little padding. A pool is not larger than the file, so that no batch has an example twice, see
    # `_shuffled_pools`; but it is a batch at least, even of a file that has fewer examples.
    records = record_files.EqualRecords(path)
    pool_batches = max(1, min(POOL_BATCHES, len(records) // batch_size))
    pool_size = pool_batches * batch_size  # [examples]
    first_pool, skipped_batches = divmod(start_step, pool_batches)

    def read_pools() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields for each pool the numbers of its records, int64 [pool_size], and the serialized
        records, bytes [pool_size]."""
        pools = _shuffled_pools(len(records), pool_size, shuffle_seed)
        for numbers in itertools.islice(pools, first_pool, None):
            serialized = [records.read(number) for number in numbers.tolist()]
            yield numbers, np.array(serialized, object)

    def longest_choice(input_mask: tf.Tensor) -> tf.Tensor:
        """The number of tokens of each example's longest choice, int32 [examples].

        input_mask: float32 [examples,C*T], 1 for padding; of a batch or of a pool.
        """
        padding = tf.reshape(input_mask, [input_mask.shape[0], -1, row_length])
        lengths = tf.reduce_sum(1.0 - padding, axis=2)  # [examples,C]
        return tf.cast(tf.reduce_max(lengths, axis=1), tf.int32)

    @_without_autograph
    def batches_of(
        pool_index: tf.Tensor, pool: tuple[tf.Tensor, tf.Tensor]
    ) -> tf.data.Dataset:
        """The batches of a pool, an element of `read_pools`: examples of about equal length make a
        batch, and the batches are in random order."""
        numbers, serialized = pool
        parsed = dict(record_files.parse(features, serialized), index=numbers)
        by_length = tf.argsort(longest_choice(parsed["input_mask"]), stable=True)
        batch_order = tf.random.experimental.stateless_shuffle(
            tf.range(pool_batches), seed=[shuffle_seed, pool_index]
        )
        batches = {}
        for name, values in parsed.items():
            shape = [pool_batches, batch_size, *values.shape[1:]]
            in_batches = tf.reshape(tf.gather(values, by_length), shape)
            batches[name] = tf.gather(in_batches, batch_order)
        return tf.data.Dataset.from_tensor_slices(batches)

    @_without_autograph
    def without_padding(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Cuts off the columns on the side `pads` in which no example of the batch has a token."""
        # The length is that of the longest choice in the batch, rounded up: there are few different
        # lengths, as TensorFlow makes a plan for each.
        longest = tf.reduce_max(longest_choice(batch["input_mask"]))
        rounded_up = -(-longest // multiple) * multiple
        length = tf.minimum(rounded_up, row_length)
        kept = slice(row_length - length, None)
        if pads == "right":
            kept = slice(None, length)
        shorter = dict(batch)
        for name in ("input_ids", "input_mask", "segment_ids", *token_features):
            num_choices = batch[name].shape[1] // row_length
            choices = tf.reshape(batch[name], [-1, num_choices, row_length])
            choices = choices[:, :, kept]
            shorter[name] = tf.reshape(choices, [batch_size, num_choices * length])
        return shorter

    pools = tf.data.Dataset.from_generator(
        read_pools,
        output_signature=(
            tf.TensorSpec([pool_size], tf.int64),
            tf.TensorSpec([pool_size], tf.string),
        ),
    )
    dataset = pools.enumerate(first_pool).flat_map(batches_of).skip(skipped_batches)
    if multiple < row_length:
        dataset = dataset.map(without_padding, num_parallel_calls=2)
    return _prefetch(dataset, 4)


def _shuffled_pools(count: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """Yields pools without end: each the numbers of `size` of `count` records, int64 [size].

    Each epoch has all records in a random order, a function of (seed, epoch), and pools are cut
    from the epochs one after the other. The pool where two epochs meet has no record twice. Seven
    records in pools of three:

        epoch 0, in random order   4 0 6 | 2 5 1 | 3
        epoch 1, in random order   3 1 5 0 2 6 4        the last pool of epoch 0 has 3 already, so
        epoch 1, as it is read     1 5 | 3 0 2 | 6 4    1 and 5 complete it, and 3 comes later
    """
    unfinished = np.zeros(0, np.int64)  # the numbers after the last full pool
    for epoch in itertools.count():
        order = np.random.default_rng([seed, epoch]).permutation(count)
        if size <= count:  # a larger pool has records twice anyway
            # The first records that the unfinished pool does not have come first, and complete it.
            is_new = ~np.isin(order, unfinished)
            missing = -len(unfinished) % size  # 0 without an unfinished pool
            completing = np.flatnonzero(is_new)[:missing]  # indices in `order`
            others = np.delete(order, completing)
            order = np.concatenate([order[completing], others])
        order = np.concatenate([unfinished, order])
        in_full_pools = len(order) // size * size
        yield from order[:in_full_pools].reshape(-1, size)
        unfinished = order[in_full_pools:]
