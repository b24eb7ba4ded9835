"""A model in use from Python: the answers of the prediction files, for one text or many."""

import collections
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
    "classification": (
        "new.tsv",
        "first\tsecond\nkamat telok rokmi kamat sol mitel solkat dakar"
        " laskit nokla nokla\tsol\nkamat\tmitel dakar\nnokla laskit nokla\tkamat\n",
    ),
    "multi_label": (
        "new.tsv",
        "text_a\nkamat telok\nsol\nmitel dakar laskit nokla\nrokmi\n",
    ),
    "regression": (
        "new.tsv",
        "text_a\nkamat telok rokmi kamat sol mitel solkat dakar laskit\nsol\n",
    ),
    "multiple_choice": (
        "new.tsv",
        "text_a\tquestion\ta\tb\tc\nkamat telok\tsol _ mi\tkamat\ttelok"
        "\trokmi\nmitel\tdakar\tnokla\tlaskit sol\tka\n",
    ),
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


class Kept:
    """A model directory of a kind of task, its model, and what a program predicts with it."""

    def __init__(self, directory, path, kind):
        name, text = FILES[kind]
        (directory / name).write_text(text)
        self.path = path
        done = command.run(
            PROGRAMS.get(kind, "run_classifier.py"),
            "--model_dir=" + path,
            "--do_predict",
            "--predict_file=%s" % (directory / name),
            f"--predict_dir={directory}",
            "--device=cpu",
        )
        assert done.returncode == 0, done.stderr
        self.stem = directory / "predictions_custom_new"
        self.model = xlnet.load(self.path, device="cpu", batch_size=2)

    def table(self):
        """Rows of the prediction file, dicts."""
        header, *lines = [
            line.split("\t")
            for line in self.stem.with_suffix(".tsv").read_text().splitlines()
        ]
        return [dict(zip(header, line)) for line in lines]


@pytest.fixture(scope="module")
def kept(tmp_path_factory, model_of):
    """Function from the name of a kind to its `Kept`, made once."""
    made = {}

    def get(kind):
        if kind not in made:
            made[kind] = Kept(tmp_path_factory.mktemp(kind), model_of(kind), kind)
        return made[kind]

    yield get
    for each in made.values():
        each.model.close()


def cells(kind):
    """The rows of a file, without its header."""
    return [line.split("\t") for line in FILES[kind][1].splitlines()[1:]]


def test_labels(kept):
    """Also of texts that are read in several windows."""
    found, pairs = kept("classification"), list(map(tuple, cells("classification")))
    answers = found.model.classify(pairs)
    assert len(answers) == len(found.table()) == len(pairs)
    for answer, row in zip(answers, found.table()):
        assert list(answer.probabilities) == ["animal", "plant", "stone"]
        assert answer.label == row["label"]
        assert answer.probability == max(answer.probabilities.values())
        for name, value in answer.probabilities.items():
            assert value == pytest.approx(float(row["p_" + name]), abs=3e-6)
    assert found.model.classify(pairs[1])[2] == pytest.approx(answers[1][2], rel=1e-5)
    assert (
        repr(found.model)
        == f"<xlnet model {found.path}/model.ckpt-1: custom, classify()>"
    )


def test_any_number_of_labels(kept):
    found, texts = kept("multi_label"), FILES["multi_label"][1].split("\n")[1:-1]
    answers = found.model.classify(np.array(texts))
    assert [",".join(answer.labels) for answer in answers] == [
        row["labels"] for row in found.table()
    ]
    assert len({answer.labels for answer in answers}) > 1
    np.testing.assert_allclose(
        [list(answer.probabilities.values()) for answer in answers],
        [
            [float(row["p_" + name]) for name in found.model.labels]
            for row in found.table()
        ],
        atol=3e-6,
    )
    assert found.model.classify(texts[0], threshold=0).labels == found.model.labels


def test_scores(kept):
    """Also of texts that are read segment by segment."""
    found, texts = kept("regression"), FILES["regression"][1].split("\n")[1:-1]
    scores = found.model.score(texts)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(
        scores, [float(row["score"]) for row in found.table()], atol=3e-6
    )
    assert found.model.score(texts[1]) == pytest.approx(scores[1], rel=1e-5)


