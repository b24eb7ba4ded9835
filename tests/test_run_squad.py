"""run_squad.py from the command line: a small network learns which word of a text is asked for."""

import io
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
            context = " ".join(words)
            answers = [{"text": answer, "answer_start": context.index(answer)}] if answer else []
            paragraphs.append(
                {
                    "context": context,
                    "qas": [
                        {
                            "id": f"{split}-{p}-{q}",
                            "question": "mi ka",
                            "answers": answers,
                            "is_impossible": not answer,
                        }
                        for q in range(2)
                    ],
                }
            )
        (directory / (split + ".json")).write_text(
            json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]})
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("squad")
    make_vocabulary(directory / "sp.model", 37)
    make_questions(directory)
    return directory


def run(place, *arguments, **changes):
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
    return command.run(
        "run_squad.py",
        *arguments,
        *(
            "--{}={}".format(*item)
            for item in dict(flags, **changes).items()
            if item[1] is not None
        ),
    )


@pytest.fixture(scope="module")
def trained(place):
    done = run(place, "--do_train=True", "--do_eval=True", "--do_predict=True")
    assert done.returncode == 0, done.stderr
    return done


def test_it_learns_evaluates_selects_and_predicts(place, trained):
    model = place / "model"
    assert "120 questions, answers of up to 64 tokens, windows every 8 tokens" in trained.stdout
    results = json.loads((model / "eval_results_dev.json").read_text())
    best = results["checkpoints"][0]
    assert best["f1"] > 45
    assert best["NoAns_f1"] > 50 and best["HasAns_f1"] > 50
    predictions, n_best, null = (
        json.loads((model / ("predictions_custom_dev" + end)).read_text())
        for end in (".json", ".nbest.json", ".na_prob.json")
    )
    questions = [
        (paragraph["context"], qa)
        for paragraph in json.loads((place / "dev.json").read_text())["data"][0]["paragraphs"]
        for qa in paragraph["qas"]
    ]
    assert list(predictions) == [qa["id"] for _, qa in questions] == list(n_best) == list(null)
    right = [
        predictions[qa["id"]] == (qa["answers"][0]["text"] if qa["answers"] else "")
        for _, qa in questions
    ]
    assert 100 * np.mean(right) == pytest.approx(best["exact"])
    for context, qa in questions:
        assert predictions[qa["id"]] in context and len(n_best[qa["id"]]) <= 5
        best = n_best[qa["id"]][0]["text"]
        assert predictions[qa["id"]] == ("" if null[qa["id"]] > 0.5 else best)


def test_the_settings_of_the_run_are_a_config(place, trained):
    done = command.run(
        "run_squad.py",
        "--do_train=False",
        "--do_predict=False",
        config=place / "model" / "run.json",
    )
    assert done.returncode == 0, done.stderr
    line = next(
        line
        for line in trained.stdout.splitlines()[::-1]
        if line.startswith("eval custom dev  step")
    )
    assert line in done.stdout


def test_the_head_is_the_reference_s(place, trained):
    shapes = {name: value.shape for name, value in weights(place / "model" / "best").items()}
    expected = {name: value.shape for name, value in authors_weights().items()}
    assert shapes.pop("global_step") == ()
    assert shapes == expected


def authors_weights():
    return Golden("untied_gelu.head.qa_train").group("var/")


