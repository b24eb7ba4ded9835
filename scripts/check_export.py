"""Asks an exported model what it was asked when it was exported, and compares the answers.

    python check_export.py MODEL [TOLERANCE]

MODEL is a directory with `saved_model.pb`; TOLERANCE, 1e-5 if not given, how far numbers may be
apart. For any process that is to serve the model: this program needs TensorFlow alone, of any
version, and tensorflow-text for raw text, and can be copied anywhere.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main(model, tolerance="1e-5"):
    import numpy as np
    import tensorflow as tf
    with open(os.path.join(model, "assets.extra", "examples.json"), encoding="utf-8") as f:
        examples = json.load(f)
    text = "no tensorflow-text"
    if any(value["dtype"] == "string" for example in examples.values()
           for value in example["inputs"].values()):
        try:
            import tensorflow_text
            text = "tensorflow-text " + tensorflow_text.__version__
        except ImportError:
            raise SystemExit("check_export.py: %s takes raw text, which needs tensorflow-text: "
                             "pip install tensorflow-text" % model) from None
    signatures = tf.saved_model.load(model).signatures
    print("TensorFlow %s, %s" % (tf.__version__, text))
    is_same = True
    for name, example in examples.items():
        answers = signatures[name](**{
            key: tf.constant(value["value"], value["dtype"])
            for key, value in example["inputs"].items()})
        for key, expected in example["outputs"].items():
            found, wanted = answers[key].numpy(), expected["value"]
            if found.dtype.kind == "f":
                apart = float(np.max(np.abs(found - np.array(wanted, found.dtype)), initial=0))
                fits, words = apart <= float(tolerance), "%.2g apart" % apart
            else:
                plain = np.vectorize(lambda x: x.decode() if isinstance(x, bytes) else x,
                                     otypes=[object])(found).tolist()
                fits = plain == wanted
                words = "the same" if fits else "%r, expected %r" % (plain, wanted)
            print("%s: %s: %s%s" % (name, key, words, "" if fits else ": WRONG"))
            is_same &= fits
    return 0 if is_same else 1


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 1)
    sys.exit(main(*sys.argv[1:]))
