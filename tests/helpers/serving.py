"""A server in this process, and requests to it."""

import contextlib
import http.client
import json
import threading
import time

import pytest

for package in ("uvicorn", "prometheus_client"):
    pytest.importorskip(package, reason="the server needs pip install '.[serve]'")

from xlnet.errors import UserError  # noqa: E402
from xlnet.serving.batched_calls import Computed  # noqa: E402
from xlnet.serving.server import http_server  # noqa: E402
from xlnet.serving.server.model_directory import Call  # noqa: E402


class Echo:
    """Answers with the text and its length. No model: the subject is the server."""

    default, path = "text", "m"
    about, labels, verb, examples, n_layer, n_head = "an echo", None, "classify", {}, 1, 1
    names = ["text", "choices", "generate"]

    def __init__(self):
        self.asked = []  # (signature, number of rows) of each batch

    def inputs(self, signature):
        if signature not in self.names:
            raise UserError(f"no signature '{signature}'")
        return {"choices": {"choices": 2, "text_a": None}, "generate": {"prompt": None}}.get(
            signature, {"text_a": None}
        )

    def other_names(self, signature):
        return {}

    def signature(self, name):
        self.inputs(name)
        return name

    def call(self, signature, parameters):
        self.inputs(signature)
        return Call(signature, json.dumps(parameters))

    def rows(self, signature, rows):
        return rows if isinstance(rows[0], dict) else [{"text_a": row} for row in rows]

    def size(self, row):
        return 1

    def cost(self, call, rows, budget):
        return 49 if call.signature == "generate" else None

    def needs_own_graph(self, call, rows):
        return False

    def has_arrays(self, signature):
        return False

    def run(self, call, rows):
        self.asked.append((call.signature, len(rows)))
        return [
            Computed({"text": row["text_a"], "size": len(row["text_a"])}, len(row["text_a"]), 9)
            for row in rows
        ]

    def stream(self, call, row):
        for number in range(row["parts"]):
            yield {"number": 0, "text": str(number)}


@contextlib.contextmanager
def running(model, name, limits=None, host="127.0.0.1", hosts=()):
    """A server that answers until the end of the block."""
    server = http_server.Server(model, name, http_server.bind(host, 0), limits, hosts)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server._uvicorn.started)
        yield server
    finally:
        server.stop()
        thread.join()


def ask(server, method="POST", path="/v1/models/m:predict", body=None, headers=None):
    """(status, what was answered)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(
        method,
        path,
        body if body is None or isinstance(body, (str, bytes)) else json.dumps(body),
        headers or {},
    )
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer.status, json.loads(content) if is_json else content


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("not in time")
