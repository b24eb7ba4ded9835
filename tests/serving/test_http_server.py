"""The server: answers, limits, errors in words, what is dropped, how it ends."""

import concurrent.futures
import contextlib
import gzip
import http.client
import importlib
import json
import logging
import os
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
import zlib

import pytest
from helpers.paths import ROOT
from helpers.serving import Echo, ask, running, wait_until

from xlnet.errors import UserError
from xlnet.programs import serve
from xlnet.serving import session
from xlnet.serving.batched_calls import Computed
from xlnet.serving.server import http_server, request_forms
from xlnet.serving.settings import LimitSettings


@pytest.fixture(scope="module")
def server():
    limits = LimitSettings(max_body=5000, max_rows=4, budget=100, max_characters=20)
    with running(Echo(), "m", limits) as server:
        yield server


@pytest.fixture
def slow():
    """A model whose work takes until it is told to go on, or is left; `begun` counts it."""

    class Slow(Echo):
        def __init__(self):
            super().__init__()
            self.begun, self.go, self.left = 0, threading.Event(), 0

        def _work(self):
            self.begun += 1
            while not self.go.wait(0.01):
                try:
                    with session.caller().turn(0):
                        pass
                except UserError:
                    self.left += 1
                    raise

        def run(self, call, rows):
            if rows[0].get("text_a") != "quick":
                self._work()
            return super().run(call, rows)

        def stream(self, call, row):
            yield {"number": 0, "text": "first"}
            self._work()
            yield {"number": 0, "text": "last"}

    made = Slow()
    yield made
    made.go.set()


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def request(body, head=b""):
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    return (
        b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d"
        b"\r\n\r\n%s" % (head, len(body), body)
    )


def everything(connection):
    return b"".join(iter(lambda: connection.recv(4096), b""))


def test_answers_are_rows(server):
    assert ask(server, body={"instances": [{"text_a": "één"}, {"text_a": ""}]}) == (
        200,
        {
            "predictions": [{"text": "één", "size": 3}, {"text": "", "size": 0}],
            "tokens_read": [3, 0],
            "tokens": [9, 9],
            "characters_read": [None, None],
        },
    )
    assert ask(server, body={"instances": ["a", "b"]})[1]["predictions"][1]["text"] == "b"


