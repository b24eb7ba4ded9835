"""A model in use from Python: one text or many, of every task type. `tests/tasks/test_agreement.py`
compares the simple types with their prediction files."""

import concurrent.futures
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers import command
from helpers.models import make_model

import xlnet
from xlnet.tasks.fields import InlineExample

pytestmark = pytest.mark.usefixtures("quick_start")

DOCUMENTS = {
    "kamat": ["sol mitel", "telok", "nokla laskit dakar"],
    "sol": ["mitel", "rokmi"],
}
SENTENCES = [
    ("kamat", "telok", "sol"),
    tuple("mitel dakar laskit nokla rokmi kamat telok solkat mitel".split()),
]
LONG = "kamat telok rokmi kamat sol mitel solkat dakar laskit nokla."
QUESTIONS = [("sol?", LONG), ("nokla mitel?", LONG), ("kamat?", "dakar sol")]


@pytest.fixture
def predicted(model_of, tmp_path):
    """Function that predicts the lines of a file with a program; returns the path of what was
    written, without the end of its name."""

    def predict(program, kind, name, lines):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        command.succeed(
            program,
            "--do_predict",
            model_dir=model_of(kind),
            predict_file=tmp_path / name,
            predict_dir=tmp_path,
            device="cpu",
        )
        return tmp_path / "predictions_custom_new"

    return predict


def test_ranks(loaded, predicted):
    model, rows = loaded("ranking"), ["query\tname\ttext_a\tdocument"]
    for query, documents in DOCUMENTS.items():
        for number, document in enumerate(documents):
            rows.append(f"{query}\t{number}\t{query}\t{document}")
    written = predicted("run_classifier.py", "ranking", "new.tsv", rows)
    header, *lines = written.with_suffix(".tsv").read_text().splitlines()
    assert header.split("\t")[:3] == ["query", "id", "score"]
    scores = {}
    for line in lines:
        query, id, score = line.split("\t")[:3]
        scores[query, int(id)] = float(score)
    ranked = model.rank(list(DOCUMENTS), list(DOCUMENTS.values()))
    for (query, documents), found in zip(DOCUMENTS.items(), ranked):
        assert sorted(each.number for each in found) == list(range(len(documents)))
        assert found == sorted(found, key=lambda each: -each.score)
        for each in found:
            assert each.score == pytest.approx(scores[query, each.number], abs=3e-6)
    best = model.rank("sol", DOCUMENTS["sol"])
    assert [each.number for each in best] == [each.number for each in ranked[1]]


def test_tags(loaded, predicted):
    model = loaded("tagging")
    blocks = ["\n".join(words) + "\n" for words in SENTENCES]
    written = predicted("run_tagger.py", "tagging", "new.conll", blocks)
    answers = model.tag(SENTENCES)
    lines = written.with_suffix(".jsonl").read_text().splitlines()
    expected = [json.loads(line)["predicted"] for line in lines]
    assert [list(answer.tags) for answer in answers] == expected
    assert [answer.words for answer in answers] == SENTENCES
    text = "  " + " ".join(SENTENCES[1]) + ". "
    of_text = model.tag(text)
    assert of_text.words == (*SENTENCES[1], ".")
    assert any(tag != "O" for tag in of_text.tags) and of_text.entities
    for entity in of_text.entities:
        assert text[entity.start : entity.end] == entity.text and entity.label == "PER"


def test_answers(loaded, predicted):
    """Also on paragraphs that are read in several windows."""
    model, rows = loaded("spans"), []
    for number, (question, context) in enumerate(QUESTIONS):
        row = dict(id=str(number), question=question, context=context)
        rows.append(json.dumps(row))
    written = predicted("run_squad.py", "spans", "new.jsonl", rows)
    official, n_best, null = (
        json.loads(written.with_suffix(end).read_text())
        for end in (".json", ".nbest.json", ".na_prob.json")
    )
    answers = model.answer(*zip(*QUESTIONS))
    assert len(answers) == len(QUESTIONS) == 3
    for id, (_, context), answer in zip("012", QUESTIONS, answers):
        assert answer.text == official[id]
        assert answer.null_probability == pytest.approx(null[id], abs=3e-6)
        if answer.text:
            assert context[answer.start : answer.end] == answer.text
        for span, best in zip(answer.best, n_best[id]):
            assert span.text == best["text"] == context[span.start : span.end]
            assert span.probability == pytest.approx(best["probability"], abs=3e-6)
    (question, context), (other, _) = QUESTIONS[:2]
    again = model.answer([question, other], context)
    assert [each.text for each in again] == [each.text for each in answers[:2]]
    assert model.answer(question, context, threshold=1.0).text
    assert not model.answer(question, context, threshold=0.0).text