def test_choices(kept):
    found, rows = kept("multiple_choice"), cells("multiple_choice")
    texts, questions, choices = (
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2:] for row in rows],
    )
    answers = found.model.choose(texts, choices, questions)
    assert len(answers) == len(found.table()) == len(texts)
    for answer, row in zip(answers, found.table()):
        assert answer.label == row["label"] == "abc"[answer.number]
        assert answer.probabilities == pytest.approx(
            [float(row["p_" + name]) for name in "abc"], abs=3e-6
        )
    one = found.model.choose(texts[1], choices[1], questions[1])
    assert (one.number, one.probabilities) == (
        answers[1].number,
        pytest.approx(answers[1].probabilities, rel=1e-5),
    )
    with pytest.raises(xlnet.UserError, match="text 0: 4 answers, expected 3"):
        found.model.choose("a", ["b", "c", "e", "f"], "d")


def test_ranks(kept):
    found, rows = kept("ranking"), cells("ranking")
    ranked = found.model.rank(
        ["kamat", "sol"],
        [[row[3] for row in rows if row[0] == query] for query in "qr"],
    )
    names = {query: [row[1] for row in rows if row[0] == query] for query in "qr"}
    scores = {(row["query"], row["id"]): float(row["score"]) for row in found.table()}
    for query, documents in zip("qr", ranked):
        assert sorted(each.number for each in documents) == list(
            range(len(names[query]))
        )
        assert [each.score for each in documents] == sorted(
            (each.score for each in documents), reverse=True
        )
        for each in documents:
            assert each.score == pytest.approx(
                scores[query, names[query][each.number]], abs=3e-6
            )
    best = found.model.rank("sol", ["mitel", "rokmi"])
    assert [each.number for each in best] == [each.number for each in ranked[1]]


def test_tags(kept):
    found = kept("tagging")
    sentences = [
        tuple(lines.split("\n")) for lines in FILES["tagging"][1].strip().split("\n\n")
    ]
    answers = found.model.tag(sentences)
    lines = found.stem.with_suffix(".jsonl").read_text().splitlines()
    written = [json.loads(line)["predicted"] for line in lines]
    assert [list(answer.tags) for answer in answers] == written
    assert [answer.words for answer in answers] == sentences
    text = "  " + " ".join(sentences[1]) + ". "
    of_text = found.model.tag(text)
    assert of_text.words == (*sentences[1], ".")
    assert any(tag != "O" for tag in of_text.tags) and of_text.entities
    for entity in of_text.entities:
        assert text[entity.start : entity.end] == entity.text and entity.label == "PER"
    with pytest.raises(xlnet.UserError, match="text 0: found "):
        found.model.tag(" ")


def test_answers(kept):
    """Also on paragraphs that are read in several windows."""
    found = kept("spans")
    asked = [
        (question["question"], paragraph["context"])
        for paragraph in json.loads(FILES["spans"][1])["data"][0]["paragraphs"]
        for question in paragraph["qas"]
    ]
    official, n_best, null = (
        json.loads(found.stem.with_suffix(end).read_text())
        for end in (".json", ".nbest.json", ".na_prob.json")
    )
    answers = found.model.answer(*zip(*asked))
    assert len(answers) == len(asked) == 3
    for id, (_, context), answer in zip("123", asked, answers):
        assert answer.text == official[id]
        assert answer.null_probability == pytest.approx(null[id], abs=3e-6)
        assert (
            answer.start is None
            if not answer.text
            else context[answer.start : answer.end] == answer.text
        )
        assert [span.text for span in answer.best] == [
            best["text"] for best in n_best[id]
        ]
        assert [span.probability for span in answer.best] == pytest.approx(
            [best["probability"] for best in n_best[id]], abs=3e-6
        )
        assert all(context[span.start : span.end] == span.text for span in answer.best)
    (question, context), (other, _) = asked[:2]
    assert [each.text for each in found.model.answer([question, other], context)] == [
        each.text for each in answers[:2]
    ]
    assert found.model.answer(question, context, threshold=1.0).text
    assert not found.model.answer(question, context, threshold=0.0).text


