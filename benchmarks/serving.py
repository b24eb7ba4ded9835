"""Times a served model: its start, and predictions in one process and through the HTTP server.

    python benchmarks/serving.py --spiece_model_file=spiece.model

A classifier of the given architecture, its weights at random, is written, loaded in each
precision, and asked for the labels of English-like texts of about `--pieces` pieces. Each precision
has a process of its own.
"""

import concurrent.futures
import dataclasses
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from typing import Optional

import numpy as np
from repository import ROOT

from xlnet.commands import cli
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, required, setting
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.support.errors import UserError

_TEXTS = 256  # that requests are drawn from
_SPREAD = 0.25  # of the lengths of texts around that asked for


@dataclasses.dataclass(frozen=True)
class ServingBenchmark(Settings):
    """serving.py: what is served, how often it is asked."""

    spiece_model_file: str = required(
        "SentencePiece model of as many pieces as the network has"
    )
    model_config_path: str = setting(
        os.path.join(ROOT, "configs/model/base.json"),
        "JSON with the architecture; weights are random",
    )
    precisions: str = setting("fp32,bf16", "those of xlnet serve, with commas")
    batches: str = setting("1,8,32", "rows of a call, with commas")
    pieces: int = setting(64, "length of a text, about [pieces]", minimum=4)
    seconds: float = setting(20.0, "length of each measurement [s]", minimum=0.0)
    model_dir: Optional[str] = setting(
        None, "measure this model and print JSON; what the processes are started with"
    )


