"""XLNet: generalized autoregressive pretraining (https://arxiv.org/abs/1906.08237).

The documented API: `load` returns a trained model as an object; `XLNetConfig`, `RunConfig`,
`create_run_config` and `XLNetModel` are the network to build on; `preprocess_text` and `encode_ids`
are the original implementation's tokenization; the library raises `UserError`, a `ValueError`, for
bad input.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "2.0.0.dev0"

if TYPE_CHECKING:
    from xlnet.api import XLNetModel
    from xlnet.corpus.tokenizer import encode_ids, preprocess_text
    from xlnet.inference.load import load
    from xlnet.settings.network import RunConfig, XLNetConfig, create_run_config
    from xlnet.support.errors import UserError

# The module of each public name.
_MODULES = {
    "XLNetConfig": "xlnet.settings.network",
    "RunConfig": "xlnet.settings.network",
    "create_run_config": "xlnet.settings.network",
    "XLNetModel": "xlnet.api",
    "UserError": "xlnet.support.errors",
    "load": "xlnet.inference.load",
    "preprocess_text": "xlnet.corpus.tokenizer",
    "encode_ids": "xlnet.corpus.tokenizer",
}

__all__ = [
    "RunConfig",
    "UserError",
    "XLNetConfig",
    "XLNetModel",
    "create_run_config",
    "encode_ids",
    "load",
    "preprocess_text",
]


def __getattr__(name: str) -> object:
    """The public name `name` of the package, imported from its module when it is first read.

    So TensorFlow is imported only for what needs it, and --help is quick.
    """
    if name not in _MODULES:
        raise AttributeError(f"module 'xlnet' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)
