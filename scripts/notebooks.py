"""Notebooks without jupyter: run, written, shown as pages.

    .venv/bin/python scripts/notebooks.py docs/explanation/paper_figures.ipynb

runs the code of a notebook, cell by cell, and writes the outputs into it: what a cell prints, and
the figures that it leaves open.
"""

import base64
import contextlib
import html
import io
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = str(pathlib.Path(__file__).resolve().parents[1])
sys.path.insert(0, ROOT)  # finds the library


def main(*paths):
    for path in map(pathlib.Path, paths):
        notebook = read(path)
        for number, (cell, outputs) in enumerate(
            zip(code_cells(notebook), run(notebook))
        ):
            cell.update(execution_count=number + 1, outputs=outputs)
        path.write_text(
            json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook):
    """Runs the cells in one namespace, one after the other: yields the outputs of each, as a
    notebook has them."""
    import matplotlib

    matplotlib.use("Agg")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook)):
        printed, source = io.StringIO(), "".join(cell["source"])
        with contextlib.redirect_stdout(printed):
            if source.startswith("%%bash\n"):
                _run_bash(source.partition("\n")[2])
            else:
                exec(compile(source, "cell %s" % (number + 1), "exec"), names)
        text = printed.getvalue()
        yield [
            {
                "output_type": "stream",
                "name": "stdout",
                "text": text.splitlines(keepends=True),
            }
        ] * bool(text) + list(_pictures())


def _run_bash(script):
    """A cell of commands: what they print on standard output, with this Python and library."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", script],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PATH=path, PYTHONPATH=ROOT),
    )
    print(done.stdout, end="")


def _pictures():
    """The figures that are open, as outputs; closes them."""
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        figure, content = plt.figure(number), io.BytesIO()
        figure.savefig(
            content, format="png", bbox_inches="tight", metadata={"Software": None}
        )
        plt.close(figure)
        yield {
            "output_type": "display_data",
            "metadata": {},
            "data": {
                "image/png": base64.b64encode(content.getvalue()).decode() + "\n",
                "text/plain": ["a picture"],
            },
        }


def as_markdown(notebook):
    """The text, code and outputs of a notebook as a page that contains its figures; the alternative
    text of a figure is the heading above it, or the last line of the text above."""
    parts, about = [], ""
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            headings = [line for line in text.splitlines() if line.startswith("#")]
            about = re.sub(
                r"[#*`\[\]]|\]\(.*?\)", "", (headings or text.splitlines())[-1]
            ).strip()
        parts.append(
            text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        )
        for output in cell.get("outputs", ()):
            if "text" in output:
                parts.append("```text\n{}```".format("".join(output["text"])))
            else:
                parts.append(
                    '<img alt="Figure: {}" src="data:image/png;base64,{}">'.format(
                        html.escape(about), output["data"]["image/png"].strip()
                    )
                )
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 1)
    main(*sys.argv[1:])
