"""A model in use from Python: one text or many, of every task type. `tests/tasks/test_agreement.py`
compares the simple types with their prediction files."""

import concurrent.futures
import json
import pathlib
import shutil

import numpy as np
import pytest
from helpers import command
from helpers.models import make_model

import xlnet
from xlnet.tasks.task import InlineExample

pytestmark = pytest.mark.usefixtures("quick_start")

FILES = {
    "ranking": (
        "new.tsv",
        "query\tname\ttext_a\tdocument\nq\t2\tkamat\tsol mitel\nq\t1\tkamat\t"
        "telok\nq\t0\tkamat\tnokla laskit dakar\nr\t0\tsol\tmitel\nr\t1\tsol\trokmi\n",
    ),
    "tagging": (
        "new.conll",
        "kamat\ntelok\nsol\n\nmitel\ndakar\nlaskit\nnokla\nrokmi\nkamat\ntelok\nsolkat\nmitel\n\n",
    ),
    "spans": (
        "new.json",
        json.dumps(
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": "kamat telok rokmi kamat sol mitel solkat dakar laskit "
                                "nokla.",
                                "qas": [
                                    {"id": "1", "question": "sol?"},
                                    {"id": "2", "question": "nokla mitel?"},
                                ],
                            },
                            {
                                "context": "dakar sol",
                                "qas": [{"id": "3", "question": "kamat?"}],
                            },
                        ]
                    }
                ]
            }
        ),
    ),
}
PROGRAMS = {"tagging": "run_tagger.py", "spans": "run_squad.py"}


@pytest.fixture(scope="module")
def loaded(model_of):
    """Function from the name of a kind of task to its model, loaded once."""
    made = {}

    def get(kind):
        if kind not in made:
            made[kind] = xlnet.load(model_of(kind), device="cpu", batch_size=2)
        return made[kind]

    yield get
    for model in made.values():
        model.close()


def predicted(kind, model_of, directory):
    """Predicts the file of a kind with its program; returns the path of what was written, without
    the end of its name."""
    name, text = FILES[kind]
    (directory / name).write_text(text)
    command.succeed(
        PROGRAMS.get(kind, "run_classifier.py"),
        "--do_predict",
        model_dir=model_of(kind),
        predict_file=directory / name,
        predict_dir=directory,
        device="cpu",
    )
    return directory / "predictions_custom_new"


def test_ranks(loaded, model_of, tmp_path):
    model, written = loaded("ranking"), predicted("ranking", model_of, tmp_path)
    header, *lines = written.with_suffix(".tsv").read_text().splitlines()
    assert header.split("\t")[:3] == ["query", "id", "score"]
    scores = {}
    for line in lines:
        query, id, score = line.split("\t")[:3]
        scores[query, id] = float(score)
    rows = [line.split("\t") for line in FILES["ranking"][1].splitlines()[1:]]
    documents = [[row[3] for row in rows if row[0] == query] for query in "qr"]
    names = [[row[1] for row in rows if row[0] == query] for query in "qr"]
    ranked = model.rank(["kamat", "sol"], documents)
    for query, its_names, found in zip("qr", names, ranked):
        assert sorted(each.number for each in found) == list(range(len(its_names)))
        assert found == sorted(found, key=lambda each: -each.score)
        for each in found:
            expected = scores[query, its_names[each.number]]
            assert each.score == pytest.approx(expected, abs=3e-6)
    best = model.rank("sol", ["mitel", "rokmi"])
    assert [each.number for each in best] == [each.number for each in ranked[1]]


def test_tags(loaded, model_of, tmp_path):
    model, written = loaded("tagging"), predicted("tagging", model_of, tmp_path)
    blocks = FILES["tagging"][1].strip().split("\n\n")
    sentences = [tuple(block.split("\n")) for block in blocks]
    answers = model.tag(sentences)
    lines = written.with_suffix(".jsonl").read_text().splitlines()
    expected = [json.loads(line)["predicted"] for line in lines]
    assert [list(answer.tags) for answer in answers] == expected
    assert [answer.words for answer in answers] == sentences
    text = "  " + " ".join(sentences[1]) + ". "
    of_text = model.tag(text)
    assert of_text.words == (*sentences[1], ".")
    assert any(tag != "O" for tag in of_text.tags) and of_text.entities
    for entity in of_text.entities:
        assert text[entity.start : entity.end] == entity.text and entity.label == "PER"


def test_answers(loaded, model_of, tmp_path):
    """Also on paragraphs that are read in several windows."""
    model, written = loaded("spans"), predicted("spans", model_of, tmp_path)
    asked = []
    for paragraph in json.loads(FILES["spans"][1])["data"][0]["paragraphs"]:
        for question in paragraph["qas"]:
            asked.append((question["question"], paragraph["context"]))
    official, n_best, null = (
        json.loads(written.with_suffix(end).read_text())
        for end in (".json", ".nbest.json", ".na_prob.json")
    )
    answers = model.answer(*zip(*asked))
    assert len(answers) == len(asked) == 3
    for id, (_, context), answer in zip("123", asked, answers):
        assert answer.text == official[id]
        assert answer.null_probability == pytest.approx(null[id], abs=3e-6)
        if answer.text:
            assert context[answer.start : answer.end] == answer.text
        for span, best in zip(answer.best, n_best[id]):
            assert span.text == best["text"] == context[span.start : span.end]
            assert span.probability == pytest.approx(best["probability"], abs=3e-6)
    (question, context), (other, _) = asked[:2]
    again = model.answer([question, other], context)
    assert [each.text for each in again] == [each.text for each in answers[:2]]
    assert model.answer(question, context, threshold=1.0).text
    assert not model.answer(question, context, threshold=0.0).text


