"""The example server: answers, limits, errors in words, batches of what arrives together."""

import concurrent.futures
import http.client
import importlib
import os
import signal
import socket
import sys
import threading
import time
import tracemalloc
import urllib.parse

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.serving import ask, running, wait_until

from xlnet.errors import UserError
from xlnet.programs import serve
from xlnet.serving.server import http_server, saved_model
from xlnet.serving.server.gathering import Busy, Gathering
from xlnet.serving.server.saved_model import SavedModel
from xlnet.serving.settings import LimitSettings


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
    limits = LimitSettings(max_body=5000, max_rows=4, budget=100, max_characters=20)
    with running(SavedModel(saved), "m", limits) as server:
        yield server


def test_answers_are_rows(server):
    rows = [{"text_a": "één"}, {"text_a": ""}]
    assert ask(server, body={"instances": rows}) == (200, {"predictions": [
        {"text": "één", "value": pytest.approx(2 / 3)}, {"text": "", "value": 0.33333334}]})
    assert ask(server, body={"instances": ["a", "b"]})[1]["predictions"][1]["text"] == "b"
    assert ask(server, body={"signature_name": "ids", "instances": [[0, 1], [1, 1]]}) == (
        200, {"predictions": [12, 14]})         # of one output its values, as TensorFlow Serving
    assert ask(server, body={"signature_name": "choices", "instances": [
        {"text_a": "t", "choices": ["a", "b"]}]}) == (200, {"predictions": ["a"]})


