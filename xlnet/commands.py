"""The commands of an installed package, by the file that each of them is in the repository."""

import re

COMMANDS = {
    "data_utils": "xlnet-data",
    "train_gpu": "xlnet-pretrain",
    "run_classifier": "xlnet-classify",
    "run_tagger": "xlnet-tag",
    "run_squad": "xlnet-squad",
    "export": "xlnet-export",
    "serve": "xlnet-serve",
    "fill_mask": "xlnet-fill",
    "generate": "xlnet-generate",
    "extract_features": "xlnet-features",
    "convert_checkpoint": "xlnet-convert",
    "checkpoint_tools": "xlnet-checkpoints",
    "train_sentencepiece": "xlnet-vocabulary",
    "prepare_on_beam": "xlnet-data-beam",
    "merge_records": "xlnet-merge-records",
    "inspect_records": "xlnet-inspect-records",
    "draw_attention": "xlnet-attention",
    "draw_curves": "xlnet-curves",
    "export_projector": "xlnet-projector",
    "make_sample": "xlnet-sample",
    "zip_glue": "xlnet-zip-glue",
}
_FILE = re.compile(r"(?:\bpython )?\b(?:scripts/)?(%s)\.py\b" % "|".join(COMMANDS))


def as_started(text: str, program: str) -> str:
    """A text of a program's, in which others are called as this one was: files of the repository
    are commands where `program`, its own name, is one."""
    if program.split(" ")[0] not in COMMANDS.values():
        return text
    return _FILE.sub(lambda found: COMMANDS[found[1]], text)
