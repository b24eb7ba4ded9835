"""A model directory behind the server: the requests of its export, and what only it can do."""

import concurrent.futures
import http.client
import json
import re
import shutil
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.language_model import Pretrained
from helpers.models import CONFIG, make_model
from helpers.paths import ROOT
from helpers.serving import ask, running, wait_until
from helpers.vocabulary import train_odd_model

import xlnet
from xlnet.engine import checkpoint
from xlnet.errors import UserError
from xlnet.network import modeling
from xlnet.serving import generation
from xlnet.serving.server import model_directory, openapi, request_forms
from xlnet.serving.server.model_directory import ServedModel
from xlnet.serving.settings import LimitSettings, stop_texts
from xlnet.settings.devices import DeviceSettings
from xlnet.tasks.output import results

pytestmark = pytest.mark.slow

BUDGET = 32 * 512**2
LONG = "kamat telok rokmi mitel dakar nokla laskit solkat " * 12
ROWS = {
    "classification": [{"text_a": "kamat telok", "text_b": "mitel"}],
    "multi_label": ["kamat telok", "mitel dakar"],
    "multiple_choice": [
        {"text_a": "kamat", "text_b": "which _", "choices": ["a", "b", "c"]},
        {"text_a": "mitel", "text_b": "which", "choices": ["a", "b", " "]},
    ],
    "ranking": [{"text_a": "kamat", "text_b": "mitel dakar"}],
    "tagging": ["kamat  telok,rokmi 2010", "sol"],
    "spans": [{"question": "kamat telok?", "context": LONG}, {"question": "sol", "context": "ka"}],
}


def opened(path, **given):
    return ServedModel(str(path), BUDGET, DeviceSettings(device="cpu"), **given)


def answers(model, rows, signature=None, **parameters):
    signature = signature or model.default
    found = model.run(model.call(signature, parameters), model.rows(signature, rows))
    return [each if isinstance(each, UserError) else each.result for each in found]


@pytest.mark.parametrize("kind", ROWS)
def test_it_answers_as_the_model_of_xlnet_load(quick_start, model_of, kind):
    path, rows = model_of(kind), ROWS[kind]
    model = opened(path)
    assert model.default == "text"
    found = answers(model, rows)
    rows = [row if isinstance(row, dict) else {"text_a": row} for row in rows]
    with xlnet.load(path, device="cpu") as other:
        assert model.labels == (list(other.labels) if other.labels else None)
        if kind == "ranking":
            expected = [other.rank(row["text_a"], [row["text_b"]])[0].score for row in rows]
        else:
            items = [
                [
                    row[name]
                    for name in ("question", "context", "text_a", "choices", "text_b")
                    if name in row
                ]
                for row in rows
            ]
            expected = [
                results.as_json(one, other.labels)
                for one in other.predict(
                    [tuple(item) if len(item) > 1 else item[0] for item in items]
                )
            ]
    for one, its in zip(found, expected):
        for ours, theirs in (
            [(one, its)]
            if isinstance(its, float)
            else [(one[name], value) for name, value in its.items()]
        ):
            is_number = (
                isinstance(theirs, float)
                or isinstance(theirs, list)
                and theirs
                and isinstance(theirs[0], float)
            )
            assert ours == (pytest.approx(theirs, rel=1e-5, abs=1e-6) if is_number else theirs)
    for number in re.findall(r"\d+\.\d+", json.dumps(found, allow_nan=False)):
        assert len(number.replace(".", "").lstrip("0")) <= 9  # the digits of float32
    model.close()


@pytest.mark.parametrize("kind", ("classification", "ranking"))
def test_it_explains_as_the_model_of_xlnet_load(quick_start, model_of, kind):
    """With the label that is asked for; each word is a prediction, so there is a limit of them."""
    path, row = model_of(kind), {"text_a": "kamat  telok", "text_b": "mitel"}
    model, bad = opened(path), dict(row, text_a="")
    labels = model.labels or ["score"]
    given = {"label": labels[-1]} if model.labels else {}
    found, error = answers(model, [row, bad], "explain", **given)
    with xlnet.load(path, device="cpu") as other:
        expected = other.explain((row["text_a"], row["text_b"]), **given)
    assert (found["words"], found["first_words"]) == (["kamat", "telok", "mitel"], 2)
    assert found["output"] == expected.output == labels[-1] and isinstance(error, UserError)
    assert [found["value"], *found["weights"]] == pytest.approx(
        [expected.value, *expected.weights], rel=1e-5, abs=1e-6
    )
    call = model.call("explain", {})
    assert model.cost(call, [row], BUDGET) == 0  # next to the batches; it keeps nothing
    with pytest.raises(UserError, match="5 examples have 2560 words, at most 2048 are"):
        model.cost(call, [{"text_a": "ka " * 512, "text_b": ""}] * 5, BUDGET)
    with pytest.raises(UserError, match="has 513 words, at most 512 are explained"):
        model.cost(call, [row, dict(row, text_a="ka " * 512)], BUDGET)
    with running(model, "m", LimitSettings(max_waiting=1)) as server:
        asked = {"signature_name": "explain", "instances": [row], "parameters": given}
        status, content = ask(server, body=asked)
        assert (status, content["predictions"]) == (200, [json.loads(json.dumps(found))])
        assert content["tokens_read"] == content["tokens"] and content["tokens"][0] > 0
        long = dict(row, text_a="ka " * 512)
        assert ask(server, body=dict(asked, instances=[long]))[0] == 413
    for parameters, said in (
        (dict(method="integrated_gradients"), "expected leave_one_out"),
        (dict(label=3), "parameters: label is 3"),
        (dict(label="none"), "parameters: label is 'none', expected"),
        (dict(step=3), "no 'step'"),
    ):
        with pytest.raises(UserError, match=said):
            model.cost(model.call("explain", parameters), [row], BUDGET)
    model.close()


