"""A SentencePiece vocabulary: xlnet data vocabulary."""

import collections
import hashlib
import io
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional

from xlnet.commands import cli
from xlnet.corpus.processes import progress
from xlnet.settings.data import InputSettings
from xlnet.settings.fields import required, setting
from xlnet.support import files
from xlnet.support.errors import wrong

if TYPE_CHECKING:
    from xlnet.corpus.reading import Chunk

_MANY_CHARACTERS = ("chinese", "japanese", "korean")
_CONTROL_SYMBOLS = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"]  # 3 to 7, <eop> 8
_SPECIAL = 9  # with <unk> <s> </s>
_VOCAB_SIZE = 32000
_MOST_SENTENCES = 2_000_000  # to train on; a sample where there are more
_NO_LIMIT = 1 << 30  # [bytes] the trainer drops longer lines silently
_THREADS = 16  # fixed, as the rounding of sums depends on it


class VocabularySettings(InputSettings):
    """xlnet data vocabulary: text to a SentencePiece model."""

    sp_path: str = required("the SentencePiece model to write")
    vocab_size: Optional[int] = setting(
        None,
        "number of pieces, special symbols included; with --model_type=char the most; default: "
        "32000, or as many as the text allows",
        minimum=_SPECIAL + 1,
    )
    model_type: str = setting(
        "unigram",
        "unigram: pieces of any length; char: each character is a piece, for tasks that tag or cut "
        "text character by character, as in Chinese",
        choices=("unigram", "char"),
    )
    language: str = setting(
        "english",
        "language of the text; other: any with an alphabet, whose accents are kept",
        choices=("english", "other", *_MANY_CHARACTERS),
    )
    uncased: bool = setting(False, "lower-case the text")
    keep_accents: Optional[bool] = setting(
        None,
        "leave accents, syllables and full-width letters to SentencePiece's normalization "
        "(nmt_nfkc); by language if not given",
    )


@cli.program(VocabularySettings)
def run(settings: VocabularySettings) -> None:
    """Trains a SentencePiece model on the text that xlnet data make will encode with it.

    The special symbols get the ids of released models, <unk> 0 to <eop> 8. <sp_path>.json, next to
    the model, says how text is cleaned for it; every later program obeys it.

    --language sets what depends on the language:
      english   accents are stripped, as in the released models; character coverage 0.99995, theirs
                too; the default
      other     any language with an alphabet: accents are kept; coverage 0.99995
      chinese, japanese, korean: accents are kept; coverage 0.9995, because they have so many
                characters

    Examples:
      xlnet data vocabulary --input_glob='text/*.txt' --sp_path=spiece.model --vocab_size=32000
      xlnet data vocabulary --input_glob=text --sp_path=zh.model --language=chinese \\
          --vocab_size=8000
    """
    from xlnet.corpus import reading
    from xlnet.corpus.tokenizer import Tokenizer, describe, description_path

    # What is not given follows from the language.
    keep_accents = settings.keep_accents
    if keep_accents is None:
        keep_accents = settings.language != "english"
    coverage = 0.9995 if settings.language in _MANY_CHARACTERS else 0.99995
    # Reading may take minutes, so it is checked first that the target can be written.
    files.check_output(settings.sp_path, (), "sp_path")
    for path in (settings.sp_path, description_path(settings.sp_path)):
        if os.path.exists(path):
            raise wrong("sp_path", f"{path}, which exists", "a new file")
    size_of = reading.find_files(settings.input_glob)
    chunks = reading.cut(size_of)
    sentences, number = sample_sentences(read_sentences(chunks, settings, keep_accents))
    if not sentences:
        raise wrong("input_glob", f"no text in {settings.input_glob}", "sentences")
    counted = f"{len(size_of)} files, {number} sentences"
    print(f"{counted}; training on {len(sentences)}", flush=True)
    model = train(sentences, settings, coverage)
    # The description is written first, as a model without one is taken for a released one.
    digest = hashlib.sha256(model).hexdigest()
    describe(settings.sp_path, digest, settings.uncased, keep_accents)
    with files.writing(settings.sp_path) as f:
        f.write(model)
    made = Tokenizer(settings.sp_path)
    case = "uncased" if made.uncased else "cased"
    accents = "kept" if made.keep_accents else "stripped"
    print(
        f"{settings.sp_path}: {made.vocab_size} pieces, {case}, accents {accents}, "
        f"character coverage {coverage:g}"
    )


def read_sentences(
    chunks: "Sequence[Chunk]", settings: VocabularySettings, keep_accents: bool
) -> Iterator[str]:
    """Yields the sentences that records will have, cleaned as the tokenizer does, and shows a
    progress bar."""
    from xlnet.corpus import reading
    from xlnet.corpus.tokenizer import preprocess_text

    counts: collections.Counter[str] = collections.Counter()  # not shown here
    sizes = [chunk.end - chunk.begin for chunk in chunks]
    with progress("reading", sum(sizes), "B") as advance:
        for chunk, size in zip(chunks, sizes):
            for line in reading.read_chunk(chunk, settings, counts):
                sentence = preprocess_text(
                    line.text, settings.uncased, keep_accents=keep_accents
                )
                if sentence:
                    yield sentence
            advance(size)


def sample_sentences(sentences: Iterable[str]) -> tuple[list[str], int]:
    """Samples `_MOST_SENTENCES` of the sentences uniformly; returns them and the number of all.
    Memory is proportional to the sample."""
    # Reservoir sampling: of n sentences each is in the sample with probability size / n.
    size = _MOST_SENTENCES
    sample: list[str] = []
    number, uniform = 0, random.Random(0).random
    for number, sentence in enumerate(sentences, 1):
        if number <= size:
            sample.append(sentence)
            continue
        replaced = int(uniform() * number)  # kept with probability size / number
        if replaced < size:
            sample[replaced] = sentence
    return sample, number


def train(
    sentences: Sequence[str], settings: VocabularySettings, character_coverage: float
) -> bytes:
    """Returns the model, a function of the sentences and settings. character_coverage: the share of
    the text whose characters are pieces; rarer characters are <unk>."""
    import sentencepiece

    model, vocab_size = io.BytesIO(), settings.vocab_size
    # The text may allow fewer pieces than the default, and have fewer characters than were asked
    # for.
    is_exact = vocab_size is not None and settings.model_type != "char"
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=settings.model_type,
            vocab_size=vocab_size or _VOCAB_SIZE,
            hard_vocab_limit=is_exact,
            character_coverage=character_coverage,
            normalization_rule_name="nmt_nfkc",
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=-1,
            # <eop> is found in text, control symbols are not.
            control_symbols=_CONTROL_SYMBOLS,
            user_defined_symbols=["<eop>"],
            max_sentence_length=_NO_LIMIT,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as e:
        # "Internal: src/trainer_interface.cc(661) [(condition)] Vocabulary size too high (9). ..."
        # What it says to increase are flags of its own.
        said, _, _ = str(e).rpartition("] ")[2].partition(" Increase")
        expected = f"a size that the text allows: {said.strip()}"
        raise wrong("vocab_size", vocab_size or _VOCAB_SIZE, expected) from None
    return model.getvalue()
