"""The example server: answers, limits, errors in words, batches of what arrives together."""

import concurrent.futures
import contextlib
import http.client
import json
import socket
import threading
import time
import tracemalloc
import urllib.parse

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from xlnet.errors import UserError
from xlnet.serving.server import http_server, saved_model
from xlnet.serving.server.gathering import Busy, Gathering
from xlnet.serving.server.saved_model import SavedModel


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A SavedModel without a network: lengths of texts, sums of numbers."""
    directory = tmp_path_factory.mktemp("served") / "model"
    with tf.Graph().as_default(), tf.Session() as session:
        text, number = tf.placeholder(tf.string, [None], "t"), tf.placeholder(
            tf.int32, [None, None], "n")
        pair = tf.placeholder(tf.string, [None, 2], "p")
        third = tf.gather(tf.constant([1 / 3, 2 / 3]), tf.strings.length(text) % 2)
        builder = tf.saved_model.Builder(str(directory / "2"))
        sign = tf.saved_model.predict_signature_def
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={
            "serving_default": sign({"text_a": text}, {"text": text, "value": third}),
            "ids": sign({"ids": number}, {"sum": tf.reduce_sum(tf.gather(
                tf.constant([5, 7]), number), axis=1)}),
            "choices": sign({"text_a": text, "choices": pair}, {"first": pair[:, 0]})})
        builder.save()
    (directory / "10.old").mkdir()
    return str(directory)


@pytest.fixture(scope="module")
def server(saved):
    limits = http_server.Limits(body=5000, rows=4, values=10, characters=20, wait=0.0)
    with running(SavedModel(saved), "m", limits) as server:
        yield server


@contextlib.contextmanager
def running(model, name, limits=None):
    """A server that answers until the end of the block."""
    server = http_server.Server(model, name, ("127.0.0.1", 0), limits)
    thread = threading.Thread(target=http_server.serve, args=[server])
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def ask(server, method="POST", path="/v1/models/m:predict", body=None, headers=None):
    """(status, what was answered)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, body if body is None or isinstance(body, (str, bytes))
                       else json.dumps(body), headers or {})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer.status, json.loads(content) if is_json else content


def test_answers_are_rows(server):
    rows = [{"text_a": "één"}, {"text_a": ""}]
    assert ask(server, body={"instances": rows}) == (200, {"predictions": [
        {"text": "één", "value": pytest.approx(2 / 3)}, {"text": "", "value": 0.33333334}]})
    assert ask(server, body={"instances": ["a", "b"]})[1]["predictions"][1]["text"] == "b"
    assert ask(server, body={"signature_name": "ids", "instances": [[0, 1], [1, 1]]}) == (
        200, {"predictions": [12, 14]})         # of one output its values, as TensorFlow Serving
    assert ask(server, body={"signature_name": "choices", "instances": [
        {"text_a": "t", "choices": ["a", "b"]}]}) == (200, {"predictions": ["a"]})


@pytest.mark.parametrize("body, status, words", [
    ("{", 400, "not JSON: Expecting property name"),
    ("[" * 4000, 400, "not JSON"),
    ("[1]", 400, "expected a JSON object, found list"),
    ({"instances": []}, 400, "one row or more"),
    ({"instances": ["a"], "signature_name": 3}, 400, "expected {"),
    ({"instances": [1]}, 400, "row 0: 'text_a' is not text"),
    ({"instances": ["a", ["b"]]}, 400, "row 1: 'text_a' is not text"),
    ({"instances": [{"text": "a"}]}, 400, "row 0 has text, expected text_a"),
    ({"instances": ["\ud800"]}, 400, "half a character"),
    ({"instances": ["a"], "signature_name": "no"}, 400, "no signature 'no' (there are choices, id"),
    ({"instances": ["a"], "signature_name": "choices"}, 400, "expected an object with choices, te"),
    ({"instances": [{"text_a": "a", "choices": ["b"]}], "signature_name": "choices"}, 400,
     "row 0: 'choices' has 1 values, expected 2"),
    ({"instances": [[1], [1, 0]], "signature_name": "ids"}, 400,
     "row 1: 'ids' has 2 values, expected 1 as in row 0"),
    ({"instances": [[0.5]], "signature_name": "ids"}, 400, "'ids' is not a list of whole numbers"),
    ({"instances": [[0], [9]], "signature_name": "ids"}, 400, "= 9 is not in [0, 2)"),
    ({"instances": [[4294967296]], "signature_name": "ids"}, 400,
     "row 0: 'ids' has 4294967296, which is no int32"),
    ({"instances": [[1], [10 ** 30]], "signature_name": "ids"}, 400,
     "row 1: 'ids' is not a list of whole numbers"),
    ({"instances": [[0] * 11], "signature_name": "ids"}, 413, "'ids' has 11 values, at most 10"),
    ({"instances": [{"text_a": "a", "choices": [["b"], ["c", "d"]]}],
      "signature_name": "choices"}, 400, "row 0: 'choices' is not a list of texts"),
    ({"instances": ["a"] * 5}, 413, "5 rows, at most 4"),
    ({"instances": ["é" * 21]}, 413, "'text_a' has more than 20 characters"),
    ({"instances": ["a" * 6000]}, 413, "bytes, at most 5000 are read"),
])
def test_a_bad_request_is_told_what_is_wrong(server, body, status, words):
    found, answer = ask(server, body=body)
    assert found == status and words in answer["error"], answer
    assert "\n" not in answer["error"]