# ---- any model


def sequences_of_the_network(model, texts):
    """What the documented API computes of each text alone: arrays [k,T,D], the embeddings first."""
    import tensorflow.compat.v1 as tf

    config = model.loaded.config
    run = xlnet.RunConfig(False, False, False, 0.0, 0.0, mem_len=99)
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.placeholder(tf.int32, [None, 1])
        segments = tf.placeholder(tf.int32, [None, 1])
        network = xlnet.XLNetModel(config, run, ids, segments, None)
        tf.train.Saver().restore(session, model.loaded.prefix)
        layers = [*network.get_new_memory(), network.get_sequence_output()]
        found = []
        for text in texts:
            of_text = model.encode(text)
            found.append(
                np.stack(
                    session.run(
                        layers,
                        {
                            ids: of_text[:, None],
                            segments: [[0]] * (len(of_text) - 1) + [[2]],
                        },
                    )
                )[:, :, 0]
            )
    return found


def test_vectors(kept):
    model = kept("multi_label").model
    texts = ["kamat telok sol", "mitel", "dakar laskit nokla rokmi"]
    expected = sequences_of_the_network(model, texts)
    tokens = model.vectors(texts, layers=[0, 1], pooling="none")
    for ours, theirs in zip(tokens, expected):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    pooled = {
        "mean": [layers.mean(axis=1) for layers in expected],
        "first": [layers[:, 0] for layers in expected],
        "last": [layers[:, -1] for layers in expected],
    }
    for pooling, values in pooled.items():
        np.testing.assert_allclose(
            model.vectors(texts, (-2, -1), pooling), values, atol=1e-5
        )
        np.testing.assert_allclose(
            model.vectors(texts, pooling=pooling),
            [layers[1] for layers in values],
            atol=1e-5,
        )
    one = model.vectors(texts[0], layers=0)
    assert one.shape == (16,) and one.dtype == np.float32
    np.testing.assert_allclose(one, pooled["mean"][0][0], atol=1e-5)
    assert model.vectors([]) == []
    unit = pooled["mean"] / np.linalg.norm(pooled["mean"], axis=-1, keepdims=True)
    np.testing.assert_allclose(
        model.vectors(texts, [0, 1], normalize=True), unit, atol=1e-5
    )


def test_ids(kept):
    model = kept("classification").model
    one, pair = model.encode(["kamat telok", ("kamat", "telok")])
    sep, cls = model.tokenizer.sep_id, model.tokenizer.cls_id
    assert one.tolist() == [*model.tokenizer.ids("kamat telok"), sep, cls]
    assert pair.tolist() == [
        *model.tokenizer.ids("kamat"),
        sep,
        *model.tokenizer.ids("telok"),
        sep,
        cls,
    ]
    assert (pair == model.encode(("kamat", "telok"))).all() and pair.dtype == np.int32


@pytest.mark.parametrize(
    "kind, changes", [("multi_label", dict(long_document="truncate")), ("imdb", {})]
)
def test_ids_and_vectors_are_of_what_the_task_reads(tmp_path, kind, changes):
    """`encode` showed the beginning of a text of which the model classified others."""
    text = "kamat telok<br />sol mitel dakar laskit nokla rokmi kamat"
    path = make_model(tmp_path / "m", kind, max_seq_length=16, **changes)
    with xlnet.load(path, device="cpu") as model:
        tuned = model.loaded.tuned
        reader = tuned.task.reader
        row = reader.row("0", InlineExample(text))
        records, _ = reader.encode(
            list(reader.examples([row])), model.tokenizer, tuned.layout
        )
        (expected,) = records["input_ids"]
        assert model.encode(text).tolist() == expected.tolist()
        states = sequences_of_the_network(model, [text])
        np.testing.assert_allclose(
            model.vectors(text), states[0][1].mean(axis=0), atol=1e-5
        )
        assert len(model.vectors(text, pooling="none")) == len(expected)


