"""From record files to batches of tensors.

Shape letters: B batch, R those of its rows that are wanted here, Q window length, P prediction
slots, N windows that are drawn together.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet import permutation as permutations
from xlnet import records
from xlnet.errors import UserError


SHUFFLE_BUFFER = 100000   # examples; more than most GLUE training files have
POOL_BATCHES = 32         # batches that are sorted by length together
DRAWN_TOGETHER = 64       # windows; the fixed cost of NumPy's calls is shared by so many


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
                        start_step=0, epochs=None, rows=slice(None)):
    """Batches of windows whose row b continues row b of the batch before.

    With S streams, row b reads streams b, b + B, b + 2B, ... one after the other; `starts_stream`
    tells where memory must be cleared. Targets and orders are drawn anew in each epoch, as a
    function of (seed, epoch, stream, window), so that step n is the same whenever it is reached,
    and a row the same whichever rows are read with it.

    Args:
      permutation: `permutation.Permutation`. special_ids: ids that are never predicted.
      start_step: steps to skip, for resuming. epochs: None for ever.
      rows: slice of the batch, for a replica that computes R of its B rows.

    Returns:
      A `tf.data.Dataset` of dicts: input_ids, seg_ids, rank int32 [R,Q]; positions int32 [R,P],
      weights float32 [R,P], 0 for slots that predict nothing; direction, starts_stream, label
      int32 [R].
    """
    steps_per_epoch(manifest, batch_size)
    windows = manifest.windows_per_stream
    paths = np.reshape(manifest.stream_paths(directory), [-1, batch_size])[:, rows]
    groups, num_rows = paths.shape
    first_round, first_window = divmod(start_step, windows)
    last_round = np.iinfo(np.int64).max if epochs is None else epochs * groups
    together = max(1, DRAWN_TOGETHER // num_rows)
    features = records.pretraining_features(manifest.seq_len)
    drawing = _Drawing(permutation, special_ids, seed, np.arange(batch_size)[rows], batch_size,
                       groups)

    def one_round(number):
        """All windows of R streams side by side; round `number` counts through the epochs."""
        skipped = tf.where(tf.equal(number, first_round), tf.cast(first_window, tf.int64), 0)
        files = tf.data.Dataset.from_tensor_slices(tf.constant(paths)[number % groups])
        serialized = files.interleave(lambda path: tf.data.TFRecordDataset(path).skip(skipped),
                                      cycle_length=num_rows, block_length=1)
        return tf.data.Dataset.zip((serialized.batch(num_rows, drop_remainder=True),
                                    tf.data.Dataset.range(skipped, windows))).batch(together).map(
            lambda serialized, window: (serialized, number, window))

    def draw(serialized, number, window):
        parsed = records.parse(features, tf.reshape(serialized, [-1]))
        return _by_step(dict(parsed, **drawing(parsed, number, window)), num_rows)

    return (tf.data.Dataset.range(first_round, last_round).flat_map(one_round)
            .map(draw, num_parallel_calls=2, deterministic=True).unbatch().prefetch(2))


def _by_step(features, num_rows):
    """Windows [N,...] in the order they are read to batches [N/R,R,...], under the model's names."""
    names = {"input": "input_ids", "seg_id": "seg_ids"}
    return {names.get(name, name): tf.reshape(value, [-1, num_rows] + value.shape.as_list()[1:])
            for name, value in features.items() if name != "word_start"}


class _Drawing:
    """Draws targets and orders of parsed windows: rank [N,Q], positions and weights [N,P].

    Args:
      rows: int [R], the rows of the batch of `batch_size` that are read here.
      groups: rounds of an epoch, in each of which B streams are read side by side.
    """

    def __init__(self, permutation, special_ids, seed, rows, batch_size, groups):
        self._permutation = permutation
        self._special_ids = special_ids
        self._seed = seed
        self._rows = rows
        self._batch_size = batch_size
        self._groups = groups

    def __call__(self, parsed, number, window):
        """`number`: the round. window: [N/R], numbers within it."""
        drawn = tf.numpy_function(
            self._draw, [parsed["input"], parsed["word_start"], parsed["direction"], number,
                         window], [tf.int32, tf.int32, tf.float32])
        widths = [parsed["input"].shape[1]] + 2 * [self._permutation.num_predict]
        return {name: tf.ensure_shape(value, [None, width])
                for name, value, width in zip(permutations.Drawn._fields, drawn, widths)}

    def _draw(self, input_ids, word_start, direction, number, window):
        epoch, group = divmod(int(number), self._groups)
        streams = np.tile(group * self._batch_size + self._rows, len(window))
        random = permutations.Random(self._seed, epoch, streams, np.repeat(window, len(self._rows)))
        return permutations.draw(random, np.isin(input_ids, self._special_ids), word_start > 0,
                                 direction, self._permutation)


def for_replicas(dataset, replicas):
    """Cuts batches into those of a host's replicas, which take them in turn.

    Row r of the batch so is always at the same place of the same replica.
    """
    if replicas == 1:
        return dataset
    def part(value):
        lengths = [-1 if size is None else size for size in value.shape.as_list()[1:]]
        return tf.reshape(value, [replicas, value.shape[0] // replicas] + lengths)

    return dataset.map(lambda features: {name: part(value) for name, value in features.items()}
                       ).unbatch().prefetch(2 * replicas)


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
        cut[name] = tf.reshape(rows, [batch[name].shape[0] or -1, choices * length])
    return cut
