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

_MANY_CHARACTERS = ("chinese", "japanese", "korean")  # languages
_CONTROL_SYMBOLS = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"]  # 3 to 7, <eop> 8
_SPECIAL = 9  # special symbols: these, and <unk> <s> </s> 0 to 2
_VOCAB_SIZE = 32000  # if not given
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
    from xlnet.corpus.tokenizer import Tokenizer, description_path, write_description

    keep_accents = settings.keep_accents
    if keep_accents is None:
        keep_accents = settings.language != "english"
    coverage = 0.9995 if settings.language in _MANY_CHARACTERS else 0.99995
    # Reading may take minutes, so it is checked first that the model can be written. Its path is
    # compared with none of the input files, as it must be new.
    files.check_output(settings.sp_path, (), "sp_path")
    for path in (settings.sp_path, description_path(settings.sp_path)):
        if os.path.exists(path):
            raise wrong("sp_path", f"{path}, which exists", "a new file")
    file_sizes = reading.find_files(settings.input_glob)  # bytes by path
    chunks = reading.cut(file_sizes)
    all_sentences = read_sentences(chunks, settings, keep_accents)
    sentences, total = sample_sentences(all_sentences)
    if not sentences:
        raise wrong("input_glob", f"no text in {settings.input_glob}", "sentences")
    counts = f"{len(file_sizes)} files, {total} sentences"
    print(f"{counts}; training on {len(sentences)}", flush=True)
    model = train(sentences, settings, coverage)
    # The description <sp_path>.json is written first: a model without one is taken for a released
    # one, whose text is cleaned in another way.
    digest = hashlib.sha256(model).hexdigest()
    write_description(settings.sp_path, digest, settings.uncased, keep_accents)
    with files.writing(settings.sp_path) as f:
        f.write(model)
    tokenizer = Tokenizer(settings.sp_path)
    case = "uncased" if tokenizer.uncased else "cased"
    accents = "kept" if tokenizer.keep_accents else "stripped"
    print(
        f"{settings.sp_path}: {tokenizer.vocab_size} pieces, {case}, accents {accents}, "
        f"character coverage {coverage:g}"
    )


def read_sentences(
    chunks: "Sequence[Chunk]", settings: VocabularySettings, keep_accents: bool
) -> Iterator[str]:
    """Yields the sentences that records will have, cleaned as the tokenizer does, and shows a
    progress bar.

    Args:
      chunks: byte ranges of the text's files.
      settings: how files are read, and whether text is lower-cased.
      keep_accents: that of the settings, or by language where they have None.
    """
    from xlnet.corpus import reading
    from xlnet.corpus.tokenizer import preprocess_text

    # `read_chunk` counts the documents that the setting `split` leaves out, which are not shown.
    counts: collections.Counter[str] = collections.Counter()
    sizes = [chunk.end - chunk.begin for chunk in chunks]
    with progress("reading", sum(sizes), "B") as advance:
        for chunk, size in zip(chunks, sizes):
            for sentence in reading.read_chunk(chunk, settings, counts):
                cleaned = preprocess_text(
                    sentence.text, settings.uncased, keep_accents=keep_accents
                )
                if cleaned:  # the end of a document has no text
                    # The trainer drops sentences with this character, its mark of the unknown.
                    yield cleaned.replace("\u2585", " ")
            advance(size)


def sample_sentences(sentences: Iterable[str]) -> tuple[list[str], int]:
    """Samples `_MOST_SENTENCES` of the sentences uniformly, all if there are fewer; returns the
    sample and the number of all sentences. Memory is proportional to the sample."""
    # Reservoir sampling: after n sentences each of them is in the sample with probability size / n.
    size = _MOST_SENTENCES
    sample: list[str] = []
    number = 0  # of sentences so far
    uniform = random.Random(0).random  # of [0, 1)
    for number, sentence in enumerate(sentences, 1):
        if number <= size:
            sample.append(sentence)
            continue
        replaced = int(uniform() * number)
        if replaced < size:  # with probability size / number
            sample[replaced] = sentence
    return sample, number


def train(
    sentences: Sequence[str], settings: VocabularySettings, character_coverage: float
) -> bytes:
    """Trains a SentencePiece model and returns the bytes of its file, which are a function of the
    arguments alone.

    Args:
      sentences: cleaned text.
      settings: number of pieces and type of the model.
      character_coverage: the fraction of the text's characters that are pieces; the rarest others
        are <unk>.
    """
    import sentencepiece

    model, vocab_size = io.BytesIO(), settings.vocab_size
    # The size is an upper limit where it is the default, as the text may allow fewer pieces, and of
    # "char", as the text may have fewer characters.
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
            pad_id=-1,  # none of the trainer's own: <pad> is a control symbol
            # In a text "<eop>" is encoded as this symbol; control symbols are not.
            control_symbols=_CONTROL_SYMBOLS,
            user_defined_symbols=["<eop>"],
            max_sentence_length=_NO_LIMIT,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as e:
        # "Internal: src/trainer_interface.cc(661) [(condition)] Vocabulary size too high (9). ..."
        # is shown from "Vocabulary" on. What follows "Increase" are flags of the trainer.
        message = str(e).rpartition("] ")[2]
        said, _, _ = message.partition(" Increase")
        expected = f"a size that the text allows: {said.strip()}"
        raise wrong("vocab_size", vocab_size or _VOCAB_SIZE, expected) from None
    return model.getvalue()
