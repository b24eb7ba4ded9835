"""Trains a SentencePiece vocabulary with XLNet's special symbols at the ids of released models."""

import dataclasses
import io
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from xlnet import cli, files
from xlnet.config import CorpusSettings, required, setting
from xlnet.errors import UserError

ABOUT = """trains a SentencePiece unigram model on the text that data_utils.py will encode with it.

The special symbols get the ids they have in released models, <unk> 0 to <eop> 8."""

SPECIAL_PIECES = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")
_LONGEST_LINE = 1 << 16          # bytes; the trainer would drop longer lines without a word


@dataclasses.dataclass(frozen=True)
class VocabularySettings:
    """train_sentencepiece.py: text to a SentencePiece model."""
    input_glob: str = required("text files: comma-separated glob patterns")
    sp_path: str = required("the SentencePiece model to write")
    vocab_size: int = setting(32000, "pieces, special symbols included")
    character_coverage: float = setting(0.9995, "share of the text's characters that get a piece; "
                                                "the rarest are left to <unk>")
    uncased: bool = setting(False, "lower-case the text")


def main(settings):
    if not 0.9 <= settings.character_coverage <= 1:
        raise UserError("character_coverage is %r, expected 0.9 <= coverage <= 1"
                        % settings.character_coverage)
    if settings.vocab_size <= len(SPECIAL_PIECES):
        raise UserError("vocab_size is %d, expected more than the %d special symbols"
                        % (settings.vocab_size, len(SPECIAL_PIECES)))
    paths = files.expand(settings.input_glob, "input_glob")
    model = train(clean_lines(paths, settings.uncased), settings)
    check_special_pieces(model)
    with files.replacing(settings.sp_path) as temporary:
        with open(temporary, "wb") as f:
            f.write(model)
    print("%s: %d pieces from %d files" % (settings.sp_path, settings.vocab_size, len(paths)))


def clean_lines(paths, uncased):
    """Returns the lines as the tokenizer will see them; refuses bad files as data_utils.py does."""
    from xlnet import reading
    from xlnet.tokenization import clean_text
    plain = CorpusSettings(input_glob="", save_dir="", sp_path="")
    lines = []
    for chunk in reading.cut(paths, 1 << 30):
        for line in reading.read_chunk(chunk, plain, None):
            lines.append(clean_text(line.text, lower=uncased))
            if len(lines[-1].encode("utf-8")) > _LONGEST_LINE:
                raise UserError("%s: longer than %d bytes; put a sentence on a line"
                                % (reading.place(line), _LONGEST_LINE))
    if not any(lines):
        raise UserError("input_glob: no text in %s" % ", ".join(paths))
    return lines


def train(lines, settings):
    """Returns the bytes of the model; one thread, so that the same text gives the same model."""
    import sentencepiece
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type="unigram",
            vocab_size=settings.vocab_size, character_coverage=settings.character_coverage,
            unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
            # Control symbols are never found in text; <eop> is, being written by hand.
            control_symbols=[p for p in SPECIAL_PIECES[3:] if p != "<eop>"],
            user_defined_symbols=["<eop>"], max_sentence_length=_LONGEST_LINE, num_threads=1,
            minloglevel=2)
    except RuntimeError as e:
        raise UserError(_advice(str(e), settings.vocab_size)) from None
    return model.getvalue()


def _advice(message, vocab_size):
    too_large = re.search(r"value <= (\d+)", message)
    if too_large:
        return ("vocab_size is %d, too large for this text; give more text or --vocab_size=%s or "
                "less" % (vocab_size, too_large.group(1)))
    too_small = re.search(r"required_chars[^\d]*\d+ vs (\d+)", message)
    if too_small:
        return ("vocab_size is %d, too small for the characters of this text; give --vocab_size=%s "
                "or more, or a lower --character_coverage" % (vocab_size, too_small.group(1)))
    return "SentencePiece: " + " ".join(message.split())


def check_special_pieces(model):
    """Raises UserError unless the special symbols have the ids of released models."""
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    found = tuple(processor.id_to_piece(i) for i in range(len(SPECIAL_PIECES)))
    if found != SPECIAL_PIECES:
        raise UserError("SentencePiece numbered the special symbols %s, expected %s; use another "
                        "version of sentencepiece" % (" ".join(found), " ".join(SPECIAL_PIECES)))


if __name__ == "__main__":
    cli.run(main, VocabularySettings, about=ABOUT)