# ---- any model


def sequences_of_the_network(model, ids_of_text):
    """What the documented API computes of a text: arrays [k,T,D], the embeddings first."""
    config = model.loaded.config
    run = xlnet.RunConfig(False, False, False, 0.0, 0.0, mem_len=99)
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.constant(ids_of_text)[:, None]
        segments = tf.constant([[0]] * (len(ids_of_text) - 1) + [[2]])
        network = xlnet.XLNetModel(config, run, ids, segments, None)
        tf.train.Saver().restore(session, model.loaded.prefix)
        layers = [*network.get_new_memory(), network.get_sequence_output()]
        return np.stack(session.run(layers))[:, :, 0]


def test_vectors(loaded):
    model = loaded("multi_label")
    ends = [model.tokenizer.sep_id, model.tokenizer.cls_id]
    texts = ["kamat telok sol", "mitel", "dakar laskit nokla rokmi"]
    ids = [[*model.tokenizer.ids(text), *ends] for text in texts]
    expected = [sequences_of_the_network(model, each) for each in ids]
    for layer in (0, -1):
        for pooling, pooled in (
            ("none", lambda values: values),
            ("mean", lambda values: values.mean(axis=0)),
            ("first", lambda values: values[0]),
            ("last", lambda values: values[-1]),
        ):
            found = model.vectors(texts, layer, pooling)
            for one, layers in zip(found, expected):
                np.testing.assert_allclose(one, pooled(layers[layer]), atol=1e-5)
    one = model.vectors(texts[0], layer=0)
    assert one.shape == (16,) and one.dtype == np.float32
    assert model.vectors([]) == []


def test_vectors_are_of_what_the_task_reads(tmp_path):
    """They were of the beginning of a text of which the model classified others."""
    text = "kamat telok<br />sol mitel dakar laskit nokla rokmi kamat"
    path = make_model(tmp_path / "m", "imdb", max_seq_length=16)
    with xlnet.load(path, device="cpu") as model:
        tuned = model.loaded.tuned
        reader = tuned.task
        row = reader.row(InlineExample(text))
        records, _, _ = reader.encode([row], model.tokenizer, tuned.layout)
        states = sequences_of_the_network(model, records["input_ids"][0])
        found = model.vectors(text, pooling="none")
        np.testing.assert_allclose(found, states[-1], atol=1e-5)


def test_what_is_cut_is_said(loaded, caplog):
    """Once."""
    model = loaded("multi_label")
    for _ in range(2):
        model.vectors(["kamat " * 20, "sol"])
    said = "note: 1 text(s) of 2 are cut to 32 tokens; it is said once"
    assert caplog.messages == [said]


def test_a_prompt_that_is_cut_is_said(permuted, caplog):
    with xlnet.load(permuted.folder, device="cpu") as model:
        model.generate(["the cat " * 300, "the cat"], max_tokens=1)
    assert caplog.messages == [
        "note: 1 text(s) of 2 are cut to 512 tokens; it is said once"
    ]


ITEMS = {  # of each task type
    "multi_label": ["kamat telok", "sol"],
    "classification": [("kamat", "sol"), ("sol", "mi")],
    "regression": ["kamat telok", "sol"],
    "multiple_choice": [
        ("kamat", ["sol", "mi", "ka"], "sol _"),
        ("sol", ["ka", "sol", "mi"], "_"),
    ],
    "ranking": [("kamat", ["sol", "telok"]), ("sol", ["mitel"]), ("sol", [])],
    "tagging": ["kamat telok.", ("sol", "mitel")],
    "spans": [("sol?", "kamat sol"), ("telok?", "mitel")],
}
HAVE_PARTS = ("multiple_choice", "ranking", "spans")  # arguments of their methods


@pytest.mark.parametrize("kind", ITEMS)
def test_any_task_type_is_predicted_in_the_same_way(loaded, kind):
    """By its method or `predict`; of a list, a generator or one item; beside bad ones."""
    model, items = loaded(kind), ITEMS[kind]
    arguments = list(map(list, zip(*items))) if kind in HAVE_PARTS else [items]
    expected = list(getattr(model, model.verb)(*arguments))
    assert list(getattr(model, model.verb)(*map(iter, arguments))) == expected
    assert model.predict(items) == expected and model.predict([]) == []
    assert list(model.pipe(iter(items), model.verb)) == expected
    assert model.predict(items[-1]) == model.predict(items[-1:])[0]
    assert type(model.predict(items[0])) is type(expected[0]) or kind == "regression"
    mixed = [3, items[0], (1, 2, 3, 4), items[1]]
    found = list(model.pipe(mixed, errors="return"))
    assert [type(found[number]) for number in (0, 2)] == [xlnet.UserError] * 2
    assert [found[1], found[3]] == model.predict(items[:2])