def test_other_ways(server):
    assert ask(server, "GET", "/health") == (200, "ok\n")
    status, about = ask(server, "GET", "/v1/models/m")
    assert status == 200 and about["signatures"]["choices"] == ["choices", "text_a"]
    assert ask(server, "GET", "/../etc/passwd")[0] == 404
    assert ask(server, "POST", "/v1/models/other:predict", "{}")[0] == 404
    assert ask(server, "DELETE", "/health")[0] == 501
    status, answer = ask(server, "POST", headers={"Content-Length": "-1"})
    assert (status, answer["error"]) == (411, "expected the header Content-Length")
    status, answer = ask(server, "POST", headers={"Content-Length": "9" * 5000})
    assert (status, answer["error"]) == (413, "9" * 20 + " bytes, at most 5000 are read")


def test_a_client_that_sends_nothing(server, monkeypatch):
    monkeypatch.setattr(http_server._Handler, "timeout", 0.2)
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 9\r\n\r\n"
    assert raw(server, head).startswith(b"HTTP/1.1 408 ")


def test_a_name_of_any_characters(saved):
    name = "my 新闻%"
    with running(SavedModel(saved), name) as server:
        path = "/v1/models/%s:predict" % urllib.parse.quote(name)
        assert ask(server, path=path, body={"instances": ["a"]})[0] == 200
        assert raw(server, "GET /v1/models/my%20新闻%25 HTTP/1.0\r\n\r\n".encode()).startswith(
            b"HTTP/1.1 200 ")


def test_numbers_that_a_float_cannot_be():
    kind = saved_model.Input("x:0", np.dtype("float32"), (-1,))
    assert saved_model._column("x", kind, [[1, 0.1]]).tolist() == [[1, np.float32(0.1)]]
    for wrong in (1e60, float("nan")):
        with pytest.raises(UserError, match="row 1: 'x' has .*, which is no float32"):
            saved_model._column("x", kind, [[1.0], [wrong]])


def raw(server, request):
    """The bytes that are answered to bytes."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_a_list_with_a_long_text_takes_no_more_than_it_is_long(server):
    row = {"text_a": "", "choices": ["a" * 100_000] + [""] * 1000}
    tracemalloc.start()
    with pytest.raises(UserError, match="row 0: 'choices' has 1001 values, expected 2"):
        server.model.arrays("choices", [row])
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_metrics_count(server):
    def numbers():
        return dict(line.rsplit(" ", 1) for line in ask(server, "GET", "/metrics")[1].splitlines()
                    if not line.startswith("#"))
    before = numbers()
    ask(server, body={"instances": ["a", "b", "c"]})
    ask(server, body="{")
    after = numbers()

    def rise(name):
        return float(after[name]) - float(before.get(name, 0))
    assert rise("xlnet_rows_total") == 3 and rise("xlnet_batches_total") == 1
    assert rise('xlnet_requests_total{status="200"}') == 1
    assert rise('xlnet_requests_total{status="400"}') == 1
    assert rise("xlnet_answer_seconds_count") == 1 == rise(
        'xlnet_answer_seconds_bucket{le="+Inf"}')


def test_many_at_once_get_their_own_answers(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: ask(server, body={"instances": [str(i)]}), range(160)))
    assert [answer["predictions"][0]["text"] for _, answer in found] == list(map(str, range(160)))


def test_a_port_in_use_and_no_model(server, saved, tmp_path):
    with pytest.raises(UserError, match="cannot listen at 127.0.0.1 port %d: Address"
                       % server.server_port):
        http_server.Server(server.model, "m", ("127.0.0.1", server.server_port))
    with pytest.raises(UserError, match="no saved_model.pb in .*; xlnet export writes one"):
        SavedModel(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(UserError, match="model %s: " % tmp_path):
        SavedModel(str(tmp_path))


# ---- what arrives together

def gathering(run, **changes):
    return Gathering(run, **{"max_rows": 4, "wait": 0.0, "max_waiting": 6, **changes})


def test_requests_that_arrive_during_a_batch_are_the_next_one():
    sizes, go = [], threading.Semaphore(0)

    def run(signature, arrays):
        go.acquire()
        sizes.append(len(arrays["x"]))
        if 9 in arrays["x"]:
            raise ValueError("nine")
        return {"y": 10 * arrays["x"]}
    made = gathering(run)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        first = pool.submit(made.ask, "s", {"x": np.array([0])})
        wait_until(lambda: made.rows_waiting == 0)
        others = [pool.submit(made.ask, "s", {"x": np.array([i])}) for i in (1, 2, 9)]
        wait_until(lambda: made.rows_waiting == 3)
        wide = pool.submit(made.ask, "s", {"x": np.array([[5, 6]])})       # another shape
        wait_until(lambda: made.rows_waiting == 4)
        with pytest.raises(Busy, match="4 rows wait already, at most 6 may"):
            made.ask("s", {"x": np.arange(3)})
        go.release(9)
        assert first.result()["y"].tolist() == [0]
        assert [others[i].result()["y"].tolist() for i in (0, 1)] == [[10], [20]]
        with pytest.raises(ValueError, match="nine"):        # of its own request alone
            others[2].result()
        assert wide.result()["y"].tolist() == [[50, 60]]
    assert sizes == [1, 3, 1, 1, 1, 1]
    made.close()
    with pytest.raises(Busy):
        made.ask("s", {"x": np.array([1])})


def test_it_waits_for_more_rows():
    sizes = []
    made = gathering(lambda signature, arrays: sizes.append(len(arrays["x"])) or arrays, wait=5.0)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        began = time.monotonic()
        list(pool.map(lambda i: made.ask("s", {"x": np.array([i])}), range(4)))
    assert sizes == [4] and time.monotonic() - began < 4       # full before its time
    made.close()


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("not in time")
