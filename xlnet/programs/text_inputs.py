"""What programs that query a model share: the model, the input texts, the output."""

import collections
import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import xlnet
from xlnet import encodings, files
from xlnet.errors import UserError
from xlnet.serving.settings import LoadSettings
from xlnet.settings.data import InputSettings
from xlnet.settings.fields import Settings, as_in, setting

if TYPE_CHECKING:
    from xlnet.serving.model import Model


@dataclasses.dataclass(frozen=True)
class TextInputs(Settings):
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

    def texts(self) -> Iterator[tuple[str, Union[str, UserError]]]:
        """Where each text is, and the text; a line that is not of the encoding is an error."""
        return iter([("text", self.text or "")]) if self.input is None else lines_of(
            self.input, self.encoding)


def input_of(patterns: str) -> str:
    """What --input names: "-", the standard input; a file; or `readers.Paths`, of several paths and
    glob patterns with commas between, in this order.

    Raises:
      UserError: a path or a pattern has no file.
    """
    from xlnet.tasks.files.readers import Paths
    return patterns if patterns == "-" or os.path.isfile(patterns) else Paths.of(patterns, "input")


def check_files(settings: TextInputs) -> None:
    """As `files.check_output`; raises UserError if an input does not exist, too."""
    from xlnet.tasks.files.readers import each_path
    paths = each_path(input_of(settings.input)) if settings.input else ()
    files.check_output(settings.output, paths)


def lines_of(patterns: str, encoding: Optional[str] = None) -> Iterator[
        tuple[str, Union[str, UserError]]]:
    """Yields where each line that is not blank is, and its text or what is wrong with it.

    Args:
      patterns: as of `input_of`.
      encoding: None: UTF-8, or UTF-16 or UTF-32 where the file shows it.

    Raises:
      UserError: as `input_of`; or a file is empty, or damaged in an encoding other than UTF-8.
    """
    from xlnet.tasks.files import readers
    from xlnet.tokenization.tokenizer import is_text
    for path in readers.each_path(input_of(patterns)):
        for number, line in enumerate(readers.read_lines(path, "input", encoding, skips=True), 1):
            place = "input %s, line %d" % (path, number)
            try:        # bytes that are not UTF-8 are half surrogates
                text = line if is_text(line) else files.utf8(
                    line.encode(errors="surrogateescape"), place)
            except UserError as e:
                yield place, e
                continue
            if text.strip():
                yield place, text.strip()


def load(settings: LoadSettings, **more: Any) -> "Model":
    """The model of `LoadSettings`; more: other arguments of `xlnet.load`."""
    values = dataclasses.asdict(settings)
    return xlnet.load(values.pop("model_dir"), **values, **more)


def run(settings: TextInputs, query: Callable[[Iterator[str]], Iterator[Any]],
        as_json: Callable[[str, Any], Iterable[dict[str, Any]]],
        show: Callable[[str], None]) -> None:
    """Shows or writes the results of all texts.

    Args:
      settings: which texts, and where the results go.
      query: function from texts to their results, or their UserErrors.
      as_json: function from a text and its result to JSON objects.
      show: prints the result of one text.

    Raises:
      UserError: the one text is bad; or some of a file are: they are named, and left out.
    """
    if settings.interactive:
        return _talk(show)
    asked: collections.deque[tuple[str, str]] = collections.deque()     # without a result yet
    count = bad = 0

    def note(error):
        """Names a bad text of a file; one that is given alone ends the program."""
        nonlocal bad
        if settings.input is None:
            raise error
        bad += 1
        print(error, file=sys.stderr, flush=True)

    def texts():
        nonlocal count
        for place, text in settings.texts():
            count += 1
            if isinstance(text, UserError):
                note(text)
            else:
                asked.append((place, text))
                yield text

    def lines():
        for result in query(texts()):
            place, text = asked.popleft()
            if isinstance(result, UserError):
                note(UserError("%s: %s" % (place, result)))
                continue
            for found in as_json(text, result):
                yield json.dumps(found, ensure_ascii=False) + "\n"
        if bad == count:        # before an empty file is written
            end()

    def end():
        if bad:
            raise UserError("input %s: %d of %d texts are bad and have no result" % (
                settings.input, bad, count))
    if settings.output:
        files.write_lines(settings.output, lines())
        if settings.output != "-":
            print("written: %s" % settings.output)
    else:
        for text in texts():
            place, _ = asked.popleft()
            try:
                show(text)
            except UserError as e:
                note(UserError("%s: %s" % (place, e)))
    end()


def _talk(show):
    """Prompts until the input ends; an error in a text is shown and does not end the program."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        print(prompt, end="", flush=True)
        line = sys.stdin.buffer.readline()      # bytes, which need not be UTF-8
        if not line:
            return
        text = ""
        try:
            text = files.utf8(line, "text").strip()
        except UserError as e:
            print(e, file=sys.stderr, flush=True)
        try:
            if text:
                show(text)
        except UserError as e:
            print("text: %s" % e, file=sys.stderr, flush=True)
