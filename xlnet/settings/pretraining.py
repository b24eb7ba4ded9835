"""Pretraining: its records, objective, memory and targets."""

import dataclasses
from typing import Any, Optional

from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings, InputSettings
from xlnet.settings.fields import Need, as_in, required, setting
from xlnet.settings.training import RunSettings

PRETRAINING_NAME = "pretraining"    # .json in a model directory: the settings of its pretraining


# The records say it.
_CHECKED: dict[str, Any] = dict(default=None, help="checked against the data if given",
                                need=Need.ORIGINAL, resume="any")


@dataclasses.dataclass(frozen=True)
class PretrainingSettings(RunSettings, need=Need.TARGETS):
    """train_gpu.py: data, memory, permutation, checkpoints."""
    model_dir: str = as_in(RunSettings, "model_dir", default="", help="directory for checkpoints; "
                           "a run found there is continued; if not given model, beside the records")
    record_info_dir: str = required("directory made by data_utils.py (its manifest is read), or "
                                    "the reference's records; also the directory above tfrecords",
                                    need=Need.RECORDS)
    spiece_model_file: Optional[str] = as_in(
        RunSettings, "spiece_model_file", help="SentencePiece model of the reference's records, if "
        "corpus_info.json beside them does not name it; ours have their own")
    train_batch_size: int = as_in(RunSettings, "train_batch_size", default=16,
                                  help="windows per step over all devices and hosts; divides the "
                                  "number of streams")
    eval_steps: int = as_in(RunSettings, "eval_steps", help="steps between held-out evaluations; "
                            "0: before and after")
    eval_record_info_dir: Optional[str] = setting(None, "held-out records, as record_info_dir",
                                                  need=Need.RECORDS, resume="evaluation")
    do_eval: bool = setting(False, "do not train: compute held-out loss and perplexity of "
                            "init_checkpoint, or of the newest checkpoint in model_dir, on "
                            "eval_record_info_dir, or else record_info_dir; targets are sampled as "
                            "when it was trained, unless flags say otherwise", need=Need.TASK,
                            resume="any")
    objective: str = setting("permutation", "what is predicted: tokens in a random order (XLNet), "
                             "the next token (Transformer-XL), masked tokens (as BERT)",
                             choices=("permutation", "causal", "masked"), need=Need.TASK)
    next_segment_loss: float = setting(0.0, "weight of the loss of judging whether segment B "
                                       "continues A; 0: not judged", minimum=0.0)
    same_length: bool = setting(False, "objective causal: every position sees mem_len others")
    mem_len: int = setting(384, "positions remembered from earlier windows [tokens]", minimum=0)
    perm_size: int = setting(256, "tokens permuted among themselves [tokens]", minimum=1)
    num_predict: int = setting(85, "tokens predicted in a window", minimum=1)
    mask_mode: str = setting("whole_word", "what is predicted together: n-grams of 1 to 5 whole "
                             "words; single tokens; or n pieces by the reference's rule",
                             choices=("whole_word", "token", "legacy"))
    mask_alpha: int = setting(6, "targets lie evenly: about one of each mask_alpha / mask_beta "
                              "n-grams in a row is one", minimum=1)
    mask_beta: int = setting(1, "see mask_alpha", minimum=1)
    on_error: str = as_in(InputSettings, "on_error", help="damaged records: fail, or read the next "
                          "whole one in the place of each, and count them")
    seq_len: Optional[int] = as_in(CorpusSettings, "seq_len", **_CHECKED)
    reuse_len: Optional[int] = as_in(CorpusSettings, "reuse_len", **_CHECKED)
    bi_data: Optional[bool] = as_in(CorpusSettings, "bi_data", **_CHECKED)
    uncased: Optional[bool] = as_in(CorpusSettings, "uncased", **_CHECKED)
    keep_accents: Optional[bool] = as_in(CorpusSettings, "keep_accents", **_CHECKED)

    def check(self) -> None:
        super().check()
        if self.do_eval and not (self.init_checkpoint or self.model_dir):
            raise UserError("do_eval needs --init_checkpoint or --model_dir: the weights to "
                            "evaluate")
        if self.same_length and self.objective != "causal":
            raise UserError("same_length is True; it belongs to --objective=causal")