def test_what_is_cut_is_said(kept, caplog):
    """Once."""
    model = kept("multi_label").model
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
def test_any_task_type_is_predicted_in_the_same_way(kept, kind):
    model, (items, arguments) = kept(kind).model, ITEMS[kind]
    expected = list(getattr(model, model.verb)(*arguments))
    assert model.predict(items) == expected and model.predict([]) == []
    assert list(model.pipe(iter(items))) == expected
    assert model.predict(items[-1]) == model.predict(items[-1:])[0]
    assert type(model.predict(items[0])) is type(expected[0]) or kind == "regression"
    mixed = [3, items[0], (1, 2, 3, 4), items[1]]
    found = list(model.pipe(mixed, errors="return"))
    assert [type(found[number]) for number in (0, 2)] == [xlnet.UserError] * 2
    again = model.predict(items[:2])
    assert [found[1], found[3]] == again


def test_a_generator_is_read_as_far_as_results_are_asked_for(kept):
    """In batches of a batch; errors are named by their number in all."""
    model, seen = kept("multi_label").model, []

    def endless():
        for number in range(10**9):
            seen.append(number)
            yield " " if number == 37 else "kamat " * (number % 5 + 1)

    results = model.pipe(endless(), "vectors", layers=0, normalize=True)
    assert not seen
    first = [next(results) for _ in range(33)]
    assert len(seen) == 48  # three times eight batches of two
    np.testing.assert_allclose(
        first[:5],
        model.vectors(["kamat " * n for n in range(1, 6)], layers=0, normalize=True),
        atol=1e-6,
    )
    results = model.pipe(endless())
    with pytest.raises(xlnet.UserError, match="text 37: the text is empty"):
        list(results)
    results = model.pipe(endless(), errors="return")
    found = [next(results) for _ in range(39)]
    assert isinstance(found[37], xlnet.UserError) and found[38] == found[3]


def test_empty_lists_give_results_of_the_right_width(kept):
    model = kept("multi_label").model
    assert kept("regression").model.score([]).shape == (0,)
    assert model.encode([]) == [] and model.classify(np.array([])) == []


def test_threads_get_the_answers_of_one(kept):
    """16 of them, the network's two parts at once."""
    model = kept("multi_label").model
    texts = FILES["multi_label"][1].split("\n")[1:5] * 8

    def ask(text):
        answer = model.classify(text)
        return list(answer.probabilities.values()), model.vectors(text)

    alone = list(map(ask, texts))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for ours, others in zip(alone, pool.map(ask, texts)):
            np.testing.assert_array_equal(ours[0], others[0])
            np.testing.assert_array_equal(ours[1], others[1])


ITERABLES = {
    "iterator": iter,
    "keys": lambda items: dict.fromkeys(items).keys(),
    "deque": collections.deque,
}


@pytest.mark.parametrize("kind", sorted(ITERABLES))
def test_calls_and_pipe_take_the_same_iterables(kept, kind):
    make = ITERABLES[kind]
    texts = ["kamat", "telok rokmi"]
    pairs = [("kamat", "telok"), ("a", "b")]
    questions = [("sol", "kamat sol"), ("ka", "ka rokmi")]
    choices = [
        ("kamat", ("a", "b", "c"), "which _"),
        ("mitel", ("a", "b", "d"), "which"),
    ]
    documents = [("kamat", ("mitel", "dakar")), ("sol", ("laskit",))]
    for task, verb, items in (
        ("multi_label", "classify", texts),
        ("classification", "classify", pairs),
        ("classification", "explain", pairs),
        ("regression", "score", texts),
        ("tagging", "tag", texts),
        ("multi_label", "vectors", texts),
    ):
        model = kept(task).model
        expected = getattr(model, verb)(items)
        for found in (
            getattr(model, verb)(make(items)),
            list(model.pipe(make(items), verb)),
        ):
            assert len(found) == len(items)
            np.testing.assert_equal(_plain(found), _plain(expected))
    for task, verb, items in (
        ("spans", "answer", questions),
        ("multiple_choice", "choose", choices),
        ("ranking", "rank", documents),
    ):
        model = kept(task).model
        columns = [[item[number] for item in items] for number in range(len(items[0]))]
        expected = getattr(model, verb)(*columns)
        assert list(model.pipe(make(items), verb)) == expected
        assert getattr(model, verb)(*map(make, columns)) == expected


