"""The server: answers, limits, errors in words, what is dropped, how it ends."""

import collections
import concurrent.futures
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
import types
import urllib.parse

import pytest
from helpers import command
from helpers.paths import ROOT
from helpers.serving import Echo, ask, running, wait_until

from xlnet.commands import serve
from xlnet.server import application, limits
from xlnet.server.turns import Dropped
from xlnet.support.errors import UserError

GENERATE = {"signature_name": "generate", "instances": [{"prompt": "a"}]}


@pytest.fixture(scope="module")
def server():
    with running(Echo(), "m") as server:
        yield server


@pytest.fixture
def slow():
    """A model whose work takes until it is told to go on, or is left; `begun` counts it."""

    class Slow(Echo):
        at_once = 1

        def __init__(self):
            super().__init__()
            self.begun, self.go, self.left = 0, threading.Event(), 0

        def _work(self):
            self.begun += 1
            while not self.go.wait(0.01):
                try:
                    self.turns.call(lambda: None)
                except Dropped:
                    self.left += 1
                    raise

        def run(self, call, rows):
            if rows[0].get("text_a") != "quick":
                self._work()
            return super().run(call, rows)

        def stream(self, call, row):
            yield {"text": "first"}
            self._work()
            yield {"text": "last"}

    made = Slow()
    yield made
    made.go.set()


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def request(body):
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    start = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n"
    return start + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def everything(connection):
    return b"".join(iter(lambda: connection.recv(4096), b""))


def waiting(server):
    return server.application._computing.rows


def test_answers_are_rows(server):
    asked = {"instances": [{"text_a": "één"}, {"text_a": ""}]}
    status, answer = ask(server, body=asked)
    assert status == 200 and answer == {
        "predictions": [{"text": "één", "size": 3}, {"text": "", "size": 0}],
        "tokens": [9, 9],
        "tokens_read": [3, 3],
        "unknown_tokens": [0, 0],
    }
    _, answer = ask(server, body={"instances": ["a", "b"]})
    assert answer["predictions"][1]["text"] == "b"


def test_the_state_has_the_form_of_tensorflow_serving(server):
    """https://www.tensorflow.org/tfx/serving/api_rest: probes of it wait for AVAILABLE."""
    status, about = ask(server, "GET", "/v1/models/m")
    (version,) = about["model_version_status"]
    assert (status, version["version"], version["state"]) == (200, "1", "AVAILABLE")
    assert about["signatures"]["choices"] == ["choices", "text_a"]


def test_another_site_may_not_ask(server):
    """By a name that leads here (DNS rebinding)."""
    with running(Echo(), "m", host="0.0.0.0") as other:
        for host in ("localhost", "127.0.0.1:8501", "[::1]:80", "evil.example:80"):
            status = 400 if host.startswith("evil") else 200
            asked = dict(body={"instances": ["a"]}, headers={"Host": host})
            assert ask(server, **asked)[0] == status
            assert ask(other, **asked)[0] == 200


def test_a_bad_request_is_told_which_field_is_wrong(server):
    named = {"instances": ["a"], "signature_name": None}

    def choices(instance):
        return {"signature_name": "choices", "instances": [instance]}

    for body, words in (
        ("{", "not JSON: Expecting property name"),
        ("[" * 4000, "not JSON"),
        ('{"instances": [{"text_a": "a", "text_a": "b"}]}', "the key 'text_a' twice"),
        ("[1]", "the request: found no object"),
        ({"instances": []}, "instances: found 0, expected 1 to 128"),
        ({"instances": ["a"] * 129}, "instances: found 129, expected 1 to 128"),
        ({"instances": "a"}, 'instances: found "a", expected an array'),
        (named, "signature_name: found null, expected"),
        ({"instances": ["a"], "parameter": {}}, "the request: found 'parameter', exp"),
        ({"instances": ["a"], "stream": True}, "stream: found 1 of text, expected one"),
        ({"instances": [3]}, "instance 0: text_a: found 3, expected a string"),
        ({"instances": [{"b": "a"}]}, 'instance 0: found {"b": "a"}, expected an obj'),
        (choices(1), "instance 0: found 1, expected an object with choices, text_a"),
        (choices({"text_a": "a", "choices": ["b"]}), "expected an array of 2 strings"),
        (choices({"text_a": "a", "choices": [["b"]] * 2}), 'choices: found ["b"], exp'),
        ({"instances": ["\u00e9" * 100_001]}, "expected a string of up to 100000 char"),
        ('{"instances": ["\\ud800"]}', "instance 0: text_a: found "),
        ('{"instances": ["a"], "\\ud800": 1}', "the request: found '\\ud800', exp"),
    ):
        status, answer = ask(server, body=body)
        assert status == 400 and words in answer["error"], answer
        assert "\n" not in answer["error"] and len(answer["error"]) < 400


