"""Programs that query a model: xlnet fill, generate and explain, and what they share."""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Optional

import xlnet
from xlnet.commands import cli
from xlnet.inference.settings import (
    FillingSettings,
    GenerationSettings,
    LoadSettings,
)
from xlnet.settings.fields import Settings, required, setting
from xlnet.support import errors, files
from xlnet.support.errors import wrong

if TYPE_CHECKING:
    from xlnet.inference.model import Model


@dataclasses.dataclass(frozen=True)
class TextInputs(Settings):
    """The texts: either text or input."""

    text: Optional[str] = setting(None, "the text")
    input: Optional[str] = setting(
        None, "file of texts in UTF-8, one a line; -: standard input"
    )
    output: Optional[str] = setting(
        None,
        "file of JSON lines to write instead of showing the outputs; -: standard output",
    )

    def check(self) -> None:
        super().check()
        if (self.text is None) == (self.input is None):
            raise wrong("text, input", "both or none", "one of them")


@dataclasses.dataclass(frozen=True)
class PairSettings(Settings):
    """xlnet explain: which text."""

    text: str = required("the text")
    text_b: Optional[str] = setting(None, "the second text of a pair")


def check_files(settings: TextInputs) -> None:
    """Checks the files before a model is loaded."""
    inputs = [settings.input] if settings.input else []
    if inputs and inputs != ["-"]:
        files.require_file(inputs[0], "input")
    files.check_output(settings.output, inputs)


def texts(settings: TextInputs) -> Iterator[str]:
    """Yields the text that is given, or each line that is not blank."""
    from xlnet.tasks.files import forms

    if settings.input is None:
        yield settings.text or ""
        return
    for line in forms.lines(settings.input, "input"):
        if line.strip():
            yield line.strip()


def load(settings: LoadSettings) -> "Model":
    """The model of `LoadSettings`."""
    values = dataclasses.asdict(settings)
    return xlnet.load(values.pop("model_dir"), **values)


def results(
    settings: TextInputs, model: "Model", verb: str, how: Settings
) -> Iterator[tuple[str, Any]]:
    """Yields each text with its result by a method of a model, computed in batches."""
    asked, shown = itertools.tee(texts(settings))
    return zip(shown, model.pipe(asked, verb, **vars(how)))


def write(output: str, objects: Iterable[dict[str, Any]]) -> None:
    """Writes JSON lines to the output."""
    lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in objects)
    files.write_lines(output, lines)
    if not files.is_standard_output(output):
        print(f"written: {output}")


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
        filled = results(settings, model, "fill", how)
        if settings.output:
            write(settings.output, map(_filled_object, filled))
            return
        for text, found in filled:
            print(text)
            for filling in found:
                percent = 100 * filling.probability
                print(f"{percent:10.4f} %  {filling.text}", flush=True)


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
    with load(model_settings) as model:
        if settings.output:
            generated = results(settings, model, "generate", how)
            objects = (dict(prompt=text, **one._asdict()) for text, one in generated)
            write(settings.output, objects)
            return
        for text in texts(settings):
            print(text, end="", flush=True)
            for part in model.stream(text, **vars(how)):
                print(part.text, end="", flush=True)
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
    with cli.command(
        LoadSettings, TextInputs, FillingSettings, about=fill.__doc__
    ) as settings:
        fill(*settings)


def run_generate() -> None:
    with cli.command(
        LoadSettings, TextInputs, GenerationSettings, about=generate.__doc__
    ) as settings:
        generate(*settings)


def run_explain() -> None:
    with cli.command(LoadSettings, PairSettings, about=explain.__doc__) as settings:
        explain(*settings)
