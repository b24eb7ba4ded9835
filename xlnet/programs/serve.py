"""Serves an exported model over HTTP: JSON in, JSON out. An example, for trials and small use."""

import dataclasses
import os
import signal
import sys
import urllib.parse
from typing import Optional

from xlnet import cli, quiet
from xlnet.settings.fields import Settings, required, setting

ABOUT = """serves a model that scripts/export.py wrote, over HTTP. Requests are those of TensorFlow
Serving: POST /v1/models/NAME:predict with {"instances": [{"text_a": "..."}]}; GET /health,
/metrics and /v1/models/NAME say how it is. Requests that arrive together are answered together.
A SavedModel is a program of TensorFlow's: serve those that you, or people you trust, exported.
"""


@dataclasses.dataclass(frozen=True)
class ServingSettings(Settings):
    """serve.py: what is served, where, and how much of it."""
    model: str = required("directory that scripts/export.py wrote; of several versions the newest")
    name: Optional[str] = setting(None, "name in the address; that of the directory if not given")
    host: str = setting("127.0.0.1", "address to listen at; 0.0.0.0 for other machines too: there "
                        "is no encryption, and everybody may ask")
    port: int = setting(8501, "port to listen at; 0: any free one", minimum=0)
    max_batch: int = setting(32, "rows computed together", minimum=1)
    wait_ms: float = setting(2.0, "wait for more rows before fewer are computed [ms]", minimum=0.0)
    max_rows: int = setting(128, "rows of a request", minimum=1)
    max_values: int = setting(4096, "values of a list in a row, such as ids", minimum=1)
    max_characters: int = setting(100_000, "characters of a text", minimum=1)
    max_body: int = setting(1 << 20, "size of a request [bytes]", minimum=1)
    max_waiting: int = setting(1024, "rows that may wait; more are refused", minimum=1)


def main(settings: ServingSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.serving.server import http_server
    from xlnet.serving.server.saved_model import SavedModel
    model = SavedModel(settings.model)
    model.warm_up()
    name = settings.name or os.path.basename(os.path.abspath(settings.model))
    server = http_server.Server(model, name, (settings.host, settings.port), http_server.Limits(
        body=settings.max_body, rows=settings.max_rows, values=settings.max_values,
        characters=settings.max_characters, waiting=settings.max_waiting,
        batch=settings.max_batch, wait=settings.wait_ms / 1000))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("serving %s at http://%s:%d/v1/models/%s (signatures %s)" % (
        model.path, settings.host, server.server_port, urllib.parse.quote(name),
        ", ".join(model.names)), flush=True)
    http_server.serve(server)


EXAMPLES = (
    "--model=exported --port=8501",
)


def run() -> None:
    cli.run(main, ServingSettings, about=ABOUT, examples=EXAMPLES)
