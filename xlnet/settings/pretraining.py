"""Settings of pretraining: records, objective, memory and targets."""

from typing import Any, Optional

from xlnet.settings.data import CorpusSettings
from xlnet.settings.fields import HelpGroup, Settings, required, same_as, setting
from xlnet.settings.training import RunSettings
from xlnet.support.errors import wrong

# Arguments of a setting of which the manifest of the records has the value.
_COMPARED: dict[str, Any] = dict(
    default=None,
    help="compared with the records if given",
    help_group=HelpGroup.ORIGINAL,
    belongs_to=None,
)


class DataSettings(Settings, help_group=HelpGroup.RECORDS):
    """The records, and what is done with them."""

    record_info_dir: str = required(
        "directory of records made by xlnet data make", belongs_to=None
    )
    eval_record_info_dir: Optional[str] = setting(None, "directory of held-out records")
    do_eval: bool = setting(
        False,
        "instead of training, compute the loss and perplexity of init_checkpoint, or of the newest "
        "checkpoint in model_dir, on eval_record_info_dir, or else on record_info_dir",
        HelpGroup.TASK,
        belongs_to=None,
    )


class ObjectiveSettings(Settings, help_group=HelpGroup.TASK, belongs_to="model"):
    """What is predicted."""

    objective: str = setting(
        "permutation",
        "what is predicted: permutation, tokens in a random order (XLNet); causal, the next token "
        "(Transformer-XL); masked, masked tokens (BERT); or an objective of own_module",
    )
    own_module: Optional[str] = setting(
        None,
        "your own Python file, or installed module, that registers pretraining objectives or "
        "factorization orders",
        belongs_to=None,
    )


class ContextSettings(Settings, help_group=HelpGroup.TARGETS, belongs_to="model"):
    """What else is learned, and what a position sees of earlier sequences and its own."""

    next_segment_loss: float = setting(
        0.0,
        "weight of the loss of predicting whether segment B continues A; 0: off",
        minimum=0.0,
    )
    same_length: bool = setting(
        False, "with objective=causal each position sees mem_len others"
    )
    mem_len: int = setting(
        384, "length of the memory of earlier sequences [tokens]; 0: none", minimum=0
    )


class SamplingSettings(Settings, help_group=HelpGroup.TARGETS, belongs_to="model"):
    """Which tokens are predicted, and in which order. Both are sampled while training, so they do
    not depend on the records."""

    perm_size: int = setting(
        0,
        "size of a permutation chunk [tokens]; 0: the longer part of a sequence",
        minimum=0,
    )
    factorization_order: str = setting(
        "uniform",
        "order in which targets are predicted: uniform, random within chunks of perm_size; or an "
        "order of own_module",
    )
    num_predict: int = setting(
        0, "targets per sequence [tokens]; 0: a sixth of it", minimum=0
    )
    mask_mode: str = setting(
        "whole_word",
        "what is predicted together: n-grams of one to five words; single tokens; or n pieces "
        "by the rule of the original",
        choices=("whole_word", "token", "legacy"),
    )
    mask_alpha: int = setting(
        6,
        "about one in mask_alpha / mask_beta n-grams is a target, evenly spaced",
        minimum=1,
    )
    mask_beta: int = setting(1, "see mask_alpha", minimum=1)


class PretrainingSettings(
    SamplingSettings,
    ContextSettings,
    ObjectiveSettings,
    DataSettings,
    RunSettings,  # whose fields come first
):
    """xlnet pretrain: data, memory, permutation, checkpoints."""

    model_dir: str = same_as(
        RunSettings,
        "model_dir",
        default="",
        help="directory for checkpoints; a run found there resumes; if not given, model next to "
        "the records",
    )
    train_batch_size: int = same_as(
        RunSettings,
        "train_batch_size",
        default=16,
        help="sequences per step over all devices and hosts; divides the number of text streams",
    )
    # Properties of the records. They need not be given, but are flags of the original.
    seq_len: Optional[int] = same_as(CorpusSettings, "seq_len", **_COMPARED)
    reuse_len: Optional[int] = same_as(CorpusSettings, "reuse_len", **_COMPARED)
    bi_data: Optional[bool] = same_as(CorpusSettings, "bi_data", **_COMPARED)
    uncased: Optional[bool] = same_as(CorpusSettings, "uncased", **_COMPARED)

    program = "xlnet pretrain"  # not a field, as it has no annotation

    def check(self) -> None:
        super().check()
        # The default of model_dir, next to the records, is only for training.
        if self.do_eval and not (self.init_checkpoint or self.model_dir):
            expected = "the weights to evaluate: --init_checkpoint or --model_dir"
            raise wrong("do_eval", "no weights", expected)
        if self.same_length and self.objective != "causal":
            raise wrong("objective", self.objective, "causal", "--same_length")
        if self.same_length and not self.mem_len:
            expected = "at least 1, or each position would see only itself"
            raise wrong("mem_len", 0, expected, "--same_length")
