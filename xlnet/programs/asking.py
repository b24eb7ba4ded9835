"""What programs that query a model share: the model, the input texts, the output."""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable, Optional

import xlnet
from xlnet import encodings, files
from xlnet.errors import UserError
from xlnet.serving.settings import LoadSettings
from xlnet.settings.data import InputSettings
from xlnet.settings.fields import Settings, as_in, setting

if TYPE_CHECKING:
    from xlnet.serving.model import Model


@dataclasses.dataclass(frozen=True)
class AskingSettings(Settings):
    """The texts: exactly one of text, input, interactive."""
    text: Optional[str] = setting(None, "the text")
    input: Optional[str] = setting(None, "files of texts, one a line: paths and patterns with "
                                   "commas between; -: standard input", aliases=("input_file",))
    encoding: Optional[str] = as_in(InputSettings, "encoding")
    interactive: bool = setting(False, "prompt for texts, one after another")
    output: Optional[str] = setting(None, "file of JSON lines to write instead of showing the "
                                    "outputs; -: standard output", is_result=True)

    def check(self) -> None:
        from xlnet.tokenization.tokenizer import is_text
        super().check()
        given = [name for name in ("text", "input", "interactive")
                 if getattr(self, name) not in (None, False)]
        if len(given) != 1:
            raise UserError("%s, expected exactly one of text, input and interactive" % (
                " and ".join(given) + " are given" if given else "no text is given"))
        if self.encoding is not None:
            encodings.check(self.encoding)
        if self.text is not None and not is_text(self.text):
            raise UserError("text: found %.80r, expected UTF-8" % self.text)
        if self.interactive and self.output:
            raise UserError("output: interactive outputs are shown; give text or input with it")

    def texts(self) -> Iterator[str]:
        """The texts of the flag or of the files, without blank lines."""
        return iter([self.text or ""]) if self.input is None else texts_of(
            self.input, self.encoding)


def input_of(patterns: str) -> str:
    """What --input names: "-", the standard input; a file; or `readers.Paths`, of several paths and
    glob patterns with commas between, in this order.

    Raises:
      UserError: a path or a pattern has no file.
    """
    from xlnet.tasks.files.readers import Paths
    return patterns if patterns == "-" or os.path.isfile(patterns) else Paths.of(patterns, "input")


def texts_of(patterns: str, encoding: Optional[str] = None) -> Iterator[str]:
    """Yields the lines that are not blank, of the files that `input_of` finds.

    Raises:
      UserError: as `input_of`, or a line is not of this encoding; None: UTF-8.
    """
    from xlnet.tasks.files.readers import each_path
    for path in each_path(input_of(patterns)):
        yield from _texts_of_file(path, encoding)


def _texts_of_file(path, encoding):
    with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as f:
        for number, line in enumerate(f, 1):
            text = files.utf8(line, "input %s, line %d" % (path, number),
                              encoding=encoding).strip()
            if text:
                yield text


def load(settings: LoadSettings) -> "Model":
    """The model of `LoadSettings`."""
    values = dataclasses.asdict(settings)
    return xlnet.load(values.pop("model_dir"), **values)


def run(settings: AskingSettings, answer: Callable[[str], Iterable[dict[str, Any]]],
        show: Callable[[str], None]) -> None:
    """Queries the model with all texts.

    Args:
      settings: says which, and where the outputs go.
      answer: returns the outputs for a text, as JSON objects.
      show: prints the outputs for a text.
    """
    if settings.interactive:
        _talk(show)
    elif settings.output:
        files.write_lines(settings.output, (
            json.dumps(found, ensure_ascii=False) + "\n"
            for text in settings.texts() for found in answer(text)))
        if settings.output != "-":
            print("written: %s" % settings.output)
    else:
        for text in settings.texts():
            show(text)


def _talk(show):
    """Prompts until the input ends; an error in a text is shown and does not end the program."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        print(prompt, end="", flush=True)
        line = sys.stdin.buffer.readline()      # bytes, which need not be UTF-8
        if not line:
            return
        try:
            text = files.utf8(line, "text").strip()
            if text:
                show(text)
        except UserError as e:
            print(e, file=sys.stderr, flush=True)
