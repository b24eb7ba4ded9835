"""Vectors as a folder that TensorBoard's projector reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from xlnet import files

_CONFIG = """embeddings {
  tensor_name: "%s"
  tensor_path: "vectors.tsv"
  metadata_path: "metadata.tsv"
}
"""


def write(directory: str, name: str, vectors: np.ndarray,
          columns: Mapping[str, Sequence[object]]) -> None:
    """Writes vectors, with a table of n values by column.

    Args:
      directory: a new or empty one; it appears once it is complete.
      name: of the vectors, in TensorBoard.
      vectors: [n,D].
    """
    with files.new_directory(directory) as new:
        files.write_lines(os.path.join(new, "vectors.tsv"), (
            "\t".join("%.6g" % value for value in vector) + "\n" for vector in vectors))
        files.write_lines(os.path.join(new, "metadata.tsv"), _metadata(columns))
        files.write_text(os.path.join(new, "projector_config.pbtxt"),
                         _CONFIG % name.replace("\\", "\\\\").replace('"', '\\"'))


def _metadata(columns):
    """The projector takes a single column without its name, and several with theirs."""
    if len(columns) > 1:
        yield "\t".join(columns) + "\n"
    for row in zip(*columns.values()):
        yield "\t".join(" ".join(str(value).split()) or "(blank)" for value in row) + "\n"
