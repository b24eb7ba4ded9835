"""Pretraining records as text (xlnet data inspect), masks as a figure (xlnet plot masks)."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from xlnet.commands import cli, pretrain
from xlnet.commands.plot import FigureSettings
from xlnet.settings.fields import required, same_as
from xlnet.settings.pretraining import (
    ObjectiveSettings,
    PretrainingSettings,
    SamplingSettings,
)
from xlnet.support import system
from xlnet.support.errors import escape_control_characters, wrong

if TYPE_CHECKING:
    from xlnet.corpus.tokenizer import Tokenizer

_MOST_TOKENS = 40  # of a text in a plot of masks; more would be too small to read
_LEGEND = """\
⟦piece⟧7      predicted; the number is its position in the factorization order
reused, A, B  the part that continues the text stream, and the two segments
backward      shown in reading order; the model begins at the last token shown
"""


class TargetSettings(SamplingSettings, ObjectiveSettings):
    """Which targets and orders are sampled: those of training with the same settings."""

    seed: int = same_as(PretrainingSettings, "seed")


class InspectionSettings(TargetSettings):
    """xlnet data inspect: which records."""

    input: str = required("directory of records (its manifest is read)")


class MaskSettings(TargetSettings, FigureSettings):
    """xlnet plot masks: of what, to which file."""

    text: str = required("text of the plot, all of it predicted by default")
    spiece_model_file: str = required("SentencePiece model")

    def check(self) -> None:
        super().check()
        if self.objective != "permutation":
            raise wrong("objective", self.objective, "permutation")
        if self.mask_mode == "legacy":
            found = "legacy, a rule for complete sequences"
            raise wrong("mask_mode", found, "another")


@cli.program(InspectionSettings, preset_table="pretrain", elsewhere=pretrain.GROUPS)
def inspect(settings: InspectionSettings) -> None:
    """Shows pretraining records as xlnet pretrain will see them.

    Targets and factorization orders are those that training samples with the same settings: seed,
    num_predict, perm_size, factorization_order, mask_mode, mask_alpha, mask_beta. An
    objective that chooses its own targets, such as causal, is refused.

    Examples:
      xlnet data inspect --input=records --num_predict=85
      xlnet data inspect --input=records --config=model/run.json
    """
    system.import_tensorflow()
    import tensorflow.compat.v1 as tf

    from xlnet.corpus import input_pipeline
    from xlnet.corpus.manifest import Manifest
    from xlnet.corpus.tokenizer import Tokenizer
    from xlnet.pretraining import objectives, resolve

    system.import_own_module(settings.own_module)
    if not objectives.find(settings.objective).samples_targets:
        found = f"{settings.objective}, which chooses its own targets"
        raise wrong("objective", found, "permutation")
    manifest = Manifest.read(settings.input, "input")
    sampling = resolve.choose_sampling(settings, manifest.seq_len, manifest.reuse_len)
    tokenizer = Tokenizer(os.path.join(settings.input, manifest.sp_model))
    # Sequences, targets and orders come from the trainer's input pipeline: what is shown is
    # exactly what is trained on. Stream 0 is forward, and stream 1 is backward where records have
    # both directions.
    print(_LEGEND)
    for stream in range(min(2, manifest.num_streams)):
        with tf.Graph().as_default(), tf.Session() as session:
            batches = input_pipeline.pretraining_batches(
                settings.input,
                manifest,
                batch_size=1,
                # With batches of one sequence, streams are read one after the other.
                start_step=stream * manifest.windows_per_stream,
                sampling=sampling,
                tokenizer=tokenizer,
                seed=settings.seed,
            )
            batch = session.run(tf.data.make_one_shot_iterator(batches).get_next())
        # batch element 0, the only one
        sequence = {name: values[0] for name, values in batch.items()}
        print(f"stream {stream}, sequence 0")
        print(as_text(sequence, tokenizer, manifest.reuse_len) + "\n")


def as_text(sequence: dict[str, Any], tokenizer: "Tokenizer", reuse_len: int) -> str:
    """A sequence as text: its direction, label and number of targets, and a line for each of its
    three parts, of pieces with spaces between, the targets in brackets as `_LEGEND` says.

    Args:
      sequence: a batch element of `input_pipeline.pretraining_batches`: input_ids, seg_ids and rank
        int32 [Q], positions int32 [P], weights float32 [P], direction and label int32.
      tokenizer: that of the records.
      reuse_len: the number of tokens of the first part.
    """
    import numpy as np

    pieces = []
    for id in sequence["input_ids"].tolist():
        pieces.append(escape_control_characters(tokenizer.id_to_piece(id)))
    # Positions of weight 0 fill `positions` up where a sequence has fewer targets.
    targets = sequence["positions"][sequence["weights"] > 0]
    in_order = targets[np.argsort(sequence["rank"][targets], kind="stable")]
    for number, target in enumerate(in_order.tolist(), 1):
        pieces[target] = f"⟦{pieces[target]}⟧{number}"

    # A sequence is: reused, A, <sep>, B, <sep>, <cls>. B and its <sep> have the segment id 1.
    start_of_b = len(pieces) - 1 - np.count_nonzero(sequence["seg_ids"] == 1)
    parts = [
        ("reused", pieces[:reuse_len]),
        ("A", pieces[reuse_len:start_of_b]),
        ("B", pieces[start_of_b:]),
    ]
    direction = "forward"
    if sequence["direction"] == 1:
        direction = "backward"
        # The text of a backward sequence is reversed: turned round, its words are readable.
        parts.reverse()
        for _, part_pieces in parts:
            part_pieces.reverse()
    label = "B continues A" if sequence["label"] else "B from elsewhere"
    lines = [
        f"{direction}, {label}",
        f"{len(targets)} of {len(pieces)} tokens predicted",
    ]
    for name, part_pieces in parts:
        lines.append(f"{name:<6} {' '.join(part_pieces)}")
    return "\n".join(lines)


@cli.program(MaskSettings, preset_table="pretrain", elsewhere=pretrain.GROUPS)
def masks(settings: MaskSettings) -> None:
    """Plots the attention masks of both streams for a text.

    Examples:
      xlnet plot masks --spiece_model_file=spiece.model --text='A name is bound in a block.' \\
          --output=masks.png
    """
    system.import_tensorflow()
    from xlnet.corpus.tokenizer import Tokenizer
    from xlnet.plots import masks as plots
    from xlnet.pretraining import resolve

    system.import_own_module(settings.own_module)
    tokenizer = Tokenizer(settings.spiece_model_file)
    # By default all tokens of the text are predicted. `choose_sampling` checks that a sequence has
    # so many tokens besides its special ones; one of twice the length of the text has.
    num_predict = settings.num_predict or _MOST_TOKENS
    with_targets = dataclasses.replace(settings, num_predict=num_predict)
    sampling = resolve.choose_sampling(with_targets, 2 * _MOST_TOKENS, reuse_len=0)
    excerpt = plots.of_text(
        settings.text, tokenizer, sampling, settings.seed, _MOST_TOKENS
    )
    plots.draw_masks(settings.output, excerpt)
    print(f"written: {settings.output}")
