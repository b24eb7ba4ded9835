"""Runs the code of a notebook, cell by cell, and writes the outputs into it: without jupyter.

    .venv/bin/python documents/run_notebook.py docs/explanation/paper.ipynb

What a cell prints and the pictures that it leaves open are its outputs, as in a notebook.
"""

import base64
import contextlib
import io
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(*paths):
    for path in paths:
        with open(path, encoding="utf-8") as f:
            notebook = json.load(f)
        for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run(notebook))):
            cell.update(execution_count=number + 1, outputs=outputs)
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook):
    """Runs the cells in one namespace, one after the other: yields the outputs of each, as a
    notebook has them."""
    import matplotlib
    matplotlib.use("Agg")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook)):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), "cell %d" % (number + 1), "exec"), names)
        text = printed.getvalue()
        yield [{"output_type": "stream", "name": "stdout",
                "text": text.splitlines(keepends=True)}] * bool(text) + list(_pictures())


def _pictures():
    """The figures that are open, as outputs; closes them."""
    import matplotlib.pyplot as plt
    for number in plt.get_fignums():
        figure, content = plt.figure(number), io.BytesIO()
        figure.savefig(content, format="png", bbox_inches="tight", metadata={"Software": None})
        width, height = figure.get_size_inches()
        yield {"output_type": "display_data", "metadata": {}, "data": {
            "image/png": base64.b64encode(content.getvalue()).decode() + "\n",
            "text/plain": ["<Figure size %gx%g>" % (100 * width, 100 * height)]}}
        plt.close(figure)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 1)
    main(*sys.argv[1:])
