"""Reading token by token gives what the network gives that reads everything at once."""

import json
import shutil

import numpy as np
import pytest
from helpers.language_model import Pretrained

import xlnet
from xlnet.engine import checkpoint
from xlnet.support.errors import UserError

LENGTH = 12
TEXT = np.random.RandomState(0).randint(0, 50, LENGTH)


def test_rows_go_on_from_those_that_were_kept(permuted):
    start = np.array([[1, 2, 3]])

    def alone(*ids):
        with permuted.model.reading(8) as one:
            one.read(start, range(3), [3])
            for position, id in enumerate(ids, 3):
                found = one.read(np.array([[id]]), [position], [position + 1])
        return found[0]

    with permuted.model.reading(8) as reading:
        reading.read(start, range(3), [3])
        reading.select([0, 0])
        both = reading.read(np.array([[4], [5]]), [3], [4])
        reading.select([1, 1, 0])
        three = reading.read(np.array([[6], [7], [6]]), [4], [5])
    for row, ids in enumerate(((4,), (5,))):
        np.testing.assert_allclose(both[row], alone(*ids), atol=1e-5)
    for row, ids in enumerate(((5, 6), (5, 7), (4, 6))):
        np.testing.assert_allclose(three[row], alone(*ids), atol=1e-5)


@pytest.mark.parametrize(
    "resolved, message",
    [
        (dict(objective="masked"), "objective=masked, expected permutation or causal"),
        (dict(clamp_len="9"), "clamp_len: found '9', expected an integer"),
        ({}, "found no model/transformer/mask_emb/mask_emb"),
    ],
)
def test_what_cannot_be_asked_is_refused(causal, tmp_path, resolved, message):
    folder = shutil.copytree(causal.folder, tmp_path / "model")
    path = folder / "run.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), resolved=resolved)))
    with pytest.raises(UserError, match=message):
        with xlnet.load(folder, device="cpu") as model:
            model.generate("the")


def test_vectors_see_what_the_network_saw_in_training(causal, permuted):
    """The tokens of a causal network do not see those on their right, next to padding neither."""
    for made in (causal, permuted):
        texts = ["the cat sat", "the cat ran past two old houses"]
        short, long = made.loaded.vectors(texts, layer=3, pooling="none")
        same = np.allclose(short[:2], long[:2], atol=1e-4)
        assert same == made.is_causal


def test_tokens_see_as_many_before_them_as_in_training(causal, tmp_path):
    """A network with `same_length` was used with as many as a text has."""
    memory, folder = 2, shutil.copytree(causal.folder, tmp_path / "m")
    document = json.loads((folder / "run.json").read_text())
    document["resolved"].update(same_length=True, mem_len=memory)
    (folder / "run.json").write_text(json.dumps(document))
    words = "the cat sat on a mat while two dogs ran".split()
    last = memory * causal.config.n_layer  # what layers together see of the first token
    with xlnet.load(folder, device="cpu") as model:
        # The texts differ in their first token.
        texts = [" ".join(text) for text in (words, ["sat", *words[1:]])]
        one, other = (model.vectors(text, pooling="none") for text in texts)
        np.testing.assert_array_equal(one[last + 1 :], other[last + 1 :])
        assert np.abs(one[last] - other[last]).max() > 0
        attended = model.attention(texts[0], [1])
        hidden = attended.hidden["content"]
        weights = attended.streams["content"]
        i, j = np.indices(hidden.shape)
        np.testing.assert_array_equal(hidden, (j > i) | (i - j > memory))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        said = []
        for first in (3, 4):
            with model.language_model().reading(LENGTH) as reading:
                ids = np.array([[first, *TEXT[1:]]])
                said.append(reading.read(ids, range(LENGTH)))
        np.testing.assert_array_equal(*said)


def test_outputs_that_are_not_finite_are_no_answers(tmp_path):
    """A text that is empty, no filling, a NaN: with weights that overflow, as in fp16."""
    model = Pretrained(tmp_path, is_causal=False)
    weights = dict(model.weights)
    for name, value in weights.items():
        if name.endswith("layer_2/ff/LayerNorm/gamma"):
            weights[name] = value * np.float32(1e38)
        elif name.endswith("lookup_table"):
            weights[name] = value * np.float32(100)
    checkpoint.write_arrays(model.prefix, dict(weights, global_step=np.int64(4)))
    with xlnet.load(tmp_path, device="cpu") as loaded:
        for call in (
            lambda: loaded.fill("the ___ sat"),
            lambda: loaded.generate("the cat", temperature=0, max_tokens=3),
            lambda: loaded.generate("the cat", beams=4, max_tokens=3),
            lambda: loaded.generate("the cat", max_tokens=3),
            lambda: list(loaded.stream("the cat", max_tokens=3)),
            lambda: loaded.factorize("the cat sat"),
            lambda: loaded.vectors("the cat"),
        ):
            with pytest.raises(UserError, match="outputs of the network: found NaN"):
                call()
        found = list(loaded.pipe(["the ___ sat", "the cat"], "fill", errors="return"))
        assert "found NaN" in str(found[0]) and "found NaN" not in str(found[1])
