"""Settings of text, how it is read and cleaned, and of pretraining records."""

import codecs
import dataclasses
from typing import Optional

from xlnet import encodings
from xlnet.errors import UserError
from xlnet.settings.fields import HelpGroup, Settings, required, same_as, setting
from xlnet.settings.training import RunSettings

BLANK_LINE = "blank_line"  # a value of document_separator
WINDOW_SPECIAL_TOKENS = 3  # <sep> <sep> <cls> of every pretraining sequence
# Settings of records that train_gpu.py compares with its flags.
RECORD_SETTINGS = ("seq_len", "reuse_len", "bi_data", "uncased", "keep_accents")


@dataclasses.dataclass(frozen=True)
class TextSettings(Settings, help_group=HelpGroup.TEXT):
    """How text is cleaned."""

    uncased: Optional[bool] = setting(
        None,
        "lower-case the text; if not given, as when the vocabulary was trained, or False",
        belongs_to=None,
    )
    keep_accents: Optional[bool] = setting(
        None,
        "leave accents, syllables and full-width letters to the vocabulary's normalization; if not "
        "given, as when the vocabulary was trained, or False",
        belongs_to=None,
    )


@dataclasses.dataclass(frozen=True)
class InputSettings(Settings, help_group=HelpGroup.TEXT):
    """Which text is read, and how."""

    input_glob: str = required(
        "comma-separated text files, glob patterns and directories (their *.txt, *.jsonl, "
        "*.ndjson, *.gz and *.parquet); JSON lines are .jsonl, .ndjson and .json, Parquet says "
        "itself what it is, all else is text_format",
        aliases=("input",),
    )
    text_format: str = setting(
        "lines",
        "form of files whose names do not say it. lines: a sentence a line, a blank line between "
        "documents; paragraphs: a paragraph a line, cut into sentences, a blank line between "
        "documents; wrapped: a paragraph on several lines, a blank line between paragraphs, a "
        "file is a document; jsonl: an object of JSON a line, each a document",
        choices=("lines", "paragraphs", "wrapped", "jsonl"),
    )
    document_separator: Optional[str] = setting(
        None,
        "text between documents, such as <|endoftext|>, anywhere in a line, instead of a blank "
        f"line; {BLANK_LINE}: marks of this kind are text; if not given, they are an error",
    )
    json_field: str = setting(
        "text", "field of JSON lines, or column of Parquet, that holds the text"
    )
    encoding: Optional[str] = setting(
        None, "encoding of the text, such as cp1252 or gb18030; UTF-8 if not given"
    )
    on_error: str = setting(
        "fail",
        "what to do at bad UTF-8, NUL bytes, lines of more than 1 MiB, bad records and damaged "
        ".gz: fail, or skip the line and count it",
        choices=("fail", "skip"),
        belongs_to=None,
    )
    split: str = setting(
        "all",
        "documents to use: all, those to train on, or the held-out ones",
        choices=("all", "train", "heldout"),
    )
    heldout_share: float = setting(
        0.05, "fraction of documents held out, by a hash of their text", above=0.0, below=1.0
    )

    def check(self) -> None:
        super().check()
        if not self.json_field:
            raise UserError("json_field is empty, expected the name of the text's field")
        self._check_separator()
        if self.encoding is not None:
            encodings.check(self.encoding)
            # Files are cut into lines as bytes: a line feed must be the byte 10.
            if "\n".encode(self.encoding).lstrip(codecs.BOM_UTF8) != b"\n":
                raise UserError(
                    f"encoding: {self.encoding} is not supported, as its line feed is not one "
                    f"byte; convert the files: iconv -f {self.encoding} -t utf-8 OLD > NEW"
                )
            # They are decoded in parts: a part must not need what stands at the file's beginning.
            if codecs.lookup(self.encoding).name == "iso2022_kr":
                raise UserError(
                    f"encoding: {self.encoding} is not supported, as it says at the beginning of a "
                    f"file what its bytes mean; convert the files: iconv -f {self.encoding} -t "
                    "utf-8 OLD > NEW"
                )

    def _check_separator(self) -> None:
        separator = self.document_separator
        if separator is None:
            return
        if not separator.strip() or len(separator.splitlines()) > 1:
            raise UserError(
                f"document_separator is {separator!r}, expected text in one line, or {BLANK_LINE}"
            )
        if separator == BLANK_LINE and self.text_format == "wrapped":
            raise UserError(
                f"document_separator is {BLANK_LINE}, but with text_format=wrapped blank lines are "
                "between paragraphs; leave it out, or give text_format=lines or paragraphs"
            )


