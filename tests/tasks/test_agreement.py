"""A law of predictions of the simple types, with random rows, batches and thresholds: files have a
line for each row, in their order; the metrics of the written predictions are the printed ones; and
`--do_predict`, `xlnet predict` and `xlnet.load` say the same. The server is compared with
`xlnet.load` in `tests/server`, the SavedModel in `tests/inference/test_export.py`."""

import csv
import json

import numpy as np
import pytest
from helpers import command
from helpers.laws import law
from hypothesis import strategies as st
from scipy import stats

import xlnet

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]

WORDS = ["kamat", "tel", "okro", "mi", "solkit", "dar"]
# The columns of the texts, and the labels of rows.
KINDS = {
    "classification": (["first", "second"], ["animal", "plant", "stone"]),
    "multi_label": (["text_a"], ["animal,stone", "plant", ""]),
    "regression": (["text_a"], ["1.5", "-2e-6", "3e-6"]),
    "multiple_choice": (["text_a", "question", "a", "b", "c"], ["a", "b", "c"]),
}


def asked(model, kind, rows):
    """What `xlnet.load` says, as the columns of a file: predictions and their probabilities."""
    texts = [tuple(row) if len(row) > 1 else row[0] for row in rows]
    if kind == "regression":
        return [(f"{score:.9g}",) for score in model.score(texts)]
    if kind == "multiple_choice":
        found = model.choose(
            [r[0] for r in rows], [r[2:] for r in rows], [r[1] for r in rows]
        )
        return [(each.label, *each.probabilities) for each in found]
    found = model.classify(texts)
    if kind == "multi_label":
        return [(",".join(each.labels), *each.probabilities.values()) for each in found]
    return [(each.label, *each.probabilities.values()) for each in found]


@pytest.mark.parametrize("kind", KINDS)
@law(
    1,
    30,
    seed=st.integers(0, 1000),
    count=st.integers(3, 12),
    batch=st.integers(1, 5),
    threshold=st.sampled_from([0.3, 0.98]),
)
def test_all_ways_to_predict_agree(
    model_of, tmp_path_factory, kind, seed, count, batch, threshold
):
    columns, labels = KINDS[kind]
    random, place = np.random.default_rng(seed), tmp_path_factory.mktemp("agree")
    rows = []
    for number in range(count):
        texts = [" ".join(random.choice(WORDS, 2)) for _ in columns]
        rows.append([*texts, labels[number % len(labels)]])
    with open(place / "rows.csv", "w", newline="") as f:
        csv.writer(f).writerows([[*columns, "label"], *rows])
    model = model_of(kind)

    done = command.succeed(
        "run_classifier.py",
        "--do_eval",
        "--do_predict",
        model_dir=model,
        dev_file=place / "rows.csv",
        predict_file=place / "rows.csv",
        predict_dir=place,
        eval_batch_size=batch,
        predict_threshold=threshold,
    )
    with open(place / "predictions_custom_rows.tsv", newline="") as f:
        header, *lines = csv.reader(f, delimiter="\t")
    assert [line[0] for line in lines] == [str(number) for number in range(count)]
    predicted, gold = (np.array([line[i] for line in lines]) for i in (1, -1))
    if kind == "regression":
        assert gold.astype(float).tolist() == [float(row[-1]) for row in rows]
        scores = predicted.astype(float), gold.astype(float)
        metric, found = "spearman", stats.spearmanr(*scores)[0]
    else:
        assert gold.tolist() == [row[-1] for row in rows]
        metric, found = "accuracy", np.mean(predicted == gold)

    # The printed metric is that of the file.
    results = json.loads((place / "eval_results_file_rows.json").read_text())
    assert results["result"][metric] == pytest.approx(found, abs=1e-12)
    assert f"  {metric} {found:.4f}" in done.stdout

    # Other ways, in batches of their own size.
    command.succeed(
        "xlnet predict",
        model_dir=model,
        input=place / "rows.csv",
        output=place / "again.tsv",
    )
    with open(place / "again.tsv", newline="") as f:
        again = list(csv.reader(f, delimiter="\t"))
    assert again[0] == header and len(again) == count + 1
    with xlnet.load(model, device="cpu") as loaded:
        said = asked(loaded, kind, [row[:-1] for row in rows])
    for line, other, values in zip(lines, again[1:], said):
        end = 1 + len(values)
        numbers, others = np.float64(line[2:end]), np.float64(other[2:end])
        np.testing.assert_allclose(numbers, values[1:], atol=1e-5)
        np.testing.assert_allclose(numbers, others, atol=1e-5)
        if kind == "regression":
            assert float(line[1]) == pytest.approx(float(values[0]), rel=1e-4, abs=1e-5)
        elif threshold == 0.98 or kind != "multi_label":
            assert line[1] == other[1] == values[0]
