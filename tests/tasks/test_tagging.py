"""The kind of task whose answers are tags: from files to rows, records and answers."""

import dataclasses
import json
import re

import numpy as np
import pytest
from helpers import tasks
from helpers.paths import DATA, FOLDERS, SPIECE
from helpers.tasks import read_rows

from xlnet.errors import UserError
from xlnet.settings.finetuning import TaggerSettings
from xlnet.tasks.features.encoding import Layout
from xlnet.tasks.files import parsing, readers
from xlnet.tasks.task import InlineExample
from xlnet.tasks.types import custom, known
from xlnet.tasks.types.tagging import Tags
from xlnet.tokenization.tokenizer import Tokenizer

TRAIN = "EU I-ORG\nsaid O\n\nPeter I-PER\nBlackburn I-PER\nParis I-LOC\nRome B-LOC\n"


def write(directory, name, text):
    (directory / name).write_text(text, encoding="utf-8")


def settings(directory, **more):
    return tasks.settings(directory, TaggerSettings, **more)


def make_task(directory, train=TRAIN, scheme="iob1", **more):
    write(directory, "train.txt", train)
    return custom.resolve_task(settings(directory, scheme=scheme, **more))


def test_sentences_of_several_files_stay_apart_in_the_predictions(tmp_path):
    """The last one of a file that does not end in an empty line, and the first one of the next."""
    task = make_task(tmp_path, dev_share=0.0)
    write(tmp_path, "a.conll", "EU O\n\nPeter O\n")
    write(tmp_path, "b.conll", "Rome O\n\n\n")
    paths = ",".join(str(tmp_path / name) for name in ("a.conll", "b.conll", "a.conll"))
    rows = parsing.read_file(task, readers.Paths.of(paths, "test_file"), False)
    (file,) = task.scorer.prediction_files(rows, [tags_of(0)] * 3)
    assert "".join(file.lines) == "EU O O\n\nPeter O O\n\nRome O O\n\n\n"
    write(tmp_path, "c.conll", "Oslo O\n")
    paths = paths.replace("a.conll", "c.conll", 1)
    rows = parsing.read_file(task, readers.Paths.of(paths, "test_file"), False)
    (file,) = task.scorer.prediction_files(rows, [tags_of(0)] * 4)
    assert "".join(file.lines) == "Oslo O O\n\nRome O O\n\n\nEU O O\n\nPeter O O\n"


# --- What the train file says


def test_the_train_file_says_tags_scheme_and_column(tmp_path):
    task = make_task(tmp_path)
    assert task.labels == ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert task.options.scheme == "iob1" and task.options.learned_scheme == "bio2"
    assert task.columns.label == ("2",) and task.options.is_spaced and task.files.dev_share == 0.1
    assert task.head.outputs_in_words() == "entities LOC, ORG, PER, scheme iob1"


def test_a_label_in_two_forms_of_unicode_is_one(tmp_path):
    composed, decomposed = "Geb\u00e4ude", "Geba\u0308ude"
    task = make_task(tmp_path, f"a B-{composed}\nb O\n\nc B-{decomposed}\n", scheme="bio2")
    assert task.labels == ("O", f"B-{composed}", f"I-{composed}")
    for label in (composed, decomposed):
        line = json.dumps({"text": "a", "entities": [[0, 1, label]]})
        # A model of an earlier version has the label as its train file had it.
        for learned in (composed, decomposed):
            stored = dict(
                labels=[tag.replace(composed, learned) for tag in task.labels],
                kind_options=dataclasses.asdict(task.options),
                columns={},
            )
            trained = custom.resolve_task(settings(tmp_path, do_train=False), stored)
            assert trained.labels == task.labels
            (row,) = read(trained, tmp_path, line, "new.jsonl")
            assert row.label == (f"B-{composed}",)
            assert row.source.entities == ((0, 1, composed),)