@pytest.mark.parametrize("long_document", ["truncate", "head_tail"])
def test_it_says_what_was_read_of_a_text_that_is_cut(tmp_path, long_document):
    """100,000 characters to a model of 96 tokens were an answer like any other."""
    path = make_model(tmp_path / "m", "multi_label", max_seq_length=8, long_document=long_document)
    model = opened(path)
    text = "kamat telok sol mitel dakar laskit nokla rokmi"
    tokens = len(model._model.tokenizer.ids(text))
    with running(model, "m") as server:
        _, content = ask(server, body={"instances": [text, "sol"]})
    whole = len(model._model.tokenizer.ids("sol"))
    assert (content["tokens_read"], content["tokens"]) == ([6, whole], [tokens, whole])
    spans = content["characters_read"][0]["text_a"]
    assert content["characters_read"][1] is None
    read = model._model.tokenizer.ids("".join(text[start:end] for start, end in spans[:1]))
    assert spans[0][0] == 0 and model._model.tokenizer.ids(text)[: len(read)] == read
    if long_document == "truncate":
        assert len(spans) == 1 and len(read) == 6
    else:
        assert len(spans) == 2 and spans[1][1] == len(text)
    model.close()


def test_of_a_text_that_the_task_changes_it_only_counts_what_was_read(tmp_path):
    """The page drew the parts that were read, counted in a text of another length."""
    model = opened(make_model(tmp_path / "m", "imdb", max_seq_length=8))
    plain, changed = ("kamat telok sol mitel dakar laskit" + end for end in ("", "<br />nokla"))
    for signature in ("text", "explain", "vectors"):
        rows = [{"text_a": text} for text in (plain, changed)]
        found = [model.run(model.call(signature, {}), [row])[0] for row in rows]
        assert [(one.tokens_read, one.tokens > 6) for one in found] == [(6, True)] * 2
        assert [one.characters_read is None for one in found] == [False, True]
    model.close()


def test_a_word_that_is_cut_hides_no_word_after_it(quick_start, model_of):
    """Where a tagger reads all words, all behind the first window was said to be unread."""
    model = opened(model_of("tagging"))  # of 24 tokens
    row = {"text_a": "kamat " + "telok" * 40 + " rokmi" * 30}
    (found,) = model.run(model.call("text", {}), [row])
    assert 24 < found.tokens_read < found.tokens
    assert found.characters_read is None
    model.close()


def test_texts_have_the_names_of_the_api_and_of_the_columns(quick_start, model_of, tmp_path):
    model = opened(model_of("classification"))
    columns = model._model.inference.loaded.tuned.task.columns
    (expected,) = answers(model, ROWS["classification"])
    for first in ("text_a", "text", columns.text_a[0]):
        for second in ("text_b", "text_pair", columns.text_b[0]):
            row = {first: "kamat telok", second: "mitel"}
            for signature in ("text", "explain"):
                (row_,) = model.rows(signature, [row])
                assert row_ == ROWS["classification"][0]
            assert answers(model, [row]) == [expected]
    assert model.rows("vectors", [{"text": "a"}]) == [{"text_a": "a"}]
    for row in (
        {"text": "a", "text_a": "b", "text_b": "c"},
        {"text": "a", "text_b": "b", "c": "d"},
    ):
        with pytest.raises(
            UserError,
            match="row 0 has text, text_.*, ., expected|row 0 has text, text_a, text_b, expected",
        ):
            model.rows("text", [row])
    model.close()
    model = opened(Pretrained(tmp_path, is_causal=False).folder)
    assert model.rows("fill", [{"text_a": "a ___"}]) == [{"text": "a ___"}]
    assert model.rows("generate", [{"text": "a"}]) == [{"prompt": "a"}]
    model.close()


@pytest.mark.parametrize("columns", [("text_b", "text_a"), ("text_pair", "text_a")])
def test_a_column_called_as_the_api_calls_the_other_text(quick_start, tmp_path, columns):
    """Python took such names for the columns' and REST for the API's: the texts were exchanged."""
    first, second = columns
    path = make_model(
        tmp_path / "m", "classification", text_a_column=first, text_b_column=second, id_column=""
    )
    served = opened(path)
    with xlnet.load(path, device="cpu") as model:
        expected = model.classify(("kamat telok", "mitel"))
        assert expected != model.classify(("mitel", "kamat telok"))
        for names in (("text_a", "text_b"), ("text_a", "text_pair"), ("text", "text_pair")):
            row = dict(zip(names, ("kamat telok", "mitel")))
            assert served.rows("text", [row]) == ROWS["classification"]
            assert model.classify(row) == expected
    served.close()


