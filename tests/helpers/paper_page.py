"""The code of docs/explanation/paper.md, XLNet in NumPy: an independent oracle."""

import types

from helpers.paths import ROOT

PAGE = ROOT / "docs" / "explanation" / "paper.md"


def load() -> types.ModuleType:
    """A module with what the page's Python blocks define, from top to bottom."""
    in_block, code = False, []
    for line in PAGE.read_text(encoding="utf-8").split("\n"):
        is_fence = line.startswith("```")
        in_block = line == "```python" if is_fence else in_block
        # Other lines are empty, so that errors name the lines of the page.
        code.append(line if in_block and not is_fence else "")
    module = types.ModuleType("paper")
    exec(compile("\n".join(code), str(PAGE), "exec"), module.__dict__)
    return module