def _plain(found):
    """Results as nests of what NumPy compares."""
    return [each._asdict() if hasattr(each, "_asdict") else each for each in found]


def test_a_model_says_what_it_cannot(kept):
    model = kept("multi_label").model
    for asked, said in (
        (
            lambda: xlnet.load("a", device="host"),
            "device: found 'host', expected one of auto, gpu, cpu",
        ),
        (
            lambda: model.score("a"),
            "model: found one of multi_label, whose method is classify, expected one with the "
            "method score",
        ),
        (lambda: model.classify(("a", "b")), "text 0: expected one text, not a pair"),
        (lambda: model.classify(["a", " "]), "text 1: the text is empty"),
        (
            lambda: model.classify(3),
            "text 0: text: found 3, expected a text of characters",
        ),
        (
            lambda: model.vectors("a", layers=2),
            "layers: found 2, expected a list of numbers from -2 to 1, such as [1]",
        ),
        (
            lambda: model.encode("a\ud800"),
            r"text 0: text: found 'a\ud800', expected a text of characters",
        ),
        (
            lambda: model.classify("a", threshold=2),
            "threshold: found 2, expected at least 0 and at most 1",
        ),
        (
            lambda: kept("classification").model.classify("a"),
            "text 0: expected a pair of texts",
        ),
        (
            lambda: kept("spans").model.answer(3, "c"),
            "question: found 3, expected a list",
        ),
        (
            lambda: kept("ranking").model.rank("a", 3),
            "text 0: documents: found 3, expected a list",
        ),
        (
            lambda: kept("ranking").model.rank("a", ["b", " "]),
            "text 0: document 1: the second text is empty",
        ),
        (
            lambda: kept("classification").model.classify(("a", "b"), threshold=0.3),
            "threshold: found 0.3, expected none for custom",
        ),
        (
            lambda: kept("spans").model.predict("a"),
            "text 0: text: found 'a', expected (question, context)",
        ),
        (
            lambda: kept("spans").model.answer(["a", "b"], ["c"]),
            "question, context: found lists of 2 and 1, expected as many of each",
        ),
    ):
        with pytest.raises(xlnet.UserError) as raised:
            asked()
        assert str(raised.value) == said


def test_a_model_that_is_pretrained_alone_is_closed_at_the_end(kept, tmp_path):
    """Its directory has no run.json; it has vectors."""
    tuned = kept("multi_label")
    for path in pathlib.Path(tuned.path).iterdir():
        if path.is_file() and path.name != "run.json":
            shutil.copy(path, tmp_path)
    with xlnet.load(str(tmp_path), device="cpu") as model:
        assert (model.task, model.verb, model.labels) == (None, None, None)
        np.testing.assert_array_equal(
            model.vectors("kamat"), tuned.model.vectors("kamat")
        )
        with pytest.raises(xlnet.UserError, match="a pretrained one"):
            model.classify("kamat")
    with pytest.raises(RuntimeError, match="closed"):
        model.vectors("kamat")


def test_each_process_of_a_launcher_has_a_model_of_its_own(kept, monkeypatch):
    """Only training takes the processes of srun for the hosts of one run."""
    for name, value in (("NUM_TASKS", "4"), ("NODELIST", "node1")):
        monkeypatch.setenv("SLURM_STEP_" + name, value)
    monkeypatch.setenv("SLURM_PROCID", "1")
    tuned = kept("multi_label")
    with xlnet.load(tuned.path, device="cpu") as model:
        np.testing.assert_array_equal(
            model.vectors("kamat"), tuned.model.vectors("kamat")
        )
