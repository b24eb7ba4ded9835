"""XLNet: generalized autoregressive pretraining (https://arxiv.org/abs/1906.08237).

The documented API: `XLNetConfig`, `RunConfig`, `create_run_config`, `XLNetModel`.
"""

_HOME = {"XLNetConfig": "xlnet.config", "RunConfig": "xlnet.config",
         "create_run_config": "xlnet.config", "XLNetModel": "xlnet.api"}

__all__ = list(_HOME)


def __getattr__(name):
    # TensorFlow is imported only when the model itself is asked for, so that --help is quick.
    if name not in _HOME:
        raise AttributeError("module 'xlnet' has no attribute '%s'" % name)
    import importlib
    return getattr(importlib.import_module(_HOME[name]), name)