def test_a_generator_is_read_as_far_as_results_are_asked_for(loaded):
    """In batches of a batch; errors are named by their number in all."""
    model, seen = loaded("multi_label"), []

    def endless():
        for number in range(10**9):
            seen.append(number)
            yield " " if number == 37 else "kamat " * (number % 5 + 1)

    results = model.pipe(endless(), "vectors", layer=0)
    assert not seen
    first = [next(results) for _ in range(33)]
    assert len(seen) == 48  # three times eight batches of two
    texts = ["kamat " * number for number in range(1, 6)]
    expected = model.vectors(texts, layer=0)
    np.testing.assert_allclose(first[:5], expected, atol=1e-6)
    results = model.pipe(endless())
    with pytest.raises(xlnet.UserError, match="text 37: the text is empty"):
        list(results)
    results = model.pipe(endless(), errors="return")
    found = [next(results) for _ in range(39)]
    assert isinstance(found[37], xlnet.UserError) and found[38] == found[3]


def test_threads_get_the_answers_of_one(loaded):
    """16 of them, the network's two parts at once."""
    model = loaded("multi_label")
    texts = ["kamat telok", "sol", "mitel dakar laskit nokla", "rokmi"] * 8

    def ask(text):
        answer = model.classify(text)
        return [*answer.probabilities.values(), *model.vectors(text)]

    alone = list(map(ask, texts))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for ours, others in zip(alone, pool.map(ask, texts)):
            np.testing.assert_array_equal(ours, others)


def test_a_model_says_what_it_cannot(loaded):
    model, spans, ranking = map(loaded, ("multi_label", "spans", "ranking"))
    pairs, choice = map(loaded, ("classification", "multiple_choice"))
    for asked, said in (
        (lambda: model.score("a"), "model: found one of multi_label, whose method is"),
        (lambda: model.classify(("a", "b")), "text 0: expected one text, not a pair"),
        (lambda: model.classify(["a", " "]), "text 1: the text is empty"),
        (lambda: model.vectors("a\ud800"), r"text 0: text: found 'a\ud800', expected"),
        (lambda: list(model.pipe(["a"], top_k=1)), "settings: found 'top_k', expected"),
        (lambda: model.classify("a", threshold=2), "threshold: found 2, expected at"),
        (lambda: pairs.classify("a"), "text 0: expected a pair of texts"),
        (lambda: pairs.classify(("a", "b"), threshold=0.3), "threshold: found 0.3"),
        (lambda: spans.answer(3, "c"), "question: found 3, expected a list"),
        (lambda: spans.answer(["a", "b"], ["c"]), "question, context: found lists of"),
        (lambda: spans.predict("a"), "text 0: text: found 'a', expected (question,"),
        (lambda: choice.choose("a", ["b"] * 4, "d"), "text 0: 4 answers, expected"),
        (lambda: ranking.rank("a", 3), "text 0: documents: found 3, expected a list"),
        (lambda: ranking.rank("a", ["b", " "]), "text 0: document 1: the second text"),
    ):
        with pytest.raises(xlnet.UserError) as raised:
            asked()
        assert str(raised.value).startswith(said)


def test_a_model_that_is_pretrained_alone_is_closed_at_the_end(
    loaded, model_of, tmp_path
):
    """Its directory has no run.json; it has vectors."""
    expected = loaded("multi_label").vectors("kamat")
    for path in pathlib.Path(model_of("multi_label")).iterdir():
        if path.is_file() and path.name != "run.json":
            shutil.copy(path, tmp_path)
    with xlnet.load(str(tmp_path), device="cpu") as model:
        assert (model.task, model.verb, model.labels) == (None, None, None)
        np.testing.assert_array_equal(model.vectors("kamat"), expected)
        with pytest.raises(xlnet.UserError, match="a pretrained one"):
            model.classify("kamat")
    with pytest.raises(RuntimeError, match="closed"):
        model.vectors("kamat")


def test_each_process_of_a_launcher_has_a_model_of_its_own(
    loaded, model_of, monkeypatch
):
    """Only training takes the processes of srun for the hosts of one run."""
    expected = loaded("multi_label").vectors("kamat")
    for name, value in (("NUM_TASKS", "4"), ("NODELIST", "node1")):
        monkeypatch.setenv("SLURM_STEP_" + name, value)
    monkeypatch.setenv("SLURM_PROCID", "1")
    with xlnet.load(model_of("multi_label"), device="cpu") as model:
        np.testing.assert_array_equal(model.vectors("kamat"), expected)
