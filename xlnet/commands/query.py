"""Programs that query a pretrained model: xlnet fill and generate, and what they share."""

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from xlnet.commands import cli
from xlnet.inference.load import open_model
from xlnet.inference.settings import (
    FillingSettings,
    GenerationSettings,
    LoadSettings,
)
from xlnet.settings.fields import Settings, setting
from xlnet.support import files
from xlnet.support.errors import wrong


class TextInputs(Settings):
    """The texts, from either `text` or `input`, and where the outputs go."""

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


def texts(settings: TextInputs) -> Iterator[str]:
    """An iterator over the text of --text, or over the lines of --input that are not blank,
    stripped. The call checks --input and --output; lines are read when the iterator is."""
    from xlnet.tasks.files import forms

    inputs = filter(None, [settings.input])  # none with --text
    files.check_output(settings.output, inputs)
    if settings.input is None:
        return iter([settings.text or ""])
    if settings.input != "-":
        files.require_file(settings.input, "input")
    lines = map(str.strip, forms.lines(settings.input, "input"))
    return filter(None, lines)


def write_json_lines(output: str, objects: Iterable[dict[str, Any]]) -> None:
    """Writes objects to the file `output`, one a line, as the iterable yields them; "-": to the
    standard output."""
    lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in objects)
    files.write_lines(output, lines)
    if not files.is_standard_output(output):
        print(f"written: {output}")


@cli.program(LoadSettings, TextInputs, FillingSettings)
def fill(
    model_settings: LoadSettings, inputs: TextInputs, settings: FillingSettings
) -> None:
    """Fills blanks in texts with a pretrained model (infilling).

    A blank is a word of one or several pieces. The likeliest fillings come first, with the joint
    probability of all their pieces in a factorization order.

    Examples:
      xlnet fill --model_dir=model --text='Return the ___ of the ___.'
      xlnet fill --model_dir=model --input=texts.txt --output=fillings.jsonl
    """
    # The model reads one of two equal iterators, and the other one names the text of each result.
    asked, shown = itertools.tee(texts(inputs))
    with open_model(model_settings) as model:
        filled = zip(shown, model.pipe(asked, "fill", **vars(settings)))
        if inputs.output:
            write_json_lines(inputs.output, _filled_objects(filled))
            return
        for text, fillings in filled:
            print(text)
            for filling in fillings:
                percent = 100 * filling.probability
                print(f"{percent:10.4f} %  {filling.text}", flush=True)


def _filled_objects(filled: Iterable[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the objects of `--output`. filled: pairs of a text and its list of `Filling`."""
    for text, fillings in filled:
        yield {"text": text, "fillings": [each._asdict() for each in fillings]}


@cli.program(LoadSettings, TextInputs, GenerationSettings)
def generate(
    model_settings: LoadSettings, inputs: TextInputs, settings: GenerationSettings
) -> None:
    """Generates text with a pretrained model, causal or permutation: sampled, greedy or by beam
    search.

    The text is shown as it is generated; --output generates in batches.

    Examples:
      xlnet generate --model_dir=model --text='Once upon' --top_p=0.9 --seed=1
      xlnet generate --model_dir=model --input=prompts.txt --output=texts.jsonl --beams=4
    """
    prompts = texts(inputs)
    with open_model(model_settings) as model:
        if inputs.output:
            # The model reads one of two equal iterators; the other one names each text's prompt.
            asked, shown = itertools.tee(prompts)
            pairs = zip(shown, model.pipe(asked, "generate", **vars(settings)))
            objects = ({"prompt": prompt, **text._asdict()} for prompt, text in pairs)
            write_json_lines(inputs.output, objects)
            return
        for prompt in prompts:
            print(prompt, end="", flush=True)
            for part in model.stream(prompt, **vars(settings)):
                print(part.text, end="", flush=True)
            print(flush=True)
