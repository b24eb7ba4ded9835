"""Asks an exported model what it was asked when it was exported, and compares the answers.

    python check_export.py MODEL [TOLERANCE] [--url=http://HOST:PORT/v1/models/NAME]

MODEL is a directory with `saved_model.pb`; TOLERANCE, 1e-5 if not given, how far numbers may be
apart. With a URL a server of the model is asked, which needs Python alone. Without one this program
runs the model itself: it needs TensorFlow, of any version, and tensorflow-text for raw text. It can
be copied anywhere.
"""

import json
import math
import os
import sys
import urllib.error
import urllib.request

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main(model, tolerance="1e-5", url=None):
    try:
        tolerance = float(tolerance)
    except ValueError:
        raise SystemExit(
            f"check_export.py: the tolerance is '{tolerance}', expected a number"
        ) from None
    path = os.path.join(model, "assets.extra", "examples.json")
    if not os.path.exists(path):
        raise SystemExit(
            f"check_export.py: no {path}; expected a directory that xlnet export "
            "wrote, with its version: exported/1"
        )
    with open(path, encoding="utf-8") as f:
        examples = json.load(f)
    if not examples:
        raise SystemExit(
            f"check_export.py: {path} has no example, so that nothing is compared"
        )
    is_same = True
    for name, outputs in served(url, examples) if url else computed(model, examples):
        for key, expected in examples[name]["outputs"].items():
            fits, words = compared(outputs[key], expected["value"], tolerance)
            print("{}: {}: {}{}".format(name, key, words, "" if fits else ": WRONG"))
            is_same &= fits
    return 0 if is_same else 1


def served(url, examples):
    """Yields (signature, its outputs by name) as a server answers."""
    for name, example in examples.items():
        asked = json.dumps(
            {
                "signature_name": name,
                "inputs": {
                    key: value["value"] for key, value in example["inputs"].items()
                },
            }
        ).encode()
        try:
            with urllib.request.urlopen(
                urllib.request.Request(
                    url + ":predict", asked, {"Content-Type": "application/json"}
                )
            ) as answer:
                outputs = json.load(answer)["outputs"]
        except urllib.error.HTTPError as e:
            raise SystemExit(
                "check_export.py: {} answers {}: {}".format(
                    url, e, e.read(300).decode(errors="replace").strip()
                )
            ) from None
        except (OSError, ValueError, KeyError) as e:
            raise SystemExit(
                f"check_export.py: {url}: no answer of a server of models: {e}"
            ) from None
        if not isinstance(outputs, dict):  # TensorFlow Serving, of one output
            outputs = {key: outputs for key in example["outputs"]}
        yield name, outputs


def computed(model, examples):
    """Yields (signature, its outputs by name) as the model computes them here."""
    import tensorflow as tf

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    print(f"TensorFlow {tf.__version__}{text_operations(model, examples)}")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], model)
        for name, example in examples.items():
            signature = loaded.signature_def[name]
            yield (
                name,
                session.run(
                    {key: info.name for key, info in signature.outputs.items()},
                    {
                        signature.inputs[key].name: value["value"]
                        for key, value in example["inputs"].items()
                    },
                ),
            )


def text_operations(model, examples):
    """Makes the operations on raw text known, if an example has any; says which these are."""
    if not any(
        value["dtype"] == "string"
        for example in examples.values()
        for value in example["inputs"].values()
    ):
        return ""
    try:
        import tensorflow_text
    except ImportError:
        raise SystemExit(
            f"check_export.py: {model} takes raw text, which needs tensorflow-text: "
            "pip install tensorflow-text"
        ) from None
    return ", tensorflow-text " + tensorflow_text.__version__


def compared(found, expected, tolerance):
    """Whether an array, or a list, is as expected, and how, in words."""
    plain = decoded(found.tolist() if hasattr(found, "tolist") else found)
    numbers, wanted = list(flat(plain)), list(flat(expected))
    if len(numbers) == len(wanted) and any(isinstance(each, float) for each in wanted):
        distances = [abs(a - b) for a, b in zip(numbers, wanted)]
        # `max` leaves out a NaN that is not the first number.
        apart = (
            math.nan if any(map(math.isnan, distances)) else max(distances, default=0.0)
        )
        return apart <= tolerance, f"{apart:.2g} apart"
    return (
        plain == expected,
        "the same" if plain == expected else f"{plain!r}, expected {expected!r}",
    )


def decoded(value):
    if isinstance(value, list):
        return [decoded(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def flat(value):
    for each in value if isinstance(value, list) else ():
        yield from flat(each)
    if not isinstance(value, list):
        yield value


if __name__ == "__main__":
    urls = [word[len("--url=") :] for word in sys.argv[1:] if word.startswith("--url=")]
    words = [word for word in sys.argv[1:] if not word.startswith("--url=")]
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        print(__doc__)
        sys.exit(0 if words in (["-h"], ["--help"]) else 1)
    sys.exit(main(*words, url=urls[-1].rstrip("/") if urls else None))
