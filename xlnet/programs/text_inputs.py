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
from xlnet.settings.fields import Settings, same_as, setting

if TYPE_CHECKING:
    from xlnet.serving.model import Model


@dataclasses.dataclass(frozen=True)
class TextInputs(Settings):
    """The texts: either text or input."""

    text: Optional[str] = setting(None, "the text")
    input: Optional[str] = setting(
        None,
        "files of texts, one a line: paths and patterns with commas between; -: standard input",
    )
    encoding: Optional[str] = same_as(InputSettings, "encoding")
    output: Optional[str] = setting(
        None,
        "file of JSON lines to write instead of showing the outputs; -: standard output",
        is_result=True,
    )

    def check(self) -> None:
        from xlnet.tokenization.tokenizer import is_text

        super().check()
        if (self.text is None) == (self.input is None):
            raise UserError(
                "{}, expected either text or input".format(
                    "no text is given" if self.text is None else "text and input are given"
                )
            )
        if self.encoding is not None:
            encodings.check(self.encoding)
        if self.text is not None and not is_text(self.text):
            raise UserError(f"text: found {self.text!r:.80}, expected UTF-8")

    def texts(self) -> Iterator[tuple[str, Union[str, UserError]]]:
        """Yields (place, text) of each text; a line that is not in the encoding is an error."""
        return (
            iter([("text", self.text or "")])
            if self.input is None
            else lines_of(self.input, self.encoding)
        )


def input_of(patterns: str) -> str:
    """The input that --input names: "-", the standard input; a file; or `readers.Paths` of several
    paths and glob patterns with commas between, in this order."""
    from xlnet.tasks.files.readers import Paths

    return patterns if patterns == "-" or os.path.isfile(patterns) else Paths.of(patterns, "input")


def check_files(settings: TextInputs) -> None:
    """As `files.check_output`; raises UserError if an input does not exist, too."""
    from xlnet.tasks.files.readers import each_path

    paths = each_path(input_of(settings.input)) if settings.input else ()
    files.check_output(settings.output, paths)


def lines_of(
    patterns: str, encoding: Optional[str] = None
) -> Iterator[tuple[str, Union[str, UserError]]]:
    """Yields where each line that is not blank is, and its text or what is wrong with it.

    `encoding` None: UTF-8, or as a byte order mark says.
    """
    from xlnet.tasks.files import readers
    from xlnet.tokenization.tokenizer import is_text

    for path in readers.each_path(input_of(patterns)):
        for number, line in enumerate(readers.read_lines(path, "input", encoding), 1):
            place = f"input {path}, line {number}"
            try:  # bytes that are not UTF-8 are half surrogates
                text = (
                    line
                    if is_text(line)
                    else files.utf8(line.encode(errors="surrogateescape"), place)
                )
            except UserError as e:
                yield place, e
                continue
            if text.strip():
                yield place, text.strip()


def load(settings: LoadSettings, **more: Any) -> "Model":
    """The model of `LoadSettings`; more: other arguments of `xlnet.load`."""
    values = dataclasses.asdict(settings)
    return xlnet.load(values.pop("model_dir"), **values, **more)


def run(
    settings: TextInputs,
    query: Callable[[Iterator[str]], Iterator[Any]],
    as_json: Callable[[str, Any], Iterable[dict[str, Any]]],
    show: Callable[[str], None],
) -> None:
    """Writes the results of all texts as JSON lines, or shows them one by one.

    Bad texts of a file are named and left out, and the program ends with status 1.

    query: function from texts to their results, or their UserErrors.
    as_json: function from a text and its result to JSON objects.
    show: prints the result of one text.
    """
    # Results come in the order of the texts; the texts are kept here until theirs comes.
    asked: collections.deque[tuple[str, str]] = collections.deque()  # without a result yet
    count = bad = 0

    def note(error: UserError) -> None:
        """Names a bad text of a file; one that is given alone ends the program."""
        nonlocal bad
        if settings.input is None:
            raise error
        bad += 1
        print(error, file=sys.stderr, flush=True)

    def texts() -> Iterator[str]:
        nonlocal count
        for place, text in settings.texts():
            count += 1
            if isinstance(text, UserError):
                note(text)
            else:
                asked.append((place, text))
                yield text

    def lines() -> Iterator[str]:
        for result in query(texts()):
            place, text = asked.popleft()
            if isinstance(result, UserError):
                note(UserError(f"{place}: {result}"))
                continue
            for found in as_json(text, result):
                yield json.dumps(found, ensure_ascii=False) + "\n"
        if bad == count:  # before an empty file is written
            end()

    def end() -> None:
        if bad:
            raise UserError(
                f"input {settings.input}: {bad} of {count} texts are bad and have no result"
            )

    # To a file, texts are computed in batches; otherwise one after the other, and each is shown at
    # once.
    if settings.output:
        files.write_lines(settings.output, lines())
        if not files.is_standard_output(settings.output):
            print(f"written: {settings.output}")
    else:
        for text in texts():
            place, _ = asked.popleft()
            try:
                show(text)
            except UserError as e:
                note(UserError(f"{place}: {e}"))
    end()
