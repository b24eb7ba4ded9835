"""Settings of text, how it is read and cleaned, and of pretraining records."""

import dataclasses
from typing import Optional

from xlnet.settings.fields import HelpGroup, Settings, required, same_as, setting
from xlnet.settings.training import RunSettings
from xlnet.support.errors import wrong

SEQUENCE_SPECIAL_TOKENS = 3  # <sep> <sep> <cls> of every pretraining sequence


class TextSettings(Settings, help_group=HelpGroup.TEXT, belongs_to=None):
    """How text is cleaned."""

    uncased: Optional[bool] = setting(
        None,
        "lower-case the text; if not given, as when the vocabulary was trained, or False",
    )
    keep_accents: Optional[bool] = setting(
        None,
        "leave accents, syllables and full-width letters to the vocabulary's normalization; if not "
        "given, as when the vocabulary was trained, or False",
    )


class InputSettings(Settings, help_group=HelpGroup.TEXT):
    """Which text is read, and how."""

    input_glob: str = required(
        "comma-separated text files, glob patterns and directories (their *.txt, *.jsonl, "
        "*.ndjson, *.gz and *.parquet); .jsonl, .ndjson and .json are JSON lines, .parquet is "
        "Parquet, all else is input_format",
    )
    input_format: str = setting(
        "lines",
        "form of files whose names do not say it. lines: a sentence a line, a blank line between "
        "documents; paragraphs: a paragraph a line, cut into sentences, a blank line between "
        "documents; jsonl: an object of JSON a line, each a document",
        choices=("lines", "paragraphs", "jsonl"),
    )
    text_a_column: str = setting(
        "text", "field of JSON lines, or column of Parquet, that holds the text"
    )
    split: str = setting(
        "all",
        "documents to use: all, those to train on, or the held-out ones",
        choices=("all", "train", "heldout"),
    )
    heldout_share: float = setting(
        0.05,
        "fraction of documents held out, by a hash of their text",
        above=0.0,
        below=1.0,
    )


class CorpusSettings(InputSettings, TextSettings, help_group=HelpGroup.RECORDS):
    """xlnet data make: text to pretraining records."""

    # Where from, where to.
    save_dir: str = required("directory for the records and their manifest")
    sp_path: str = required("SentencePiece model", HelpGroup.TEXT)
    # The form of the records.
    seq_len: int = setting(512, "length of a sequence [tokens]", minimum=1)
    reuse_len: int = setting(
        0,
        "leading part of a sequence that continues the one before [tokens]; 0: half of seq_len, at "
        "most seq_len - 5",
        minimum=0,
    )
    num_streams: int = setting(
        0,
        "number of text streams, a multiple of the training batch size; 0: up to 32, as many as "
        "the text fills",
        minimum=0,
        aliases=("bsz_per_host",),
    )
    bi_data: bool = setting(True, "run half of the text streams backward")
    from_raw_text: bool = setting(
        True, "the input is text; False: each line holds token ids", HelpGroup.TEXT
    )
    use_eod: bool = setting(True, "put <eod> at the end of each document")
    num_passes: int = setting(
        1,
        "repetitions of the corpus, each with other A/B pairs and another document order",
        minimum=1,
    )
    seed: int = same_as(RunSettings, "seed")
    # How the work is divided.
    num_workers: int = setting(
        0, "processes; 0: one per core", HelpGroup.SPEED, minimum=0
    )
    num_task: int = setting(
        1, "machines, or runs, that share the input", HelpGroup.DEVICES, minimum=1
    )
    task: int = setting(
        0, "index of this machine or run, from 0", HelpGroup.DEVICES, minimum=0
    )

    def check(self) -> None:
        super().check()
        if not self.from_raw_text and self.input_format != "lines":
            expected = "lines, as from_raw_text is False: a line of ids is a sentence"
            raise wrong("input_format", self.input_format, expected)
        # At least one token of the reused part, of segment A and of segment B.
        shortest = SEQUENCE_SPECIAL_TOKENS + 3
        if self.seq_len < shortest:
            raise wrong("seq_len", self.seq_len, f"at least {shortest}")
        if self.reuse_len > self._longest_reuse_len:
            expected = f"at most seq_len - 5 = {self._longest_reuse_len}"
            raise wrong("reuse_len", self.reuse_len, expected)
        if self.bi_data and self.num_streams % 2:
            expected = "an even number: with bi_data half of the streams run backward"
            raise wrong("num_streams", self.num_streams, expected)
        if self.task >= self.num_task:
            raise wrong("task", self.task, f"less than num_task, {self.num_task}")

    def resolved(self) -> "CorpusSettings":
        """These settings, with the default of `reuse_len` in place of 0."""
        default = min(self.seq_len // 2, self._longest_reuse_len)
        return dataclasses.replace(self, reuse_len=self.reuse_len or default)

    @property
    def _longest_reuse_len(self) -> int:
        # The special tokens and at least one token of each of the two segments must fit, too.
        return self.seq_len - SEQUENCE_SPECIAL_TOKENS - 2
