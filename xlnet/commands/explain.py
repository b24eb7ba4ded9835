"""Shows how much each word of a text counts for the prediction of a fine-tuned model: how much the
output falls without the word.

For models that classify (one label or any number), score or rank. For a document of a ranking, text
is the query and text_b the document.
"""

import dataclasses
from typing import Optional

from xlnet.commands import cli, text_inputs
from xlnet.inference.settings import LoadSettings
from xlnet.settings.fields import Settings, required, setting
from xlnet.support import files
from xlnet.support.errors import UserError


@dataclasses.dataclass(frozen=True)
class WordSettings(Settings):
    """xlnet explain: which text, to which files."""

    text: str = required("the text")
    text_b: Optional[str] = setting(None, "the second text of a pair")
    output: Optional[str] = setting(
        None,
        "file to write: .png, an image; .html, a page for a browser; several with commas",
    )

    def check(self) -> None:
        super().check()
        for path in self.outputs():
            if not path.endswith((".png", ".html")):
                raise UserError(
                    f"output: '{path}', expected a name that ends in .png or .html"
                )
            files.check_output(path, ())

    def outputs(self) -> list[str]:
        """The files of `output`."""
        return [path.strip() for path in (self.output or "").split(",") if path.strip()]


def main(model_settings: LoadSettings, settings: WordSettings) -> None:
    with text_inputs.load(model_settings) as model:
        from xlnet.plots import words

        text = (
            settings.text
            if settings.text_b is None
            else (settings.text, settings.text_b)
        )
        found = model.explain(text)
        print(words.text(found))
        for path in settings.outputs():
            if path.endswith(".png"):
                words.draw(path, found)
            else:
                words.write_page(path, found)
            print(f"written: {path}")


def run() -> None:
    cli.run(
        main,
        LoadSettings,
        WordSettings,
        about=__doc__,
        examples=(
            "--model_dir=model --text='A film that nobody needs.'",
            "--model_dir=model --text='A film that nobody needs.' --output=words.png,words.html",
        ),
    )
