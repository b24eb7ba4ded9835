"""How much the words of a text count for a prediction: in a terminal, as a plot (PNG), as HTML."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from xlnet.support import errors, figure, files

if TYPE_CHECKING:
    from xlnet.inference.explanation import Explanation

_RAISES, _LOWERS = "#4c78a8", "#e0812b"
_MOST_BARS = 100  # in a plot; more would be too large
_WIDTH = 20  # of a bar in the terminal [characters]


def in_words(found: Explanation) -> str:
    """The explained output with its value, and how much of the text was read."""
    read = ""
    if (found.tokens_read or 0) < (found.tokens or 0):
        read = f"; {found.tokens_read} of {found.tokens} tokens were read"
    return f"{found.output} {found.value:.4f}{read}"


def text(found: Explanation) -> str:
    """Lines for a terminal: a word each, with its weight and a bar."""
    most = max(np.abs(found.weights).max(initial=0), 1e-12)
    lines = [
        "{:+9.4f}  {:<{}}  {}".format(
            weight,
            ("+" if weight > 0 else "-") * round(_WIDTH * abs(weight) / most),
            _WIDTH,
            errors.escape_control_characters(word),
        )
        for word, weight in zip(found.words, found.weights)
    ]
    lines[found.first_words : found.first_words] = [""] * (
        found.first_words < len(found.words)
    )
    return "\n".join([in_words(found), *lines])


def draw(path: str, found: Explanation) -> None:
    """Writes a PNG with a bar for each word, or for those that count most."""
    # The words are in the order of the text, whichever are kept.
    kept = np.sort(np.argsort(-np.abs(found.weights), kind="stable")[:_MOST_BARS])
    words, families = [found.words[number] for number in kept], figure.families()
    height = 1.3 + 0.22 * len(kept)
    drawn = figure.new(7, height, dpi=110, layout="constrained")
    axes = drawn.add_subplot()
    weights = found.weights[kept]
    axes.barh(
        range(len(kept)),
        weights,
        color=np.where(weights > 0, _RAISES, _LOWERS).tolist(),
    )
    axes.set_yticks(
        range(len(kept)), words, family=families, fontsize=9, parse_math=False
    )
    axes.invert_yaxis()
    axes.margins(y=0.3 / max(len(kept), 1))
    axes.axvline(0, color=figure.NOTES, linewidth=0.8)
    axes.set_title(in_words(found), fontsize=10, family=families, parse_math=False)
    left_out = (
        f"; the {len(kept)} of {len(found.words)} words that count most"
        if len(kept) < len(found.words)
        else ""
    )
    axes.set_xlabel(
        "blue raises the output, orange lowers it" + left_out,
        fontsize=8,
        color=figure.NOTES,
    )
    figure.save(drawn, path)


def write_page(path: str, found: Explanation) -> None:
    """Writes an HTML page with the words, coloured by their weights, without other files."""
    most = max(np.abs(found.weights).max(initial=0), 1e-12)
    words = []
    for number, (word, weight) in enumerate(zip(found.words, found.weights)):
        if number == found.first_words:
            words.append("<hr>")
        color = (
            _RAISES if weight > 0 else _LOWERS
        ) + f"{round(200 * abs(weight) / most):02x}"
        words.append(
            f'<span title="{weight:+.4f}" style="background:{color}">{html.escape(word)}</span>'
        )
    files.write_text(
        path,
        (
            '<!DOCTYPE html>\n<html lang="en"><head><meta '
            'charset="utf-8"><title>Explanation</title>\n'
            "<style>body {{ font: 16px/2 system-ui, sans-serif; max-width: 60rem; margin: "
            "2rem auto; }}"
            "\nspan {{ padding: .1rem .25rem; border-radius: .25rem; }}</style></head><body>\n"
            "<h1>{}</h1>\n<p>Blue words raise the output, orange ones lower it; point at "
            "a word for "
            "its weight.</p>\n<p>{}</p>\n</body></html>\n"
        ).format(html.escape(in_words(found)), "\n".join(words)),
    )