def test_wrong_parameters_are_named_in_the_words_of_json(quick_start, tmp_path):
    """Python's None, True and int are no words of a request."""
    model = opened(Pretrained(tmp_path, is_causal=False).folder)
    for signature, parameters, said in (
        ("generate", {"max_tokens": None}, "max_tokens is null, expected an integer"),
        ("generate", {"max_tokens": True}, "max_tokens is true, expected an integer"),
        ("generate", {"max_tokens": 2.5}, "max_tokens is 2.5, expected an integer"),
        ("generate", {"temperature": "1"}, 'temperature is "1", expected a number'),
        ("generate", {"method": 3}, "method is 3, expected a text"),
        ("generate", {"stop": [None]}, "stop is [null], expected texts that are not empty"),
        ("generate", {"stop": {"a": 1}}, 'stop is {"a": 1}, expected texts that are not empty'),
        ("generate", {"stop": ""}, 'stop is "", expected texts that are not empty'),
        ("generate", {"seed": [1]}, "seed is [1], expected an integer"),
        ("fill", {"whole_words": "yes"}, 'whole_words is "yes", expected true or false'),
        ("fill", {"targets": 3}, "targets is 3, expected texts that are not empty"),
        ("fill", {"pieces": None}, "pieces is null, expected a text"),
        ("fill", {"pieces": True}, "pieces is true, expected a text"),
        ("attention", {"most_tokens": None}, "most_tokens is null, expected an integer"),
    ):
        with pytest.raises(UserError) as raised:
            model.call(signature, parameters)
        assert str(raised.value) == "parameters: " + said
    for signature, parameters, said in (
        ("generate", {"samples": 9, "method": "beam"}, "samples is 9, expected at most beams, 4"),
        ("fill", {"pieces": 0}, "pieces is '0', expected a number"),
        ("factorize", {"order": "up"}, "order is 'up', expected random"),
        ("attention", {"layers": []}, "layers is [], expected a list of 1 to 4 layers"),
        ("attention", {"layers": [99]}, "layers is [99], expected a list of 1 to 4 layers"),
        # As the client called it.
        ("generate", {"max_new_tokens": "9"}, 'max_new_tokens is "9", expected an integer'),
        ("generate", {"num_return_sequences": 0}, "num_return_sequences is 0, expected 1 <="),
        ("generate", {"max_new_tokens": 9999}, "max_new_tokens is 9999, expected at most 2048"),
    ):
        with pytest.raises(UserError) as raised:
            model.call(signature, parameters)
        assert str(raised.value).startswith("parameters: " + said), raised.value
    with pytest.raises(UserError, match="^row 0: 'text_a' is a number, expected a string"):
        model.rows("fill", [{"text_a": 3}])
    model.close()


# ---- the schema of requests


def is_accepted(model, body):
    """Whether the server answers this body."""
    try:
        request_forms.parsed(model, LimitSettings(), json.dumps(body).encode())
    except UserError:
        return False
    return True


