"""What the network guesses in a held-out window, to be read on TensorBoard."""

import tensorflow.compat.v1 as tf

from xlnet.pretraining.model import SAMPLE


class Sample(tf.train.SessionRunHook):
    """Reads off one held-out window with what the network put into it; `text` is Markdown."""

    _NAMES = ("input_ids", "ids", "weights", "positions", "direction", "guesses")

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.text = None

    def begin(self):
        graph = tf.get_default_graph()
        self._tensors = {name: graph.get_tensor_by_name("%s/%s:0" % (SAMPLE, name))
                         for name in self._NAMES}

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._tensors) if self.text is None else None

    def after_run(self, run_context, run_values):
        if run_values.results is not None:
            self.text = self._fill_in(**run_values.results)

    def _fill_in(self, input_ids, ids, weights, positions, direction, guesses):
        """The window's text, in reading order; a predicted piece is `**guess** (truth)`."""
        if len(ids) != len(positions):      # causal: all but the first
            positions = range(1, len(input_ids))
        pieces = [self._piece(id) for id in input_ids]
        for place, id, weight, guess in zip(positions, ids, weights, guesses):
            if weight:
                pieces[place] = " **%s** (%s)" % (self._piece(guess), self._piece(id))
        return "".join(reversed(pieces) if direction else pieces).replace("\u2581", " ").strip()

    def _piece(self, id):
        return self._tokenizer.id_to_piece(int(id))