def test_of_many_labels_messages_name_a_few(tmp_path, caplog):
    """They were some 700 kB."""
    lines = "".join(f"w B-label{number:04}\n" for number in range(3000))
    task = make_task(tmp_path, lines, scheme="bio2")
    assert task.head.outputs_in_words().endswith("label0019, ..., scheme bio2")
    caplog.set_level("INFO", "xlnet")
    with pytest.raises(UserError) as e:
        read(task, tmp_path, lines.replace("label", "labels"))
    assert "3,000 labels" in str(e.value) and "did you mean 'label0000'" in str(e.value)
    assert len(str(e.value)) < 400 and len(caplog.text) < 10000


def test_a_script_without_spaces_is_seen(tmp_path):
    task = make_task(tmp_path, "中 B-X\n国 M-X\n人 E-X\n, O\n", scheme="bmes")
    assert task.options.scheme == "bmes" and not task.options.is_spaced


def test_files_are_found_by_a_part_of_their_names(tmp_path):
    for name in ("x.train", "x.testa", "test.char.bmes", "notes.md", "retrain.txt"):
        write(tmp_path, name, "EU B-ORG\n")
    task = custom.resolve_task(settings(tmp_path))
    assert task.files.by_split == {"train": "x.train", "dev": "x.testa", "test": "test.char.bmes"}
    for name in ("custom.train.1.tfrecord", "custom.dev.1.windows.npy", "custom.dev.1.seen.json"):
        write(tmp_path, name, "")
    assert custom.resolve_task(settings(tmp_path)).files.by_split == task.files.by_split
    write(tmp_path, "valid.txt", TRAIN)
    with pytest.raises(UserError, match="found valid.txt and x.testa, expected one of them"):
        custom.resolve_task(settings(tmp_path))


@pytest.mark.parametrize(
    "train, more, message",
    [
        (
            "a NNP\nb O\n\nc VB\n",
            {},
            "train.txt:1: tag 'NNP', expected O, or B, I before a label, as in B-PER (scheme bio2) "
            "(and 1 more faulty row(s))",
        ),
        (
            "a B-X\nb M-X\nc E-X\n\nd B-X\ne I-X\n",
            {},
            "train.txt:2: tag 'M-X', expected O, or B, I",
        ),
        ("a O\n", {}, "train.txt: all tags are O; expected some entities"),
        (
            "a B-X\nb E-X\n",
            dict(scheme="iob1"),
            "train.txt:2: tag 'E-X', expected O, or I, B before a label, as in I-PER (scheme "
            "iob1); the tags of the file fit --scheme=bioes",
        ),
        ("a B-X\nb M-X\nc E-X\n", {}, "; the tags of the file fit --scheme=bmes"),
        ("a B-X\nb L-X\nc U-X\n", {}, "; the tags of the file fit --scheme=bilou"),
        ("a I-X\nb E-X\n", {}, "; the tags of the file fit --scheme=ioe2"),
        (
            "a I-X\nb O\nc I-X\n",
            {},
            "train.txt:1: tag 'I-X' after '(beginning)' is illegal in scheme bio2; the tags of the "
            "file fit --scheme=iob1 (and 1 more faulty row(s))",
        ),
        ("a B-X|B-X\n", {}, "train.txt:1: tags 'B-X|B-X', expected one tag"),
    ],
)
def test_faults_of_the_train_file(tmp_path, train, more, message):
    """The scheme is declared, bio2 if nobody says another one, and the error names one that fits:
    with that the file is read."""
    with pytest.raises(UserError, match=re.escape(message)) as e:
        make_task(tmp_path, train, **{"scheme": None, **more})
    fitting = re.search(r"--scheme=(\w+)", str(e.value))
    assert "\n" not in str(e.value)
    if fitting:
        assert make_task(tmp_path, train, scheme=fitting[1]).options.scheme == fitting[1]


# --- Rows


def read(task, directory, text, name="dev.txt", **more):
    write(directory, name, text)
    return parsing.read_file(task, str(directory / name), **dict(dict(need_labels=True), **more))


