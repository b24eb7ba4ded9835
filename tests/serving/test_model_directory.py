"""A model directory behind the server: the requests of its export, and what only it can do."""

import concurrent.futures
import http.client
import json
import re
import threading

import numpy as np
import pytest
from helpers.models import CONFIG, make_model
from helpers.serving import ask, running, wait_until

from xlnet.errors import UserError
from xlnet.serving.export import exporter
from xlnet.serving.server import saved_model
from xlnet.serving.server.model_directory import ModelDirectory
from xlnet.serving.server.saved_model import SavedModel
from xlnet.serving.settings import LimitSettings
from xlnet.settings.devices import DeviceSettings

pytestmark = pytest.mark.slow

try:
    import tensorflow_text
except ImportError:
    tensorflow_text = None

BUDGET = 32 * 512 ** 2
LONG = "kamat telok rokmi mitel dakar nokla laskit solkat " * 12
ROWS = {
    "classification": [{"text_a": "kamat telok", "text_b": "mitel"}],
    "multi_label": ["kamat telok", "mitel dakar"],
    "multiple_choice": [{"text_a": "kamat", "text_b": "which _", "choices": ["a", "b", "c"]},
                        {"text_a": "mitel", "text_b": "which", "choices": ["a", "b", " "]}],
    "ranking": [{"text_a": "kamat", "text_b": "mitel dakar"}],
    "tagging": ["kamat  telok,rokmi 2010", "sol"],
    "spans": [{"question": "kamat telok?", "context": LONG}, {"question": "sol", "context": "ka"}],
}


def opened(path, **given):
    return ModelDirectory(str(path), BUDGET, DeviceSettings(device="cpu"), **given)


def answers(model, rows, signature=None, **parameters):
    signature = signature or model.default
    return model.run(model.call(signature, parameters),
                     saved_model.arrays(model.inputs(signature), rows))


def close_to(found):
    """`found` with its numbers as they may differ: the graph pads to other lengths."""
    if isinstance(found, dict):
        return {name: close_to(value) for name, value in found.items()}
    is_number = isinstance((found or [None])[0] if isinstance(found, list) else found, float)
    return pytest.approx(found, rel=1e-4, abs=1e-5) if is_number else found


def without_padding(answer):
    """An export pads lists to those of the batch: "", -1 and 0 where there are fewer."""
    if not isinstance(answer, dict):
        return answer
    count = {name: sum(1 for each in answer[of] if each) for names, of in (
        (("words", "tags"), "words"), (("texts", "probabilities"), "texts"),
        (("entity_labels", "entity_starts", "entity_ends"), "entity_labels"))
        if of in answer for name in names}
    return {name: value[:count[name]] if name in count else value for name, value in answer.items()}


@pytest.mark.skipif(tensorflow_text is None, reason="raw text needs tensorflow-text")
@pytest.mark.parametrize("kind", [kind for kind in ROWS if kind not in ("tagging", "spans")])
def test_it_answers_as_its_export(quick_start, tmp_path, kind):
    path = make_model(tmp_path / "model", kind, max_seq_length=40)
    exported = SavedModel(exporter.export(path, str(tmp_path / "e"), names=["text"]))
    model = opened(path)
    assert model.default == exported.default == "text" and model.labels == exported.labels
    assert {name: each[1:] for name, each in model.inputs("text").items()} == {
        name: each[1:] for name, each in exported.inputs("text").items()}
    found, expected = answers(model, ROWS[kind]), answers(exported, ROWS[kind])
    assert found == [close_to(without_padding(one)) for one in expected]
    for number in re.findall(r"\d+\.\d+", json.dumps(found, allow_nan=False)):
        assert len(number.replace(".", "").lstrip("0")) <= 9        # the digits of float32
    model.close()


def test_a_text_longer_than_its_windows(quick_start, model_of):
    """Its export has no graph for the memory of long documents."""
    model = opened(model_of("regression"))
    short, long = answers(model, ["kamat", LONG])
    assert isinstance(short, float) and isinstance(long, float) and short != long
    assert np.shape(answers(model, ["kamat"], "vectors")) == (1, CONFIG.d_model)
    good, bad = answers(model, ["kamat", " "])
    assert good == pytest.approx(short) and str(bad).startswith("column")
    model.close()


@pytest.fixture(scope="module")
def language_model(permuted):
    model = opened(permuted.folder)
    yield model
    model.close()


def test_a_pretrained_model_fills_in_and_generates(language_model, causal):
    assert language_model.names == ["fill", "generate", "vectors"]
    assert language_model.about == "A pretrained XLNet: fill, generate, vectors"
    filled, = answers(language_model, ["the cat ___ on"], "fill", pieces="1", top=2)
    assert len(filled["texts"]) == 2 and len(filled["words"][0]) == 1
    assert filled["probabilities"] == sorted(filled["probabilities"], reverse=True)
    again = [answers(language_model, ["the cat"], "generate", max_tokens=5, seed=3)
             for _ in range(2)]
    assert again[0] == again[1] and again[0][0]["ended"] == ["length"]
    other = opened(causal.folder)
    assert other.names == ["generate", "vectors"]
    other.close()


@pytest.mark.parametrize("parameters, said", [
    (dict(max_token=3), "no 'max_token'.*max_tokens"), (dict(max_tokens="3"), "max_tokens is '3'"),
    (dict(max_tokens=5000), "max_tokens is 5000, expected at most 2048"),
    (dict(stop=["a", 3]), "stop is .*expected texts"), (dict(stop={}), "stop is"),
    (dict(temperature=-1), "temperature is -1"), (dict(samples=10 ** 400), "samples is 1000"),
    (dict(samples=300), "samples is 300, expected at most 256"), (dict(beams=300), "beams is 300")])
