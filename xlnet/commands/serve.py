"""A server of a trained model: xlnet serve."""

import asyncio
import os
import signal
import urllib.parse
from typing import Optional

from xlnet.commands import cli
from xlnet.inference.settings import LoadSettings
from xlnet.settings.fields import Settings, setting
from xlnet.support import system
from xlnet.support.errors import UserError, wrong


class ServingSettings(Settings):
    """xlnet serve: at which address."""

    name: Optional[str] = setting(
        None, "name in the address; default: that of the directory"
    )
    host: str = setting(
        "127.0.0.1",
        "address to listen at; 0.0.0.0, or :: for IPv6 too, for other machines: without encryption "
        "or access control",
    )
    port: int = setting(
        8501, "port to listen at; 0: any free one", minimum=0, maximum=65535
    )

    def check(self) -> None:
        super().check()
        if self.name and "/" in self.name:
            raise wrong("name", f"'{self.name}'", "a name without /", "--name")


@cli.program(LoadSettings, ServingSettings)
def run(model_settings: LoadSettings, settings: ServingSettings) -> None:
    """Serves a trained model over HTTP, with a web page at http://HOST:PORT/.

    A fine-tuned model predicts; a pretrained one fills blanks, generates text and shows its
    attention. Requests are those of TensorFlow Serving: POST /v1/models/NAME:predict with
    {"instances": [{"text_a": "..."}]}; GET /health (alive), /ready, /metrics and /v1/models/NAME
    report the state. Requests that arrive together are computed together. Exported models are
    served by TensorFlow Serving.

    Examples:
      xlnet serve --model_dir=model --port=8501
    """
    system.import_tensorflow()
    try:
        from xlnet.server import application
    except ModuleNotFoundError as e:
        raise UserError(
            f"the server needs the package {e.name}: pip install starlette uvicorn "
            "prometheus-client"
        ) from None
    from xlnet.server.served_model import ServedModel

    # The socket is bound first: an address in use is an error before the model is loaded. Clients
    # are refused until `listen`; those that connect later wait until the server has started.
    listening = application.bind(settings.host, settings.port)
    model = ServedModel(model_settings)
    path = model_settings.model_dir
    name = settings.name or os.path.basename(os.path.abspath(path))
    listening.listen()
    # In a URL, IPv6 addresses have brackets.
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listening.getsockname()[1]}"
    url = f"{address}/v1/models/{urllib.parse.quote(name)}"
    signatures = ", ".join(model.inputs)
    print(f"serving {path} at {url} (signatures {signatures})")
    print(f"a page to try it: {address}/", flush=True)
    server = application.server(model, name, listening)
    for number in (signal.SIGINT, signal.SIGTERM):
        # While uvicorn serves, it handles these signals itself, and raises them again at its end;
        # then this handler has no effect. It is for a signal that comes earlier: the server ends as
        # soon as it has started.
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    asyncio.new_event_loop().run_until_complete(server.serve([listening]))
    # Responses are sent, or out of time. Exit at once: TensorFlow would take seconds to end,
    # and an abandoned computation longer.
    os._exit(0)