@pytest.fixture(scope="module")
def theirs(place):
    """A model directory of the authors' program: weights and Adam's slots, nothing beside them."""
    stored = authors_weights()
    slots = {f"{name}/adam_{slot}": value for name, value in stored.items() for slot in "mv"}
    checkpoint.write_arrays(
        str(place / "theirs" / "model.ckpt-7"), {**stored, **slots, "global_step": np.int64(7)}
    )
    (place / "theirs" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    return place / "theirs"


def test_what_the_authors_program_trained_is_used_as_it_is(place, theirs, tmp_path):
    done = run(place, "--do_predict=True", model_dir=theirs, train_file=None, predict_dir=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "has no run.json: task, vocabulary and settings are those given" in done.stdout
    assert (tmp_path / "predictions_custom_dev.nbest.json").exists()
    done = run(place, "--do_train=True", model_dir=theirs)
    assert "theirs are not xlnet squad's (no run.json with a task)" in done.stderr


START_KERNEL = "start_logits/dense/kernel"


def one_step(place, theirs, model_dir, **changes):
    """The output of a run of one step, from the authors' weights. Where a gradient is nothing but
    rounding, as that of what is added to all logits alike, weights stay where they are."""
    done = run(
        place,
        "--do_train=True",
        model_dir=model_dir,
        train_steps=1,
        eval_steps=0,
        warmup_steps=0,
        dropout=0,
        adam_epsilon=1,
        learning_rate=1,
        init_checkpoint=theirs,
        **changes,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_recompute_micro_batches_and_replicas_train_the_same_from_the_authors_weights(
    place, theirs, tmp_path
):
    out = one_step(place, theirs, tmp_path / "one")
    assert "model.ckpt-7: 42 of 42 variables\n" in out
    first, one = (weights(tmp_path / "one" / name) for name in ("model.ckpt-0", "model.ckpt-1"))
    assert all(np.array_equal(first[name], value) for name, value in authors_weights().items())
    assert np.abs(one[START_KERNEL] - first[START_KERNEL]).max() > 1e-3
    out = one_step(
        place,
        theirs,
        tmp_path / "other",
        recompute=True,
        grad_accum_steps=2,
        device="cpu",
        num_core_per_host=2,
    )
    assert "16 examples = 4 x 2 replicas x 2 micro-batches" in out
    other = weights(tmp_path / "other" / "model.ckpt-1")
    for name in authors_weights():
        np.testing.assert_allclose(other[name], one[name], rtol=1e-4, atol=2e-6, err_msg=name)


def test_batches_and_devices_change_no_answer(place, trained, tmp_path):
    """Padding, what stands in a batch, and how many devices answer."""
    how = dict(predict_dir=tmp_path, train_file=None, xla=True, eval_batch_size=3)
    done = run(place, "--do_predict=True", device="cpu", num_core_per_host=2, **how)
    assert done.returncode == 0, done.stderr
    for name in ("predictions_custom_dev.json", "predictions_custom_dev.na_prob.json"):
        fixed, cut = (
            json.loads((directory / name).read_text()) for directory in (tmp_path, place / "model")
        )
        assert list(fixed) == list(cut)
        for key, value in fixed.items():
            assert value == (pytest.approx(cut[key], abs=1e-4) if "prob" in name else cut[key])


def test_a_run_that_was_killed_goes_on_to_the_bit(place, trained, tmp_path):
    """Its last checkpoint is cut short, and what it had evaluated since is lost."""
    shutil.copytree(place / "model", tmp_path / "model")
    last = tmp_path / "model" / "model.ckpt-120.data-00000-of-00001"
    last.write_bytes(last.read_bytes()[:-100])
    (tmp_path / "model" / "evaluations.json").write_text(
        json.dumps(dict(metric="f1", evaluations=evaluations(place / "model")[:1]))
    )
    done = run(place, "--do_train=True", model_dir=tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert "the one before it is used" in done.stdout and "steps       60 to 120" in done.stdout
    ours, expected = (
        weights(path / "model.ckpt-120") for path in (tmp_path / "model", place / "model")
    )
    assert all(np.array_equal(ours[name], value) for name, value in expected.items())
    assert evaluations(tmp_path / "model") == evaluations(place / "model")


def evaluations(model_dir):
    return json.loads((model_dir / "evaluations.json").read_text())["evaluations"]


def test_memory_in_bfloat16_and_micro_batches_stop_early(place, tmp_path):
    """It learns nothing, and ends when its patience does."""
    config = json.loads((RELEASED / "xlnet_config.json").read_text())
    (place / "narrow.json").write_text(json.dumps(dict(config, n_layer=1)))
    done = run(
        place,
        "--do_train=True",
        "--do_predict=True",
        model_dir=tmp_path,
        output_dir=tmp_path / "records",
        learning_rate=1e-30,
        patience=1,
        train_steps=3,
        eval_steps=1,
        save_steps=4,
        warmup_steps=0,
        max_seq_length=14,
        doc_stride=5,
        max_query_length=4,
        long_document="memory",
        precision="bf16",
        grad_accum_steps=2,
        model_config_path=place / "narrow.json",
    )
    assert done.returncode == 0, done.stderr
    assert [one["step"] for one in evaluations(tmp_path)] == [1, 2]
    kept = weights(tmp_path / "best")
    assert all(value.dtype == np.float32 for name, value in kept.items() if name != "global_step")
    assert len(json.loads((tmp_path / "predictions_custom_dev.json").read_text())) == 30


def test_a_model_copied_elsewhere_needs_nothing_but_a_file(place, trained, tmp_path):
    """Windows are as long, and the network's beams as wide, as they were in training."""
    shutil.copytree(place / "model" / "best", tmp_path / "model")
    done = command.succeed(
        "run_squad.py",
        model_dir=tmp_path / "model",
        do_predict=True,
        predict_file=place / "dev.json",
        predict_output="-",
    )
    assert json.loads(done.stdout) == json.loads(
        (place / "model" / "predictions_custom_dev.json").read_text()
    )


def test_the_standard_input_is_read_whatever_stands_where_the_program_runs(
    place, trained, tmp_path, monkeypatch
):
    for name in ("train.json", "train.tsv"):
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO((place / "dev.json").read_bytes()))
    )
    done = command.succeed(
        "run_squad.py",
        model_dir=place / "model",
        do_predict=True,
        predict_file="-",
        predict_output="-",
    )
    assert json.loads(done.stdout) == json.loads(
        (place / "model" / "predictions_custom_dev.json").read_text()
    )


def test_records_alone_need_no_network(place, trained, tmp_path):
    done = run(
        place,
        "--do_prepro=True",
        "--num_proc=4",
        output_dir=tmp_path,
        model_dir=None,
        model_config_path=None,
    )
    assert done.returncode == 0, done.stderr
    assert "train: 120 questions" in done.stdout and "dev: 30 questions" in done.stdout
    made = {path.name for path in tmp_path.iterdir()}
    assert len(made) == 6 and made == {path.name for path in (place / "records").iterdir()}
    assert "--num_proc is not used" in done.stderr


def without_answers(path, target):
    """The questions of a file alone."""
    value = json.loads(path.read_text())
    for paragraph in value["data"][0]["paragraphs"]:
        for question in paragraph["qas"]:
            del question["answers"], question["is_impossible"]
    target.write_text(json.dumps(value))
    return target


def prepared(place, tmp_path, **changes):
    """What --do_prepro makes records of: (split, questions)."""
    done = run(
        place,
        "--do_prepro=True",
        **dict(dict(output_dir=tmp_path / "records", model_dir=None), **changes),
    )
    assert done.returncode == 0, done.stderr
    return re.findall(r"^(\w+): (\d+) questions", done.stdout, re.MULTILINE)


def test_records_are_made_of_what_is_there(place, tmp_path):
    unlabelled = without_answers(place / "dev.json", tmp_path / "new.json")
    alone = dict(train_file=None)
    assert prepared(place, tmp_path, **alone) == [("dev", "30")]
    assert prepared(place, tmp_path, predict_file=unlabelled, **alone) == [("new", "30")]
    assert prepared(place, tmp_path, predict_file=None, dev_share=0) == [("train", "120")]
    assert prepared(place, tmp_path, predict_file=unlabelled, **alone, data_dir=place) == [
        ("train", "120"),
        ("dev", "30"),
        ("new", "30"),
    ]
    # A file to predict may be called as one of those.
    (tmp_path / "later").mkdir()
    named = without_answers(place / "dev.json", tmp_path / "later" / "train.json")
    assert prepared(place, tmp_path, predict_file=named, **alone, data_dir=place) == [
        ("train", "120"),
        ("dev", "30"),
        ("train", "30"),
    ]
    done = run(
        place,
        "--do_prepro=True",
        model_dir=None,
        data_dir=tmp_path,
        task_name="squad2",
        train_file=None,
        predict_file=None,
    )
    assert done.returncode == 1 and "has no file of task squad2 to train on" in done.stderr


def test_records_have_no_skipped_questions_to_predict(place, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("id,context,question\n1,ab ba,what\n2,,why\n3,ba,who\n")
    found = prepared(place, tmp_path, predict_file=new, train_file=None, on_error="skip")
    assert found == [("new", "2")]


def test_questions_without_answers_are_predicted_and_others_evaluated(place, tmp_path):
    unlabelled = without_answers(place / "dev.json", tmp_path / "new.json")
    (tmp_path / "squad").mkdir()
    shutil.copy(place / "dev.json", tmp_path / "squad" / "dev-v2.0.json")
    done = run(
        place,
        "--do_train=True",
        "--do_predict=True",
        predict_file=unlabelled,
        task_name="squad2",
        data_dir=tmp_path / "squad",
        model_dir=tmp_path / "model",
        train_steps=1,
        eval_steps=1,
        warmup_steps=0,
    )
    assert done.returncode == 0, done.stderr
    assert "new.json has no answers: it is predicted, and not evaluated" in done.stdout
    assert "eval squad2 dev  step 1  " in done.stdout
    assert "predicted squad2 new  step 1  (30 rows)" in done.stdout
    assert len(json.loads((tmp_path / "model" / "predictions_squad2_new.json").read_text())) == 30


def test_questions_that_are_evaluated_stay_those_of_the_run(place, trained):
    done = run(place, "--do_train=True", predict_file=None, eval_steps=None)
    # The run evaluates while it trains, and a resumed one does so, too.
    assert done.returncode == 1 and "task custom has no split 'dev'" in done.stderr
    assert "; --dev_file names its file" in done.stderr
    done = run(
        place, "--do_train=True", predict_file=None, eval_steps=None, dev_file=place / "dev.json"
    )
    assert done.returncode == 0, done.stderr


def test_a_named_file_with_answers_is_evaluated_without_a_data_dir(place, trained, tmp_path):
    shutil.copytree(place / "model" / "best", tmp_path / "model")
    done = command.run(
        "run_squad.py", model_dir=tmp_path / "model", do_eval=True, predict_file=place / "dev.json"
    )
    assert done.returncode == 0 and "eval custom dev  step" in done.stdout, done.stderr
    unlabelled = without_answers(place / "dev.json", tmp_path / "new.json")
    done = command.run(
        "run_squad.py", model_dir=tmp_path / "model", do_eval=True, predict_file=unlabelled
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "new.json: article 1, paragraph 1, question 1: no answers (and 29 more" in done.stderr


WRONG = (
    (dict(train_file=None), 2, "flag --data_dir is required"),
    (dict(doc_stride=0), 2, "doc_stride"),
    (
        dict(doc_stride=16),
        1,
        "doc_stride is 16, expected at most max_seq_length - max_query_length - 3 = 15",
    ),
    (dict(max_query_length=21), 1, "max_query_length is 21: with 3 special tokens"),
    (dict(model_dir=None), 1, "model_dir is missing; only --do_prepro=True does without it"),
    (dict(train_file=None, predict_file=None), 1, "no questions: give data_dir, or train_file"),
    (dict(train_file="nowhere.json"), 1, "no such"),
    (dict(task_name="cola"), 1, "cola is a task of xlnet classify"),
    (
        dict(task_name="squad2", context_column="text"),
        1,
        "context_column is for --task_name=custom",
    ),
    (dict(task_name="squad2", metric="accuracy"), 1, "task squad2 has no accuracy"),
    (dict(metric="accuracy"), 1, "task custom has no accuracy"),
    (
        dict(class_weights="balanced"),
        1,
        "class_weights: task custom is not a classification into classes",
    ),
)


@pytest.mark.parametrize("changes, status, message", WRONG)
def test_errors_are_one_line(place, tmp_path, changes, status, message):
    changes = dict(dict(model_dir=tmp_path / "model"), **changes)
    done = run(place, "--do_train=True", **changes)
    assert done.returncode == status and message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "model").exists()


def test_a_separate_head_learns_and_goes_to_hugging_faces_simple_form_and_back(place, tmp_path):
    """Start and end from one layer; no answer where both are <cls>."""
    config = json.loads((RELEASED / "xlnet_config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps(dict(config, d_head=config["d_model"] // config["n_head"]))
    )
    done = run(
        place,
        "--do_train=True",
        "--do_eval=True",
        "--do_predict=True",
        model_dir=tmp_path / "model",
        span_head="separate",
        train_steps=100,
        eval_steps=0,
        save_steps=100,
        model_config_path=tmp_path / "config.json",
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "model" / "eval_results_dev.json").read_text())
    best = results["checkpoints"][0]
    assert best["f1"] > 45 and best["NoAns_f1"] > 50
    names = weights(tmp_path / "model" / "model.ckpt-100")
    assert {"model/span_logits/dense/kernel", "model/span_logits/dense/bias"} <= set(names)
    assert not any(name.startswith(("start_logits", "end_logits", "answer")) for name in names)
    for source, target in (("model", "theirs"), ("theirs", "back")):
        done = command.succeed("xlnet convert", source=tmp_path / source, target=tmp_path / target)
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert config["architectures"] == ["XLNetForQuestionAnsweringSimple"]
    done = command.succeed(
        "run_squad.py",
        model_dir=tmp_path / "back",
        do_predict=True,
        predict_file=place / "dev.json",
        max_seq_length=24,
        doc_stride=8,
        max_query_length=6,
        allow_changes=True,
    )
    for end in (".json", ".na_prob.json"):
        before, after = (
            json.loads((tmp_path / name / ("predictions_custom_dev" + end)).read_text())
            for name in ("model", "back")
        )
        assert before == after and len(before) == 30
