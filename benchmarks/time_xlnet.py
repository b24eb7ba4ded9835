"""Times one piece of work with this library. Started by run.py, in a process of its own."""

from unittest import mock

import repository  # finds the library
import work as works

from xlnet.support import system

system.import_tensorflow()
import tensorflow.compat.v1 as tf

from xlnet.engine import optimizer, progress
from xlnet.engine.devices import connect
from xlnet.model import heads, modeling, ops, parameters, stateless_random
from xlnet.pretraining import objectives
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import DeviceSettings, OptimizationSettings


def run_config(work, options):
    is_training = work.kind != "infer"
    device, capability = None, options.get("fused_attention")
    if options.get("xla") and is_training:
        device = options.get("compiled_for", "xla")
    rate = options.get("dropout", 0.1)
    network = NetworkSettings(
        dropout=rate,
        dropatt=rate,
        precision=options["precision"],
        recompute=options["recompute"],
    )
    return network.run_config(
        is_training,
        device=device,
        fused_attention=tuple(capability) if capability else None,
        mem_len=work.memory or None,
        reuse_len=work.length // 2 if work.memory else None,
    )


def pretraining_loss(config, run, inputs, seed):
    """Loss of the permutation language model, and the new memories [B,L,M,D]."""
    mems = tf.unstack(inputs["memory"], axis=1)
    batch = objectives.Batch(config, run, inputs, mems, seed)
    outputs, vectors = objectives.find("permutation").predict(batch)
    ids = tf.gather(inputs["input_ids"], inputs["positions"], batch_dims=1)
    losses = heads.lm_loss(vectors, ids, outputs.embedding_table, run.precision)
    return tf.reduce_mean(losses), tf.stack(outputs.new_mems, axis=1)


def classifier(config, run, inputs, seed):
    """The logits [B,2]."""
    outputs = modeling.transformer_xl(
        config,
        run,
        input_ids=inputs["input_ids"],
        seg_ids=inputs["seg_ids"],
        seed=seed,
        # None is masked, but TensorFlow cannot know.
        mask=(inputs["input_ids"] < 0)[:, None],
    )
    summary = heads.summarize(config, run, outputs.sequence, seed=seed)
    return heads.dense_layer(run, summary, 2, "classification_benchmark/logit")


def build(work, config, options):
    """Returns what one step fetches, what it feeds, and the settings of its session, those that
    programs have. A batch that were constant would have what follows from it computed once, and
    kept.

    Args:
      options: dict: precision, recompute; xla: whether a training step is compiled (no);
        fused_attention: the compute capability that attention is compiled for (none);
        dropout: the rate (0.1);
        device: "cpu" or "gpu" (what there is);
        compiled_for: "tpu" or "xla", with xla: the device of the kernels ("xla").
    """
    device, xla = options.get("device", "auto"), bool(options.get("xla"))
    devices = connect(DeviceSettings(device=device, xla=xla))  # with XLA's flags
    run = run_config(work, options)
    inputs, feed = {}, {}
    for name, value in works.batch(work, config.n_token).items():
        inputs[name] = tf.placeholder(tf.int32, value.shape)
        feed[inputs[name]] = value
    # Built for a TPU, it runs on the CPU that is here.
    here = run.device if run.device == "tpu" else ops.device_here()
    with mock.patch.object(ops, "device_here", lambda: here):
        inputs = ops.cast_integers(inputs)
        if run.is_training:
            fetches = training_step(work, config, run, inputs, xla)
        else:
            with parameters.model_scope(kept_in=run.precision):
                fetches = classifier(config, run, inputs, None)
    return fetches, feed, devices.session_config(run.is_training)


def training_step(work, config, run, inputs, xla):
    """The update, and the loss of the batch."""
    tf.train.get_or_create_global_step()

    if work.kind == "pretrain":
        shape = [work.batch, config.n_layer, work.memory, config.d_model]
        memory = tf.get_variable(
            "memory",
            shape,
            initializer=tf.initializers.zeros(),
            trainable=False,
            use_resource=True,
        )
        inputs = dict(inputs, memory=memory.read_value())

    def batch_loss(inputs, first_row):
        seed = stateless_random.dropout_seed(7, tf.train.get_global_step())
        with parameters.model_scope():
            if work.kind == "finetune":
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=inputs["labels"],
                    logits=classifier(config, run, inputs, seed),
                )
                return tf.reduce_mean(losses), {}
            loss, new_mems = pretraining_loss(config, run, inputs, seed)
            return loss, {"memory": tf.cast(new_mems, tf.float32)}

    loss, gradients, kept = optimizer.loss_and_gradients(
        batch_loss, inputs, 0, 1, xla=xla
    )
    settings = OptimizationSettings(weight_decay=0.01)
    train, _ = optimizer.update_weights(settings, gradients, config.n_layer)
    if kept:
        train = tf.group(train, memory.assign(kept["memory"]))
    return train, loss


def main():
    options = works.arguments()
    tf.disable_eager_execution()
    work = works.Work(**options["work"])
    config = XLNetConfig(**options["config"])
    fetches, feed, session_config = build(work, config, options)  # sets up the devices
    with tf.Session(config=session_config) as session:
        session.run(tf.global_variables_initializer())
        works.measure(
            lambda: session.run(fetches, feed),
            options,
            "TensorFlow " + tf.__version__,
            progress.memory_gib,
        )


if __name__ == "__main__":
    main()
