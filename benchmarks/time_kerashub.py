"""Times one piece of work with KerasHub's XLNet. Started by run.py, in a process of its own.

Needs keras-hub and what it runs on, see scripts/setup_benchmark.sh. There is no pretraining:
KerasHub has the encoder, and neither a loss over permutations nor memories.
"""

import importlib
import os

import work as works


class Step:
    """One step of `work`, as a function without arguments."""

    def __init__(self, work, config, precision):
        import keras

        keras.utils.set_random_seed(0)
        is_training = work.kind == "finetune"
        if precision == "bf16":
            keras.config.set_dtype_policy(
                "mixed_bfloat16" if is_training else "bfloat16"
            )
        arrays = works.batch(work, config["n_token"])
        ids = arrays["input_ids"]
        self._inputs = {
            "token_ids": ids,
            "padding_mask": ids >= 0,
            "segment_ids": arrays["seg_ids"],
        }
        self._labels = arrays["labels"]
        self._model = classifier(config)
        if is_training:
            self._model.compile(
                keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            )
        self._is_training = is_training

    def __call__(self):
        if self._is_training:
            self._model.train_on_batch(self._inputs, self._labels)
        else:
            self._model.predict_on_batch(self._inputs)


def classifier(config, dropout=0.1):
    """Their encoder, and on its last position what the published classifier has."""
    import keras
    import keras_hub

    encoder = keras_hub.models.XLNetBackbone(
        vocabulary_size=config["n_token"],
        num_layers=config["n_layer"],
        num_heads=config["n_head"],
        hidden_dim=config["d_model"],
        intermediate_dim=config["d_inner"],
        dropout=dropout,
    )
    summary = keras.layers.Dense(config["d_model"], activation="tanh")(
        encoder.output[:, -1]
    )
    summary = keras.layers.Dropout(dropout)(summary)
    logits = keras.layers.Dense(2, dtype="float32")(summary)
    return keras.Model(encoder.input, logits)


def main():
    options = works.arguments()
    os.environ["KERAS_BACKEND"] = options["backend"]  # read when Keras is imported
    step = Step(works.Work(**options["work"]), options["config"], options["precision"])
    hub = importlib.import_module("keras_hub").__version__
    backend = importlib.import_module(options["backend"]).__version__
    versions = f"keras_hub {hub}, {options['backend']} {backend}"
    works.measure(step, options, versions)


if __name__ == "__main__":
    main()
