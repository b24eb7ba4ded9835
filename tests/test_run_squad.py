"""run_squad.py from the command line: a small network learns which word of a text is asked for."""

import json
import random
import re
import shutil

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import make_vocabulary, weights
from helpers.golden import Golden
from helpers.paths import RELEASED

from xlnet.engine import checkpoint
from xlnet.settings.finetuning import SpanSettings
from xlnet.support.errors import UserError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]
PLAIN, ANSWERS = ["kamat", "rokmi", "solkat", "dakar"], ["telok", "nokla", "laskit"]


def make_questions(directory):
    """SQuAD files: the answer is the one word that is not among the plain ones, if there is one."""
    rng = random.Random(0)
    for split, count in (("train", 120), ("dev", 30)):
        paragraphs = []
        for p in range(count // 2):
            words = rng.choices(PLAIN, k=rng.randint(3, 12))
            answer = rng.choice([None, *ANSWERS])
            if answer:
                words.insert(rng.randrange(len(words)), answer)
            context, answers = " ".join(words), []
            if answer:
                answers = [{"text": answer, "answer_start": context.index(answer)}]
            one = dict(question="mi ka", answers=answers, is_impossible=not answer)
            questions = [dict(one, id=f"{split}-{p}-{q}") for q in range(2)]
            paragraphs.append({"context": context, "qas": questions})
        content = {"version": "v2.0", "data": [{"paragraphs": paragraphs}]}
        (directory / (split + ".json")).write_text(json.dumps(content))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("squad")
    make_vocabulary(directory / "sp.model", 37)
    make_questions(directory)
    return directory


def run(place, **changes):
    flags = dict(
        train_file=place / "train.json",
        predict_file=place / "dev.json",
        dropout=0.02,
        dropatt=0,
        output_dir=place / "records",
        model_dir=place / "model",
        max_seq_length=24,
        doc_stride=8,
        max_query_length=6,
        spiece_model_file=place / "sp.model",
        train_batch_size=16,
        learning_rate=0.02,
        warmup_steps=10,
        train_steps=120,
        eval_steps=60,
        save_steps=60,
        model_config_path=RELEASED / "xlnet_config.json",
        start_n_top=3,
        end_n_top=2,
    )
    return command.run("run_squad.py", **dict(flags, **changes))


@pytest.fixture(scope="module")
def trained(place):
    done = run(place, do_train=True, do_eval=True, do_predict=True)
    assert done.returncode == 0, done.stderr
    return done


def test_it_learns_evaluates_selects_and_predicts(place, trained):
    model = place / "model"
    assert "120 examples" in trained.stdout
    results = json.loads((model / "results" / "eval_results_dev.json").read_text())
    best = results["result"]
    assert best["f1"] > 45
    assert best["NoAns_f1"] > 50 and best["HasAns_f1"] > 50
    predictions, n_best, null = (
        json.loads((model / "results" / ("predictions_custom_dev" + end)).read_text())
        for end in (".json", ".nbest.json", ".na_prob.json")
    )
    data = json.loads((place / "dev.json").read_text())["data"]
    right = {}
    for paragraph in data[0]["paragraphs"]:
        for qa in paragraph["qas"]:
            id, gold = qa["id"], qa["answers"][0]["text"] if qa["answers"] else ""
            right[id] = predictions[id] == gold
            assert predictions[id] in paragraph["context"] and len(n_best[id]) <= 5
            assert predictions[id] == ("" if null[id] > 0.5 else n_best[id][0]["text"])
    assert list(predictions) == list(right) == list(n_best) == list(null)
    assert 100 * np.mean([*right.values()]) == pytest.approx(best["exact"])


def test_the_directory_alone_is_evaluated_on_the_file_of_its_training(place, trained):
    done = command.succeed("xlnet evaluate", model_dir=place / "model")
    (line,) = re.findall("^eval custom dev  .*", trained.stdout, re.MULTILINE)[-1:]
    assert line in done.stdout


def test_the_same_command_resumes_and_evaluates_the_same_file(place, trained, tmp_path):
    """As the authors write it: the file to predict is the dev file, too."""
    shutil.copytree(place / "model", tmp_path / "model")
    resumed = dict(model_dir=tmp_path / "model", train_steps=121, do_train=True)
    done = run(place, do_predict=True, **resumed)
    assert done.returncode == 0, done.stderr
    assert "to evaluate on while training" not in done.stdout
    assert re.search("^eval custom dev  step 121 ", done.stdout, re.MULTILINE)
    document = json.loads((tmp_path / "model" / "run.json").read_text())
    assert document["resolved"]["dev_file"] == str(place / "dev.json")


def test_the_head_is_the_reference_s(place, trained):
    ours, theirs = weights(place / "model" / "best"), authors_weights()
    assert ours.pop("global_step").shape == ()
    assert {name: ours[name].shape for name in ours} == {
        name: theirs[name].shape for name in theirs
    }


def authors_weights():
    return Golden("untied_gelu.head.qa_train").group("var/")


def test_what_the_authors_program_trained_is_used_as_it_is(place, tmp_path):
    """A directory with weights and Adam's slots, and nothing beside them."""
    stored = {**authors_weights(), "global_step": np.int64(7)}
    for name, value in authors_weights().items():
        stored.update({f"{name}/adam_m": value, f"{name}/adam_v": value})
    theirs = place / "theirs"
    checkpoint.write_arrays(str(theirs / "model.ckpt-7"), stored)
    checkpoint.write_state_file(str(theirs))
    changes = dict(train_file=None, predict_dir=tmp_path)
    done = run(place, do_predict=True, model_dir=theirs, **changes)
    assert done.returncode == 0, done.stderr
    note = "has no run.json: task, vocabulary and settings are those given"
    assert note in done.stdout
    assert (tmp_path / "predictions_custom_dev.nbest.json").exists()
    done = run(place, do_train=True, model_dir=theirs)
    assert "theirs, which has checkpoints, expected those of xlnet squad" in done.stderr


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(doc_stride=16), "doc_stride: found 16, expected at most max_seq_length"),
        (dict(max_query_length=21), "max_query_length: found 21, expected less: 3 s"),
        (dict(model_dir=""), "model_dir: found none, expected it, unless --do_prepro"),
    ],
)
def test_settings_that_are_refused(changes, message):
    how = dict(model_dir="m", do_train=True, train_file="t")
    how.update(max_seq_length=24, doc_stride=8, max_query_length=6)
    with pytest.raises(UserError, match=message):
        SpanSettings(**dict(how, **changes)).check()
