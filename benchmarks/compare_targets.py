"""Compares targets in records of the original data_utils.py with those of this project's rules.

The original's rule favours pieces after a long run without word starts and pieces that are frequent
at the borders of spans; `mask_mode=legacy` must give the same fractions, `whole_word` and `token`
those of all tokens.
"""

import dataclasses

import numpy as np
import repository  # finds the library and recipes
from recipes import print_table

from xlnet import cli
from xlnet.batches import permutation
from xlnet.records import feature_spec, legacy
from xlnet.settings.fields import required, setting
from xlnet.text import windows
from xlnet.tokenization.tokenizer import WORD_START, Tokenizer

MODES = ("legacy", "whole_word", "token")
SOME = 1 << 12      # sequences sampled together


@dataclasses.dataclass(frozen=True)
class TargetSettings:
    """compare_targets.py: the records, and how targets are sampled."""
    record_info_dir: str = required("directory of the original's records")
    spiece_model_file: str = required("their SentencePiece model")
    mask_alpha: int = setting(6, "as the records were made", minimum=1)
    mask_beta: int = setting(1, "as the records were made", minimum=1)
    num_pieces: int = setting(8, "number of frequent pieces with a line of their own", minimum=0)
    seed: int = setting(0, "seed of the targets", minimum=0)


def main(settings):
    manifest = legacy.LegacyManifest.read(settings.record_info_dir,
                                          settings.spiece_model_file)
    tokenizer = Tokenizer(manifest.sp_model, manifest.uncased, manifest.keep_accents)
    ids, is_masked, direction = read(manifest)
    is_special = np.isin(ids, [tokenizer.sep_id, tokenizer.cls_id])
    counts = {"all tokens": ids[~is_special], "authors' masks": ids[is_masked & ~is_special]}
    for mode in MODES:
        rule = permutation.Permutation(
            reuse_len=manifest.reuse_len, num_predict=manifest.num_predict,
            perm_size=manifest.reuse_len, mask_alpha=settings.mask_alpha,
            mask_beta=settings.mask_beta, mask_mode=mode)
        counts[mode] = ids[targets(ids, direction, is_special, tokenizer, rule, settings.seed)]
    counts = {name: np.bincount(found, minlength=tokenizer.vocab_size)
              for name, found in counts.items()}
    print("%d windows of %d tokens" % ids.shape)
    print_table(("fraction of the targets, %", *counts),
                rows(counts, tokenizer, settings.num_pieces))


def read(manifest):
    """All windows: ids int32 [W,Q], masks bool [W,Q], directions int32 [W]."""
    import tensorflow as tf
    dataset = tf.data.TFRecordDataset([path for path, _ in manifest.files]).batch(SOME)
    layout = legacy.features(manifest.seq_len)
    parts = [feature_spec.parse(layout, serialized) for serialized in dataset]
    ids, masked = (np.concatenate([part[name].numpy() for part in parts])
                   for name in ("input", "is_masked"))
    return ids, masked > 0, np.resize(manifest.directions, len(ids))


def targets(ids, direction, is_special, tokenizer, rule, seed):
    """What `rule` (`permutation.Permutation`) predicts: bool [W,Q]."""
    if rule.mask_mode == "legacy":
        word_start = tokenizer.is_legacy_word_start[ids]
    else:
        vocabulary = windows.Vocabulary.of(tokenizer)
        word_start = np.stack([windows.read(
            (row[::-1] if backward else row).astype(np.uint32), backward, vocabulary).words
            for row, backward in zip(ids, direction)])
    is_target = np.zeros(ids.shape, bool)
    for low in range(0, len(ids), SOME):
        part = slice(low, low + SOME)
        numbers = np.arange(len(ids))[part]
        random = permutation.Random(seed, 0, np.zeros_like(numbers), numbers)
        drawn = permutation.sample(random, is_special[part], word_start[part], direction[part],
                                   rule)
        row, slot = np.nonzero(drawn.weights)
        is_target[numbers[row], drawn.positions[row, slot]] = True
    return is_target


def kinds(tokenizer):
    """Classes of pieces, each bool [V]; a piece is in one of them."""
    pieces = [tokenizer.id_to_piece(id) for id in range(tokenizer.vocab_size)]
    has_digit = np.array([any(c.isdigit() for c in piece) for piece in pieces])
    begins = np.array([piece.startswith(WORD_START) for piece in pieces])
    special = np.array([piece.startswith("<") and len(piece) > 1 for piece in pieces])
    mark, number = tokenizer.is_punctuation, has_digit & ~special
    rest = ~(mark | number | special)
    return {"first pieces of words": rest & begins, "other pieces of words": rest & ~begins,
            "punctuation": mark, "with digits": number, "special": special}


def rows(counts, tokenizer, num_pieces):
    """Lines of the table: kinds, the most frequent pieces, the number and the entropy."""
    shares = {name: count / max(count.sum(), 1) for name, count in counts.items()}
    lines = [[kind] + ["%.2f" % (100 * share[member].sum()) for share in shares.values()]
             for kind, member in kinds(tokenizer).items()]
    for id in np.argsort(-counts["all tokens"], kind="stable")[:num_pieces]:
        lines.append(["`%s`" % tokenizer.id_to_piece(int(id))]
                     + ["%.2f" % (100 * share[id]) for share in shares.values()])
    lines.append(["number"] + ["{:,}".format(count.sum()) for count in counts.values()])
    lines.append(["entropy, nats"] + ["%.3f" % -(share[share > 0] * np.log(share[share > 0])).sum()
                                      for share in shares.values()])
    return lines


if __name__ == "__main__":
    cli.run(main, TargetSettings, about=__doc__,
            examples=("--record_info_dir=proc_data/tfrecords --spiece_model_file=spiece.model",))