def test_parameters_are_checked(language_model, parameters, said):
    with pytest.raises(UserError, match=said):
        language_model.call("generate", parameters)


@pytest.mark.parametrize("as_given", [json.dumps, list])
def test_texts_that_end_generation(language_model, as_given):
    asked = dict(max_tokens=20, seed=3)
    text, = answers(language_model, ["the cat"], "generate", **asked)[0]["texts"]
    stops = [text[9], text[6]]
    call = language_model.call("generate", dict(asked, stop=as_given(stops)))
    arrays = saved_model.arrays(language_model.inputs("generate"), ["the cat"])
    found, = language_model.run(call, arrays)
    assert found["ended"] == ["stop"] and found["texts"] == [text[:min(map(text.find, stops))]]
    parts = list(language_model.stream(call, arrays))
    assert "".join(part["text"] for part in parts) == found["texts"][0]


@pytest.mark.parametrize("signature, text, parameters, expected", [
    ("fill", "the cat " * 100 + "___", dict(context=20, pieces="3", beams=5), 23 * 5 ** .5),
    ("fill", "___ the cat ___", dict(context=2, pieces="1-40", beams=5), 82 * 5 ** .5),
    ("generate", "the cat " * 100, dict(context=20, samples=4), 40),
    ("generate", "", dict(max_tokens=9, samples=4), 18),
    ("generate", "", dict(max_tokens=9, method="beam", beams=9), 27), ("vectors", "a", {}, 0)])
def test_what_counts_for_the_budget(language_model, signature, text, parameters, expected):
    if signature == "fill":
        parameters = dict(parameters, top=1)
    arrays = saved_model.arrays(language_model.inputs(signature), [text, text])
    found = language_model.tokens(language_model.call(signature, parameters), arrays)
    assert found.tolist() == [np.ceil(expected)] * 2


def test_over_http(language_model):
    with running(language_model, "m", LimitSettings(budget=50 * 40 ** 2)) as server:
        status, found = ask(server, body={"signature_name": "fill", "instances": ["a ___"],
                                          "parameters": {"top": 1}})
        assert status == 200 and len(found["predictions"][0]["texts"]) == 1
        status, found = ask(server, body={"signature_name": "fill", "instances": ["a ___ " * 40]})
        assert status == 413 and "tokens" in found["error"]         # 50 beams of it
        for row, parameters, said in (("a", {}, "row 1: no blank"), ("a" + " ___" * 9, {
                "pieces": "3", "order": "all"}, "beams is 50, expected at most 37 for 27 pieces")):
            status, found = ask(server, body={"signature_name": "fill", "instances": ["a ___", row],
                                              "parameters": parameters})
            assert status == 400 and said in found["error"]
        for stream in (False, True):
            assert ask(server, body={
                "signature_name": "generate", "instances": ["the cat"], "stream": stream,
                "parameters": {"max_tokens": 99, "context": 99, "samples": 256}})[0] == 413
        asked = {"signature_name": "generate", "instances": ["the cat"], "stream": True,
                 "parameters": {"max_tokens": 6, "seed": 1, "context": 8}}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("POST", "/v1/models/m:predict", json.dumps(asked))
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        parts = list(map(json.loads, answer.read().splitlines()))
        connection.close()
        whole = ask(server, body=dict(asked, stream=False))[1]["predictions"][0]
        assert "".join(part["text"] for part in parts) == whole["texts"][0]
        assert len(parts) > 1 and parts[-1]["ended"] == "length"
        assert ask(server, body=dict(asked, parameters=dict(max_tokens=-1)))[0] == 400


@pytest.mark.parametrize("stream", [False, True])
def test_a_long_generation_keeps_no_other_request_waiting(language_model, monkeypatch, stream):
    """It counts as one that waits, as a stream does."""
    begun, go, generate = threading.Event(), threading.Event(), language_model._model.stream

    def slow(prompt, **settings):
        for part in generate(prompt, **settings):
            begun.set()
            assert settings["max_tokens"] < 3 or go.wait(60)
            yield part
    monkeypatch.setattr(language_model._model, "stream", slow)
    asked = {"signature_name": "generate", "instances": ["the cat"], "stream": stream,
             "parameters": {"max_tokens": 3, "context": 8, "seed": 1}}
    with running(language_model, "m", LimitSettings(max_waiting=3)) as server, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        found = [pool.submit(ask, server, body=asked) for _ in range(2)]
        assert begun.wait(20)
        wait_until(lambda: server._gathering.rows_waiting == 2)
        server._gathering.answered = float("-inf")
        assert ask(server, "GET", "/health") == (200, "ok\n")
        vector = {"signature_name": "vectors", "instances": ["a"]}
        for short in (vector, {"signature_name": "fill", "instances": ["a ___"]},
                      dict(asked, parameters={"max_tokens": 2})):
            assert ask(server, body=short)[0] == 200
        found.append(pool.submit(ask, server, body=asked))
        wait_until(lambda: server._gathering.rows_waiting == 3)
        for other in (asked, dict(asked, stream=not stream), vector):
            status, answer = ask(server, body=other)
            assert status == 503 and "3 examples wait already, at most 3 may" in answer["error"]
        assert not any(one.done() for one in found)
        go.set()
        assert [one.result()[0] for one in found] == [200] * 3
        wait_until(lambda: server._gathering.rows_waiting == 0)
