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
    path = os.path.join(model, "assets.extra", "examples.json")
    if not os.path.exists(path):
        raise SystemExit("check_export.py: no %s; expected a directory that xlnet export "
                         "wrote, with its version: exported/1" % path)
    with open(path, encoding="utf-8") as f:
        examples = json.load(f)
    import tensorflow as tf
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    print("TensorFlow %s%s" % (tf.__version__, text_operations(model, examples)))
    is_same = True
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], model)
        for name, example in examples.items():
            signature = loaded.signature_def[name]
            found = session.run(
                {key: info.name for key, info in signature.outputs.items()},
                {signature.inputs[key].name: value["value"]
                 for key, value in example["inputs"].items()})
            for key, expected in example["outputs"].items():
                fits, words = compared(found[key], expected["value"], float(tolerance))
                print("%s: %s: %s%s" % (name, key, words, "" if fits else ": WRONG"))
                is_same &= fits
    return 0 if is_same else 1


def text_operations(model, examples):
    """Makes the operations on raw text known, if an example has any; says which these are."""
    if not any(value["dtype"] == "string" for example in examples.values()
               for value in example["inputs"].values()):
        return ""
    try:
        import tensorflow_text
    except ImportError:
        raise SystemExit("check_export.py: %s takes raw text, which needs tensorflow-text: "
                         "pip install tensorflow-text" % model) from None
    return ", tensorflow-text " + tensorflow_text.__version__


def compared(found, expected, tolerance):
    """Whether an array is as expected, and how, in words."""
    import numpy as np
    if found.dtype.kind == "f":
        apart = float(np.max(np.abs(found - np.array(expected, found.dtype)), initial=0))
        return apart <= tolerance, "%.2g apart" % apart
    plain = np.vectorize(lambda value: value.decode() if isinstance(value, bytes) else value,
                         otypes=[object])(found).tolist()
    return plain == expected, "the same" if plain == expected else "%r, expected %r" % (
        plain, expected)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 1)
    sys.exit(main(*sys.argv[1:]))