def test_other_ways(server):
    assert ask(server, "GET", "/health") == (200, "ok\n")
    assert ask(server, "GET", "/ready") == (200, "ok\n")
    assert ask(server, "HEAD", "/health") == (200, "")
    for method, path, status in (
        ("GET", "/../etc/passwd", 404),
        ("GET", "/%2e%2e/application.py", 404),
        ("GET", "/v1/models/other", 404),
        ("POST", "/v1/models/other:predict", 404),
        ("DELETE", "/health", 405),
    ):
        found, answer = ask(server, method, path)
        assert found == status and answer["error"].startswith(method)
    page = ask(server, "GET", "/")[1]
    assert "<script src" in page or 'type="module"' in page
    with running(Echo(), "my 新闻%") as other:
        path = f"/v1/models/{urllib.parse.quote('my 新闻%')}"
        assert ask(other, path=path + ":predict", body={"instances": ["a"]})[0] == 200
        assert ask(other, "GET", path)[0] == 200


def test_every_response_has_the_headers_that_protect_a_browser(server):
    for path in ("/", "/page.js", "/health", "/nowhere"):
        with connect(server) as connection:
            connection.sendall(b"GET %s HTTP/1.0\r\nHost: a\r\n\r\n" % path.encode())
            head = everything(connection).partition(b"\r\n\r\n")[0].lower()
        assert b"content-security-policy: default-src 'none';" in head
        assert b"unsafe" not in head
        assert b"x-content-type-options: nosniff" in head


def test_metrics_count(server):
    def numbers():
        found = collections.Counter()
        for line in ask(server, "GET", "/metrics")[1].splitlines():
            if not line.startswith("#"):
                name, number = line.rsplit(" ", 1)
                found[name] = float(number)
        return found

    before = numbers()
    ask(server, body={"instances": ["a", "b", "c"]})
    ask(server, body="{")
    after = numbers()
    for name in (
        'xlnet_errors_total{status="400"}',
        'xlnet_answer_seconds_count{signature="text"}',
    ):
        assert after[name] - before[name] == 1
    assert after["xlnet_rows_waiting"] == 0
    assert after["process_resident_memory_bytes"] > 1e6


def test_a_model_that_fails_and_the_next_request():
    class Fails(Echo):
        def run(self, call, rows):
            if rows[0]["text_a"] == "a":
                raise RuntimeError("the device is lost\nand more")
            return super().run(call, rows)

    with running(Fails(), "m") as server:
        status, answer = ask(server, body={"instances": ["a"]})
        said = "the model failed on this: RuntimeError: the device is lost"
        assert (status, answer["error"]) == (500, said)
        assert ask(server, body={"instances": ["b"]})[0] == 200


# ---- alive, ready, dropped


def test_it_is_alive_while_it_computes_and_not_ready_while_too_many_wait(
    slow, monkeypatch
):
    monkeypatch.setattr(limits, "MAX_WAITING", 1)
    with running(slow, "m") as server, concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(ask, server, body={"instances": ["a"]})
        wait_until(lambda: slow.begun)
        assert ask(server, "GET", "/health") == (200, "ok\n")
        status, answer = ask(server, "GET", "/ready")
        said = "1 instances wait already, at most 1 may"
        assert status == 503 and said in answer["error"]
        assert ask(server, body={"instances": ["b"]})[0] == 503
        slow.go.set()
        assert first.result()[0] == 200
        assert ask(server, "GET", "/ready")[0] == 200


def test_silent_and_slow_connections_leave_a_light_client_served(server):
    """300 of them refused all predictions, and /ready stayed 200."""
    silent = [connect(server) for _ in range(256)]
    for number, each in enumerate(silent):
        each.sendall(request(b"{}")[: number % 128])
    began = time.monotonic()
    assert ask(server, "GET", "/ready")[0] == 200
    for _ in range(20):
        assert ask(server, body={"instances": ["a"]})[0] == 200
    assert time.monotonic() - began < 5
    for each in silent:
        each.close()


@pytest.mark.parametrize("body", [{"instances": ["a"]}, {**GENERATE, "stream": True}])
def test_what_a_client_that_leaves_asked_for_is_dropped(slow, body):
    with running(slow, "m") as server:
        with connect(server) as connection:
            connection.sendall(request(body))
            wait_until(lambda: slow.begun)
        wait_until(lambda: slow.left == 1 and waiting(server) == 0)
        assert ask(server, body={"instances": ["quick"]})[0] == 200


