"""Times a server under mixed load: what light requests wait beside a heavy client, and what twenty
clients that generate get together.

    python benchmarks/serving_load.py --spiece_model_file=spiece.model

A classifier and a pretrained model of the given architecture, weights at random, are served by
`xlnet serve`, each in a process of its own; all requests go to 127.0.0.1. Each light client is
timed alone and beside the heavy one in turn, for several rounds; the table has the medians of all
requests. Compare the two numbers of a line only, as other work on the machine changes both.
"""

import concurrent.futures
import functools
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager

import numpy as np
from repository import ROOT

from xlnet.support import system

system.import_tensorflow()
import tensorflow.compat.v1 as tf

from xlnet.commands import cli
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint, devices
from xlnet.finetuning.model import TaskModel, placeholders
from xlnet.model import heads, modeling
from xlnet.runs import run_document, task_settings
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.fields import Settings, required, setting
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks import known

_TIMEOUT = 300  # of a request [s]
_PAUSE = 2  # in which a heavy request begins, or what is left of it ends [s]


class LoadBenchmark(Settings):
    """serving_load.py: what is served, for how long."""

    spiece_model_file: str = required(
        "SentencePiece model of as many pieces as the network has"
    )
    model_config_path: str = setting(
        "base",
        "architecture: a JSON file, or a name in configs/model.json; weights are random",
    )
    seconds: float = setting(
        2.0, "length of each measurement in a round [s]", minimum=1.0
    )
    rounds: int = setting(
        5, "rounds, each of every light client alone and beside", minimum=1
    )
    tokens: int = setting(32, "generated tokens of a text, at most", minimum=1)


def main(settings):
    """Prints two tables."""
    devices.set_up_process()
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = Tokenizer(settings.spiece_model_file)
    texts = make_texts(tokenizer, 64, 64)
    with tempfile.TemporaryDirectory(prefix="xlnet-load-") as directory:
        classifier = os.path.join(directory, "classifier")
        pretrained = os.path.join(directory, "pretrained")
        os.makedirs(classifier)
        os.makedirs(pretrained)
        make_classifier(classifier, config, tokenizer)
        make_pretrained(pretrained, config, tokenizer)
        print("| light client | beside | alone p50 ms | beside p50 ms | times |")
        print("|---|---|---|---|---|")
        with served(classifier) as port:
            explain = request("explain", make_texts(tokenizer, 400, 4))
            light = {
                "text": request("text", texts[:1]),
                "explain of 2 words": request("explain", ["two words"]),
                "vectors": request("vectors", texts[:1]),
            }
            show(port, settings, light, "explain", explain)
        with served(pretrained) as port:
            beams = request("generate", texts[:1], beams=32, max_tokens=700)
            blank = "The ___ was here. " + " ".join(texts[0].split()[:20])
            prompt = [texts[1][:40]]
            light = {
                "fill": request("fill", [blank], most_pieces=1, beams=5),
                "vectors": request("vectors", texts[:1]),
                "8 tokens": request("generate", prompt, temperature=0, max_tokens=8),
            }
            show(port, settings, light, "32 beams", beams)
            print("\n| generation | tokens/s |\n|---|---|")
            show_generation(port, settings.tokens, texts[:20])


def make_classifier(directory, config, tokenizer):
    """A model directory as training leaves it, of a classifier with weights at random."""
    tuned_with = ClassifierSettings(
        model_dir=directory,
        task_name="custom",
        do_predict=True,
        predict_file="-",
        max_seq_length=512,
    )
    task = known.resolve_task(tuned_with, {"labels": ["no", "yes"]})
    document = task_settings.document_of(tuned_with, NetworkSettings(), task, tokenizer)
    run_document.write(directory, document, config, tokenizer)
    with tf.Graph().as_default():
        tuned = FineTunedTask(task, tuned_with)
        features = placeholders(tuned)
        TaskModel(config, tuned, NetworkSettings()).outputs(features)
        write_random_weights(directory)


def make_pretrained(directory, config, tokenizer):
    """A directory as pretraining leaves it, weights at random."""
    text = run_document.text_of(tokenizer)
    settings = {"objective": "permutation"}
    document = run_document.RunDocument("", None, settings, text=text)
    run_document.write(directory, document, config, tokenizer)
    with tf.Graph().as_default(), tf.variable_scope("model"):
        ids = tf.zeros([1, 2], tf.int32)
        run_config = NetworkSettings().run_config(is_training=False)
        query = modeling.Query(positions=ids)
        outputs = modeling.transformer_xl(
            config, run_config, input_ids=ids, seg_ids=ids, query=query
        )
        heads.lm_logits(outputs.sequence, outputs.embedding_table)
        write_random_weights(directory)


