"""Finds texts that say nearly the same: pairs whose vectors by a pretrained model are most alike.

    python examples/find_duplicates/find.py sample_run/pretrained texts.tsv

The file is a table with a header and a column "text". Texts that are equal to the letter are
counted and left out.
"""

import csv
import os
import sys

sys.path.insert(
    0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)

import numpy as np

import xlnet

SHOWN = 5


def read(path):
    """The different texts of a table."""
    with open(path, encoding="utf-8", newline="") as f:
        texts = [
            row["text"]
            for row in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    different = list(dict.fromkeys(texts))
    print(f"{len(texts)} texts, {len(texts) - len(different)} of them there before")
    return different


def similarities(model, texts):
    """float32 [n,n]: cosines of the texts' vectors, without what all of them have in common."""
    vectors = model.vectors(texts)  # [n,d_model]
    vectors = vectors - vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def main(model_dir, path):
    texts = read(path)
    with xlnet.load(model_dir) as model:
        alike = similarities(model, texts)
    firsts, seconds = np.triu_indices(len(texts), k=1)  # each pair once
    for place in alike[firsts, seconds].argsort()[::-1][:SHOWN]:
        first, second = firsts[place], seconds[place]
        print(f"\n{alike[first, second]:.3f}\n  {texts[first]}\n  {texts[second]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
