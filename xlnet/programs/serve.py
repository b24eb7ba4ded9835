"""Serves a trained model over HTTP, with a web page at http://HOST:PORT/.

A model directory (--model_dir) also serves long texts, infilling and text generation; of an export
(--model) the newest version is served. Requests are those of TensorFlow Serving:
POST /v1/models/NAME:predict with {"instances": [{"text_a": "..."}]}; GET /health, /metrics and
/v1/models/NAME report the state. Requests that arrive together are computed together. A SavedModel
is a program of TensorFlow's: serve those that you, or people you trust, exported.
"""

import dataclasses
import os
import signal
import sys
import urllib.parse
from typing import Any, Optional

from xlnet import cli, quiet
from xlnet.errors import UserError
from xlnet.serving.settings import LimitSettings, LoadSettings
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, as_in, setting
from xlnet.settings.network import NetworkSettings


@dataclasses.dataclass(frozen=True)
class ServingSettings(Settings):
    """xlnet serve: which model, at which address."""
    model_dir: Optional[str] = setting(None, "model directory to serve")
    model: Optional[str] = setting(None, "exported model to serve, its newest version")
    task_module: Optional[str] = as_in(LoadSettings, "task_module")
    device: str = as_in(DeviceSettings, "device")
    precision: str = as_in(NetworkSettings, "precision", default="fp32")
    name: Optional[str] = setting(None, "name in the address; default: that of the directory")
    host: str = setting("127.0.0.1", "address to listen at; 0.0.0.0, or :: for IPv6 too, for other "
                        "machines: without encryption or access control")
    allowed_hosts: str = setting("", "accept requests for these host names, comma-separated; "
                                 "default: any, but only local ones at a local address")
    port: int = setting(8501, "port to listen at; 0: any free one", minimum=0)

    def check(self) -> None:
        super().check()
        if bool(self.model) == bool(self.model_dir):
            raise UserError("expected --model_dir=DIRECTORY, a model directory, or --model=EXPORT, "
                            "an exported model; exactly one of them")
        if not self.host.strip():       # it would be every address of this machine
            raise UserError("host is %r, expected an address such as 127.0.0.1, or 0.0.0.0 for "
                            "other machines" % self.host)


def main(settings: ServingSettings, limits: LimitSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.serving.server import http_server
    from xlnet.serving.server.model_directory import ModelDirectory
    from xlnet.serving.server.saved_model import SavedModel
    from xlnet.tasks.types import known
    known.load(settings.task_module)
    path = settings.model_dir or settings.model or ""
    model: Any
    if settings.model_dir:
        model = ModelDirectory(path, limits.budget, DeviceSettings(device=settings.device),
                               network=NetworkSettings(precision=settings.precision))
    else:
        model = SavedModel(path)
        model.warm_up()
    name = settings.name or os.path.basename(os.path.abspath(path))
    server = http_server.Server(model, name, (settings.host, settings.port), limits,
                                settings.allowed_hosts.replace(",", " ").split())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    host = "[%s]" % settings.host if ":" in settings.host else settings.host
    print("serving %s at http://%s:%d/v1/models/%s (signatures %s)" % (
        model.path, host, server.port, urllib.parse.quote(name), ", ".join(model.names)),
        flush=True)
    print("a page to try it: http://%s:%d/" % (host, server.port), flush=True)
    server.run()


def run() -> None:
    cli.run(main, ServingSettings, LimitSettings, about=__doc__, examples=(
        "--model_dir=model --port=8501", "--model=exported"))