def write_random_weights(directory):
    """Writes a checkpoint with the variables of the graph."""
    draw, arrays = np.random.default_rng(0), {}
    for variable in tf.global_variables():
        name = devices.base_name(variable)
        mean = float(name.endswith("gamma"))
        values = draw.normal(mean, 0.02, variable.shape.as_list())
        arrays[name] = values.astype(np.float32)
    checkpoint.write_arrays(os.path.join(directory, "model.ckpt-1"), arrays)
    checkpoint.write_state_file(directory)


def make_texts(tokenizer, pieces, count):
    """English-like texts of about `pieces` pieces."""
    draw, words = random.Random(0), []
    for number in range(min(tokenizer.vocab_size, 3200)):
        word = tokenizer.id_to_piece(number)[1:]
        if word.isalpha():
            words.append(word)
    texts = []
    for _ in range(count):
        length = round(pieces * draw.uniform(0.75, 1.25))
        texts.append(" ".join(draw.choices(words, k=length)))
    return texts


@contextmanager
def served(model_dir):
    """The port of a server of a model directory."""
    flags = [f"--model_dir={model_dir}", "--name=m", "--port=0"]
    with subprocess.Popen(
        [sys.executable, "-m", "xlnet", "serve", *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            # The log is a line for each request: a full pipe would stop the server.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield int(line.split("/v1")[0].rpartition(":")[2])
        finally:
            process.kill()


def request(signature, instances, **parameters):
    """The body of a request."""
    body = {"signature_name": signature, "instances": instances}
    if parameters:
        body["parameters"] = parameters
    return json.dumps(body).encode()


def ask(port, body):
    """The answer to a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    connection.request("POST", "/v1/models/m:predict", body)
    response = connection.getresponse()
    content = json.loads(response.read())
    connection.close()
    if response.status != 200:
        raise RuntimeError(content["error"])
    return content


def show(port, settings, light, heavy, heavy_body):
    """Prints a line of the first table for each light client."""
    # The heavy one, too: a server that refuses it has no load.
    for body in (*light.values(), heavy_body):
        ask(port, body)
    alone = {name: [] for name in light}
    beside = {name: [] for name in light}
    # In turn, so that other work on the machine meets both.
    for _ in range(settings.rounds):
        for name, body in light.items():
            alone[name] += times(port, body, settings.seconds)
        with repeated(port, heavy_body):
            time.sleep(_PAUSE)
            for name, body in light.items():
                beside[name] += times(port, body, settings.seconds)
    for name in light:
        medians = np.median(alone[name]), np.median(beside[name])
        print(
            f"| {name} | {heavy} | {1000 * medians[0]:.0f} | {1000 * medians[1]:.0f} "
            f"| {medians[1] / medians[0]:.1f} |",
            flush=True,
        )


def times(port, body, seconds):
    """The times of requests, one after the other [s]; at least three of them."""
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(found) < 3:
        began = time.monotonic()
        ask(port, body)
        found.append(time.monotonic() - began)
    return found


@contextmanager
def repeated(port, body):
    """A client that sends a request again and again, and leaves at the end of the block."""
    is_over = threading.Event()
    connections = []

    def loop():
        while not is_over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
            connections.append(connection)
            try:
                connection.request("POST", "/v1/models/m:predict", body)
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                return  # it has left, or the server is gone
            connection.close()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        if connections[-1].sock is not None:
            connections[-1].sock.shutdown(socket.SHUT_RDWR)
        thread.join(_TIMEOUT)
        time.sleep(_PAUSE)


def show_generation(port, most, texts):
    """Prints the tokens a second of one client, of a list of texts, and of as many clients.
    most: tokens of a text."""
    how = {"max_tokens": most, "seed": 1}
    prompts = [text[:60] for text in texts]
    count = len(prompts)
    works = {
        "one client": [request("generate", prompts[:1], **how)],
        f"a list of {count}": [request("generate", prompts, **how)],
        f"{count} clients": [request("generate", [one], **how) for one in prompts],
    }
    # In turn, so that other work on the machine meets all of them.
    rates = {name: [] for name in works}
    for _ in range(3):
        for name, bodies in works.items():
            began = time.monotonic()
            tokens = generated_tokens(port, bodies)
            rates[name].append(tokens / (time.monotonic() - began))
    for name, found in rates.items():
        print(f"| {name} | {np.median(found):.1f} |", flush=True)


def generated_tokens(port, bodies):
    """How many tokens are generated for requests that are sent at the same time."""
    total = 0
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        # An error of a client is raised where its answer is taken.
        for answer in pool.map(functools.partial(ask, port), bodies):
            total += sum(each["tokens"] for each in answer["predictions"])
    return total


if __name__ == "__main__":
    with cli.command(LoadBenchmark, about=__doc__) as line:
        main(*line.settings)
