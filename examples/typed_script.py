"""What a type checker knows about a loaded model: `mypy --strict examples/typed_script.py`.

python examples/typed_script.py sample_run/classifier_pretrained sample_run/pretrained
"""

import sys

import numpy as np

import xlnet


def labels_of(folder: str, texts: list[str]) -> dict[str, str]:
    with xlnet.load(folder, batch_size=16) as model:
        answers = model.classify(texts)  # one for each text
        first = model.classify(texts[0])  # one
        assert first.label == answers[0].label
        assert list(first.probabilities) == list(model.labels or ())
        return {text: answer.label for text, answer in zip(texts, answers)}


def filled(folder: str, text: str) -> tuple[str, float]:
    with xlnet.load(folder) as model:
        best = model.fill(text, top=1)[0]
        vectors = model.vectors([text, best.text])
        assert float(np.linalg.norm(vectors[0])) > 0
        return best.text, best.probability


if __name__ == "__main__":
    try:
        for sentence, label in labels_of(
            sys.argv[1], ["Draw a line on the canvas.", "Add a handler to the logger."]
        ).items():
            print(f"{sentence}: {label}")
        print(
            "{} ({:.3f})".format(
                *filled(sys.argv[2], "An exception is ___ if the file is missing.")
            )
        )
    except xlnet.UserError as error:
        sys.exit(str(error))
