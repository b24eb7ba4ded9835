"""Numbers of fields and of their values in sentencepiece_model.proto, for models that are read and
written field by field (`wire`)."""

PIECE, TRAINER, NORMALIZER = 1, 2, 3                            # of the model
TEXT, SCORE, TYPE = 1, 2, 3                                     # of a piece
MODEL_TYPE, VOCAB_SIZE, BYTE_FALLBACK = 3, 4, 35                # of the trainer's settings
TABLE = 2                                                       # of the normalizer
UNIGRAM, CHARACTERS = 1, 4                                      # types of models
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6    # types of pieces
