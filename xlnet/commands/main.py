"""The console command `xlnet`: its subcommands, and the program of each."""

import pkgutil
import sys
from typing import NamedTuple


class Command(NamedTuple):
    """A subcommand."""

    name: str  # as typed after `xlnet`
    program: str  # "module:function" of `xlnet.commands`
    about: str  # what it does, in one line of `xlnet --help`

    def run(self) -> None:
        pkgutil.resolve_name("xlnet.commands." + self.program)()


# The commands by purpose, in the order of `xlnet --help`: name | program | about.
_TABLE = """
Pretraining data
data vocabulary | data_vocabulary:run | train a SentencePiece vocabulary
data make | data:make | turn text into records
data beam | data:beam | turn text into records with Apache Beam
data merge | data:merge | merge the records of several machines
data verify | data:verify | compare records with their checksums

Training
pretrain | pretrain:run | pretrain on records
classify | fine_tuning:classify | fine-tune for classification, regression, multiple choice, ranking
squad | fine_tuning:squad | fine-tune for question answering
tag | fine_tuning:tag | fine-tune for named entity recognition

Inference
predict | predict:predict | predict a file with a fine-tuned model
evaluate | predict:evaluate | evaluate a fine-tuned model, on its own dev split or a file
fill | query:fill | fill in blanks (infilling)
generate | query:generate | generate text
serve | serve:run | serve a model over HTTP

Exchange
export | exchange:export | write a SavedModel
convert | exchange:convert | convert from and to Hugging Face

Plots
plot masks | plot:masks | attention masks of both streams
plot curves | plot:curves | learning curves of one or several runs
plot attention | plot:attention | attention of a network in a text

Trying it
sample | data:sample | write sample texts for all of the above
"""
COMMANDS: dict[str, Command] = {}
for _line in _TABLE.splitlines():
    if "|" in _line:
        _command = Command(*_line.split(" | "))
        COMMANDS[_command.name] = _command


def main() -> None:
    """Runs the subcommand on the command line. Exit status: that of the subcommand; 2 if it is
    unknown."""
    words = sys.argv[1:]
    # A name has one word or two. Which is tried first does not matter, as no name of one word is
    # the first word of another name.
    for count in (1, 2):
        name = " ".join(words[:count])
        if name in COMMANDS:
            # The program parses `sys.argv`, which has its own name and flags from here on.
            sys.argv[:] = ["xlnet " + name, *words[count:]]
            COMMANDS[name].run()
            return
    if not words or {"-h", "-help", "--help", "--helpfull"} & set(words):
        print(_help())
    elif words[0] == "--version":
        import xlnet

        print("xlnet " + xlnet.__version__)
    else:
        found, known = " ".join(words[:2]), ", ".join(COMMANDS)
        line = f"xlnet: found '{found}', expected a subcommand: {known}"
        print(line, file=sys.stderr)
        sys.exit(2)


def _help() -> str:
    """The text of `xlnet --help`: the subcommands by purpose."""
    # Of `_TABLE` the lines of commands are formatted; titles and blank lines stay as they are.
    width = max(len(name) for name in COMMANDS) + 2
    lines = ["xlnet: pretrain, fine-tune, query and serve XLNet"]
    for line in _TABLE.splitlines():
        command = COMMANDS.get(line.partition(" | ")[0])
        if command:
            line = f"  {command.name.ljust(width)}{command.about}"
        lines.append(line)
    lines += [
        "",
        "xlnet SUBCOMMAND --help lists its flags. In a checkout that is not",
        "installed: python -m xlnet",
    ]
    return "\n".join(lines)