def main(settings):
    """Prints a table."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if settings.model_dir:
        print(json.dumps(measure(settings)))
        return
    for batch in settings.batches.split(","):
        if not (batch.isdecimal() and 1 <= int(batch) <= _TEXTS):
            raise UserError(
                f"batches: '{batch}', expected numbers from 1 to {_TEXTS}, with commas"
            )
    with tempfile.TemporaryDirectory(prefix="xlnet-serving-") as directory:
        model_dir = os.path.join(directory, "model")
        make_model(model_dir, settings.model_config_path, settings.spiece_model_file)
        print(
            "| precision | batch | load s | p50 ms | p99 ms | texts/s | processor ms a text "
            "| HTTP p50 ms | HTTP p99 ms | HTTP texts/s |\n" + "|---" * 10 + "|"
        )
        for precision in settings.precisions.split(","):
            flags = dict(
                {
                    name: getattr(settings, name)
                    for name in ("spiece_model_file", "batches", "pieces", "seconds")
                },
                model_dir=model_dir,
                precisions=precision,
            )
            found = json.loads(
                subprocess.check_output(
                    [
                        sys.executable,
                        __file__,
                        *("--{}={}".format(*flag) for flag in flags.items()),
                    ],
                    text=True,
                ).splitlines()[-1]
            )
            for row in found["rows"]:
                print(
                    "| {} | {} | {:.1f} | {} |".format(
                        precision,
                        row["batch"],
                        found["load"],
                        " | ".join(
                            f"{figure:.4g}"
                            for figure in (*row["process"], *row["http"])
                        ),
                    ),
                    flush=True,
                )


def make_model(directory, model_config_path, spiece_model_file):
    """A model directory as training leaves it, of a classifier with weights at random."""
    import tensorflow.compat.v1 as tf

    from xlnet.engine import checkpoint, devices
    from xlnet.finetuning import predictor
    from xlnet.finetuning.model import TaskModel
    from xlnet.runs import run_document, task_settings
    from xlnet.runs.task_settings import FineTunedTask
    from xlnet.tasks import custom

    devices.set_up_process()
    os.makedirs(directory)
    config = XLNetConfig(json_path=model_config_path)
    tokenizer = Tokenizer(spiece_model_file)
    tuned_with = ClassifierSettings(
        model_dir=directory,
        task_name="custom",
        do_predict=True,
        predict_file="-",
        max_seq_length=512,
    )
    task = custom.resolve_task(tuned_with, {"labels": ["no", "yes"]})
    document = task_settings.document_of(tuned_with, NetworkSettings(), task, tokenizer)
    run_document.write(directory, document, config, tokenizer)
    with tf.Graph().as_default():
        tuned = FineTunedTask(task, tuned_with)
        TaskModel(config, tuned, NetworkSettings()).outputs(
            predictor.placeholders(tuned)
        )
        draw = np.random.default_rng(0)
        checkpoint.write_arrays(
            os.path.join(directory, "model.ckpt-1"),
            {
                devices.base_name(variable): draw.normal(
                    variable.op.name.endswith("gamma"), 0.02, variable.shape.as_list()
                ).astype(np.float32)
                for variable in tf.global_variables()
            },
        )
    checkpoint.write_state_file(directory)


def make_texts(spiece_model_file, pieces, count):
    """English-like texts of about `pieces` pieces."""
    tokenizer, draw = Tokenizer(spiece_model_file), random.Random(0)
    words = [
        tokenizer.id_to_piece(id)[1:]
        for id in range(max(tokenizer.vocab_size // 10, 200))
        if id < tokenizer.vocab_size and tokenizer.id_to_piece(id)[1:].isalpha()
    ]
    return [
        " ".join(
            draw.choices(
                words, k=round(pieces * draw.uniform(1 - _SPREAD, 1 + _SPREAD))
            )
        )
        for _ in range(count)
    ]


def measure(settings):
    """Load time of a model; of each batch size the p50 and p99 of an answer [ms], and texts a
    second."""
    from xlnet.server import application
    from xlnet.server.served_model import ServedModel

    texts = make_texts(settings.spiece_model_file, settings.pieces, _TEXTS)
    began = time.monotonic()
    model = ServedModel(
        settings.model_dir,
        DeviceSettings(),
        network=NetworkSettings(precision=settings.precisions),
    )
    load = time.monotonic() - began
    listening = application.bind("127.0.0.1", 0)
    server = application.server(model, "m", listening)
    port = listening.getsockname()[1]
    listening.listen()
    thread = threading.Thread(target=server.run, args=[[listening]])
    thread.start()
    try:
        rows = [
            dict(
                batch=batch,
                process=in_process(model, texts, batch, settings.seconds),
                http=over_http(port, texts, batch, settings.seconds),
            )
            for batch in map(int, settings.batches.split(","))
        ]
    finally:
        # The process would wait for the thread without end, and its parent for the process.
        server.should_exit = True
        thread.join()
    return dict(load=load, rows=rows)


def in_process(model, texts, batch, seconds):
    """One batch after the other: p50, p99 [ms], texts a second, and the processor's time for a
    text [ms], which other work on the machine changes least."""
    draw = random.Random(batch)

    def ask():
        model.run(
            model.call("text", {}),
            [{"text_a": text} for text in draw.sample(texts, batch)],
        )

    ask()
    before = time.process_time()
    times = timed(ask, seconds)
    return [
        *in_figures(times, batch),
        1000 * (time.process_time() - before) / (batch * len(times)),
    ]


def over_http(port, texts, clients, seconds):
    """Times several clients that each request one text after the other."""

    def client(number):
        draw = random.Random(number)
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def ask():
            connection.request(
                "POST",
                "/v1/models/m:predict",
                json.dumps(
                    {"signature_name": "text", "instances": [draw.choice(texts)]}
                ),
            )
            assert connection.getresponse().read().startswith(b'{"predictions"')

        ask()
        return timed(ask, seconds)

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        times = list(pool.map(client, range(clients)))
    return in_figures([each for of_one in times for each in of_one], clients)


def timed(ask, seconds):
    """How long each of several calls takes [s]; at least two."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 2:
        began = time.monotonic()
        ask()
        times.append(time.monotonic() - began)
    return times


def in_figures(times, at_once):
    """p50, p99 [ms], texts a second."""
    return [
        *(1000 * np.percentile(times, [50, 99])).tolist(),
        float(at_once / np.mean(times)),
    ]


if __name__ == "__main__":
    cli.run(main, ServingBenchmark, about=__doc__)
