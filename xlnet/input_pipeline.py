"""From record files to batches of tensors.

Shape letters: B batch, Q window length, P prediction slots.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet import permutation as permutations
from xlnet import records
from xlnet.errors import UserError


SHUFFLE_BUFFER = 100000   # examples; more than most GLUE training files have
POOL_BATCHES = 32         # batches that are sorted by length together


def steps_per_epoch(manifest, batch_size):
    """Steps in which every window is seen once.

    Raises:
      UserError: the batch size does not divide the number of streams.
    """
    if manifest.num_streams % batch_size:
        raise UserError("train_batch_size is %d, which does not divide the %d streams of the data; "
                        "use a divisor, or make records with --num_streams=%d"
                        % (batch_size, manifest.num_streams, batch_size))
    return manifest.num_streams // batch_size * manifest.windows_per_stream


def pretraining_batches(directory, manifest, *, batch_size, permutation, special_ids, seed,
                        start_step=0, epochs=None, rows=None):
    """Batches of windows whose row b continues row b of the batch before.

    With S streams, row b reads streams b, b + B, b + 2B, ... one after the other; `starts_stream`
    tells where memory must be cleared. Targets and orders are drawn anew in each epoch, as a
    function of (seed, epoch, stream, window), so that step n is the same whenever it is reached.

    Args:
      permutation: `permutation.Permutation`. special_ids: ids that are never predicted.
      start_step: steps to skip, for resuming. epochs: None for ever. rows: slice of the batch that
        is read, for one of several hosts; None: all of it.

    Returns:
      A `tf.data.Dataset` of dicts: input_ids, seg_ids, rank int32 [B,Q]; positions int32 [B,P];
      direction, starts_stream, label int32 [B].
    """
    epoch_steps = steps_per_epoch(manifest, batch_size)
    windows = manifest.windows_per_stream
    groups = epoch_steps // windows
    first, last, _ = (rows or slice(None)).indices(batch_size)
    paths = tf.reshape(tf.constant(manifest.stream_paths(directory)), [groups, batch_size])
    paths, count_rows = paths[:, first:last], last - first
    features = records.pretraining_features(manifest.seq_len)
    first_round, first_window = divmod(start_step, windows)
    last_round = np.iinfo(np.int64).max if epochs is None else epochs * groups

    def one_round(number):
        """All windows of B streams side by side; round `number` counts through the epochs."""
        skipped = tf.where(tf.equal(number, first_round), tf.cast(first_window, tf.int64), 0)
        streams = tf.data.Dataset.from_tensor_slices(paths[number % groups]).interleave(
            lambda path: tf.data.TFRecordDataset(path).skip(skipped),
            cycle_length=count_rows, block_length=1)
        count = tf.data.Dataset.range(skipped, windows)
        return tf.data.Dataset.zip((streams.batch(count_rows, drop_remainder=True), count)).map(
            lambda serialized, window: (serialized, number, window))

    def draw(serialized, number, window):
        parsed = records.parse(features, serialized)
        rank, positions = tf.numpy_function(
            _draw_batch(permutation, special_ids, seed, groups, batch_size, first),
            [parsed["input"], parsed["word_start"], number, window], [tf.int32, tf.int32])
        return {"input_ids": parsed["input"], "seg_ids": parsed["seg_id"],
                "direction": parsed["direction"], "starts_stream": parsed["starts_stream"],
                "label": parsed["label"],
                "rank": tf.ensure_shape(rank, [count_rows, manifest.seq_len]),
                "positions": tf.ensure_shape(positions, [count_rows, permutation.num_predict])}

    return (tf.data.Dataset.range(first_round, last_round).flat_map(one_round)
            .map(draw, num_parallel_calls=2, deterministic=True).prefetch(2))


def _draw_batch(permutation, special_ids, seed, groups, batch_size, first):
    """Returns the NumPy function that draws rank [B,Q] and positions [B,P] of the rows of a batch
    that begin with number `first`."""
    def draw(input_ids, word_start, number, window):
        epoch, group = divmod(int(number), groups)
        is_special = np.isin(input_ids, special_ids)
        drawn = []
        for row in range(len(input_ids)):
            stream = group * batch_size + first + row
            rng = np.random.default_rng([seed, epoch, stream, int(window)])
            drawn.append(permutations.draw(rng, is_special[row], word_start[row] > 0, permutation))
        return tuple(np.stack(arrays) for arrays in zip(*drawn))
    return draw


def for_replicas(dataset, replicas):
    """Cuts batches into those of a host's replicas, which take them in turn.

    Row r of the batch so is always at the same place of the same replica.
    """
    if replicas == 1:
        return dataset
    return dataset.map(lambda features: {
        name: tf.reshape(value, [replicas, value.shape[0] // replicas] + value.shape.as_list()[1:])
        for name, value in features.items()}).unbatch().prefetch(2 * replicas)


def finetuning_batches(path, features, *, batch_size, row_length, num_examples=None,
                       shuffle_seed=None, start_step=0, multiple=8):
    """Batches of fine-tuning examples of about equal length.

    With `shuffle_seed` the examples are shuffled anew each epoch and repeated for ever, in an order
    that the seed alone decides; `start_step` batches are skipped. Without, they come once, and the
    last batch may be smaller. Which examples make a batch does not depend on `multiple`.

    Args:
      row_length: T, tokens of one choice.
      num_examples: in the file; for shuffling.
      multiple: batches are as long as their longest example, rounded up to a multiple of it
        [tokens]; with T all of them are equally long, as TPUs and XLA want them.

    Returns:
      A `tf.data.Dataset` of dicts as `features` says, and `number` int64 [B]: which record it is.
    """
    dataset = tf.data.TFRecordDataset(path, buffer_size=1 << 20).enumerate()
    is_training = shuffle_seed is not None
    if is_training:
        dataset = dataset.shuffle(SHUFFLE_BUFFER, seed=shuffle_seed,
                                  reshuffle_each_iteration=True).repeat()
    # No larger than the file, lest copies of an example from several epochs meet in a batch.
    pool_batches = max(1, min(POOL_BATCHES, num_examples // batch_size)) if is_training \
        else POOL_BATCHES
    pools, rest = divmod(start_step, pool_batches)
    dataset = dataset.batch(pool_batches * batch_size, drop_remainder=is_training)

    def sort(number, serialized):
        """A pool of examples with the shortest first."""
        parsed = dict(records.parse(features, serialized), number=number)
        order = tf.argsort(_lengths(parsed["input_mask"], row_length), stable=True)
        return {name: tf.gather(values, order) for name, values in parsed.items()}

    def cut(pool_number, pool):
        """The batches of a pool; in training in an order of their own."""
        pool = sort(*pool)
        if not is_training:
            return tf.data.Dataset.from_tensor_slices(pool).batch(batch_size)
        order = tf.random.experimental.stateless_shuffle(
            tf.range(pool_batches), seed=[shuffle_seed, pool_number])
        return tf.data.Dataset.from_tensor_slices({name: tf.gather(tf.reshape(
            values, [pool_batches, batch_size, *values.shape[1:]]), order)
            for name, values in pool.items()})

    dataset = dataset.enumerate().skip(pools).flat_map(cut).skip(rest)
    if multiple < row_length:
        dataset = dataset.map(lambda batch: _without_padding(batch, row_length, multiple),
                              num_parallel_calls=2)
    return dataset.prefetch(4)


def _lengths(input_mask, row_length):
    """int32 [B]: tokens of the longest choice; input_mask [B,C*T]."""
    rows = tf.reshape(input_mask, [-1, input_mask.shape[1] // row_length, row_length])
    return tf.reduce_max(tf.cast(tf.reduce_sum(1. - rows, axis=2), tf.int32), axis=1)


def _without_padding(batch, row_length, multiple):
    """Cuts off the columns on the left in which no example of the batch has a token."""
    longest = tf.reduce_max(_lengths(batch["input_mask"], row_length))
    length = tf.minimum(-(-longest // multiple) * multiple, row_length)
    cut = dict(batch)
    for name in ("input_ids", "input_mask", "segment_ids"):
        choices = batch[name].shape[1] // row_length
        rows = tf.reshape(batch[name], [-1, choices, row_length])[:, :, row_length - length:]
        cut[name] = tf.reshape(rows, [-1, choices * length])
    return cut
