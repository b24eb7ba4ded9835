"""xlnet convert: a fine-tuned model goes there and comes back, and predicts."""

import json
import os

import pytest
from helpers import command, finetuning
from helpers.finetuning import weights
from helpers.networks import sizes

from xlnet import XLNetConfig

SCRIPT = "xlnet convert"
CONFIG = dict(**sizes(layers=1, width=8, heads=2, inner=16), n_token=37)


def convert(place, start, end, run=command.succeed, **flags):
    return run(SCRIPT, input=place.path(start), output=place.path(end), **flags)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model that was fine-tuned here, with its best checkpoint; there; and back again."""
    place = finetuning.make_workspace(tmp_path_factory.mktemp("convert"))
    XLNetConfig(**CONFIG).to_json(place.path("config.json"))
    config = place.path("config.json")
    flags = dict(eval_steps=1, eval_batch_size=1, model_config_path=config)
    place.succeed("--do_train=True", "--do_predict=True", uncased=True, **flags)
    place.there = convert(place, "model", "theirs")
    convert(place, "theirs", "back", text_b_column="second")
    return place


def test_labels_and_vocabulary_go_there(place):
    config = json.loads((place.directory / "theirs" / "config.json").read_text())
    assert config["architectures"] == ["XLNetForSequenceClassification"]
    assert config["id2label"] == {"0": "animal", "1": "plant", "2": "stone"}
    assert config["ff_activation"] == "gelu_new"
    tokenizer = (place.directory / "theirs" / "tokenizer_config.json").read_text()
    assert json.loads(tokenizer)["do_lower_case"] is True
    assert place.path("model", "best") in place.there.stdout
    assert not place.there.stderr


def test_weights_come_back_to_the_last_bit(place):
    before, after = weights(place.path("model", "best")), weights(place.path("back"))
    assert before.pop("global_step") > 0 == after.pop("global_step")
    assert not after.pop("model/transformer/mask_emb/mask_emb").any()  # expected there
    assert set(before) == set(after)
    for name, value in before.items():
        assert value.tobytes() == after[name].tobytes(), name


def test_what_came_back_predicts_the_same_from_its_directory_alone(place):
    """Nothing is given but the model and a file, whose rows have no name here."""
    paths = dict(model_dir=place.path("back"), output=place.path("answers.tsv"))
    paths.update(predict_file=place.path("own", "test.tsv"))
    done = ["--do_predict", "--text_a_column=first"]
    command.succeed("run_classifier.py", *done, eval_batch_size=1, **paths)
    answers = []
    for path in ("model/results/predictions_custom_test.tsv", "answers.tsv"):
        lines = (place.directory / path).read_text().splitlines()
        answers.append([line.split("\t")[1:] for line in lines])
    assert len(answers[0]) == finetuning.ROWS["test"] + 1
    assert answers[0] == answers[1]


def test_a_wrong_command_says_so(place):
    assert "is there already" in convert(place, "theirs", "back", command.refused)
    line = convert(place, "nowhere", "new", command.refused)
    assert "input: found no checkpoint" in line
    assert not os.path.exists(place.path("new"))