def test_tags_become_those_of_the_scheme_that_is_learned(tmp_path):
    rows = read_rows(make_task(tmp_path, dev_share=0.0), tmp_path, "train")
    assert [row.label for row in rows] == [("B-ORG", "O"), ("B-PER", "I-PER", "B-LOC", "B-LOC")]
    assert [row.pairs for row in rows] == [
        (("EU said", None),),
        (("Peter Blackburn Paris Rome", None),),
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "EU I-ORG\n\nOslo I-X\nOslo I-X\n",
            "dev.txt:3: tag 'I-X' was not in training (labels: LOC, "
            "ORG, PER) (and 1 more faulty row(s))",
        ),
        ("EU S-ORG\n", "dev.txt:1: tag 'S-ORG', expected O, or I, B before a label"),
        (
            "EU B-ORG\nsaid O\nOslo B-LOC\n",
            "dev.txt:1: tag 'B-ORG' after '(beginning)' is illegal in scheme iob1; the tags of the "
            "file fit --scheme=bio2 (and 1 more",
        ),
    ],
)
def test_faults_of_other_files(tmp_path, text, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read(make_task(tmp_path), tmp_path, text)


def test_names_of_columns_that_nobody_declared_are_asked_for(tmp_path):
    with pytest.raises(UserError, match="train.txt:1: tag 'Tag'.*give --header=names"):
        make_task(tmp_path, "Word\tTag\na\tB-X\n")
    with pytest.raises(UserError) as e:
        make_task(tmp_path, "a\tB-X\nb\tTag\n")
    assert "--header" not in str(e.value)


def test_a_few_illegal_tags_are_repaired_and_counted(tmp_path, caplog):
    task = make_task(tmp_path, "a B-X\nb I-X\nc O\n", scheme=None)
    rows = read(task, tmp_path, "a B-X\n\nc O\nb I-X\n")
    assert [row.label for row in rows] == [("B-X",), ("O", "B-X")]
    path = tmp_path / "dev.txt"
    assert caplog.messages == [
        f"note: {path}: 1 of 2 tags are illegal and repaired:\n  {path}:4: tag 'I-X' "
        "after 'O' is illegal in scheme bio2"
    ]


def test_illegal_tags_that_fit_no_other_scheme_better_are_repaired_and_counted(tmp_path, caplog):
    """A mixed file has a meaning, too, by the rule of conlleval."""
    mixed = "a I-X\nb I-X\n\nc B-X\n\nd B-X\n\ne I-X\n\nf B-X\n"
    task = make_task(tmp_path, mixed, scheme=None)
    rows = read(task, tmp_path, mixed)
    assert [row.label for row in rows] == [("B-X", "I-X"), *[("B-X",)] * 4]
    assert "2 of 6 tags are illegal and repaired" in caplog.text


def test_a_file_may_have_another_scheme_than_the_model_has_learned(tmp_path):
    """Without training the flag is that of the file; the labels are the model's."""
    trained = make_task(tmp_path, "a B-X\nb I-X\nc O\n", scheme="bio2")
    stored = dict(
        labels=list(trained.labels),
        kind_options=dataclasses.asdict(trained.options),
        columns=dict(text_a=("1",), label=("2",)),
    )
    write(tmp_path, "dev.txt", "a S-X\nc O\nb B-X\nb E-X\n")
    for scheme in (None, "bioes"):
        task = custom.resolve_task(settings(tmp_path, do_train=False, scheme=scheme), stored)
        assert task.labels == trained.labels
        if scheme is None:
            with pytest.raises(UserError, match="--scheme=bioes"):
                parsing.read_file(task, str(tmp_path / "dev.txt"), True)
            continue
        (row,) = parsing.read_file(task, str(tmp_path / "dev.txt"), True)
        assert row.label == ("B-X", "O", "B-X", "I-X")
        (file,) = task.scorer.prediction_files([row], [tags_of(1, 0, 1, 2)])
        assert "".join(file.lines) == "a S-X S-X\nc O O\nb B-X B-X\nb E-X E-X\n"
    # Models of older versions do not say what they have learned.
    stored["kind_options"] = {"scheme": "iob1", "is_spaced": True}
    task = custom.resolve_task(settings(tmp_path, do_train=False, scheme=None), stored)
    assert (task.options.scheme, task.options.learned_scheme) == ("iob1", "bio2")


@pytest.mark.parametrize(
    "scheme, labels",
    [("bmes", ("O", "B-LOC", "M-LOC", "E-LOC", "S-LOC")), ("iob1", ("O", "B-LOC", "I-LOC"))],
)
def test_json_lines_have_entities_whatever_the_scheme(tmp_path, scheme, labels):
    write(
        tmp_path, "train.jsonl", json.dumps({"text": "In New York", "entities": [[3, 11, "LOC"]]})
    )
    task = custom.resolve_task(settings(tmp_path / "train.jsonl", scheme=scheme, dev_share=0.0))
    assert task.options.scheme == scheme and task.labels == labels
    (row,) = read_rows(task, tmp_path, "train")
    assert row.label == ("O", labels[1], "E-LOC" if scheme == "bmes" else "I-LOC")


def test_what_is_only_predicted_needs_no_tags(tmp_path):
    task = make_task(tmp_path)
    rows = read(task, tmp_path, "EU\nOslo\n", need_labels=False)
    assert rows[0].label is None and rows[0].source.words == ("EU", "Oslo")
    assert read(task, tmp_path, "EU NNP\n", need_labels=False)[0].label is None
    assert read(task, tmp_path, "EU I-ORG\n", need_labels=False)[0].label == ("B-ORG",)


def spaced_words(task, rows):
    """The words of each row, with a space before those that are tokenized after one."""
    return [
        "".join(" " * after + word for word, after in zip(example.words, example.after_space))
        for example in task.reader.examples(rows)
    ]


@pytest.mark.parametrize(
    "train, columns, text, expected",
    [
        ("中 B-X\n国 I-X\n人 O\n", "在\n中\n国\n", "在中国", "在中国"),
        ("中 B-X\n国 I-X\n人 O\n", "在\nEU\n国\n", "在 EU国", "在EU国"),
        ("EU B-X\nsays O\n. O\n", "Go\nto\nEU\n.\n", "Go to EU.", " Go to EU ."),
    ],
)
def test_words_of_columns_and_of_texts_are_tokenized_as_in_training(
    tmp_path, train, columns, text, expected
):
    """Columns do not say where the spaces are, so a model that has learned from them does not look
    at those of a text: each word has the space mark, or none has it."""
    task = make_task(tmp_path, train)
    from_columns = read(task, tmp_path, columns, need_labels=False)
    from_text = read(task, tmp_path, json.dumps({"text": text}), "a.jsonl", need_labels=False)
    asked, _ = task.reader.row("0", InlineExample(text))
    for rows in (from_columns, from_text, [asked]):
        assert spaced_words(task, rows) == [expected]


def test_a_model_of_texts_looks_at_their_spaces(tmp_path):
    """The first word is like one from columns, whose sentences begin in the same way."""
    for text, entity, sentence, expected in (
        ("在 EU 国人", [5, 6, "X"], "中 AB国", "中 AB国"),
        ("In EU.", [3, 5, "X"], "Go to EU.", " Go to EU."),
    ):
        (tmp_path / "train.jsonl").write_text(json.dumps({"text": text, "entities": [entity]}))
        task = custom.resolve_task(settings(tmp_path / "train.jsonl", dev_share=0.0))
        asked, _ = task.reader.row("0", InlineExample(sentence))
        assert spaced_words(task, [asked]) == [expected]


# --- From records to answers


def test_a_file_without_a_sentence_is_refused(tmp_path):
    (tmp_path / "new.json").write_text("[]")
    with pytest.raises(UserError, match="no sentences"):
        parsing.read_to_predict(make_task(tmp_path), str(tmp_path / "new.json"))


def answers_of(task, arrays, counts):
    """The `Answers` of a network that says what the records say."""
    tags = np.where(arrays["word_starts"] > 0, arrays["label_ids"] - 1, -1)
    return task.head.join(
        dict(
            values=tags,
            probabilities=np.ones(tags.shape, np.float32),
            loss=np.zeros(len(tags), np.float32),
        ),
        counts,
    )


def tags_of(*ids):
    """What the network says of a sentence, each tag with the probability 0.9."""
    return Tags(np.array(ids), np.full(len(ids), 0.9, np.float32))


@pytest.fixture
def small(tmp_path):
    """A task, its rows, and answers to them."""
    task = make_task(tmp_path, TRAIN, dev_share=0.0)
    rows = read_rows(task, tmp_path, "train")
    return (
        task,
        rows,
        [
            tags_of(*(task.labels.index(tag) for tag in tags.split()))
            for tags in ("B-ORG O", "B-PER I-PER B-LOC I-LOC")
        ],
    )


def test_metrics_and_table(small):
    task, rows, values = small
    truth = task.scorer.gold_labels(rows)
    result = task.scorer.evaluate(values, truth)
    assert list(result) == ["f1", "precision", "recall", "accuracy"]
    # Found: ORG, PER and one LOC of two words; true: ORG, PER and two LOC.
    assert result["precision"] == pytest.approx(2 / 3) and result["recall"] == 0.5
    assert result["f1"] == pytest.approx(4 / 7) and result["accuracy"] == pytest.approx(5 / 6)
    table = task.scorer.table(values, truth, 0.5)
    assert "micro avg" in table


def test_an_evaluation_of_tags_that_are_not_finite_is_refused(small):
    """Of logits that are not finite every tag is O, with a probability that is none."""
    task, rows, values = small
    values = [values[0], values[1]._replace(probabilities=np.full(4, np.nan))]
    with pytest.raises(UserError, match="1 of 2 predictions are not finite numbers"):
        task.scorer.evaluate(values, task.scorer.gold_labels(rows))


def test_a_constant_answer_is_a_collapse(small):
    task, rows, values = small
    truth = task.scorer.gold_labels(rows)
    assert task.scorer.constant_prediction(values, truth) is None
    constant = [one._replace(ids=0 * one.ids) for one in values]
    assert task.scorer.constant_prediction(constant, truth) == "every word is 'O'"


def test_predictions_are_legal_in_the_scheme_of_the_file(small):
    task, rows, values = small
    (file,) = task.scorer.prediction_files(rows, values)
    assert file.extension == "conll" and "".join(file.lines) == (
        "EU I-ORG I-ORG\nsaid O O\n\nPeter I-PER I-PER\nBlackburn I-PER I-PER\n"
        "Paris I-LOC I-LOC\nRome B-LOC I-LOC\n"
    )


def test_predictions_of_texts_are_characters(tmp_path):
    task = make_task(tmp_path)
    (row,) = read(task, tmp_path, '{"text": "EU said."}\n', "a.jsonl", need_labels=False)
    (file,) = task.scorer.prediction_files([row], [tags_of(3, 0, 0)])
    assert file.extension == "jsonl"
    assert json.loads("".join(file.lines)) == {"text": "EU said.", "predicted": [[0, 2, "ORG"]]}


@pytest.mark.parametrize(
    "name, text, flags, expected",
    [
        ("new.txt", "EU\n", {"input_format": "conll"}, None),
        ("new.tsv", "EU\n", {}, "EU\tB-Person, Name\n"),
        ("new.csv", "EU\n", {"delimiter": ","}, 'EU,"B-Person, Name"\n'),
        ("new.csv", "EU\n", {"delimiter": ",", "quoting": "none"}, None),
        ("new.jsonl", '{"tokens": ["EU"]}\n', {}, '"predicted": ["B-Person, Name"]}\n'),
    ],
)
def test_a_tag_is_one_column_of_the_predictions(tmp_path, name, text, flags, expected):
    """Labels of JSON may have blanks and commas."""
    line = '{"text": "Eva Koch", "entities": [[0, 8, "Person, Name"]]}\n'
    write(tmp_path, "train.jsonl", line)
    trained = custom.resolve_task(settings(tmp_path / "train.jsonl"))
    stored = dict(
        labels=list(trained.labels),
        kind_options=dataclasses.asdict(trained.options),
        columns={},
    )
    write(tmp_path, name, text)
    task = custom.resolve_task(settings(tmp_path, do_train=False, **flags), stored)
    if expected is None:
        with pytest.raises(UserError, match=f"{name}: the model has the tag 'B-Person, Name', wh"):
            parsing.read_to_predict(task, str(tmp_path / name))
        return
    rows = parsing.read_to_predict(task, str(tmp_path / name))
    (file,) = task.scorer.prediction_files(rows, [tags_of(1)])
    assert "".join(file.lines).endswith(expected)


def test_answers_for_other_words_are_no_answers(small):
    task, rows, values = small
    with pytest.raises(ValueError, match="the numbers of tags are not those of the words"):
        task.scorer.prediction_files(rows, values[::-1])


def test_what_is_wrong_with_a_sentence(small):
    """The last entity is found as a part of the one before."""
    task, rows, values = small
    right, wrong = task.scorer.compare(rows, values)
    assert right == ("ORG: EU", "ORG: EU", pytest.approx(0.9), 0)
    assert wrong[:2] == (
        "PER: Peter Blackburn; LOC: Paris; LOC: Rome",
        "PER: Peter Blackburn; LOC: Paris Rome",
    )
    assert wrong.error == 3


def test_entities_have_the_mean_probability_of_their_tags(small):
    task, rows, values = small
    values[1] = values[1]._replace(probabilities=np.array([0.5, 0.7, 0.9, 1.0], np.float32))
    _, found = task.scorer.results(rows, values)
    assert [entity.text for entity in found.entities] == ["Peter Blackburn", "Paris Rome"]
    assert [entity.score for entity in found.entities] == [pytest.approx(0.6), pytest.approx(0.95)]


def test_weights_of_tags(small):
    task, rows, _ = small
    weights = task.head.class_weights("balanced", rows)
    assert weights[task.labels.index("B-LOC")] == pytest.approx(6 / (7 * 2))
    assert weights[0] == pytest.approx(6 / 7)
    assert task.head.class_weights("O:0.5", None) == [0.5] + [1.0] * 6
    with pytest.raises(UserError, match="class_weights: no label 'LOC'; did you mean 'I-LOC'"):
        task.head.class_weights("LOC:2", None)


# --- The shared sets: every sentence, all of its words, each one tag

REAL = {
    "conll2003": (11297, 3250, 1696),
    "msra_ner": (1800, 300, 300),
    "resume_ner": (2865, 231, 238),
}


@pytest.mark.skipif(not SPIECE.exists(), reason="the data sets are not there")
@pytest.mark.parametrize("name", REAL)
@pytest.mark.slow
def test_real_files(name, caplog):
    folder = DATA / FOLDERS[name]
    task = known.TASKS[name]
    task = task.reader.from_train_file(readers.find_file(folder, task.files.by_split["train"]))
    assert task.options.scheme == dict(conll2003="iob1", msra_ner="bio2", resume_ner="bmes")[name]
    assert task.options.is_spaced is (name == "conll2003")
    tokenizer = Tokenizer(str(SPIECE))
    for split, count in zip(("train", "dev", "test"), REAL[name]):
        rows = read_rows(task, folder, split, need_labels=True)
        assert len(rows) == count
        (file,) = task.scorer.prediction_files(
            rows, [tags_of(*[0] * len(row.label)) for row in rows]
        )
        with open(readers.find_file(folder, task.files.by_split[split]), encoding="utf-8") as f:
            original = f.read().rstrip("\n").split("\n")
        assert "".join(file.lines).rstrip("\n").split("\n") == [
            line and line + " O" for line in original
        ]
        rows = sorted(rows, key=lambda row: -len(row.label))[:300]
        arrays, counts = task.reader.encode(
            task.reader.examples(rows), tokenizer, Layout(64, long_document="split")
        )
        found = task.scorer.decide(answers_of(task, arrays, counts).values)
        assert found == [row.label for row in task.scorer.gold_labels(rows)]
    assert ("4 of 58989 tags are illegal" in caplog.text) is (name == "resume_ner")
