"""The code of docs/explanation/paper.md, XLNet in NumPy: an independent oracle."""

import types

from helpers.paths import ROOT

PAGE = ROOT / "docs" / "explanation" / "paper.md"


def load() -> types.ModuleType:
    """A module with what the page's Python blocks define, from top to bottom."""
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    in_block = False
    code = []
    for line in lines:
        if line.startswith("```"):
            in_block = line == "```python"
            line = ""
        code.append(
            line if in_block else ""
        )  # so that errors name the lines of the page
    module = types.ModuleType("paper")
    exec(compile("\n".join(code), str(PAGE), "exec"), module.__dict__)
    return module
