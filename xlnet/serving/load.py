"""`xlnet.load`: a trained model as a Python object. TensorFlow is imported when it is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Union

from xlnet import quiet
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import NetworkSettings

if TYPE_CHECKING:
    from xlnet.serving.model import Model

Path = Union[str, "os.PathLike[str]"]


def load(path: Path, *, model_config_path: Optional[Path] = None,
         spiece_model_file: Optional[Path] = None, use_checkpoint: str = "best",
         batch_size: int = 32, device: str = "auto", precision: str = "fp32") -> Model:
    """Loads a trained model.

    Args:
      path: a model directory of any of the programs; a directory with a released checkpoint, its
        config and its vocabulary; or a checkpoint prefix.
      model_config_path, spiece_model_file: the architecture and the vocabulary, where they do not
        lie beside the checkpoint as xlnet_config.json and spiece.model.
      use_checkpoint: "best": that of `best/` if it is there, or else the newest; or "newest".
      batch_size: texts that go through the network together.
      device: "auto": the first GPU, or the CPU where there is none; "gpu"; "cpu".
      precision: number format of the matrix products, "fp32", "bf16" or "fp16".

    Returns:
      A `serving.model.Model`; it knows what it was trained for. To be closed, or used as a context
      manager.

    Raises:
      UserError: there is no model, or it is damaged or contradicts itself.
    """
    quiet.import_tensorflow()
    from xlnet.serving import loaded
    from xlnet.serving.model import Model
    devices = DeviceSettings(device=device)
    devices.check()
    config, vocabulary = (None if each is None else os.fspath(each)
                          for each in (model_config_path, spiece_model_file))
    found = loaded.read(os.fspath(path), model_config_path=config,
                        spiece_model_file=vocabulary, use_checkpoint=use_checkpoint,
                        network=NetworkSettings(precision=precision))
    return Model(found, devices, batch_size)
