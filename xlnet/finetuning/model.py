"""What is fine-tuned: one network, the output layer of a kind of task; its training step, its
answers.

Shape letters as in `modeling`; T tokens of an example, C choices.
"""

import dataclasses
import re
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from xlnet.config import (
    FineTuningSettings,
    NetworkSettings,
    OptimizationSettings,
    RunConfig,
    XLNetConfig,
)
from xlnet.engine import distribution, training
from xlnet.finetuning import mixout
from xlnet.network import heads, modeling
from xlnet.network.noise import fold_in
from xlnet.tasks.kind import LossOptions
from xlnet.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class ClassifierModel:
    """A network with a task; `model_fn` is the Estimator's, for training alone.

    `scope`: name of the output layer's variables. `class_weights`: floats [L], how much a row
    counts in training; None: all rows alike. `xla`: whether a training step is compiled.
    """
    config: XLNetConfig
    task: Task
    network: NetworkSettings
    optimization: OptimizationSettings
    settings: FineTuningSettings
    scope: str
    class_weights: Optional[list] = None
    xla: bool = False

    def model_fn(self, features: dict) -> Any:
        """features: dict of `input_pipeline.finetuning_batches`, this replica's rows."""
        first_row = distribution.replica_index() * features["is_real_example"].shape.as_list()[0]
        scale = training.loss_scale(self.network)
        loss, gradients, _ = training.accumulate(
            lambda part, row: (self._loss(part, first_row + row), {}), features,
            self.settings.grad_accum_steps, scale, self.xla)
        training.start_from(self.settings.init_checkpoint, self.config, self.settings.model_dir)
        return training.training_spec(loss, self.optimization, gradients, scale)

    def _loss(self, features, first_row):
        """The mean loss of some rows, the first of which is `first_row` of the global batch."""
        step_seed = training.dropout_seed(self.settings.seed, tf.train.get_global_step())
        options = LossOptions(self.settings.label_smoothing, self.class_weights)
        with tf.variable_scope(tf.get_variable_scope(), custom_getter=self._mixing(step_seed)):
            loss, _ = self._outputs(features, fold_in(step_seed, first_row), options)
        return tf.reduce_mean(loss)

    def _mixing(self, seed):
        """The getter of variables that mixout asks for; None without mixout."""
        settings = self.settings
        if not settings.mixout:
            return None
        names = mixout.kernels(settings.init_checkpoint, settings.model_dir)
        return mixout.mixing(names, settings.mixout, seed)

    def answers(self, features: dict) -> dict:
        """What is predicted: dict of `loss`, `index`, `is_real_example` [B], and of what the kind
        of task answers, [B, ...]."""
        loss, answers = self._outputs(features, None, None)
        return dict(answers, loss=loss, index=features["index"],
                    is_real_example=features["is_real_example"])

    def _outputs(self, features, seed, options):
        """The loss [B], and what is predicted, a dict; in training {}.

        seed: of the noise in training, int32 [2]. options: `LossOptions` in training. None: no
        training.
        """
        settings, task, is_training = self.settings, self.task, seed is not None
        run = self.network.run_config(
            is_training,
            mem_len=settings.max_seq_length if settings.long_document == "memory" else None)
        with training.model_scope(), tf.variable_scope(
                tf.get_variable_scope(),
                custom_getter=frozen(self.config, settings.freeze_layers)):
            nn = self._layers(run, task.kind.num_choices(task, is_training), features, seed)
            logits = task.kind.logits(nn, task, features, is_training)
            return (task.kind.loss(nn, task, logits, features, options),
                    {} if is_training else task.kind.answers(nn, task, logits))

    def _layers(self, run, count, features, seed):
        """The network up to the output layer: `heads.Layers` of [B*C,T,D]; count: C."""
        config, settings = self.config, self.settings
        ids, segments, padding = (
            tf.reshape(x, [-1, modeling.shape_of(x)[1] // count]) if count > 1 else x      # [B*C,T]
            for x in (features["input_ids"], features["segment_ids"], features["input_mask"]))
        if settings.long_document == "memory":
            sequence, padding = read_on(config, run, ids, segments, padding, seed,
                                        length=settings.max_seq_length)
        else:
            sequence = modeling.transformer_xl(
                config, run, input_ids=ids, seg_ids=segments, hidden=padding[:, None] > 0,
                seed=seed).sequence
        return heads.Layers(run, self.scope, sequence, padding, lambda: modeling.summarize(
            config, run, sequence, summary_type=settings.summary_type, padding=padding,
            use_proj=settings.use_summ_proj, seed=seed), seed)


def read_on(config: XLNetConfig, run: RunConfig, ids: tf.Tensor, segments: tf.Tensor,
            padding: tf.Tensor, seed: Optional[tf.Tensor], *, length: int) -> tuple:
    """Reads a text segment by segment, the memory of each segment kept for the next one.

    Before the text memory is zero, and visible, as at the start of a stream in pretraining; so
    padding makes no difference. Gradients reach the last segment alone (paper, section 2.2).

    Args:
      run: `RunConfig` with `mem_len`. ids, segments, padding: [B,S*T], padded on the left.
      length: T.

    Returns:
      The last segment's sequence [B,T,D] and padding [B,T].
    """
    mem_len = run.mem_len
    assert mem_len, "there is no memory to read on with"

    def read(index, mems):
        part = [tf.slice(x, [0, index * length], [-1, length]) for x in (ids, segments, padding)]
        outputs = modeling.transformer_xl(
            config, run, input_ids=part[0], seg_ids=part[1], hidden=part[2][:, None] > 0,
            mems=mems, seed=None if seed is None else fold_in(seed, index))
        real = tf.pad(1. - part[2], [[0, 0], [mem_len, 0]], constant_values=1.)
        real = real[:, -mem_len:, None]                                               # [B,M,1]
        kept = [tf.stop_gradient(tf.cast(mem, tf.float32) * real) for mem in outputs.new_mems]
        return outputs.sequence, kept, part[2]

    batch, total = modeling.shape_of(ids)
    mems = [tf.zeros([batch, mem_len, config.d_model])] * config.n_layer
    modeling.transformer_xl(config, run, input_ids=ids[:1, :1], seg_ids=segments[:1, :1],
                            seed=seed)       # makes the variables, which a loop cannot
    last = total // length - 1
    _, *mems = tf.while_loop(
        lambda index, *_: index < last,
        lambda index, *mems: [index + 1, *read(index, mems)[1]], [tf.constant(0), *mems])
    sequence, _, padding = read(last, [tf.stop_gradient(mem) for mem in mems])
    return sequence, padding


# ---- frozen layers ----

# The biases of all layers, stacked in one variable [L, ...].
_STACKED = re.compile(r"transformer/(r_[wrs]_bias|seg_embed)$")


def is_frozen(name: str, count: int) -> bool:
    """Whether a variable belongs whole to the embeddings or to one of the `count` lowest layers."""
    layer = re.search(r"transformer/layer_(\d+)/", name)
    return int(layer.group(1)) < count if layer else bool(
        re.search(r"transformer/(word_embedding|mask_emb)/", name))


def frozen(config: XLNetConfig, count: int) -> Callable:
    """A variable scope's getter that keeps the `count` lowest layers as they are; 0: none.

    The layers' biases are stacked in one variable; its first rows are kept from gradients.
    """
    def get(getter, name, *args, **kwargs):
        if count and is_frozen(name, count):
            return getter(name, *args, **dict(kwargs, trainable=False))
        variable = getter(name, *args, **kwargs)
        if count and _STACKED.search(name) and config.untie_r:
            return tf.concat([tf.stop_gradient(variable[:count]), variable[count:]], axis=0)
        return variable
    return get