def test_a_request_has_a_longest_time(slow, monkeypatch):
    monkeypatch.setattr(limits, "MAX_SECONDS", 1)
    with running(slow, "m") as server:
        status, answer = ask(server, body={"instances": ["a"]})
        assert (status, answer["error"]) == (503, "not answered within 1 s")
        wait_until(lambda: slow.left == 1)
        said = ask(server, body={**GENERATE, "stream": True})[1]
        assert '"first"' in said and '{"error": "not answered within 1 s"}' in said


# ---- bodies


def test_a_refusal_arrives_at_a_client_that_still_sends(server):
    body = b"x" * 20_000_000
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    for head, sent in (
        (b"Content-Length: %d" % len(body), body),
        (b"Transfer-Encoding: chunked", chunk),
    ):
        start = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n"
        with connect(server) as connection:
            connection.sendall(start + b"Connection: close\r\n%s\r\n\r\n" % head + sent)
            answer = everything(connection)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"more than 1048576 bytes" in answer


def test_bodies_on_their_way_take_no_more_memory_than_the_limit(server):
    """Three requests that do not end; each has sent 20 MB, of which 1 MB may be kept."""
    sent = request(b"x" * 60_000_000)[:20_000_000]
    opened = [connect(server) for _ in range(3)]
    tracemalloc.start()  # of the server, too, which is a thread
    for connection in opened:
        connection.sendall(sent)
    assert ask(server, "GET", "/health")[0] == 200
    in_memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for connection in opened:
        connection.close()
    assert in_memory < 10_000_000


def test_hostile_requests_leave_memory_flat(server):
    """Requests of all wrong kinds, and connections that break."""

    def attack(count):
        for _ in range(count):
            for body in ("{", {"instances": ["a" * 90_000]}, {"x": 1}, "[" * 9000):
                ask(server, body=body)
            with connect(server) as connection:
                connection.sendall(request({**GENERATE, "stream": True})[:-3])
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    before = attack(5)
    after = attack(40)
    tracemalloc.stop()
    assert after - before < 2_000_000
    wait_until(lambda: waiting(server) == 0)


# ---- begin and end


def test_a_bad_address_is_found_before_the_model_is_loaded(server, tmp_path):
    with pytest.raises(UserError, match="host: found no.such.host.invalid, port 0: "):
        application.bind("no.such.host.invalid", 0)
    said = command.refused("xlnet serve", model_dir=tmp_path / "none", port=server.port)
    assert f"host: found 127.0.0.1, port {server.port}: " in said
    for given, said in (
        (dict(port=70_000), "port: found 70000, expected at least 0 and at most 65535"),
        (dict(name="a/b"), "name: found 'a/b', expected a name without /; --name"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            serve.ServingSettings(**given).check()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_program_ends_in_time_while_it_computes(permuted, number):
    """Also while a computation is in progress that nothing can interrupt; with status 0. A request
    that is answered until then is answered."""
    code = f"""
import os, sys, time
from xlnet.commands import main as commands
from xlnet.server import served_model
run = served_model.ServedModel.run
def slow(self, call, rows):
    text = rows[0].get("text_a")
    if text in ("for 1 s", "for 60 s"):
        os.write(1, b"begun\\n")
        time.sleep(int(text.split()[1]))
    return run(self, call, rows)
served_model.ServedModel.run = slow
served_model.Call.batch_name = lambda *_: None
sys.argv = ["xlnet", "serve", "--model_dir={permuted.folder}", "--port=0", "--name=m"]
commands.main()
"""
    asked = [
        {"signature_name": "vectors", "instances": [f"for {n} s"]} for n in (1, 60)
    ]
    with (
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as program,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        try:
            (port,) = re.findall(r":(\d+)/", program.stdout.readline())
            place = types.SimpleNamespace(port=int(port))
            answers = [pool.submit(ask, place, body=body) for body in asked]
            assert "page" in program.stdout.readline()
            assert [program.stdout.readline() for _ in asked] == ["begun\n"] * 2
            program.send_signal(number)
            began = time.monotonic()
            assert program.wait(20) == 0
            assert time.monotonic() - began < limits.GRACE_SECONDS + 4
            assert answers[0].result()[0] in (200, 400)
            with contextlib.suppress(OSError):
                assert answers[1].result()[0] >= 500
        finally:
            program.kill()
