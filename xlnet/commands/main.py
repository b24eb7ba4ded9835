"""The console command `xlnet`: its subcommands, and the program of each."""

import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple, Optional


class Command(NamedTuple):
    """A subcommand."""

    name: str  # as typed after `xlnet`
    program: str  # module of `xlnet.commands`
    about: str  # one line

    def run(self) -> None:
        importlib.import_module("xlnet.commands." + self.program).run()


# The commands by purpose, in the order of `xlnet --help`.
GROUPS: dict[str, tuple[Command, ...]] = {
    "Pretraining data": (
        Command(
            "data vocabulary", "data_vocabulary", "train a SentencePiece vocabulary"
        ),
        Command("data make", "data_make", "turn text into records"),
        Command("data beam", "data_beam", "turn text into records with Apache Beam"),
        Command("data merge", "data_merge", "merge the records of several machines"),
        Command(
            "data inspect", "data_inspect", "show records as text, counts and images"
        ),
        Command(
            "data verify", "verify_records", "compare records with their checksums"
        ),
    ),
    "Training": (
        Command("pretrain", "pretrain", "pretrain on records"),
        Command(
            "classify",
            "classify",
            "fine-tune for classification, regression, multiple choice, ranking",
        ),
        Command("squad", "squad", "fine-tune for question answering"),
        Command("tag", "tag", "fine-tune for named entity recognition"),
    ),
    "Inference": (
        Command("predict", "predict", "predict a file with a fine-tuned model"),
        Command("explain", "explain", "show which words count for a prediction"),
        Command("fill", "fill", "fill in blanks (infilling)"),
        Command("generate", "generate", "generate text"),
        Command("serve", "serve", "serve a model over HTTP"),
    ),
    "Exchange": (
        Command("export", "export", "write a SavedModel, or the weights alone"),
        Command("convert", "convert", "convert from and to Hugging Face"),
    ),
    "Plots": (
        Command("plot masks", "data_inspect", "attention masks of both streams"),
        Command("plot curves", "plot_curves", "learning curves of one or several runs"),
        Command("plot attention", "plot_attention", "attention of a network in a text"),
    ),
    "Trying it": (
        Command("sample", "sample", "write sample texts for all of the above"),
        Command("env", "env", "show what an issue should say of your environment"),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}

_HELP = {"-h", "-help", "--help", "--helpfull"}


def main() -> None:
    """Runs the subcommand on the command line. Exit status: that of the subcommand; 2 if it is
    unknown."""
    words = sys.argv[1:]
    command = _find(words)
    if command:
        # Programs see their own name and flags alone.
        sys.argv[:] = ["xlnet " + command.name, *words[len(command.name.split()) :]]
        command.run()
    elif not words or words[0] in _HELP:
        print(_help())
    elif words[0] == "--version":
        import xlnet

        print("xlnet " + xlnet.__version__)
    else:
        _explain(words)


def _find(words: Sequence[str]) -> Optional[Command]:
    # This is unambiguous, as no name of one word is the first word of another name.
    return next(
        (
            COMMANDS[name]
            for name in (" ".join(words[:count]) for count in (1, 2))
            if name in COMMANDS
        ),
        None,
    )


def _explain(words: Sequence[str]) -> None:
    """Lists the subcommands of a group such as `data`, or says what an unknown word may mean."""
    from xlnet.support.errors import did_you_mean

    groups = {name.split()[0] for name in COMMANDS if " " in name}
    is_group = words[0] in groups
    if is_group and (len(words) == 1 or words[1] in _HELP):
        print(_help(words[0]))
        return
    # If the first word is that of a group, the second word is the wrong one.
    found = " ".join(words[:2] if is_group else words[:1])
    print(
        f"xlnet: '{found}' is not a subcommand{did_you_mean(found, [*COMMANDS, *sorted(groups)])}; "
        "xlnet --help lists them",
        file=sys.stderr,
    )
    sys.exit(2)


def _help(group: str = "") -> str:
    """The subcommands by purpose; `group`: those that begin with this word."""
    width = max(len(name) for name in COMMANDS) + 2
    lines = ["xlnet: pretrain, fine-tune, query and serve XLNet", ""]
    for title, commands in GROUPS.items():
        shown = [
            f"  {command.name.ljust(width)}{command.about}"
            for command in commands
            if group in ("", command.name.split()[0])
        ]
        lines += [title, *shown, ""] if shown else []
    return "\n".join(
        lines
        + [
            "xlnet SUBCOMMAND --help lists its flags. In a checkout that is not installed: python "
            "-m xlnet"
        ]
    )
