"""What there is to look at: attention and embeddings; that the figures show what they should."""

import numpy as np
import pytest
from helpers.language_model import CLAMP_LEN

TEXT = "the cat sat on a mat"


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def first_layer(weights, ids, start, hidden):
    """The attention [N,T,T] of the first layer by its formula, of rows that begin as `start`."""
    of = lambda name: weights["model/transformer/" + name]
    layer = "layer_0/rel_attn/%s/kernel"
    embedded = of("word_embedding/lookup_table")[ids]
    q = np.einsum("td,dnh->nth", start, of(layer % "q"))
    k = np.einsum("td,dnh->nth", embedded, of(layer % "k"))
    i, j = np.indices(hidden.shape)
    distances = np.clip(i - j, -CLAMP_LEN, CLAMP_LEN)
    angles = distances[..., None] / 10000 ** (np.arange(0, 16, 2) / 16)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    r = np.einsum("ijd,dnh->nijh", waves, of(layer % "r"))
    score = np.einsum("nih,njh->nij", q + of("r_w_bias")[0][:, None], k)
    score += np.einsum("nih,nijh->nij", q + of("r_r_bias")[0][:, None], r)
    return softmax(np.where(hidden, -1e30, score / np.sqrt(8)))


@pytest.mark.parametrize("order", ["random", "left_to_right", "none"])
def test_attention_is_that_of_the_formula(permuted, model, order):
    found = model.attention(TEXT, layers=[1, 3], order=order, seed=2)
    ids = permuted.tokenizer.ids(TEXT)
    rank = found.places if order != "none" else np.zeros(len(ids), int)
    hidden = rank > rank[:, None]
    blind = hidden | np.eye(len(ids), dtype=bool)
    if order != "none":
        assert sorted(rank) == list(range(1, len(ids) + 1))
        assert (order == "left_to_right") == (list(rank) == sorted(rank))
    table = permuted.weights["model/transformer/word_embedding/lookup_table"]
    mask = permuted.weights["model/transformer/mask_emb/mask_emb"][0]
    query = np.tile(mask, (len(ids), 1))
    for stream, start, hides in (
        ("content", table[ids], hidden),
        ("query", query, blind),
    ):
        shown = found.streams[stream]
        assert shown.shape == (2, 2, len(ids), len(ids))
        expected = np.where(hides, 0, first_layer(permuted.weights, ids, start, hides))
        np.testing.assert_allclose(shown[0], expected, atol=1e-5)
        sees = ~hides.all(axis=1)
        np.testing.assert_allclose(shown[1].sum(axis=-1)[:, sees], 1, atol=1e-5)
        assert not shown[:, :, ~sees].any()


def test_a_picture(runs, tmp_path):
    png = tmp_path / "a.png"
    done = runs("plot attention", "--text=the cat", f"--output={png}")
    assert done.returncode == 0 and done.stdout == f"written: {png}\n"
    assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 5000


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--text=the", "--output=a.png", "--layers=1,4"], "layers: found [1, 4]"),
        (["--text=" + 513 * "the ", "--output=a.png"], "text: found 513 pieces, ex"),
    ],
)
def test_wrong_flags_are_named(runs, flags, message):
    done = runs("plot attention", *flags)
    assert done.returncode == 1 and message in done.stderr
