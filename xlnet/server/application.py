"""A model over HTTP: JSON in, JSON out, and a page for people.

Requests are those of TensorFlow Serving's REST API: `POST /v1/models/NAME:predict` with
{"signature_name": ..., "instances": [instance, ...]} is answered by {"predictions": [answer, ...]}.
There is neither encryption nor authentication.
"""

# A request for predictions, in the order of events: the body is read and checked (`_asked`), its
# rows wait in `Computing` with those of other requests, a thread runs the model, and the answers
# are sent as JSON. If the client leaves or the time is over, the task that waits for them is
# cancelled: rows that wait are dropped, and what runs ends before its next call of the network.

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from xlnet.server import limits
from xlnet.server.served_model import Answer, Call, Row, ServedModel
from xlnet.server.turns import Computing
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

PAGE = pathlib.Path(__file__).parent / "page"
_HEADERS = [  # of every response
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-cache"),
]
_FIELDS = {  # of a request: the type of each, and its name in JSON
    "signature_name": (str, "a string"),
    "instances": (list, "an array"),
    "parameters": (dict, "an object"),
    "stream": (bool, "true or false"),
}
# Another site can have its name resolved to this machine (DNS rebinding).
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1", "[")


class Application:
    """Serves a model under `/v1/models/NAME`, and a page for it at `/`.

    Args:
      is_local: whether only requests for a name of this machine are answered.

    Attributes:
      asgi: the application for an ASGI server.
    """

    def __init__(self, model: ServedModel, name: str, is_local: bool) -> None:
        self._model, self._name = model, name
        path = "/v1/models/{name}"  # {name} is a parameter of Starlette's routes
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=_LOCAL_HOSTS)
        self.asgi = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/ready", self._ready),
                Route("/metrics", self._metrics),
                Route("/v1/models", self._names),
                Route(path + ":predict", self._predict, methods=["POST"]),
                Route(path, self._status),
                Mount("/", StaticFiles(directory=PAGE, html=True)),
            ],
            exception_handlers=dict.fromkeys(
                (HTTPException, UserError, Exception), self._refused
            ),
            middleware=[hosts] if is_local else [],
            lifespan=self._lifespan,
        )
        self._registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        self._errors = prometheus_client.Counter(
            "xlnet_errors", "by status", ["status"], registry=registry
        )
        self._seconds = prometheus_client.Histogram(
            "xlnet_answer_seconds",
            "in which requests are answered",
            ["signature"],
            registry=registry,
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
        )
        waiting = prometheus_client.Gauge(
            "xlnet_rows_waiting", "or computed", registry=registry
        )
        # Asked for while the server runs, when `_lifespan` has made `_computing`.
        waiting.set_function(lambda: self._computing.rows)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._computing = Computing(self._model.run, self._model.turns)
        yield

    async def _refused(self, request: Request, error: Exception) -> Response:
        """The response to a request that ends with an error: its status and a line."""
        headers = None
        if isinstance(error, UserError):
            status, about = 400, str(error)
        elif isinstance(error, HTTPException):
            status, about, headers = error.status_code, error.detail, error.headers
        else:
            reason = str(error).partition("\n")[0]
            about = f"the model failed on this: {type(error).__name__}: {reason}"
            status = 500
        if status in (404, 405):
            about = f"{request.method} {request.url.path[:200]}: {about}"
        self._errors.labels(status).inc()
        return JSONResponse({"error": about}, status, headers)

    # ---- the state

    async def _health(self, request: Request) -> Response:
        """Liveness: it answers."""
        return Response("ok\n")

    async def _ready(self, request: Request) -> Response:
        """Readiness: one more instance may wait."""
        with self._computing.counted(1):
            return Response("ok\n")

    async def _metrics(self, request: Request) -> Response:
        text = prometheus_client.generate_latest(self._registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _names(self, request: Request) -> Response:
        return JSONResponse({"models": [{"name": self._name}]})

    async def _status(self, request: Request) -> Response:
        """As of TensorFlow Serving, and what the page needs."""
        self._check_name(request)
        version = {
            "version": "1",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return JSONResponse(
            {"model_version_status": [version], **self._model.describe()}
        )

    def _check_name(self, request: Request) -> None:
        """Raises HTTPException 404 for another name of a model in the path."""
        if request.path_params["name"] != self._name:
            raise HTTPException(404, f"the model is {self._name}")

    # ---- predictions

    async def _predict(self, request: Request) -> Response:
        began = time.monotonic()
        self._check_name(request)
        try:
            body = await _body(request)
        except ClientDisconnect:
            raise _left() from None
        call, rows, is_streamed = _asked(self._model, body)
        if is_streamed:
            parts = self._parts(call, rows[0])
            first = await parts.__anext__()  # an error before it is one of the response
            lines = _lines(first, parts)
            return StreamingResponse(lines, media_type="application/x-ndjson")
        with self._computing.counted(len(rows)):
            work = self._computing.answers(call, rows)
            answers = await _unless_left(request, work)
        for number, each in enumerate(answers):
            if isinstance(each, UserError):
                raise UserError(f"instance {number}: {each}")
        seconds = self._seconds.labels(call.signature)
        seconds.observe(time.monotonic() - began)
        # From an `Answer` of each row to a list of each field.
        predictions, *about = zip(*answers)
        content: dict[str, Any] = {"predictions": predictions}
        if self._model.labels:
            content["labels"] = self._model.labels
        content.update(zip(Answer._fields[1:], about))
        return JSONResponse(content)

    async def _parts(self, call: Call, row: Row) -> AsyncIterator[dict[str, Any]]:
        """The parts of a generated text, each as it comes."""
        computing, loop = self._computing, asyncio.get_running_loop()
        taken = loop.create_future()  # cancelled when nobody takes parts any more
        end = loop.time() + limits.MAX_SECONDS
        with computing.counted(1):
            async with computing.reading:
                parts = self._model.stream(call, row)
                try:
                    while True:
                        work = computing.compute([taken], next, parts, None)
                        part = await asyncio.wait_for(work, end - loop.time())
                        if part is None:
                            break
                        yield part
                except asyncio.TimeoutError:
                    raise _out_of_time() from None
                finally:
                    taken.cancel()


def _left() -> HTTPException:
    return HTTPException(499, "the client has left")


def _out_of_time() -> HTTPException:
    return HTTPException(503, f"not answered within {limits.MAX_SECONDS} s")


async def _body(request: Request) -> bytes:
    """The body; one that is too large is not kept, but read: its client, which still sends, gets an
    answer."""
    body = bytearray()
    async for part in request.stream():
        body += part
        del body[limits.MAX_BODY + 1 :]
    if len(body) > limits.MAX_BODY:
        raise HTTPException(413, f"the request has more than {limits.MAX_BODY} bytes")
    return bytes(body)


def _asked(model: ServedModel, body: bytes) -> tuple[Call, list[Row], bool]:
    """Checks the body of a request; returns (its call, its rows, whether the answer is
    streamed)."""
    try:
        given = files.parse_json(body, nan_is_null=True)
    except ValueError as e:
        raise UserError(f"not JSON: {e}") from None
    if not isinstance(given, dict):
        raise wrong("the request", "no object", "an object with instances")
    for name, value in given.items():
        if name not in _FIELDS:
            raise wrong("the request", f"{name!r:.80}", ", ".join(_FIELDS))
        kind, expected = _FIELDS[name]
        if not isinstance(value, kind):
            raise wrong(name, json.dumps(value)[:80], expected)
    instances = given.get("instances", [])
    if not 1 <= len(instances) <= limits.MAX_INSTANCES:
        raise wrong("instances", len(instances), f"1 to {limits.MAX_INSTANCES}")
    signature = given.get("signature_name", model.default)
    call = model.call(signature, given.get("parameters", {}))
    stream = given.get("stream", False)
    if stream and (call.signature != "generate" or len(instances) != 1):
        found = f"{len(instances)} of {call.signature}"
        raise wrong("stream", found, "one of generate")
    return call, model.rows(call, instances), stream


async def _unless_left(request: Request, work: Awaitable[Any]) -> Any:
    """The result of work; it ends when the client leaves or its time is over."""
    working = asyncio.ensure_future(work)
    left = asyncio.ensure_future(request.receive())
    left.add_done_callback(lambda _: working.cancel())
    try:
        return await asyncio.wait_for(working, limits.MAX_SECONDS)
    except asyncio.TimeoutError:
        raise _out_of_time() from None
    except asyncio.CancelledError:
        if not left.done():
            raise  # the server ends
        raise _left() from None
    finally:
        left.cancel()


async def _lines(first: Any, parts: AsyncIterator[Any]) -> AsyncIterator[str]:
    """The parts of a response as lines of JSON; an error is the last one."""
    yield json.dumps(first) + "\n"
    try:
        async for part in parts:
            yield json.dumps(part) + "\n"
    except Exception as e:
        reason = getattr(e, "detail", str(e))
        yield json.dumps({"error": reason}) + "\n"


# ---- the server


def bind(host: str, port: int) -> socket.socket:
    """A socket with this address, port 0 for any free one; UserError if it is in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # Without the protocol asyncio does not set TCP_NODELAY: the body of a response waits for
        # the acknowledgement of its head, 40 ms.
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as e:
        shown = f"{host}, port {port}: {e}"
        raise wrong("host", shown, "an address to listen at", "--host") from None
    return made


def server(model: ServedModel, name: str, listening: socket.socket) -> uvicorn.Server:
    """Serves a model at a socket of `bind`, with `run(sockets=[listening])`."""
    bound = listening.getsockname()[0]
    is_local = bound.startswith("127.") or bound == "::1"
    config = uvicorn.Config(
        Application(model, name, is_local).asgi,
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=_HEADERS,
        timeout_keep_alive=limits.IDLE_SECONDS,
        timeout_graceful_shutdown=limits.GRACE_SECONDS,
    )
    return uvicorn.Server(config)
