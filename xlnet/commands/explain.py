"""Shows how much each word of a text counts for the prediction of a fine-tuned model: how much the
output falls without the word.

For models that classify (one label or any number), score or rank. For a document of a ranking, text
is the query and text_b the document.
"""

import dataclasses
from typing import Any, Optional

from xlnet.commands import cli, text_inputs
from xlnet.inference.settings import LoadSettings
from xlnet.settings.fields import Settings, required, setting
from xlnet.support import errors


@dataclasses.dataclass(frozen=True)
class WordSettings(Settings):
    """xlnet explain: which text."""

    text: str = required("the text")
    text_b: Optional[str] = setting(None, "the second text of a pair")


def main(model_settings: LoadSettings, settings: WordSettings) -> None:
    with text_inputs.load(model_settings) as model:
        asked: Any = settings.text
        if settings.text_b is not None:
            asked = settings.text, settings.text_b
        found = model.explain(asked)
        read = ""
        if found.tokens_read < found.tokens:
            read = f"; {found.tokens_read} of {found.tokens} tokens were read"
        print(f"{found.output} {found.value:.4f}{read}")
        for number, (word, weight) in enumerate(zip(found.words, found.weights)):
            if number == found.first_words:
                print()
            print(f"{weight:+9.4f}  {errors.escape_control_characters(word)}")


def run() -> None:
    cli.run(
        main,
        LoadSettings,
        WordSettings,
        about=__doc__,
        examples=("--model_dir=model --text='A film that nobody needs.'",),
    )
