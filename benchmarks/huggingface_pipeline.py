"""Times Hugging Face's pipeline on a folder that it can read. Started by from_python.py, in a
process of its own, with a file of texts and for how long; prints JSON.

Needs torch and transformers, see scripts/setup_benchmark.sh.
"""

import json
import sys

from answering import BATCHES, measure


def load(folder):
    import transformers
    # With memories, which texts by themselves have none of, it fails in batches.
    pipeline = transformers.pipeline("text-classification", model=folder, top_k=None,
                                     model_kwargs={"use_mems_eval": False})

    def answer(texts):
        """The probability of each label, by name, for each text."""
        found = pipeline(texts, batch_size=max(BATCHES), truncation=True, max_length=512)
        return [{one["label"]: one["score"] for one in labels} for labels in found]
    return answer


def main(folder, texts, seconds):
    with open(texts, encoding="utf-8") as f:
        print(json.dumps(measure(lambda: load(folder), json.load(f)["texts"], float(seconds))))


if __name__ == "__main__":
    main(*sys.argv[1:])
