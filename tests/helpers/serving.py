"""A server in this process, and requests to it."""

import asyncio
import contextlib
import http.client
import json
import threading
import time
import types

import pytest

for package in ("starlette", "uvicorn", "prometheus_client"):
    pytest.importorskip(package, reason="the server needs pip install '.[serve]'")

from xlnet.server import application  # noqa: E402
from xlnet.server.served_model import Answer, Call, ServedModel  # noqa: E402
from xlnet.server.turns import Turns  # noqa: E402

READ = (9, 3, 0)  # tokens, tokens_read, unknown_tokens


class Echo(ServedModel):
    """Answers with the text and its length. No model: the subject is the server."""

    verb, labels, default = "classify", None, "text"
    inputs = {
        "text": {"text_a": None},
        "choices": {"choices": 2, "text_a": None},
        "generate": {"prompt": None},
    }

    at_once = 32  # rows that a call computes together

    def __init__(self):
        self.turns = Turns()
        method = types.SimpleNamespace(at_once=self.at_once)
        self._model = types.SimpleNamespace(method=lambda *_, **__: method)
        self.asked = []  # what a subclass notes

    def describe(self):
        return {"signatures": {name: list(self.inputs[name]) for name in self.inputs}}

    def call(self, signature, parameters):
        if signature == "choices":
            return Call(signature, {}, self._model.method())
        return super().call(signature, parameters)

    def run(self, call, rows):
        texts = [row.get("text_a", "") for row in rows]
        return [Answer({"text": text, "size": len(text)}, *READ) for text in texts]

    def stream(self, call, row):
        for number in range(3):
            yield {"text": str(number)}


@contextlib.contextmanager
def running(model, name, host="127.0.0.1"):
    """A server that answers until the end of the block."""
    listening = application.bind(host, 0)
    server = application.server(model, name, listening)
    server.port = listening.getsockname()[1]
    # Its first route is a method of it.
    server.application = server.config.app.routes[0].endpoint.__self__
    server.model = model

    def run():
        loop = asyncio.new_event_loop()
        loop.run_until_complete(server.serve([listening]))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield server
    finally:
        server.should_exit = True
        thread.join()


def ask(server, method="POST", path="/v1/models/m:predict", body=None, headers=None):
    """(status, what was answered)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    if not isinstance(body, (str, bytes, type(None))):
        body = json.dumps(body)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer.status, json.loads(content) if is_json else content


def wait_until(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("not in time")


__all__ = ["READ", "Answer", "Call", "Echo", "ask", "running", "wait_until"]