def test_the_state_has_the_form_of_tensorflow_serving(server):
    """https://www.tensorflow.org/tfx/serving/api_rest: probes of it wait for AVAILABLE."""
    status, about = ask(server, "GET", "/v1/models/m")
    assert (status, about["model_version_status"]) == (
        200,
        [
            {
                "version": "1",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ],
    )
    assert about["signatures"] == {name: sorted(Echo().inputs(name)) for name in Echo.names}


def test_a_page_of_another_site_may_not_ask(server):
    own = {"Origin": f"http://127.0.0.1:{server.port}"}
    assert ask(server, body={"instances": ["a"]}, headers=own)[0] == 200
    for other in ("https://example.org", "null"):
        status, answer = ask(server, body={"instances": ["a"]}, headers={"Origin": other})
        assert status == 403 and other in answer["error"]


@pytest.mark.parametrize("given", ["own.example", "https://own.example", "Own.Example:443"])
def test_a_page_behind_a_proxy_that_changes_the_host(given):
    """The page's origin is the name that the visitor knows; the Host is that of the server."""
    with running(Echo(), "m", hosts=(given,)) as server:
        assert (
            ask(server, body={"instances": ["a"]}, headers={"Origin": "https://own.example"})[0]
            == 200
        )
        for other in (
            "https://example.org",
            "null",
            "https://own.example.org",
            "https://localhost",
        ):
            assert ask(server, body={"instances": ["a"]}, headers={"Origin": other})[0] == 403


@pytest.mark.parametrize(
    "bound, hosts, host, status",
    [
        ("127.0.0.1", (), "localhost", 200),
        ("127.0.0.1", (), "[::1]:8501", 200),
        ("127.0.0.1", (), "LOCALHOST.:80", 200),
        ("127.0.0.1", (), socket.gethostname(), 200),
        ("127.0.0.1", (), "evil.example:8501", 421),
        ("127.0.0.1", (), "[", 421),
        ("localhost", (), "evil.example", 421),
        ("127.0.0.1", ("Own.Example:8501",), "own.example", 200),
        ("127.0.0.1", ("a.b.",), "a.b", 200),
        ("127.0.0.1", ("fe80::2",), "[fe80::2]", 200),
        ("127.0.0.1", ("[fe80::2]",), "[fe80::2]:80", 200),
        ("127.0.0.1", ("fe80::2",), "fe80", 421),
        ("0.0.0.0", (), "evil.example", 200),
        ("0.0.0.0", ("own.example",), "evil.example", 421),
        ("0.0.0.0", ("own.example",), "localhost:8501", 200),
    ],
)
def test_a_site_whose_name_leads_here_may_not_ask(bound, hosts, host, status):
    """DNS rebinding: the origin of such a page agrees with the host of its requests."""
    with running(Echo(), "m", host=bound, hosts=hosts) as server:
        for headers in ({"Host": host}, {"Host": host, "Origin": "http://" + host}):
            found, answer = ask(server, body={"instances": ["a"]}, headers=headers)
            assert found == status, answer
        assert found == 200 or host.partition(":")[0] in answer["error"]


@pytest.mark.parametrize(
    "body, status, words",
    [
        ("{", 400, "not JSON: Expecting property name"),
        ("[" * 4000, 400, "not JSON"),
        ('{"instances": [{"text_a": "a", "text_a": "b"}]}', 400, "the key 'text_a' twice"),
        ('{"instances": ["a"], "instances": ["b"]}', 400, "the key 'instances' twice"),
        ("[1]", 400, "expected a JSON object, found an array"),
        ({"instances": []}, 400, "one example or more"),
        ({"instances": ["a"], "signature_name": None}, 400, "signature_name is null, expected a"),
        ({"instances": ["a"], "parameters": None}, 400, "parameters is null, expected an object"),
        ({"instances": ["a"], "inputs": ["a"]}, 400, "expected {"),
        ({"instances": ["a"], "parameter": {}}, 400, "no 'parameter' in a request"),
        ({"instances": ["a"], "stream": 1}, 400, "stream is 1, expected true or false"),
        ({"instances": ["a"], "stream": True}, 400, "expected signature generate with one prompt"),
        ({"instances": ["a"], "signature_name": "no"}, 400, "no signature 'no'"),
        ({"instances": ["a"] * 5}, 413, "5 rows, at most 4"),
        ({"instances": ["é" * 21]}, 413, "'text_a' has more than 20 characters"),
        ({"instances": ["a" * 6000]}, 413, "more than 5000 bytes"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(server, body, status, words):
    found, answer = ask(server, body=body)
    assert found == status and words in answer["error"], answer
    assert "\n" not in answer["error"]


def test_no_part_of_an_answer_waits_for_the_client(server):
    """Else the body would wait for the acknowledgement of the head, 40 ms on Linux."""
    with connect(server) as connection:
        wait_until(lambda: server._uvicorn.server_state.connections)
        connection.sendall(request(b'{"instances": ["a"]}'))
        assert connection.recv(4096)
        for each in server._uvicorn.server_state.connections:
            assert each.transport.get_extra_info("socket").getsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY
            )


def test_other_ways(server):
    assert ask(server, "GET", "/health") == (200, "ok\n")
    assert ask(server, "GET", "/ready") == (200, "ok\n")
    assert ask(server, "GET", "/../etc/passwd")[0] == 404
    assert ask(server, "GET", "/%2e%2e/__init__.py")[0] == 404
    assert ask(server, "HEAD", "/health") == (200, "")
    for path in ("/", "/page.js", "/health", "/nowhere"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", path)
        page = connection.getresponse()
        policy = page.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';") and "unsafe" not in policy
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        if path == "/":
            assert page.headers["Content-Type"] == "text/html; charset=utf-8"
            assert b"<script src" in page.read()
        connection.close()
    assert ask(server, "POST", "/v1/models/other:predict", "{}")[0] == 404
    assert ask(server, "DELETE", "/health")[0] == 405
    assert ask(server, "GET", "/v1/models/m:predict")[0] == 405


@pytest.mark.parametrize("name", ["my 新闻%", "a/b", "{x}"])
def test_a_name_of_any_characters(name):
    with running(Echo(), name) as server:
        path = f"/v1/models/{urllib.parse.quote(name)}"
        assert ask(server, path=path + ":predict", body={"instances": ["a"]})[0] == 200
        assert ask(server, "GET", path)[0] == 200


def test_metrics_count(server):
    def numbers():
        return dict(
            line.rsplit(" ", 1)
            for line in ask(server, "GET", "/metrics")[1].splitlines()
            if not line.startswith("#")
        )

    before = numbers()
    ask(server, body={"instances": ["a", "b", "c"]})
    ask(server, body="{")
    after = numbers()

    def rise(name):
        return float(after[name]) - float(before.get(name, 0))

    text = '{signature="text"}'
    assert rise("xlnet_rows_total" + text) == 3 and rise("xlnet_batches_total" + text) == 1
    assert rise("xlnet_tokens_read_total" + text) == 3
    assert rise("xlnet_cut_texts_total" + text) == 3  # the echo says that there are 9 in each
    assert rise('xlnet_batch_size_bucket{le="2.0",signature="text"}') == 0
    assert rise('xlnet_batch_size_bucket{le="4.0",signature="text"}') == 1
    assert rise('xlnet_requests_total{status="200"}') == 2  # this one and /metrics
    assert rise('xlnet_requests_total{status="400"}') == 1
    assert rise("xlnet_answer_seconds_count" + text) == 1
    # The longest request that may be has a bucket.
    assert rise('xlnet_answer_seconds_bucket{le="300.0",signature="text"}') == 1
    assert float(after["process_resident_memory_bytes"]) > 1e6
    same = ask(server, "GET", "/monitoring/prometheus/metrics")
    assert same[0] == 200 and "xlnet_rows_waiting" in same[1]


def test_many_at_once_get_their_own_answers(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: ask(server, body={"instances": [str(i)]}), range(160)))
    assert [answer["predictions"][0]["text"] for _, answer in found] == list(map(str, range(160)))


def headers_of(server, method, path="/v1/models/m:predict", body=None, headers=None):
    """(status, headers in small letters, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, content


def test_the_page_of_a_listed_host_may_ask_and_read():
    """The advice to list it did not work: no header allowed it, and OPTIONS was refused."""
    with running(Echo(), "m", hosts=("app.example",)) as server:
        for origin in ("https://app.example", "http://app.example:3000"):
            preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            status, found, content = headers_of(server, "OPTIONS", headers=preflight)
            assert (status, content) == (204, b"")
            assert found["access-control-allow-origin"] == origin
            assert "POST" in found["access-control-allow-methods"]
            assert "content-type" in found["access-control-allow-headers"]
            for body in ('{"instances": ["a"]}', "{"):  # its page reads errors, too
                _, found, _ = headers_of(server, "POST", body=body, headers={"Origin": origin})
                assert found["access-control-allow-origin"] == origin and found["vary"] == "origin"
        for origin in ("null", "https://other.example", "app.example"):
            preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            for method in ("OPTIONS", "GET"):
                path = "/v1/models/m"
                status, found, _ = headers_of(server, method, path, headers=preflight)
                assert status == (403 if method == "OPTIONS" else 200)
                assert "access-control-allow-origin" not in found


def test_no_frame_of_any_site_is_listed():
    with pytest.raises(UserError, match="allowed_hosts names null"):
        http_server.Server(Echo(), "m", http_server.bind("127.0.0.1", 0), hosts=["null"])


def test_a_server_of_many_silent_connections_is_alive():
    """A liveness probe got 503 in plain text, and killed a healthy server."""
    with running(Echo(), "m", LimitSettings(max_connections=3)) as server:
        silent = [connect(server) for _ in range(6)]
        wait_until(lambda: len(server._uvicorn.server_state.connections) >= 6)
        assert ask(server, "GET", "/health") == (200, "ok\n")
        status, found, content = headers_of(server, "POST", body='{"instances": ["a"]}')
        assert status == 503 and "max_connections" in json.loads(content)["error"]
        assert found["connection"] == "close" and int(found["retry-after"]) > 0
        assert 'xlnet_requests_total{status="503"} 1.0' in ask(server, "GET", "/metrics")[1]
        for each in silent:
            each.close()
        wait_until(lambda: len(server._uvicorn.server_state.connections) < 3)
        assert ask(server, body={"instances": ["a"]})[0] == 200


def test_what_is_not_http_is_refused_in_json_and_counted(server):
    with connect(server) as connection:
        connection.sendall(b"hello\r\n\r\n")
        head, _, content = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400") and b"application/json" in head
    assert "not HTTP/1.1" in json.loads(content)["error"]


def test_what_is_not_http_behind_an_answer_ends_the_connection(server, caplog):
    """In the body of a request that was answered before it came to its end."""
    refused = 'xlnet_requests_total{status="400"}'
    before = [line for line in ask(server, "GET", "/metrics")[1].split("\n") if refused in line]
    with connect(server) as connection:
        connection.sendall(b"POST /no HTTP/1.1\r\nhost: localhost\r\n")
        connection.sendall(b"transfer-encoding: chunked\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404")
        connection.sendall(b"zzz\r\n")
        everything(connection)
    after = [line for line in ask(server, "GET", "/metrics")[1].split("\n") if refused in line]
    assert before == after
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_each_request_has_an_id_and_a_line(server, caplog):
    with caplog.at_level(logging.INFO, http_server.__name__ + ".access"):
        _, found, _ = headers_of(server, "GET", "/health")
        _, given, _ = headers_of(server, "GET", "/health", headers={"X-Request-Id": "my-id-7"})
        _, bad, _ = headers_of(server, "GET", "/nowhere", headers={"X-Request-Id": "a b\tc"})
        wait_until(lambda: len(caplog.messages) == 3)
    assert len(found["x-request-id"]) == 16 and given["x-request-id"] == "my-id-7"
    assert len(bad["x-request-id"]) == 16
    assert caplog.messages[1].startswith("my-id-7 GET /health 200 3 bytes ")
    assert " GET /nowhere 404 " in caplog.messages[2]


@pytest.mark.parametrize("encoding, pack", [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_packed_bodies(server, encoding, pack):
    body = b'{"instances": ["a"]}'
    send = {"Content-Encoding": encoding}
    assert headers_of(server, "POST", body=pack(body), headers=send)[0] == 200
    for damaged in (b"no", pack(body)[:-9]):
        status, _, content = headers_of(server, "POST", body=damaged, headers=send)
        assert status == 400 and f"the body is not {encoding}" in json.loads(content)["error"]
    bomb = pack(b" " * 10_000_000)
    assert headers_of(server, "POST", body=bomb[:5000], headers=send)[0] == 413
    assert headers_of(server, "POST", body=body, headers={"Content-Encoding": "br"})[0] == 415


def test_packed_answers(server):
    take = {"Accept-Encoding": "gzip"}
    _, found, content = headers_of(server, "GET", "/page.js", headers=take)
    assert found["content-encoding"] == "gzip"
    plain = headers_of(server, "GET", "/page.js")[2]
    assert gzip.decompress(content) == plain and len(content) < len(plain) / 2
    refuses = {"Accept-Encoding": "gzip;q=0"}
    assert "content-encoding" not in headers_of(server, "GET", "/page.js", headers=refuses)[1]


def test_other_forms_of_tensorflow_serving(server):
    """https://www.tensorflow.org/tfx/serving/api_rest: columns, versions, metadata."""
    columns = {"inputs": {"text_a": ["a", "bc"]}}
    for path in ("/v1/models/m:predict", "/v1/models/m/versions/1:predict"):
        status, content = ask(server, path=path, body=columns)
        assert (status, content["outputs"]) == (200, {"text": ["a", "bc"], "size": [1, 2]})
    assert ask(server, body={"inputs": ["a"]})[1]["outputs"]["size"] == [1]
    choices = {"choices": [["x", "y"], ["z", "w"]], "text_a": ["a", "b"]}
    body = {"signature_name": "choices", "inputs": choices}
    assert ask(server, body=body)[1]["outputs"]["text"] == ["a", "b"]
    for bad in ({"text_a": []}, {"text_a": ["a"], "other": ["a", "b"]}, {}):
        assert ask(server, body={"inputs": bad})[0] == 400
    assert ask(server, body={"inputs": ["a"], "instances": ["a"]})[0] == 400
    for path in ("/v1/models/m/metadata", "/v1/models/m/versions/1/metadata"):
        _, content = ask(server, "GET", path)
        signatures = content["metadata"]["signature_def"]["signature_def"]
        assert signatures["choices"]["inputs"]["choices"]["tensor_shape"]["dim"][1]["size"] == "2"
    assert ask(server, "GET", "/v1/models/m/versions/1")[1]["model_version_status"]


def test_the_open_inference_protocol(server):
    """https://github.com/kserve/open-inference-protocol"""
    for path in ("/v2/health/live", "/v2/health/ready", "/v2", "/v2/models/m/ready"):
        assert ask(server, "GET", path)[0] == 200
    _, about = ask(server, "GET", "/v2/models/m")
    assert about["inputs"] == [{"name": "text_a", "datatype": "BYTES", "shape": [-1]}]
    texts = {"name": "text_a", "shape": [2], "datatype": "BYTES", "data": ["a", "bc"]}
    path = "/v2/models/m/infer"
    status, content = ask(server, path=path, body={"id": "7", "inputs": [texts]})
    outputs = {each["name"]: each for each in content["outputs"]}
    assert (status, content["id"], content["model_name"]) == (200, "7", "m")
    assert outputs["text"]["data"] == ["a", "bc"] and outputs["text"]["datatype"] == "BYTES"
    assert (outputs["size"]["datatype"], outputs["size"]["shape"]) == ("INT64", [2])
    choices = {"name": "choices", "shape": [2, 2], "datatype": "BYTES", "data": list("wxyz")}
    body = {"inputs": [choices, texts], "parameters": {"signature_name": "choices"}}
    assert ask(server, path=path, body=body)[0] == 200
    for bad in (
        {"inputs": []},
        {"inputs": [dict(texts, shape=[3])]},
        {"inputs": [texts, dict(texts, data=["b", "c"])]},
        {"inputs": [dict(texts, datatype="FP32")]},
        {"inputs": [texts], "parameters": ["a"]},
        {"inputs": [texts], "parameters": "signature_name"},
    ):
        status, content = ask(server, path=path, body=bad)
        assert status == 400 and content["error"]
    _, content = ask(server, path=path, body={"inputs": [dict(texts, shape=None)]})
    assert content["error"] == "input 'text_a': shape is null, expected that of 2 values"
    # Triton's client gives this unless it names the outputs.
    of_triton = {"inputs": [texts], "parameters": {"binary_data_output": True}}
    status, content = ask(server, path=path, body=of_triton)
    assert (status, content["outputs"][0]["data"]) == (200, ["a", "bc"])


@pytest.mark.parametrize(
    "has_arrays, values, datatype, shape, data",
    [
        # Words of texts: the form did not depend on the name, but on how many there were.
        (False, [["O", "B"], ["O", "I"]], "BYTES", [2], ['["O", "B"]', '["O", "I"]']),
        (False, [["O", "B"], ["O"]], "BYTES", [2], ['["O", "B"]', '["O"]']),
        (False, [[], []], "BYTES", [2], ["[]", "[]"]),
        (False, [None, None], "BYTES", [2], ["null", "null"]),
        (True, [[0.5, 0.5], [0.25, 0.75]], "FP32", [2, 2], [0.5, 0.5, 0.25, 0.75]),
        (True, [[True, False]], "BOOL", [1, 2], [True, False]),
        (True, [["a\0"], [""]], "BYTES", [2, 1], ["a\0", ""]),
        (True, ["a", "b"], "BYTES", [2], ["a", "b"]),
        (True, [["a"], ["a", "b"]], "BYTES", [2], ['["a"]', '["a", "b"]']),  # of beams
    ],
)
def test_the_form_of_an_output_does_not_depend_on_its_values(
    has_arrays, values, datatype, shape, data
):
    expected = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
    assert request_forms._tensor("x", values, has_arrays) == expected


def test_the_api_describes_itself(server):
    """By the declarations that check requests."""
    status, found = ask(server, "GET", "/openapi.json")
    assert (status, found["openapi"], found["info"]["title"]) == (200, "3.1.0", "m")
    schema = found["paths"]["/v1/models/m:predict"]["post"]["requestBody"]["content"]
    requests = {each["title"]: each for each in schema["application/json"]["schema"]["oneOf"]}
    assert sorted(requests) == sorted(Echo.names)
    temperature = requests["generate"]["properties"]["parameters"]["properties"]["temperature"]
    assert (temperature["type"], temperature["exclusiveMinimum"]) == ("number", 0)
    most = requests["generate"]["properties"]["parameters"]["properties"]["max_tokens"]
    assert most["maximum"] == 2048


def test_a_model_that_fails_and_the_next_request(server):
    def fails(call, rows):
        raise RuntimeError("the device is lost\nand more")

    server.model.run = fails
    status, answer = ask(server, body={"instances": ["a"]})
    del server.model.run
    assert (status, answer["error"]) == (
        500,
        "the model failed on this: RuntimeError: the device is lost",
    )
    assert ask(server, body={"instances": ["a"]})[0] == 200


# ---- alive, ready, dropped


def test_it_is_alive_while_it_computes_and_not_while_a_computation_hangs(slow, monkeypatch):
    with (
        running(slow, "m", LimitSettings(max_waiting=1)) as server,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(ask, server, body={"instances": ["a"]})
        wait_until(lambda: slow.begun)
        second = pool.submit(ask, server, body={"instances": ["b"]})
        wait_until(lambda: server._batching.rows_waiting == 1)
        began = time.monotonic()
        assert ask(server, "GET", "/health") == (200, "ok\n")
        status, answer = ask(server, "GET", "/ready")
        assert (
            status == 503
            and "1 examples wait already, and of 1 more at most 0 may (--max_waiting=1)"
            in answer["error"]
        )
        assert time.monotonic() - began < 5
        monkeypatch.setattr(http_server, "_STUCK", -1000)
        status, answer = ask(server, "GET", "/health")
        assert status == 503 and "a computation hangs" in answer["error"]
        slow.go.set()
        assert (first.result()[0], second.result()[0]) == (200, 200)
        assert ask(server, "GET", "/ready")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"instances": ["a"]},
        {"signature_name": "generate", "instances": [{"prompt": "a"}]},
        {"signature_name": "generate", "instances": [{"prompt": "a"}], "stream": True},
    ],
    ids=["batch", "alone", "stream"],
)
def test_what_a_client_that_leaves_asked_for_is_dropped(slow, body):
    with running(slow, "m") as server:
        with connect(server) as connection:
            connection.sendall(request(body))
            wait_until(lambda: slow.begun)
        wait_until(lambda: slow.left == 1)
        wait_until(lambda: server._batching.rows_waiting == 0 and not server._batching.oldest)
        assert ask(server, body={"instances": ["quick"]})[0] == 200


@pytest.mark.parametrize(
    "characters, more",
    [(90_000, b""), (1, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")],
    ids=["large", "next"],
)
def test_what_is_dropped_whatever_the_client_has_sent(slow, characters, more):
    """Also behind a body that comes after its head, and when the next request is there already."""
    whole = request({"instances": ["a" * characters]})
    head = whole.index(b"{")
    with running(slow, "m") as server:
        with connect(server) as connection:
            connection.sendall(whole[:head])
            time.sleep(0.1)
            connection.sendall(whole[head:])
            wait_until(lambda: slow.begun)
            connection.sendall(more)
            time.sleep(0.1)
        wait_until(lambda: slow.left == 1)


def test_a_client_that_is_found_to_have_left_while_it_is_written_to():
    """The connection breaks at a write: the computation of the next part is the last one."""
    made, go = [], threading.Event()

    class Endless(Echo):
        def stream(self, call, row):
            for number in range(300):
                made.append(number)
                yield {"number": 0, "text": "a"}
                go.wait()
                time.sleep(0.01)

    with running(Endless(), "m") as server:
        with connect(server) as connection:
            connection.sendall(
                request(
                    {"signature_name": "generate", "stream": True, "instances": [{"prompt": "a"}]}
                )
            )
            wait_until(lambda: made)
            (protocol,) = server._uvicorn.server_state.connections
            protocol.loop.call_soon_threadsafe(protocol.transport.pause_reading)
        go.set()
        wait_until(lambda: not server._batching.rows_waiting)
        assert len(made) < 100


def test_a_client_that_takes_no_refusal_and_leaves(caplog):
    class Long(Echo):
        def stream(self, call, row):
            yield {"number": 0, "text": "a" * 20_000_000}
            raise UserError("dropped")

    with running(Long(), "m") as server:
        with connect(server) as connection:
            connection.sendall(
                request(
                    {"signature_name": "generate", "stream": True, "instances": [{"prompt": "a"}]}
                )
            )
            wait_until(lambda: server._batching.rows_waiting)
            wait_until(lambda: not server._batching.rows_waiting)
        wait_until(lambda: not server._uvicorn.server_state.tasks)
    assert not caplog.records


def connect_with_small_buffer(server):
    """A connection that holds little which its client has not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", server.port))
    return connection


GENERATE = {"signature_name": "generate", "instances": [{"prompt": "a"}]}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_connection_whose_client_takes_nothing_is_closed(monkeypatch, caplog, is_streamed):
    """It was kept for ever, and as many as there may be kept out all others."""
    monkeypatch.setattr(http_server, "_SILENT", 1)

    class Long(Echo):
        def run(self, call, rows):
            size = 1 if rows[0].get("text_a") == "quick" else 20_000_000
            return [Computed("a" * size) for _ in rows]

        def stream(self, call, row):
            for _ in range(20):
                yield {"number": 0, "text": "a" * 1_000_000}

    with running(Long(), "m", LimitSettings(max_connections=1)) as server:
        with connect_with_small_buffer(server) as connection:
            connection.sendall(request({**GENERATE, "stream": is_streamed}))
            wait_until(lambda: server._uvicorn.server_state.connections)
            assert ask(server, body={"instances": ["quick"]})[0] == 503
            wait_until(lambda: not server._uvicorn.server_state.connections)
            assert ask(server, body={"instances": ["quick"]})[0] == 200
        wait_until(lambda: not server._batching.rows_waiting)
    assert [record.getMessage() for record in caplog.records] == [
        "closed: a client took nothing of its answer for 1 s"
    ]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_reads_slowly_gets_all_of_its_answer(monkeypatch, is_streamed):
    """It takes an answer for longer than it may take nothing."""
    monkeypatch.setattr(http_server, "_SILENT", 1)
    text = "a" * 6_000_000

    class Long(Echo):
        def run(self, call, rows):
            return [Computed(text)]

        def stream(self, call, row):
            yield {"number": 0, "text": text}
            yield {"number": 0, "text": "the last one"}

    with running(Long(), "m") as server, connect(server) as connection:
        asked = {**GENERATE, "stream": is_streamed}
        connection.sendall(request(asked, b"Connection: close\r\n"))
        answer, began = bytearray(), time.monotonic()
        while part := connection.recv(1 << 16):
            answer += part
            time.sleep(0.05)
    assert time.monotonic() - began > 2
    assert answer.count(b"a" * 1_000_000) == 6
    assert answer.endswith(b"0\r\n\r\n" if is_streamed else b"}")
    assert not is_streamed or b"the last one" in answer


def test_what_waits_for_a_client_that_left_is_not_begun(slow):
    with running(slow, "m") as server:
        with connect(server) as first, connect(server) as second:
            first.sendall(request({"instances": ["a"]}))
            wait_until(lambda: slow.begun)
            second.sendall(request({"instances": ["b"]}))
            wait_until(lambda: server._batching.rows_waiting == 1)
            second.close()
            wait_until(lambda: server._batching.rows_waiting == 0)
            slow.go.set()
            assert first.recv(4096).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: not server._batching.rows_waiting and not server._batching.oldest)
        assert slow.begun == 1


def test_a_request_has_a_longest_time(slow):
    with running(slow, "m", LimitSettings(max_seconds=1)) as server:
        status, answer = ask(server, body={"instances": ["a"]})
        assert (status, answer["error"]) == (503, "not answered within 1 s (--max_seconds)")
        wait_until(lambda: slow.left == 1)
        with connect(server) as connection:
            connection.sendall(
                request(
                    {"signature_name": "generate", "stream": True, "instances": [{"prompt": "a"}]},
                    b"Connection: close\r\n",
                )
            )
            said = everything(connection)
        assert b'"first"' in said and b'{"error": "not answered within 1 s' in said


# ---- bodies


@pytest.mark.parametrize(
    "head, body",
    [
        (b"Content-Length: 20000000", b"x" * 20_000_000),
        (b"Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (20_000_000, b"x" * 20_000_000)),
    ],
    ids=["length", "chunked"],
)
def test_a_refusal_arrives_at_a_client_that_still_sends(server, head, body):
    with connect(server) as connection:
        connection.sendall(
            b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Connection: close\r\n%s\r\n\r\n%s" % (head, body)
        )
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 413 ") and b"more than 5000 bytes" in answer


def test_a_client_that_asks_before_it_sends_is_refused_at_once(server):
    with connect(server) as connection:
        connection.sendall(
            b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Expect: 100-continue\r\nContent-Length: 20000000\r\n\r\n"
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_bodies_on_their_way_are_in_no_file_and_take_no_more_than_the_limit(server):
    """Three requests that do not end; each has sent 20 MB, more than the system keeps for the
    server, of which 5,000 bytes may be kept."""

    def in_files():
        found = 0
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if "deleted" in os.readlink("/proc/self/fd/" + name):
                    found += os.stat("/proc/self/fd/" + name).st_size
        return found

    sent = (
        b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 60000000\r\n\r\n" + b"x" * 20_000_000
    )
    before, opened = in_files(), [connect(server) for _ in range(3)]
    tracemalloc.start()  # of the server, too, which is a thread
    for connection in opened:
        connection.sendall(sent)
    assert ask(server, "GET", "/health")[0] == 200
    in_memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    after = in_files()
    for connection in opened:
        connection.close()
    assert after - before < 100_000
    assert in_memory < 10_000_000


def test_after_a_request_with_two_lengths_no_other_one_is_answered(server):
    inner = b'{"instances": ["a"]}'
    with connect(server) as connection:
        connection.sendall(
            b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
            b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" % (len(inner), inner)
        )
        answer = everything(connection)
    assert answer.count(b"HTTP/1.1 ") == 1 and b"connection: close" in answer.lower()


@pytest.mark.parametrize("sent", [b"", b"POST /v1/models/m:predict HT"])
def test_a_connection_on_which_no_request_comes_is_closed(monkeypatch, sent):
    monkeypatch.setattr(http_server, "_SILENT", 0.2)
    with running(Echo(), "m") as server, connect(server) as connection:
        connection.sendall(sent)
        assert not everything(connection)


@pytest.mark.parametrize("before", [b"", request(b'{"instances": ["a"]}')])
def test_a_body_that_does_not_arrive_in_time_is_refused_in_words(monkeypatch, before):
    """Also that of a next request, which begins to arrive while another one is answered."""
    monkeypatch.setattr(http_server, "_SILENT", 1)
    with running(Echo(), "m") as server, connect(server) as connection:
        connection.sendall(before + request(b"{}")[:-1])
        *_, answer = everything(connection).split(b"HTTP/1.1 ")
    assert answer.startswith(b"408 ") and b"connection: close" in answer.lower()
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
        "error": "the body of the request did not arrive within 1 s"
    }


def test_a_slow_client_is_served_within_the_limit(monkeypatch):
    """The time of the body begins with the body: not with the connection or the head."""
    monkeypatch.setattr(http_server, "_SILENT", 1.5)
    sent = request(b'{"instances": ["ab"]}')
    with running(Echo(), "m") as server, connect(server) as connection:
        for part in (sent[:-5], sent[-5:]):
            time.sleep(0.9)
            connection.sendall(part)
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"size": 2' in answer


# ---- begin and end


def test_a_port_in_use(server):
    for host, port, why in (
        ("127.0.0.1", server.port, "Address"),
        ("127.0.0.1", 70_000, ""),
        ("no.such.host.invalid", 0, ""),
    ):
        with pytest.raises(UserError, match=f"cannot listen at {host} port {port}: {why}"):
            http_server.bind(host, port)
    first, second = http_server.bind("127.0.0.1", 0), None
    second = http_server.bind("127.0.0.1", first.getsockname()[1])  # neither listens yet
    first.listen()
    with pytest.raises(UserError, match="cannot listen at 127.0.0.1 port"):
        http_server.Server(Echo(), "m", second)
    first.close()
    second.close()


def test_a_bad_port_is_found_before_the_model_is_loaded(server, tmp_path):
    with pytest.raises(UserError, match="cannot listen at 127.0.0.1 port"):
        serve.main(
            serve.ServingSettings(model_dir=str(tmp_path / "none"), port=server.port),
            LimitSettings(),
        )
    with pytest.raises(UserError, match="port is 70000, expected 0 <= port <= 65535"):
        serve.ServingSettings(model_dir="m", port=70_000).check()


@pytest.mark.parametrize("host, asked", [("::1", ("::1",)), ("::", ("::1", "127.0.0.1"))])
def test_ipv6(host, asked):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with running(Echo(), "m", host=host) as server:
        for each in asked:
            with socket.create_connection((each, server.port), timeout=20) as connection:
                connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def ended(model, go_after, limits=None):
    """(answer to a request in progress, what `run` returned, seconds) of a server that is signalled
    while it computes."""
    server = http_server.Server(model, "m", http_server.bind("127.0.0.1", 0), limits)
    answers = []

    def client():
        wait_until(lambda: server._uvicorn.started)
        try:
            answers.append(ask(server, body={"instances": ["a"]})[0])
        except (OSError, http.client.HTTPException) as e:
            answers.append(type(e))

    def end():
        wait_until(lambda: model.begun)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(go_after)
        model.go.set()

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    threads = [threading.Thread(target=each) for each in (client, end)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    is_idle = server.run()
    seconds = time.monotonic() - began
    signal.signal(signal.SIGTERM, before)
    for thread in threads:
        thread.join()
    return answers[0], is_idle, seconds


def test_what_is_being_answered_is_answered_before_the_end(slow, caplog):
    with caplog.at_level(logging.WARNING):
        answer, is_idle, _ = ended(slow, 1.5)  # after its port closed
    assert answer == 200 and is_idle
    assert "ending: 1 requests are still answered, for at most 4 s (--grace)" in caplog.text


def test_it_is_not_ready_before_its_port_closes():
    """Who balances the load must notice before connections are refused."""
    server = http_server.Server(
        Echo(), "m", http_server.bind("127.0.0.1", 0), LimitSettings(drain=1.5)
    )
    found = []

    def client():
        wait_until(lambda: server._uvicorn.started)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: server._is_ending)
        for path in ("/ready", "/health", "/v1/models/m"):
            found.append(ask(server, "GET", path)[0])
        found.append(ask(server, body={"instances": ["a"]})[0])

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    thread = threading.Thread(target=client)
    thread.start()
    began = time.monotonic()
    assert server.run() and time.monotonic() - began < 6
    signal.signal(signal.SIGTERM, before)
    thread.join()
    assert found == [503, 200, 200, 200]
    with pytest.raises(OSError):
        connect(server)


def test_the_end_waits_no_longer_than_its_grace(slow):
    slow.run = lambda call, rows: (setattr(slow, "begun", 1), slow.go.wait(20))  # looks nowhere
    answer, is_idle, seconds = ended(slow, 4, LimitSettings(grace=1))
    assert answer == 503 and not is_idle and seconds < 4


@contextlib.contextmanager
def program_of(*arguments, stderr=subprocess.DEVNULL):
    """A server in a process of Python of its own, which has printed its address, and where it is,
    as `ask` takes it."""
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as program:
        try:
            line = program.stdout.readline()
            yield program, types.SimpleNamespace(port=int(re.findall(r":(\d+)/", line)[0]))
        finally:
            program.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_program_ends_within_its_grace(permuted, number):
    """Also while a computation is in progress that nothing can interrupt; with status 0."""
    code = f"""
import sys, time
from xlnet import commands
from xlnet.serving.server import model_directory
run = model_directory.ServedModel.run
def slow(self, call, rows):
    if rows[0].get("text_a") == "slow":
        print("begun", flush=True)
        time.sleep(60)
    return run(self, call, rows)
model_directory.ServedModel.run = slow
sys.argv = ["xlnet", "serve", "--model_dir={permuted.folder}", "--port=0", "--grace=1", "--name=m"]
commands.main()
"""
    with program_of("-c", code, stderr=subprocess.PIPE) as (program, place):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answer = pool.submit(
                ask, place, body={"signature_name": "vectors", "instances": ["slow"]}
            )
            assert "page" in program.stdout.readline()
            assert program.stdout.readline() == "begun\n"
            program.send_signal(number)
            began = time.monotonic()
            assert program.wait(20) == 0 and time.monotonic() - began < 6
            assert answer.result()[0] == 503
        assert "ending: 1 requests are still answered, for at most 1 s" in program.stderr.read()


@pytest.mark.slow
def test_whoever_stops_reading_the_log_stops_no_client(permuted):
    """After 64 kB of it, nobody was answered any more."""
    command = ["-m", "xlnet", "serve", f"--model_dir={permuted.folder}", "--port=0"]
    with program_of(*command) as (program, place):
        for _ in range(600):  # lines of more than 200 bytes
            assert ask(place, "GET", "/" + "x" * 200)[0] == 404
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 0


@pytest.mark.slow
def test_the_program_ends_in_time_while_it_streams(permuted):
    """`docker stop` kills after 10 s. It is not ready before its port closes, and the streams end
    with an error that says why."""
    settings = {"max_tokens": 2048, "min_tokens": 2047, "seed": 1}
    body = {"signature_name": "generate", "instances": ["the"], "stream": True}
    lines = [[] for _ in range(20)]

    def stream(number):
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
        connection.request(
            "POST", "/v1/models/m:predict", json.dumps({**body, "parameters": settings})
        )
        for line in connection.getresponse():
            lines[number].append(json.loads(line))

    def state():
        """The status of /ready; None: the port is closed."""
        try:
            return ask(place, "GET", "/ready")[0]
        except OSError:
            return None

    command = ["-m", "xlnet", "serve", f"--model_dir={permuted.folder}", "--port=0"]
    with program_of(*command, "--name=m", "--quiet") as (program, place):
        threads = [threading.Thread(target=stream, args=[each]) for each in range(20)]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(lines))
        assert state() == 200
        program.send_signal(signal.SIGTERM)
        began, seen = time.monotonic(), []
        while program.poll() is None:
            seen.append(state())
            time.sleep(0.05)
        assert program.returncode == 0 and time.monotonic() - began < 9
        assert seen[0] == 503 and seen[-1] is None and set(seen) == {503, None}
    for thread in threads:
        thread.join()
    assert [each[-1] for each in lines] == [{"error": "the server ends"}] * 20


@pytest.mark.parametrize("package", ["uvicorn", "prometheus_client"])
def test_a_package_that_is_missing_is_named(monkeypatch, package):
    for name in ("http_server", "metrics"):
        monkeypatch.delitem(sys.modules, "xlnet.serving.server." + name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"package {package}: pip install 'uvicorn"):
        importlib.import_module("xlnet.serving.server.http_server")


def test_without_a_host_nobody_else_is_served():
    with pytest.raises(UserError, match="host is '', expected an address such as 127.0.0.1"):
        serve.ServingSettings(model_dir="m", host="").check()
