"""What programs that query a model share: the model, the input texts, the output."""

import collections
import contextlib
import dataclasses
import io
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Callable, Optional, Union

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


def check_output(output: Optional[str], paths: Iterable[str]) -> None:
    """Raises UserError if the output is a directory, or one of the input files."""
    if output and (output.endswith(os.sep) or os.path.isdir(output)):
        raise UserError("output: %s is a directory, expected a file" % output)
    if output and os.path.exists(output) and any(
            os.path.exists(path) and os.path.samefile(path, output) for path in paths):
        raise UserError("output: %s is an input, too; give another name" % output)


def check_files(settings: AskingSettings) -> None:
    """As `check_output`; raises UserError if an input does not exist, too."""
    from xlnet.tasks.files.readers import each_path
    check_output(settings.output, each_path(input_of(settings.input)) if settings.input else ())


def lines_of(patterns: str, encoding: Optional[str] = None) -> Iterator[
        tuple[str, Union[str, UserError]]]:
    """Yields where each line that is not blank is, and its text or what is wrong with it.

    Args:
      patterns: as of `input_of`.
      encoding: None: UTF-8, or UTF-16 or UTF-32 where the file shows it.

    Raises:
      UserError: as `input_of`; or a file in UTF-16 or UTF-32 is damaged.
    """
    from xlnet.tasks.files import decoding, readers
    for path in readers.each_path(input_of(patterns)):
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else decoding.opener(
                path, "input")() as file:
            for number, line in enumerate(_split(path, file, encoding), 1):
                place = "input %s, line %d" % (path, number)
                try:
                    text = line if isinstance(line, str) else files.utf8(
                        line, place, encoding=encoding)
                except UserError as e:
                    yield place, e
                    continue
                text = (text.lstrip("\ufeff") if number == 1 else text).strip()
                if text:
                    yield place, text


def _split(path: str, file: IO[bytes], encoding: Optional[str]) -> Iterable[Union[str, bytes]]:
    """The lines as bytes, each to be decoded by itself; or as text, in encodings such as UTF-16, in
    which a line feed is not the byte 0x0A."""
    from xlnet.tasks.files import decoding
    start = file.readline() if path == "-" else file.read(decoding.LOOKED_AT)
    encoding = encoding or decoding.shown(path, start)
    if encoding is not None and "\n".encode(encoding) != b"\n":
        content = start + file.read()
        return decoding.Lines(path, lambda: io.BytesIO(content), encoding)
    if path == "-":         # cannot be read twice, and its lines come one after another
        return itertools.chain([start], file)
    file.seek(0)
    return file


def texts_of(patterns: str) -> Iterator[str]:
    """Yields the lines that are not blank, of the files that `input_of` finds.

    Raises:
      UserError: as `input_of`, or a line is not UTF-8.
    """
    for _, text in lines_of(patterns):
        if isinstance(text, UserError):
            raise text
        yield text


def load(settings: LoadSettings) -> "Model":
    """The model of `LoadSettings`."""
    values = dataclasses.asdict(settings)
    return xlnet.load(values.pop("model_dir"), **values)


def run(settings: AskingSettings, query: Callable[[Iterator[str]], Iterator[Any]],
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
    texts = _Texts(settings)
    if settings.output:
        files.write_lines(settings.output, (
            json.dumps(found, ensure_ascii=False) + "\n"
            for text, result in texts.with_results(query) for found in as_json(text, result)))
        if settings.output != "-":
            print("written: %s" % settings.output)
    else:
        for place, text in texts.good():
            try:
                show(text)
            except UserError as e:
                texts.note(place, e)
    texts.end()


class _Texts:
    """The texts of a run; bad ones are named on standard error and counted."""

    def __init__(self, settings: AskingSettings):
        self._settings = settings
        self._count = self._bad = 0

    def good(self) -> Iterator[tuple[str, str]]:
        """Yields (where it is, text) of those that can be read."""
        for place, text in self._settings.texts():
            self._count += 1
            if isinstance(text, UserError):
                self.note(None, text)
            else:
                yield place, text

    def with_results(self, query: Callable[[Iterator[str]], Iterator[Any]]) -> Iterator[tuple]:
        """Yields (text, result) of those that have one.

        Raises:
          UserError: none has.
        """
        asked: collections.deque[tuple[str, str]] = collections.deque()

        def texts():
            for each in self.good():
                asked.append(each)
                yield each[1]
        for result in query(texts()):
            place, text = asked.popleft()
            if isinstance(result, UserError):
                self.note(place, result)
            else:
                yield text, result
        if self._bad == self._count:
            self.end()

    def note(self, place: Optional[str], error: UserError) -> None:
        """Names a bad text of a file; one that is given alone ends the program."""
        line = str(error) if place is None else "%s: %s" % (place, error)
        if self._settings.input is None:
            raise UserError(line)
        self._bad += 1
        print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Raises UserError if there was a bad text."""
        if self._bad:
            raise UserError("input %s: %d of %d texts are bad and have no result" % (
                self._settings.input, self._bad, self._count))


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
