"""Programs that query a model: xlnet fill, generate and explain, and what they share."""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Optional

import xlnet
from xlnet.commands import cli
from xlnet.inference.settings import (
    FillingSettings,
    GenerationSettings,
    LoadSettings,
)
from xlnet.settings.data import InputSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.support import encodings, errors, files
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
    )

    def check(self) -> None:
        super().check()
        if (self.text is None) == (self.input is None):
            raise wrong("text, input", "both or none", "one of them")
        if self.encoding is not None:
            encodings.check(self.encoding)


@dataclasses.dataclass(frozen=True)
class PairSettings(Settings):
    """xlnet explain: which text."""

    text: str = required("the text")
    text_b: Optional[str] = setting(None, "the second text of a pair")


def input_of(patterns: str) -> str:
    """The input that --input names: "-", the standard input; a file; or several paths and glob
    patterns with commas between, in this order."""
    from xlnet.tasks.files.readers import expanded

    if patterns == "-" or os.path.isfile(patterns):
        return patterns
    return expanded(patterns, "input")


def check_files(settings: TextInputs) -> None:
    """As `files.check_output`; raises UserError if an input does not exist, too."""
    from xlnet.tasks.files.readers import each_path

    paths = each_path(input_of(settings.input)) if settings.input else ()
    files.check_output(settings.output, paths)


def texts(settings: TextInputs) -> Iterator[tuple[str, str]]:
    """Yields (place, text) of each text: the one that is given, or each line that is not blank."""
    from xlnet.corpus.tokenizer import is_text
    from xlnet.tasks.files import forms, readers

    if settings.input is None:
        yield "text", settings.text or ""
        return
    for path in readers.each_path(input_of(settings.input)):
        lines = forms.lines(path, "input", settings.encoding)
        for number, line in enumerate(lines, 1):
            place = f"input {path}, line {number}"
            if not is_text(line):  # bytes that are not UTF-8 are half surrogates
                raise wrong(place, repr(line[:80]), "UTF-8", "--encoding")
            if line.strip():
                yield place, line.strip()


def load(settings: LoadSettings) -> "Model":
    """The model of `LoadSettings`."""
    values = dataclasses.asdict(settings)
    return xlnet.load(values.pop("model_dir"), **values)


def results(
    settings: TextInputs, model: "Model", verb: str, how: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yields each text with its result by a method of a model, computed in batches. A bad text ends
    the program."""
    inputs, queried = itertools.tee(texts(settings))
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


def fill(
    model_settings: LoadSettings, settings: TextInputs, how: FillingSettings
) -> None:
    """Fills blanks in texts with a pretrained model (infilling).

    A blank is a word of one or several pieces. The likeliest fillings come first, with the joint
    probability of all their pieces in a factorization order.

    Examples:
      xlnet fill --model_dir=model --text='Return the ___ of the ___.'
      xlnet fill --model_dir=model --input=texts.txt --output=fillings.jsonl
    """
    check_files(settings)
    with load(model_settings) as model:
        filled = results(settings, model, "fill", vars(how))
        if settings.output:
            write(settings, map(_filled_object, filled))
            return
        for text, found in filled:
            print(text)
            for filling in found:
                print(
                    f"{100 * filling.probability:10.4f} %  {filling.text}", flush=True
                )


def _filled_object(filled: tuple[str, Any]) -> dict[str, Any]:
    text, found = filled
    return {"text": text, "fillings": [each._asdict() for each in found]}


def generate(
    model_settings: LoadSettings, settings: TextInputs, how: GenerationSettings
) -> None:
    """Generates text with a pretrained model, causal or permutation: sampled, greedy or by beam
    search.

    The text is shown as it is generated; --output generates in batches.

    Examples:
      xlnet generate --model_dir=model --text='Once upon' --top_p=0.9 --seed=1
      xlnet generate --model_dir=model --input=prompts.txt --output=texts.jsonl --beams=4
    """
    check_files(settings)
    chosen = vars(how)
    with load(model_settings) as model:
        if settings.output:
            generated = results(settings, model, "generate", chosen)
            objects = (dict(prompt=text, **one._asdict()) for text, one in generated)
            write(settings, objects)
            return
        for place, text in texts(settings):
            print(text, end="", flush=True)
            try:
                for part in model.stream(text, **chosen):
                    print(part.text, end="", flush=True)
            except UserError as e:
                raise UserError(f"{place}: {e}") from None
            print(flush=True)


def explain(model_settings: LoadSettings, settings: PairSettings) -> None:
    """Shows how much each word of a text counts for the prediction of a fine-tuned model: how much
    the output falls without the word.

    For models that classify (one label or any number), score or rank. For a document of a ranking,
    text is the query and text_b the document.

    Examples:
      xlnet explain --model_dir=model --text='A film that nobody needs.'
    """
    with load(model_settings) as model:
        pair = settings.text, settings.text_b
        found = model.explain(settings.text if settings.text_b is None else pair)
        print(f"{found.output} {found.value:.4f}")
        for number, (word, weight) in enumerate(zip(found.words, found.weights)):
            if number == found.first_words:
                print()
            print(f"{weight:+9.4f}  {errors.escape_control_characters(word)}")


def run_fill() -> None:
    cli.run(fill, LoadSettings, TextInputs, FillingSettings)


def run_generate() -> None:
    cli.run(generate, LoadSettings, TextInputs, GenerationSettings)


def run_explain() -> None:
    cli.run(explain, LoadSettings, PairSettings)