@dataclasses.dataclass(frozen=True)
class CorpusSettings(InputSettings, TextSettings, help_group=HelpGroup.RECORDS):
    """xlnet data make: text to pretraining records."""

    # Where from, where to.
    save_dir: str = required("directory for the records and their manifest", aliases=("output",))
    sp_path: str = required("SentencePiece model", help_group=HelpGroup.TEXT)
    # The form of the records.
    seq_len: int = setting(512, "length of a sequence [tokens]", minimum=1, belongs_to=None)
    reuse_len: int = setting(
        256,
        "leading part of a sequence that continues the one before [tokens]",
        minimum=1,
        belongs_to=None,
    )
    num_streams: int = setting(
        0,
        "number of text streams, a multiple of the training batch size; 0: up to 32, as many as "
        "the text fills",
        minimum=0,
        aliases=("bsz_per_host",),
    )
    bi_data: bool = setting(True, "run half of the text streams backward", belongs_to=None)
    from_raw_text: bool = setting(
        True, "the input is text; False: each line holds token ids", help_group=HelpGroup.TEXT
    )
    use_eod: bool = setting(True, "put <eod> at the end of each document")
    num_passes: int = setting(
        1,
        "repetitions of the corpus, each with other A/B pairs and another document order",
        minimum=1,
    )
    seed: int = same_as(RunSettings, "seed")
    # How the work is divided, and what becomes of earlier work.
    num_workers: int = setting(
        0, "processes; 0: one per core", minimum=0, help_group=HelpGroup.SPEED
    )
    num_task: int = setting(
        1, "machines, or runs, that share the input", minimum=1, help_group=HelpGroup.DEVICES
    )
    task: int = setting(
        0, "index of this machine or run, from 0", minimum=0, help_group=HelpGroup.DEVICES
    )
    tokens_dir: Optional[str] = setting(
        None,
        "directory that keeps tokenized text for other records; if not given, it is in save_dir "
        "until the records are complete",
    )
    overwrite: bool = setting(
        False,
        "regenerate the records, and replace those in save_dir once the new ones are complete",
    )
    for_config: Optional[str] = setting(
        None,
        "preset of xlnet pretrain, a file or a name, that sets seq_len, reuse_len and num_streams "
        "where they are not given",
    )

    def check(self) -> None:
        super().check()
        if not self.from_raw_text and self.text_format != "lines":
            raise UserError(
                f"text_format is {self.text_format}, expected lines where from_raw_text is False: "
                "a line of ids is a sentence"
            )
        if not self.from_raw_text and self.document_separator not in (None, BLANK_LINE):
            raise UserError(
                f"document_separator is {self.document_separator}, expected a blank line where "
                "from_raw_text is False"
            )
        if not self.for_config:  # it sets the lengths and the number of streams
            self._check_window()
        if self.task >= self.num_task:
            raise UserError(
                f"task is {self.task}, expected less than num_task, {self.num_task} "
                "(tasks count from 0)"
            )

    def _check_window(self) -> None:
        shortest = WINDOW_SPECIAL_TOKENS + 3  # one token of the reused part, of A and of B
        if self.seq_len < shortest:
            raise UserError(
                f"sequence too short: seq_len is {self.seq_len}, expected at least {shortest}"
            )
        longest = self.seq_len - WINDOW_SPECIAL_TOKENS - 2
        if not 1 <= self.reuse_len <= longest:
            raise UserError(
                f"reuse_len is {self.reuse_len}, expected 1 <= reuse_len <= seq_len - 5 = "
                f"{longest} (the rest of a sequence is two segments, <sep> <sep> <cls>)"
            )
        if self.bi_data and self.num_streams % 2:
            raise UserError(
                f"num_streams (or bsz_per_host) is {self.num_streams}, expected an even number: "
                "with bi_data half of the streams run backward"
            )
