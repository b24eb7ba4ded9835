"""The fenced blocks of a Markdown page, and what is said of how they are tried.

CONTRIBUTING.md ("Commands in the documents") says how blocks are marked.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple, Optional

COMMANDS = ("bash", "console", "python")    # what a reader may copy and run
_WRITTEN = {"sh": "bash", "shell": "bash", "zsh": "bash", "py": "python", "pycon": "python"}
KINDS = ("run", "fails", "run by", "not run", "given")

_FENCE = re.compile(r"( *)(```+|~~~+)\s*([\w-]*)")
_MARK = re.compile(r"(not run|run by|run|fails|given)(?![\w-])[ :]*(.*)", re.DOTALL)


class Mark(NamedTuple):
    """What a comment says of the block that follows it.

    kind: one of `KINDS`. "fails" is run, too, and has to end with a status other than 0.
    detail: of "run by" the test's file, of "not run" the reason, of "given" the commands.
    """
    kind: str
    detail: str

    @property
    def flags(self) -> dict[str, str]:
        """What is added to the command lines of a program, by its name."""
        return dict(line.split(maxsplit=1) for line in self.detail.splitlines() if line.strip())


class Block(NamedTuple):
    """A fenced block; of commands that are `given`, one without a language.

    line: where it begins in the file, from 1 on.
    """
    page: str
    line: int
    language: str
    text: str
    mark: Optional[Mark]

    @property
    def place(self) -> str:
        return "%s:%d" % (self.page, self.line)

    def script(self) -> str:
        """What a shell is to run: of a console session the lines behind `$`, without answers."""
        if not self.language:
            return self.mark.detail
        if self.language != "console":
            return self.text
        commands, goes_on = [], False
        for line in self.text.splitlines():
            if goes_on or line.startswith("$ "):
                commands.append(line if goes_on else line[2:])
                goes_on = line.endswith("\\")
        return "\n".join(commands) + "\n"

    def not_printed(self, output: str) -> list[str]:
        """Lines that a console session shows and that `output` lacks, whatever their numbers."""
        if self.language != "console":
            return []
        printed = {_without_numbers(line) for line in output.splitlines()}
        shown = self.text.splitlines()
        commands = set(self.script().splitlines())
        return [line for line in shown if line.strip() not in ("", "...")
                and not line.startswith("$ ") and line not in commands
                and _without_numbers(line) not in printed]


def _without_numbers(line):
    return " ".join(re.sub(r"-?[\d.,:]+(e[-+]\d+)?", "#", line).split())


def of_page(page: str, text: str) -> Iterator[Block]:
    """The blocks of a page in order, and between them what is `given`."""
    lines = text.splitlines()
    number, mark = 0, None
    while number < len(lines):
        began, line = number, lines[number].strip()
        number += 1
        if line.startswith("<!--"):
            while "-->" not in lines[number - 1] and number < len(lines):
                number += 1
            mark = _mark("\n".join(lines[began:number]))
            if mark and mark.kind == "given":
                yield Block(page, began + 1, "", "", mark)
                mark = None
            continue
        fence = _FENCE.match(lines[began])
        if fence:
            while number < len(lines) and not re.fullmatch(
                    re.escape(fence[2]) + "+", lines[number].strip()):
                number += 1
            inside = "".join(inner + "\n" for inner in lines[began + 1:number])
            yield Block(page, began + 1, fence[3], textwrap.dedent(inside), mark)
            number += 1
        if line:
            mark = None


def _mark(comment: str) -> Optional[Mark]:
    inside = comment.strip()[len("<!--"):].partition("-->")[0].strip()
    found = _MARK.fullmatch(inside)
    return Mark(found[1], textwrap.dedent(found[2]).strip()) if found else None


def fault(block: Block, root) -> Optional[str]:
    """What is wrong with how a block is marked, or None.

    Args:
      root: pathlib's path of the repository.
    """
    if block.language in _WRITTEN:
        return "the language is '%s', write %s" % (block.language, _WRITTEN[block.language])
    if not block.language and not (block.mark and block.mark.kind == "given"):
        return "a block without a language: bash, console or python for what can be run, else text"
    if block.mark is None:
        return "not marked: neither run nor said why not" if block.language in COMMANDS else None
    kind, detail = block.mark
    if kind == "not run" and not detail:
        return "'not run' without a reason"
    if kind == "run by" and not (root / detail).is_file():
        return "run by '%s', which is no file" % detail
    if kind in ("run", "fails"):
        alone = [line for line in detail.splitlines() if len(line.split(maxsplit=1)) == 1]
        if alone:
            return "'%s': expected a program and the flags that are added to it" % alone[0]
        if block.language == "console" and not block.script().strip():
            return "a console session without a line that begins with '$ '"
    return None