def test_a_row_has_as_many_choices_as_in_training(loaded):
    model = loaded("multiple_choice")
    with pytest.raises(xlnet.UserError, match="text 0: 4 answers, expected 3"):
        model.choose("a", ["b", "c", "e", "f"], "d")


# ---- any model


def sequences_of_the_network(model, ids_of_text):
    """What the documented API computes of a text: arrays [k,T,D], the embeddings first."""
    import tensorflow.compat.v1 as tf

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
    by_pooling = {}
    for pooling in ("none", "mean", "first", "last"):
        for layer in (0, -1):
            by_pooling[pooling, layer] = model.vectors(texts, layer, pooling)
    for number, text in enumerate(texts):
        ids = [*model.tokenizer.ids(text), *ends]
        sequences = sequences_of_the_network(model, ids)
        for layer in (0, -1):
            expected = dict(
                none=sequences[layer],
                mean=sequences[layer].mean(axis=0),
                first=sequences[layer][0],
                last=sequences[layer][-1],
            )
            for pooling, values in expected.items():
                found = by_pooling[pooling, layer][number]
                np.testing.assert_allclose(found, values, atol=1e-5)
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
    assert caplog.messages == [
        "note: 1 text(s) of 2 are cut to 32 tokens; it is said once"
    ]


ITEMS = {  # of each task type, and the same as arguments of its method
    "multi_label": (["kamat telok", "sol"], [["kamat telok", "sol"]]),
    "classification": (
        [("kamat", "sol"), ("sol", "mi")],
        [[("kamat", "sol"), ("sol", "mi")]],
    ),
    "regression": (["kamat telok", "sol"], [["kamat telok", "sol"]]),
    "multiple_choice": (
        [("kamat", ["sol", "mi", "ka"], "sol _"), ("sol", ["ka", "sol", "mi"], "_")],
        [["kamat", "sol"], [["sol", "mi", "ka"], ["ka", "sol", "mi"]], ["sol _", "_"]],
    ),
    "ranking": (
        [("kamat", ["sol", "telok"]), ("sol", ["mitel"]), ("sol", [])],
        [["kamat", "sol", "sol"], [["sol", "telok"], ["mitel"], []]],
    ),
    "tagging": (
        ["kamat telok.", ("sol", "mitel")],
        [["kamat telok.", ("sol", "mitel")]],
    ),
    "spans": (
        [("sol?", "kamat sol"), ("telok?", "mitel")],
        [["sol?", "telok?"], ["kamat sol", "mitel"]],
    ),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_any_task_type_is_predicted_in_the_same_way(loaded, kind):
    """By its method or `predict`; of a list, a generator or one item; beside bad ones."""
    model, (items, arguments) = loaded(kind), ITEMS[kind]
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
    np.testing.assert_allclose(
        first[:5],
        model.vectors(["kamat " * n for n in range(1, 6)], layer=0),
        atol=1e-6,
    )
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
        return list(answer.probabilities.values()), model.vectors(text)

    alone = list(map(ask, texts))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for ours, others in zip(alone, pool.map(ask, texts)):
            np.testing.assert_array_equal(ours[0], others[0])
            np.testing.assert_array_equal(ours[1], others[1])


def test_a_model_says_what_it_cannot(loaded):
    model, spans, ranking = map(loaded, ("multi_label", "spans", "ranking"))
    pairs = loaded("classification")
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
    for path in pathlib.Path(model_of("multi_label")).iterdir():
        if path.is_file() and path.name != "run.json":
            shutil.copy(path, tmp_path)
    with xlnet.load(str(tmp_path), device="cpu") as model:
        assert (model.task, model.verb, model.labels) == (None, None, None)
        np.testing.assert_array_equal(
            model.vectors("kamat"), loaded("multi_label").vectors("kamat")
        )
        with pytest.raises(xlnet.UserError, match="a pretrained one"):
            model.classify("kamat")
    with pytest.raises(RuntimeError, match="closed"):
        model.vectors("kamat")


def test_each_process_of_a_launcher_has_a_model_of_its_own(
    loaded, model_of, monkeypatch
):
    """Only training takes the processes of srun for the hosts of one run."""
    for name, value in (("NUM_TASKS", "4"), ("NODELIST", "node1")):
        monkeypatch.setenv("SLURM_STEP_" + name, value)
    monkeypatch.setenv("SLURM_PROCID", "1")
    with xlnet.load(model_of("multi_label"), device="cpu") as model:
        np.testing.assert_array_equal(
            model.vectors("kamat"), loaded("multi_label").vectors("kamat")
        )