def test_columns_and_versions(server):
    """TensorFlow Serving's other forms: https://www.tensorflow.org/tfx/serving/api_rest."""
    assert ask(server, body={"inputs": ["a", "bb"]}) == (
        200, {"outputs": {"text": ["a", "bb"], "value": [pytest.approx(2 / 3), 0.33333334]}})
    assert ask(server, path="/v1/models/m/versions/2:predict", body={
        "signature_name": "ids", "inputs": {"ids": [[0, 1], [1, 1]]}})[1] == {"outputs": [12, 14]}
    assert ask(server, path="/v1/models/m/versions/1:predict", body={"instances": ["a"]})[0] == 404
    status, about = ask(server, "GET", "/v1/models/m/versions/2")
    assert (status, about["model_version_status"]) == (200, [{
        "version": "2", "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""}}])
    found = ask(server, "GET", "/v1/models/m/metadata")[1]
    assert found["model_spec"] == {"name": "m", "signature_name": "", "version": "2"}
    ids = found["metadata"]["signature_def"]["signature_def"]["ids"]
    assert ids["inputs"]["ids"]["dtype"] == "DT_INT32"
    assert [dim["size"] for dim in ids["inputs"]["ids"]["tensor_shape"]["dim"]] == ["-1", "-1"]
    assert ids["outputs"]["sum"]["name"] and ids["method_name"] == "tensorflow/serving/predict"


def test_a_request_above_the_budget_is_split(server):
    """Four examples of six tokens: 144 > 100."""
    sizes, run = [], server.model.run

    def spy(call, arrays):
        sizes.append(len(arrays["ids"]))
        return run(call, arrays)
    server.model.run = spy
    rows = [[number % 2] * 6 for number in range(4)]
    found = ask(server, body={"instances": rows, "signature_name": "ids"})
    del server.model.run
    assert found == (200, {"predictions": [30, 42, 30, 42]}) and sizes == [2, 2]


def test_health_is_true_only_while_the_model_answers(server):
    def fails(call, arrays):
        raise RuntimeError("the device is lost")
    server.model.run = fails
    server._gathering.answered = float("-inf")
    status, answer = ask(server, "GET", "/health")
    assert status == 503 and "the device is lost" in answer["error"]
    status, answer = ask(server, body={"instances": ["a"]})
    assert status == 500 and "RuntimeError: the device is lost" in answer["error"]
    del server.model.run
    assert ask(server, "GET", "/health") == (200, "ok\n")


def test_a_page_of_another_site_may_not_ask(server):
    own = {"Origin": "http://127.0.0.1:%d" % server.port}
    assert ask(server, body={"instances": ["a"]}, headers=own)[0] == 200
    for other in ("https://example.org", "null"):
        assert ask(server, body={"instances": ["a"]}, headers={"Origin": other})[0] == 403


@pytest.mark.parametrize("bound, hosts, host, status", [
    ("127.0.0.1", (), "localhost", 200), ("127.0.0.1", (), "[::1]:8501", 200),
    ("127.0.0.1", (), "LOCALHOST.:80", 200), ("127.0.0.1", (), socket.gethostname(), 200),
    ("127.0.0.1", (), "evil.example:8501", 421), ("127.0.0.1", (), "[", 421),
    ("localhost", (), "evil.example", 421),
    ("127.0.0.1", ("Own.Example:8501",), "own.example", 200),
    ("127.0.0.1", ("a.b.",), "a.b", 200), ("127.0.0.1", ("fe80::2",), "[fe80::2]", 200),
    ("127.0.0.1", ("[fe80::2]",), "[fe80::2]:80", 200),
    ("127.0.0.1", ("fe80::2",), "fe80", 421),
    ("0.0.0.0", (), "evil.example", 200), ("0.0.0.0", ("own.example",), "evil.example", 421),
    ("0.0.0.0", ("own.example",), "localhost:8501", 200)])
def test_a_site_whose_name_leads_here_may_not_ask(saved, bound, hosts, host, status):
    """DNS rebinding: the origin of such a page agrees with the host of its requests."""
    with running(SavedModel(saved), "m", host=bound, hosts=hosts) as server:
        for headers in ({"Host": host}, {"Host": host, "Origin": "http://" + host}):
            found, answer = ask(server, body={"instances": ["a"]}, headers=headers)
            assert found == status, answer
        assert found == 200 or host.partition(":")[0] in answer["error"]


@pytest.mark.parametrize("body, status, words", [
    ("{", 400, "not JSON: Expecting property name"),
    ("[" * 4000, 400, "not JSON"),
    ("[1]", 400, "expected a JSON object, found list"),
    ({"instances": []}, 400, "one example or more"),
    ({"instances": ["a"], "signature_name": 3}, 400, "expected {"),
    ({"instances": [1]}, 400, "row 0: 'text_a' is not text"),
    ({"instances": ["a", ["b"]]}, 400, "row 1: 'text_a' is not text"),
    ({"instances": [{"text": "a"}]}, 400, "row 0 has text, expected text_a"),
    ({"instances": ["\ud800"]}, 400, "half a character"),
    ({"instances": ["a"], "signature_name": "\ud800"}, 400, "no signature '\ud800'"),
    ('{"instances": [' + "[" * 600 + "]" * 600 + "]}", 400, "text_a"),
    ({"instances": ["a"], "signature_name": "no"}, 400, "no signature 'no' (there are choices, id"),
    ({"instances": ["a"], "signature_name": "choices"}, 400, "expected an object with choices, te"),
    ({"instances": [{"text_a": "a", "choices": ["b"]}], "signature_name": "choices"}, 400,
     "row 0: 'choices' has 1 values, expected 2"),
    ({"instances": [[1], [1, 0]], "signature_name": "ids"}, 400,
     "row 1: 'ids' has 2 values, expected 1 as in row 0"),
    ({"instances": [[0.5]], "signature_name": "ids"}, 400, "'ids' is not a list of integers"),
    ({"instances": [[0], [9]], "signature_name": "ids"}, 400, "= 9 is not in [0, 2)"),
    ({"instances": [[4294967296]], "signature_name": "ids"}, 400,
     "row 0: 'ids' has 4294967296, which is not a value of int32"),
    ({"instances": [[1], [10 ** 30]], "signature_name": "ids"}, 400,
     "row 1: 'ids' is not a list of integers"),
    ({"instances": [[0] * 11], "signature_name": "ids"}, 413, "up to 11 tokens, at most 10"),
    ({"inputs": {"text_a": ["a"], "choices": [["a", "b"]] * 2}, "signature_name": "choices"}, 400,
     "lists of 1 (text_a), 2 (choices)"),
    ({"inputs": {"text_a": "a"}}, 400, "a list of values"),
    ({"instances": ["a"], "parameters": {"top": 3}}, 400, "takes no parameters, found top"),
    ({"instances": [{"text_a": "a", "choices": [["b"], ["c", "d"]]}],
      "signature_name": "choices"}, 400, "row 0: 'choices' is not a list of texts"),
    ({"instances": ["a"] * 5}, 413, "5 rows, at most 4"),
    ({"instances": ["é" * 21]}, 413, "'text_a' has more than 20 characters"),
    ({"instances": ["a" * 6000]}, 413, "more than 5000 bytes"),
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
    assert ask(server, "HEAD", "/health") == (200, "")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/")
    page = connection.getresponse()
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert b"<script src" in page.read()
    connection.close()
    assert ask(server, "POST", "/v1/models/other:predict", "{}")[0] == 404
    assert ask(server, "DELETE", "/health")[0] == 405
    assert ask(server, "GET", "/v1/models/m:predict")[0] == 405


def test_a_name_of_any_characters(saved):
    name = "my 新闻%"
    with running(SavedModel(saved), name) as server:
        path = "/v1/models/%s" % urllib.parse.quote(name)
        assert ask(server, path=path + ":predict", body={"instances": ["a"]})[0] == 200
        assert ask(server, "GET", path)[0] == 200


def test_numbers_that_a_float_cannot_be():
    kind = saved_model.Input("x:0", np.dtype("float32"), (-1,))
    assert saved_model._column("x", kind, [[1, 0.1]]).tolist() == [[1, np.float32(0.1)]]
    for wrong in (1e60, float("nan")):
        with pytest.raises(UserError, match="row 1: 'x' has .*, which is not a value of float32"):
            saved_model._column("x", kind, [[1.0], [wrong]])


@pytest.mark.parametrize("signature, row, said", [
    ("choices", {"text_a": "", "choices": ["a" * 100_000] + [""] * 1000},
     "row 0: 'choices' has 1001 values, expected 2"),
    ("ids", ["a" * 10_000] + [0] * 1000, "row 0: 'ids' is not a list of integers")])
def test_a_list_with_a_long_text_takes_no_more_than_it_is_long(server, signature, row, said):
    tracemalloc.start()
    with pytest.raises(UserError, match=said):
        saved_model.arrays(server.model.inputs(signature), [row])
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


@pytest.mark.parametrize("count", [0, 3])
def test_other_than_one_prediction_an_example_fails_and_the_next_request_is_computed(count):
    gathering = Gathering(lambda call, arrays: ["x"] * (count if call == "bad" else 2),
                          max_batch=4, budget=100, max_waiting=9)
    with pytest.raises(ValueError, match="%d predictions" % count):
        gathering.ask("bad", {"x": np.zeros(2)}, np.ones(2, int), timeout=5)
    assert gathering.ask("good", {"x": np.zeros(2)}, np.ones(2, int), timeout=5) == ["x", "x"]
    gathering.close()


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
    assert rise('xlnet_requests_total{status="200"}') == 2       # this one and /metrics
    assert rise('xlnet_requests_total{status="400"}') == 1
    assert rise("xlnet_answer_seconds_count") == 1 == rise(
        'xlnet_answer_seconds_bucket{le="+Inf"}')


def test_many_at_once_get_their_own_answers(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: ask(server, body={"instances": [str(i)]}), range(160)))
    assert [answer["predictions"][0]["text"] for _, answer in found] == list(map(str, range(160)))


def test_a_port_in_use_and_no_model(server, saved, tmp_path):
    for host, port, why in (("127.0.0.1", server.port, "Address"), ("127.0.0.1", 70_000, ""),
                            ("no.such.host.invalid", 0, "")):
        with pytest.raises(UserError, match="cannot listen at %s port %d: %s" % (host, port, why)):
            http_server.Server(server.model, "m", (host, port))
    with pytest.raises(UserError, match="no saved_model.pb in .*; xlnet export writes one"):
        SavedModel(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(UserError, match="model %s: " % tmp_path):
        SavedModel(str(tmp_path))


@pytest.mark.parametrize("head, body", [
    (b"Content-Length: 20000000", b"x" * 20_000_000),
    (b"Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (20_000_000, b"x" * 20_000_000)),
], ids=["length", "chunked"])
def test_a_refusal_arrives_at_a_client_that_still_sends(server, head, body):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"POST /v1/models/m:predict HTTP/1.1\r\nConnection: close\r\n"
                           b"%s\r\n\r\n%s" % (head, body))
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 413 ") and b"more than 5000 bytes" in answer


@pytest.mark.parametrize("host, asked", [("::1", ("::1",)), ("::", ("::1", "127.0.0.1"))])
def test_ipv6(saved, host, asked):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with running(SavedModel(saved), "m", host=host) as server:
        for each in asked:
            with socket.create_connection((each, server.port), timeout=20) as connection:
                connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                assert connection.recv(4096).startswith(b"HTTP/1.0 200 ")


def test_what_is_being_answered_is_answered_before_the_end(saved):
    model, go, answers = SavedModel(saved), threading.Event(), []
    run = model.run

    def slow(call, arrays):
        go.set()
        time.sleep(0.5)
        return run(call, arrays)
    model.run = slow
    ending = http_server.Server(model, "m", ("127.0.0.1", 0))
    client = threading.Thread(target=lambda: answers.append(ask(ending, body={"instances": ["a"]})))

    def end():
        go.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
    before = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
    client.start()
    threading.Thread(target=end).start()
    ending.run()
    signal.signal(signal.SIGUSR1, before)
    client.join()
    assert answers[0][0] == 200


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "xlnet.serving.server.http_server")
    monkeypatch.setitem(sys.modules, "waitress", None)
    with pytest.raises(UserError, match=r"package waitress: pip install 'xlnet\[serve\]'"):
        importlib.import_module("xlnet.serving.server.http_server")


# ---- what arrives together

def gathering(run, **changes):
    return Gathering(run, **{"max_batch": 4, "budget": 100, "max_waiting": 6, **changes})


def ask_for(made, x):
    return made.ask("s", {"x": x}, np.ones(len(x), int))


def test_requests_that_arrive_during_a_batch_are_the_next_one():
    sizes, go = [], threading.Semaphore(0)

    def run(signature, arrays):
        go.acquire()
        sizes.append(len(arrays["x"]))
        if 9 in arrays["x"]:
            raise ValueError("nine")
        return (10 * arrays["x"]).tolist()
    made = gathering(run)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        first = pool.submit(ask_for, made, np.array([0]))
        wait_until(lambda: made.rows_waiting == 0)
        others = [pool.submit(ask_for, made, np.array([i])) for i in (1, 2, 9)]
        wait_until(lambda: made.rows_waiting == 3)
        wide = pool.submit(ask_for, made, np.array([[5, 6]]))       # another shape
        wait_until(lambda: made.rows_waiting == 4)
        with pytest.raises(Busy, match="4 examples wait already, at most 6 may"):
            ask_for(made, np.arange(3))
        go.release(9)
        assert first.result() == [0]
        assert [others[i].result() for i in (0, 1)] == [[10], [20]]
        with pytest.raises(ValueError, match="nine"):        # of its own request alone
            others[2].result()
        assert wide.result() == [[50, 60]]
    assert sizes == [1, 3, 1, 1, 1, 1]
    made.close()
    with pytest.raises(Busy):
        ask_for(made, np.array([1]))


def test_a_bad_example_is_named_by_its_row():
    made = gathering(lambda call, arrays: [UserError("nine") if x == 9 else x for x in arrays["x"]])
    with pytest.raises(UserError, match="^row 2: nine$"):
        ask_for(made, np.array([1, 2, 9]))
    made.close()


def test_without_a_host_nobody_else_is_served():
    with pytest.raises(UserError, match="host is '', expected an address such as 127.0.0.1"):
        serve.ServingSettings(model="m", host="").check()


def test_examples_that_a_caller_computes_count_too():
    """Up to the limit of those that wait; at the same time up to the budget."""
    made, go = gathering(lambda call, arrays: arrays["x"]), threading.Event()
    entered = []

    def compute(number):
        with made.alone(2, tokens=7):
            entered.append(number)
            assert go.wait(20)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [pool.submit(compute, number) for number in range(3)]
        wait_until(lambda: made.rows_waiting == 6 and len(entered) == 2)    # 3 * 49 > 100
        for refused in (lambda: made.alone(1, 1).__enter__(), lambda: ask_for(made, np.array([1]))):
            with pytest.raises(Busy, match="6 examples wait already, at most 6 may"):
                refused()
        assert len(entered) == 2
        go.set()
        assert [one.result() for one in found] == [None] * 3
    assert made.rows_waiting == 0 and len(entered) == 3
    assert ask_for(made, np.array([1])) == [1]
    made.close()


def test_of_versions_the_highest_number_is_served(tmp_path):
    for name in ("2", "10", "11.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    assert saved_model.newest_version(str(tmp_path)) == str(tmp_path / "10")