def schema_of(model):
    described = openapi.describe(model, "m", LimitSettings())
    request = described["paths"]["/v1/models/m:predict"]["post"]["requestBody"]
    schema = request["content"]["application/json"]["schema"]
    jsonschema = pytest.importorskip("jsonschema", reason="requirements-dev.txt has it")
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def documented_bodies():
    """Those of the commands that the documents show."""
    for page in ("README.md", "docs/tutorials/serving.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        yield from map(json.loads, re.findall(r"-d '(\{.*?\})'", text, re.DOTALL))


PAIR = {"text_a": "kamat", "text_b": "telok"}
OF_PAIRS = [  # (body, whether it is accepted)
    ({"instances": [PAIR]}, True),
    ({"instances": [{"text": "kamat", "text_pair": "telok"}]}, True),
    ({"instances": [{"text_a": "kamat", "text_pair": "telok"}], "parameters": {}}, True),
    ({"signature_name": "serving_default", "instances": [PAIR], "stream": False}, True),
    ({"inputs": {"text_a": ["kamat", "sol"], "text_pair": ["telok", "sol"]}}, True),
    ({"inputs": {"text_a": "kamat", "text_b": "telok"}}, True),
    ({"signature_name": "explain", "instances": [PAIR], "parameters": {"label": None}}, True),
    ({"instances": ["kamat"]}, False),
    ({"instances": [{**PAIR, "text": "kamat"}]}, False),
    ({"instances": [{"text_a": "kamat", "text_c": "telok"}]}, False),
    ({"instances": [{"text_a": "kamat"}]}, False),
    ({"instances": [{"text_a": "kamat", "text_b": None}]}, False),
    ({"instances": [PAIR] * 129}, False),
    ({"instances": [PAIR], "inputs": {"text_a": ["a"], "text_b": ["b"]}}, False),
    ({"instances": [PAIR], "parameter": {}}, False),
    ({"instances": [PAIR], "parameters": {"top": 1}}, False),
    ({"instances": [PAIR], "stream": True}, False),
    ({"instances": [PAIR], "signature_name": "texts"}, False),
    ({"signature_name": "explain", "instances": [PAIR], "parameters": {"labels": "a"}}, False),
    (
        {
            "signature_name": "explain",
            "instances": [PAIR],
            "parameters": {"method": "integrated_gradients"},
        },
        False,
    ),
]
OF_LANGUAGE = [  # (signature, text, parameters, whether they are accepted)
    ("generate", {"prompt": "a"}, {"max_new_tokens": 3, "stop": ["a", "b"], "seed": None}, True),
    ("generate", {"text": "a"}, {"max_tokens": 3, "num_return_sequences": 2, "stop": None}, True),
    ("generate", "a", {"temperature": 1, "stop": "end"}, True),
    ("fill", {"text_a": "a ___"}, {"pieces": 2, "top": 1}, True),
    ("fill", "a ___", {"pieces": "1-2", "targets": ["b"], "order": "2,1"}, True),
    ("attention", "a", {"layers": [1, 2], "order": "none"}, True),
    ("factorize", "a", {"known": 0}, True),
    ("vectors", {"text": "a"}, {}, True),
    ("generate", "a", {"max_new_tokens": 3, "max_tokens": 3}, False),
    ("generate", "a", {"max_new_token": 3}, False),
    ("generate", "a", {"max_tokens": 9999}, False),
    ("generate", "a", {"temperature": 0}, False),
    ("generate", "a", {"method": "sampled"}, False),
    ("generate", "a", {"stop": ""}, False),
    ("generate", "a", {"stop": [""]}, False),
    ("fill", "a ___", {"targets": []}, False),
    ("fill", "a ___", {"pieces": "many"}, False),
    ("fill", "a ___", {"pieces": "\uff11"}, False),  # a digit of full width
    ("attention", "a", {"layers": [0]}, False),
    ("attention", "a", {"layers": [1, 1, 1, 1, 1]}, False),
    ("vectors", "a", {"pooling": "mean"}, False),
]


def test_the_schema_of_requests_accepts_what_the_server_accepts(quick_start, model_of, tmp_path):
    """The names of other libraries were in the descriptions, and refused by the schema."""
    pairs, texts = opened(model_of("classification")), opened(model_of("multi_label"))
    language = opened(Pretrained(tmp_path, is_causal=False).folder)
    schemas = {model: schema_of(model) for model in (pairs, texts, language)}
    cases = [(pairs, *case) for case in OF_PAIRS]
    for signature, text, parameters, expected in OF_LANGUAGE:
        body = {"signature_name": signature, "instances": [text], "parameters": parameters}
        cases.append((language, body, expected))
    # A default is what the server takes, and within its limits.
    for schema in schemas[language].schema["oneOf"]:
        signature = schema["properties"]["signature_name"]["enum"][0]
        if signature in model_directory.PARAMETERS_OF:
            settings = language.call(signature, {}).settings
            for name, value in schema["properties"]["parameters"]["properties"].items():
                if name in vars(settings):
                    assert value["default"] == getattr(settings, name), (signature, name)
                    assert schemas[language].evolve(schema=value).is_valid(value["default"])
    documented = list(documented_bodies())
    for body in documented:
        model = texts if body.get("signature_name", "text") in texts.names else language
        cases.append((model, body, True))
        # One letter more in each key is another key.
        for key in body:
            misspelt = {name + "s" * (name == key): value for name, value in body.items()}
            cases.append((model, misspelt, False))
    assert len(documented) >= 5
    for model, body, expected in cases:
        assert is_accepted(model, body) == expected, body
        assert schemas[model].is_valid(body) == expected, body
    for model in schemas:
        model.close()


def test_two_copies_of_the_graph_are_built_before_the_first_request(quick_start, tmp_path):
    """A fill next to a long generation waited for seconds for the second one."""
    model = opened(Pretrained(tmp_path, is_causal=False).folder)
    restored = model._model.inference.open()
    before = set(restored._subgraphs)
    language_model = model._model.inference.language_model()
    with language_model.reading(8), language_model.reading(8):
        assert set(restored._subgraphs) == before
    model.close()


def test_what_needs_a_graph_of_its_own(quick_start, tmp_path):
    model = opened(Pretrained(tmp_path, is_causal=False).folder)

    def needs_own_graph(signature, text, **parameters):
        call = model.call(signature, parameters)
        return model.needs_own_graph(call, model.rows(signature, ["a", text]))

    assert not needs_own_graph("generate", "the cat") and not needs_own_graph("vectors", "a")
    assert needs_own_graph("generate", "the cat", samples=9) and needs_own_graph("fill", "a ___")
    assert needs_own_graph("generate", "the cat sat on " * 9, context=8)  # read in windows
    model.close()


def test_what_has_several_outputs_is_not_explained(quick_start, model_of):
    model = opened(model_of("spans"))
    assert model.names == ["text", "vectors"]
    model.close()


def test_an_export_is_for_tensorflow_serving(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    with pytest.raises(UserError, match="is a SavedModel, which TensorFlow Serving serves"):
        opened(tmp_path)


@pytest.mark.parametrize(
    "rows, said",
    [
        ([1], "row 0 is a number, expected an object with choices, text_a, text_b"),
        ([{"text": "a"}], "row 0 has text, expected choices, text_a, text_b"),
        (
            [dict(text_a="a", text_b="b", choices=["b"])],
            "row 0: 'choices' has 1 values, expected 3",
        ),
        (
            [dict(text_a="a", text_b="b", choices=[["b"]] * 3)],
            "'choices' is not an array of strings",
        ),
        (
            [dict(text_a=1, text_b="b", choices=["b"] * 3)],
            "row 0: 'text_a' is a number, expected a string",
        ),
        ([dict(text_a="\ud800", text_b="b", choices=["b"] * 3)], "'text_a' has half a character"),
    ],
)
def test_a_row_that_does_not_fit(quick_start, model_of, rows, said):
    model = opened(model_of("multiple_choice"))
    with pytest.raises(UserError, match=said):
        model.rows("text", rows)
    with pytest.raises(UserError, match=r"no signature 'no' \(there are text, vectors\)"):
        model.call("no", {})
    with pytest.raises(UserError, match="^parameters: signature 'text' has none, found top$"):
        model.call("text", {"top": 3})
    assert model.call("serving_default", {}) == model.call("text", {})
    model.close()


def test_examples_of_the_model_directory(quick_start, model_of, tmp_path):
    path = shutil.copytree(model_of("classification"), tmp_path / "model")
    rows = [{"text_a": "kamat", "text_b": word} for word in ("telok", "mitel", "dakar")]
    model = opened(path)
    assert model.examples == {"text": [], "explain": [], "vectors": []}
    found = [one.result["label"] for one in model.run(model.call("text", {}), rows)]
    model.close()
    # Two examples with another label than the model's answer, then one that it answers right.
    golds = [next(label for label in model.labels if label != found[0]), "no label", found[2]]
    stored = [{**row, "gold": gold} for row, gold in zip(rows, golds)]
    (path / "examples.json").write_text(json.dumps({"text": stored}))
    model = opened(path)
    assert model.examples["text"] == model.examples["explain"]
    assert model.examples["text"] == [
        (rows[2], golds[2], True),
        (rows[0], golds[0], False),
        (rows[1], golds[1], False),
    ]
    assert model.examples["vectors"] == [({"text_a": "kamat"}, None, None)] * 3
    model.close()
    (path / "examples.json").write_text('{"text": ["kamat"]}')
    with pytest.raises(
        UserError, match="examples.json: text: row 0 is a string, expected an object"
    ):
        opened(path)
    (tmp_path / "outside.json").write_text("{}")
    (path / "examples.json").unlink()
    (path / "examples.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(UserError, match="outside of the model's directory"):
        opened(path)


def test_a_label_is_right_as_its_task_means_it():
    def is_right(verb, answer, gold, row=None):
        return model_directory._is_right(verb, row or {}, answer, gold, ["a", "b", "c"])

    several = {"is_label": [True, False, True], "probabilities": [1, 0, 1]}
    assert is_right("classify", several, ["c", "a"]) and not is_right("classify", several, ["a"])
    row = {"choices": ["x", "y", ""]}
    chosen = {"label": "a", "probabilities": [0.2, 0.8, 0.0]}
    assert is_right("choose", chosen, "y", row) and not is_right("choose", chosen, "x", row)
    assert is_right("answer", {"answer": "Bo"}, ["Bob", "Bo"])
    assert not is_right("answer", {"answer": "Bo"}, []) and is_right("answer", {"answer": ""}, [])
    assert is_right("tag", {"tags": ["O", "B-PER"]}, ["O", "B-PER"])
    assert not is_right("tag", {"tags": ["O", "O"]}, ["O", "B-PER"])
    assert is_right("fill", {"words": [["sat"], ["lay"]]}, "sat")
    assert is_right("score", 1.5, 1.0) is None


def test_a_text_of_the_documented_length_is_filled_at_default_settings(language_model):
    """450 words with one blank were refused, although the documents promise 512 tokens."""
    call = language_model.call("fill", {})
    row = {"text": "the " * 250 + "___" + " the" * 200}
    assert 0 < language_model.cost(call, [row], BUDGET) <= BUDGET


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    """The server reported ready, and answered 500 to everything."""
    path = make_model(tmp_path / "m", "multi_label")
    arrays = checkpoint.read_weights(path + "/model.ckpt-1")
    name = "model/transformer/layer_0/ff/layer_1/bias"
    arrays[name][3] = np.nan
    checkpoint.write_arrays(path + "/model.ckpt-1", arrays)
    for load in (opened, lambda path: xlnet.load(path, device="cpu")):
        with pytest.raises(UserError, match=rf"{name} is nan at \[3\]"):
            load(path)


def test_weights_that_were_refused_are_refused_again(permuted, tmp_path):
    """The second call of a model used what the first one had refused."""
    folder = shutil.copytree(permuted.folder, tmp_path / "m")
    name = "model/lm_loss/bias"
    arrays = checkpoint.read_weights(str(folder / "model.ckpt-4"))
    arrays[name] = np.where(np.arange(len(arrays[name])) == 30, -np.inf, arrays[name])
    checkpoint.write_arrays(str(folder / "model.ckpt-4"), arrays)
    with xlnet.load(folder, device="cpu") as model:
        for _ in range(2):
            with pytest.raises(UserError, match=rf"{name} is -inf at \[30\]"):
                model.fill("the ___ sat")


def test_what_is_cut_is_not_counted(quick_start, model_of):
    """Long texts that lose their end anyway were not batched: 208 a second in place of 611."""
    model = opened(model_of("multi_label"))
    long = {"text_a": LONG * 100}
    assert model.size(long) == 1 and model.cost(model.call("text", {}), [long], BUDGET) is None
    model.close()


def test_a_long_text_is_no_part_of_a_batch(quick_start, model_of):
    """Its windows would keep the batches waiting."""
    model = opened(model_of("spans"))  # of 32 tokens
    short, long = ({"question": "ka", "context": "telok " * count} for count in (5, 200))
    call = model.call("text", {})
    assert (model.size(short), model.size(long)) == (1, 1 + 1202 // 128)
    assert model.cost(call, [short], 9) is None and model.cost(call, [short, long], 9) == 0
    model.close()


def test_a_text_longer_than_its_windows(quick_start, model_of):
    """Its export has no graph for the memory of long documents."""
    model = opened(model_of("regression"))
    short, long = answers(model, ["kamat", LONG])
    assert isinstance(short, float) and isinstance(long, float) and short != long
    assert np.shape(answers(model, ["kamat"], "vectors")) == (1, CONFIG.d_model)
    good, bad = answers(model, ["kamat", " "])
    assert good == pytest.approx(short) and str(bad) == "the text is empty"
    model.close()


@pytest.fixture(scope="module")
def language_model(permuted):
    model = opened(permuted.folder)
    yield model
    model.close()


def test_a_pretrained_model_fills_in_and_generates(language_model, causal):
    assert language_model.names == ["fill", "factorize", "generate", "attention", "vectors"]
    assert language_model.about == "A pretrained language model"
    (filled,) = answers(language_model, ["the cat ___ on"], "fill", pieces="1", top=2)
    assert len(filled["texts"]) == 2 and len(filled["words"][0]) == 1
    assert filled["probabilities"] == sorted(filled["probabilities"], reverse=True)
    again = [
        answers(language_model, ["the cat"], "generate", max_tokens=5, seed=3) for _ in range(2)
    ]
    assert again[0] == again[1] and again[0][0]["ended"] == ["length"]
    other = opened(causal.folder)
    assert other.names == ["generate", "attention", "vectors"]
    other.close()


@pytest.mark.parametrize(
    "parameters, said",
    [
        (dict(max_token=3), "no 'max_token'.*max_tokens"),
        (dict(max_tokens="3"), 'max_tokens is "3", expected an integer'),
        (dict(max_tokens=5000), "max_tokens is 5000, expected at most 2048"),
        (dict(stop=["a", 3]), "stop is .*expected texts"),
        (dict(stop={}), "stop is"),
        (dict(temperature=-1), "temperature is -1"),
        (dict(samples=10**400), "samples is 1000"),
        (dict(stop="x" * 1001), "at most 64 texts of at most 1000 characters"),
        (dict(stop=["x"] * 65), "at most 64 texts of at most 1000 characters"),
        (dict(seed=1 << 64), "seed is"),
        (dict(top_k=1 << 40), "top_k is"),
        (dict(max_tokens=3, max_new_tokens=3), "max_new_tokens and max_tokens are one setting"),
        (dict(samples=300), "samples is 300, expected at most 256"),
        (dict(beams=300), "beams is 300"),
    ],
)
def test_parameters_are_checked(language_model, parameters, said):
    with pytest.raises(UserError, match=said):
        language_model.call("generate", parameters)


def test_texts_that_end_generation(language_model):
    asked = dict(max_tokens=20, seed=3)
    (text,) = answers(language_model, ["the cat"], "generate", **asked)[0]["texts"]
    stops = [text[9], text[6]]
    call = language_model.call("generate", dict(asked, stop=stops))
    row = {"prompt": "the cat"}
    found = language_model.run(call, [row])[0].result
    assert found["ended"] == ["stop"] and found["texts"] == [text[: min(map(text.find, stops))]]
    parts = list(language_model.stream(call, row))
    assert "".join(part["text"] for part in parts) == found["texts"][0]


@pytest.mark.parametrize("stop", ["[1]", '["a", "b"]', "[END]", "."])
def test_a_string_is_one_text_where_a_request_may_have_lists(language_model, stop):
    """Parameters of KServe's protocol are no lists: there several texts are JSON, as in a flag."""
    for given, texts in ((stop, (stop,)), (["a", stop], ("a", stop))):
        call = language_model.call("generate", {"stop": given})
        assert stop_texts(call.settings.stop) == texts
    assert language_model.call("fill", {"targets": stop}).settings.targets == json.dumps([stop])


@pytest.mark.parametrize("stop, texts", [('["a", "b"]', ("a", "b")), ("[END]", ("[END]",))])
def test_several_texts_are_json_in_the_open_inference_protocol(language_model, stop, texts):
    prompt = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": ["a"]}
    body = {"inputs": [prompt], "parameters": {"signature_name": "generate", "stop": stop}}
    asked = request_forms.parsed_inference(
        language_model, LimitSettings(), json.dumps(body).encode()
    )
    assert stop_texts(asked.call.settings.stop) == texts


@pytest.mark.parametrize(
    "signature, text, parameters, expected",
    [
        (
            "fill",
            "the cat " * 100 + "___",
            dict(context=20, pieces="3", beams=5, top=1),
            23 * 256 * 5,
        ),
        ("fill", "___ the cat ___", dict(context=2, pieces="1-40", beams=5, top=1), 82 * 256 * 5),
        ("generate", "the cat " * 100, dict(context=20, samples=4), 20 * 256 * 4),
        ("generate", "", dict(max_tokens=9, samples=4), 9 * 256 * 4),
        ("generate", "", dict(max_tokens=9, method="beam", beams=9), 9 * 256 * 9),
        ("attention", "", dict(most_tokens=9), 81),
        ("vectors", "a", {}, None),
    ],
)
def test_what_counts_for_the_budget(language_model, signature, text, parameters, expected):
    rows = language_model.rows(signature, [text, text])
    assert language_model.cost(language_model.call(signature, parameters), rows, BUDGET) == expected


@pytest.mark.parametrize("signature", ("attention", "factorize"))
def test_a_text_above_the_budget_is_named_by_what_its_signature_has(language_model, signature):
    (row,) = language_model.rows(signature, ["the cat"])
    call = language_model.call(signature, {"most_tokens": 40})
    said = r"up to 40 tokens takes 1600, .*\(--budget\): 31 tokens \(most_tokens\)$"
    with pytest.raises(UserError, match=said):
        language_model.cost(call, [row], 1000)
    fits = language_model.call(signature, {"most_tokens": 31})
    assert language_model.cost(fits, [row], 1000) == 31**2


def test_attention_and_what_each_stream_sees(language_model):
    """The masks are those of the network for the same order."""
    (found,) = answers(language_model, ["the cat sat"], "attention", layers=[1], order="2,1,3")
    count = len(found["pieces"])
    assert found["places"] == [2, 1, 3] and count == 3
    with tf.Graph().as_default(), tf.Session() as run:
        mask = run.run(
            modeling.permutation_mask(
                tf.constant([found["places"]]), tf.ones([1, count], tf.bool)
            ).dense()
        )[0]
    np.testing.assert_array_equal(~mask, found["sees"]["query"])
    np.testing.assert_array_equal(~mask | np.eye(count, dtype=bool), found["sees"]["content"])
    content = np.array(found["streams"]["content"])  # [k,N,T,T]
    assert content.shape == (1, language_model.n_head, count, count)
    np.testing.assert_allclose(content.sum(axis=-1), 1, atol=1e-3)
    assert (content[:, :, ~np.array(found["sees"]["content"])] == 0).all()
    (error,) = answers(language_model, ["the cat sat"], "attention", order="1,2")
    assert str(error) == "order names 2 tokens, but the text has 3"
    for parameters, said in (
        (dict(layers=[9]), r"parameters: layers is \[9\]"),
        (dict(layers=3), "layers is 3"),
        (dict(layers=[1] * 5), "expected a list of 1 to 4"),
        (dict(most_tokens=65), "most_tokens is 65, expected at most 64"),
    ):
        with pytest.raises(UserError, match=said):
            answers(language_model, ["the cat sat"], "attention", **parameters)


@pytest.mark.parametrize("signature", ["attention", "factorize", "fill"])
def test_an_error_has_the_number_of_its_row(language_model, signature):
    good, bad = ("a ___", "the") if signature == "fill" else ("the cat", "the cat " * 40)
    with running(language_model, "m") as server:
        asked = {"signature_name": signature, "instances": [good, bad]}
        status, content = ask(server, body=asked)
    assert status == 400 and content["error"].startswith("row 1: ")


def test_a_stream_counts_the_tokens_of_its_prompt(language_model):
    asked = {
        "signature_name": "generate",
        "instances": ["the cat sat"],
        "parameters": {"max_tokens": 3, "samples": 2},
    }
    rises = []
    with running(language_model, "m") as server:
        for stream in (False, True):
            ask(server, body=dict(asked, stream=stream))
            (line,) = (
                line
                for line in ask(server, "GET", "/metrics")[1].splitlines()
                if line.startswith('xlnet_tokens_read_total{signature="generate"}')
            )
            rises.append(float(line.split()[1]))
    assert rises[0] == len(language_model._model.tokenizer.ids("the cat sat"))
    assert rises[1] == 2 * rises[0]


def test_words_of_the_open_inference_protocol_are_json(quick_start, model_of):
    model = opened(model_of("tagging"))
    texts = {"name": "text_a", "shape": [1], "datatype": "BYTES", "data": ["kamat telok"]}
    with running(model, "m") as server:
        _, content = ask(server, path="/v2/models/m/infer", body={"inputs": [texts]})
    outputs = {each["name"]: each for each in content["outputs"]}
    for name in ("words", "tags", "entity_labels", "entity_starts"):
        assert (outputs[name]["datatype"], outputs[name]["shape"]) == ("BYTES", [1])
    assert json.loads(outputs["words"]["data"][0]) == ["kamat", "telok"]
    model.close()
    assert not model.has_arrays("text") and model.has_arrays("vectors")


@pytest.mark.parametrize("name", ["characters", "words"])
def test_a_vocabulary_of_characters_or_words_can_fill_in(tmp_path, name):
    """It has no piece that is a word, or none that is a part of one."""
    Pretrained(tmp_path, False, train=lambda path: train_odd_model(path, name))
    model = opened(tmp_path)
    assert "fill" in model.names
    assert len(answers(model, ["the ___ sat"], "fill", top=3)[0]["texts"]) == 3
    model.close()


def test_over_http(language_model):
    with running(language_model, "m", LimitSettings(budget=50 * 40**2)) as server:
        status, found = ask(
            server,
            body={"signature_name": "fill", "instances": ["a ___"], "parameters": {"top": 1}},
        )
        assert status == 200 and len(found["predictions"][0]["texts"]) == 1
        status, found = ask(server, body={"signature_name": "fill", "instances": ["a ___ " * 40]})
        assert status == 413 and "tokens with beams=50 takes" in found["error"]
        for pieces in (1, "1"):  # an integer will do
            asked = {"signature_name": "fill", "instances": ["a ___"], "parameters": {}}
            asked["parameters"]["pieces"] = pieces
            assert ask(server, body=asked)[0] == 200
        for parameters, said in (
            ({"temperature": 0}, "for the likeliest token each time give method=greedy"),
            ({"k" * 900_000: 1}, "no 'kkk"),
        ):
            asked = {"signature_name": "generate", "instances": ["a"], "parameters": parameters}
            status, found = ask(server, body=asked)
            assert status == 400 and said in found["error"] and len(found["error"]) < 600
        for row, parameters, said in (
            ("a", {}, "row 1: no blank ___ in 'a'"),
            (
                "a" + " ___" * 9,
                {"pieces": "3", "order": "all"},
                "beams is 50, expected at most 37 for 27 pieces",
            ),
        ):
            status, found = ask(
                server,
                body={
                    "signature_name": "fill",
                    "instances": ["a ___", row],
                    "parameters": parameters,
                },
            )
            assert status == 400 and said in found["error"]
        for stream in (False, True):
            assert (
                ask(
                    server,
                    body={
                        "signature_name": "generate",
                        "instances": ["the cat"],
                        "stream": stream,
                        "parameters": {"max_tokens": 99, "context": 99, "samples": 256},
                    },
                )[0]
                == 413
            )
        asked = {
            "signature_name": "generate",
            "instances": ["the cat"],
            "stream": True,
            "parameters": {"max_tokens": 6, "seed": 1, "context": 8},
        }
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
    begun, go, parts_of = threading.Event(), threading.Event(), generation._chunks

    def slow(model, tokenizer, prompts, settings):
        for part in parts_of(model, tokenizer, prompts, settings):
            begun.set()
            assert settings.max_tokens < 3 or go.wait(60)
            yield part

    monkeypatch.setattr(generation, "_chunks", slow)
    asked = {
        "signature_name": "generate",
        "instances": ["the cat"],
        "stream": stream,
        "parameters": {"max_tokens": 3, "context": 8, "seed": 1},
    }
    with (
        running(language_model, "m", LimitSettings(max_waiting=3)) as server,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        found = [pool.submit(ask, server, body=asked) for _ in range(2)]
        assert begun.wait(20)
        wait_until(lambda: server._batching.rows_waiting == 2)
        assert ask(server, "GET", "/health") == (200, "ok\n")
        vector = {"signature_name": "vectors", "instances": ["a"]}
        for short in (
            vector,
            {"signature_name": "fill", "instances": ["a ___"]},
            dict(asked, parameters={"max_tokens": 2}),
        ):
            assert ask(server, body=short)[0] == 200
        found.append(pool.submit(ask, server, body=asked))
        wait_until(lambda: server._batching.rows_waiting == 3)
        for other in (asked, dict(asked, stream=not stream), vector):
            status, answer = ask(server, body=other)
            assert (
                status == 503
                and "3 examples wait already, and of 1 more at most 0 may" in answer["error"]
            )
        assert not any(one.done() for one in found)
        go.set()
        assert [one.result()[0] for one in found] == [200] * 3
        wait_until(lambda: server._batching.rows_waiting == 0)
