"""Serves a trained model over HTTP, with a web page at http://HOST:PORT/.

A fine-tuned model predicts; a pretrained one fills blanks, generates text and shows its attention.
Requests are those of TensorFlow Serving: POST /v1/models/NAME:predict with
{"instances": [{"text_a": "..."}]}; GET /health (alive), /ready, /metrics and /v1/models/NAME report
the state. Requests that arrive together are computed together. Exported models are served by
TensorFlow Serving.
"""

import dataclasses
import logging
import os
import signal
import urllib.parse
from typing import Optional

from xlnet import cli, quiet
from xlnet.errors import UserError
from xlnet.serving.settings import LimitSettings, LoadSettings
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.network import NetworkSettings


@dataclasses.dataclass(frozen=True)
class ServingSettings(Settings):
    """xlnet serve: which model, at which address."""

    model_dir: str = required("model directory to serve")
    task_module: Optional[str] = same_as(LoadSettings, "task_module")
    device: str = same_as(DeviceSettings, "device")
    precision: str = same_as(NetworkSettings, "precision", default="fp32")
    name: Optional[str] = setting(None, "name in the address; default: that of the directory")
    host: str = setting(
        "127.0.0.1",
        "address to listen at; 0.0.0.0, or :: for IPv6 too, for other machines: without encryption "
        "or access control",
    )
    allowed_hosts: str = setting(
        "",
        "accept requests for these host names, and from pages of theirs, comma-separated; default: "
        "any, but only local ones at a local address",
    )
    quiet: bool = setting(False, "no line for each request")
    port: int = setting(8501, "port to listen at; 0: any free one", minimum=0, maximum=65535)

    def check(self) -> None:
        super().check()
        if not self.host.strip():  # it would be every address of this machine
            raise UserError(
                f"host is {self.host!r}, expected an address such as 127.0.0.1, or 0.0.0.0 for "
                "other machines"
            )


def main(settings: ServingSettings, limits: LimitSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.serving.server import http_server, log_queue
    from xlnet.serving.server.model_directory import ServedModel
    from xlnet.tasks.types import known

    # an address in use is an error before the model is loaded
    listening = http_server.bind(settings.host, settings.port)
    known.load(settings.task_module)
    # Loads the model and computes once, so that the first request does not wait.
    model = ServedModel(
        settings.model_dir,
        limits.budget,
        DeviceSettings(device=settings.device),
        network=NetworkSettings(precision=settings.precision),
    )
    if settings.quiet:
        logging.getLogger(http_server.__name__ + ".access").setLevel(logging.WARNING)
    name = settings.name or os.path.basename(os.path.abspath(settings.model_dir))
    server = http_server.Server(
        model, name, listening, limits, settings.allowed_hosts.replace(",", " ").split()
    )
    # In a URL, IPv6 addresses have brackets.
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(
        "serving {} at http://{}:{}/v1/models/{} (signatures {})".format(
            model.path, host, server.port, urllib.parse.quote(name), ", ".join(model.names)
        ),
        flush=True,
    )
    print(f"a page to try it: http://{host}:{server.port}/", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        # `run` ends by them, and raises them again; one that comes before ends it at once.
        signal.signal(number, lambda *_: server.stop())
    with log_queue.written_by_thread():
        server.run()
    # All responses are sent. Exit at once: TensorFlow would take seconds to end, and an abandoned
    # computation longer. Each line was flushed; to flush once more would wait for a reader of the
    # standard output that has stalled.
    os._exit(0)


def run() -> None:
    cli.run(
        main,
        ServingSettings,
        LimitSettings,
        about=__doc__,
        examples=("--model_dir=model --port=8501",),
    )
