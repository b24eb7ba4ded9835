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


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model that was fine-tuned here, with its best checkpoint; there; and back again."""
    place = finetuning.make_workspace(tmp_path_factory.mktemp("convert"))
    XLNetConfig(**CONFIG).to_json(place.path("config.json"))
    place.succeed(
        "--do_train=True",
        "--do_predict=True",
        eval_steps=1,
        model_config_path=place.path("config.json"),
        uncased=True,
    )
    place.there = command.succeed(
        SCRIPT, input=place.path("model"), output=place.path("theirs")
    )
    command.succeed(
        SCRIPT,
        input=place.path("theirs"),
        output=place.path("back"),
        text_b_column="second",
    )
    return place


def test_labels_and_vocabulary_go_there(place):
    with open(place.path("theirs", "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    assert config["architectures"] == ["XLNetForSequenceClassification"]
    assert config["id2label"] == {"0": "animal", "1": "plant", "2": "stone"}
    assert config["ff_activation"] == "gelu_new"
    with open(place.path("theirs", "tokenizer_config.json"), encoding="utf-8") as f:
        assert json.load(f)["do_lower_case"] is True
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
    command.succeed(
        "run_classifier.py",
        "--do_predict",
        text_a_column="first",
        model_dir=place.path("back"),
        output=place.path("answers.tsv"),
        predict_file=place.path("own", "test.tsv"),
    )
    answers = [
        open(place.path(*path), encoding="utf-8").read().splitlines()
        for path in (
            ("model", "results", "predictions_custom_test.tsv"),
            ("answers.tsv",),
        )
    ]
    assert len(answers[0]) == finetuning.ROWS["test"] + 1
    assert [[line.split("\t")[1:] for line in lines] for lines in answers] == [
        [line.split("\t")[1:] for line in answers[0]]
    ] * 2


@pytest.mark.parametrize(
    "input, output, message",
    [
        ("theirs", "back", "is there already"),
        ("nowhere", "new", "input: found no checkpoint"),
    ],
)
def test_a_wrong_command_says_so(place, input, output, message):
    done = command.refused(SCRIPT, input=place.path(input), output=place.path(output))
    assert message in done
    assert not os.path.exists(place.path("new"))
