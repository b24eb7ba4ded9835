"""What programs that query a model share: the model, the input texts, the output."""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Optional

import xlnet
from xlnet.inference.settings import LoadSettings
from xlnet.settings.data import InputSettings
from xlnet.settings.fields import Settings, same_as, setting
from xlnet.support import encodings, files
from xlnet.support.errors import UserError, wrong

if TYPE_CHECKING:
    from xlnet.inference.model import Model


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
        from xlnet.corpus.tokenizer import is_text

        super().check()
        if (self.text is None) == (self.input is None):
            raise UserError("expected either text or input, found both or none")
        if self.encoding is not None:
            encodings.check(self.encoding)
        if self.text is not None and not is_text(self.text):
            raise wrong("text", repr(self.text[:80]), "UTF-8")

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yields (place, text) of each text."""
        if self.input is None:
            return iter([("text", self.text or "")])
        return lines_of(self.input, self.encoding)


def input_of(patterns: str) -> str:
    """The input that --input names: "-", the standard input; a file; or `readers.Paths` of several
    paths and glob patterns with commas between, in this order."""
    from xlnet.tasks.files.readers import Paths

    return (
        patterns
        if patterns == "-" or os.path.isfile(patterns)
        else Paths.of(patterns, "input")
    )


def check_files(settings: TextInputs) -> None:
    """As `files.check_output`; raises UserError if an input does not exist, too."""
    from xlnet.tasks.files.readers import each_path

    paths = each_path(input_of(settings.input)) if settings.input else ()
    files.check_output(settings.output, paths)


def lines_of(
    patterns: str, encoding: Optional[str] = None
) -> Iterator[tuple[str, str]]:
    """Yields (place, text) of each line that is not blank.

    `encoding` None: UTF-8.
    """
    from xlnet.corpus.tokenizer import is_text
    from xlnet.tasks.files import readers

    for path in readers.each_path(input_of(patterns)):
        for number, line in enumerate(readers.read_lines(path, "input", encoding), 1):
            place = f"input {path}, line {number}"
            if not is_text(line):  # bytes that are not UTF-8 are half surrogates
                raise wrong(place, repr(line[:80]), "UTF-8", "--encoding")
            if line.strip():
                yield place, line.strip()


def load(settings: LoadSettings, **more: Any) -> "Model":
    """The model of `LoadSettings`; more: other arguments of `xlnet.load`."""
    values = dataclasses.asdict(settings)
    return xlnet.load(values.pop("model_dir"), **values, **more)


def results(
    settings: TextInputs, model: "Model", verb: str, how: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yields each text with its result by a method of a model, computed in batches. A bad text ends
    the program."""
    inputs, queried = itertools.tee(settings.texts())
    found = model.pipe((text for _, text in queried), verb, errors="return", **how)
    for (place, text), result in zip(inputs, found):
        if isinstance(result, UserError):
            raise UserError(f"{place}: {result}")
        yield text, result


def write(settings: TextInputs, objects: Iterable[dict[str, Any]]) -> None:
    """Writes JSON lines to the output."""
    files.write_lines(
        settings.output or "-",
        (json.dumps(each, ensure_ascii=False) + "\n" for each in objects),
    )
    if not files.is_standard_output(settings.output):
        print(f"written: {settings.output}")
