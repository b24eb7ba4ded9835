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
from typing import Any, NamedTuple

import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
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


class Asked(NamedTuple):
    """A request for predictions, checked."""

    call: Call
    rows: list[Row]
    stream: bool


class Application:
    """Serves a model under `/v1/models/NAME`, and a page for it at `/`.

    Args:
      is_local: whether only requests for a name of this machine are answered.

    Attributes:
      asgi: the application for an ASGI server.
    """

    def __init__(self, model: ServedModel, name: str, is_local: bool) -> None:
        self._model, self._name = model, name
        path = "/v1/models/{name}"
        handlers: dict[Any, Any] = {
            HTTPException: self._refused,
            UserError: self._wrong,
            Exception: self._failed,
        }
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=_LOCAL_HOSTS)
        self.asgi = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/ready", self._ready),
                Route("/metrics", self._metrics),
                Route("/v1/models", self._names),
                Route(path + "/metadata", self._metadata),
                Route(path + ":predict", self._predict, methods=["POST"]),
                Route(path, self._status),
                Mount("/", StaticFiles(directory=PAGE, html=True)),
            ],
            exception_handlers=handlers,
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
            "from the request to its answer",
            ["signature"],
            registry=registry,
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
        )
        waiting = prometheus_client.Gauge(
            "xlnet_rows_waiting", "or computed", registry=registry
        )
        waiting.set_function(lambda: self._computing.rows)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._computing = Computing(self._model.run, self._model.turns)
        yield

    # ---- errors

    async def _refused(self, request: Request, error: HTTPException) -> Response:
        about = error.detail
        if error.status_code in (404, 405):
            about = f"{request.method} {request.url.path[:200]}: {about}"
        return self._error(about, error.status_code, error.headers)

    async def _wrong(self, request: Request, error: UserError) -> Response:
        return self._error(str(error), 400)

    async def _failed(self, request: Request, error: Exception) -> Response:
        reason = str(error).partition("\n")[0]
        about = f"the model failed on this: {type(error).__name__}: {reason}"
        return self._error(about, 500)

    def _error(self, about: str, status: int, headers: Any = None) -> Response:
        self._errors.labels(status).inc()
        return _json({"error": about}, status, headers)

    # ---- the state

    async def _health(self, request: Request) -> Response:
        """Liveness: it answers."""
        return Response("ok\n")

    async def _ready(self, request: Request) -> Response:
        """Readiness: one more instance may wait."""
        self._computing.check_waiting()
        return Response("ok\n")

    async def _metrics(self, request: Request) -> Response:
        text = prometheus_client.generate_latest(self._registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _names(self, request: Request) -> Response:
        return _json({"models": [{"name": self._name}]})

    async def _status(self, request: Request) -> Response:
        """As of TensorFlow Serving, and what the page needs."""
        self._check_name(request)
        version = {
            "version": "1",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return _json({"model_version_status": [version], **self._model.describe()})

    async def _metadata(self, request: Request) -> Response:
        """As of TensorFlow Serving: the inputs of the signatures, texts."""
        self._check_name(request)
        signatures = {}
        for name in self._model.names:
            inputs = {}
            for key, count in self._model.inputs(name).items():
                sizes = [-1] if count is None else [-1, count]
                shape = {"dim": [{"size": str(size)} for size in sizes]}
                inputs[key] = {"dtype": "DT_STRING", "tensor_shape": shape, "name": key}
            signatures[name] = {"inputs": inputs}
        definition = {"signature_def": {"signature_def": signatures}}
        spec = {"name": self._name, "signature_name": "", "version": "1"}
        return _json({"model_spec": spec, "metadata": definition})

    def _check_name(self, request: Request) -> None:
        if request.path_params["name"] != self._name:
            raise HTTPException(404, f"the model is {self._name}")

    # ---- predictions

    async def _predict(self, request: Request) -> Response:
        began = time.monotonic()
        self._check_name(request)
        try:
            body = await asyncio.wait_for(_body(request), limits.BODY_SECONDS)
        except asyncio.TimeoutError:
            raise HTTPException(
                408,
                f"the body did not arrive within {limits.BODY_SECONDS:g} s",
                {"connection": "close"},
            ) from None
        except ClientDisconnect:
            raise HTTPException(499, "the client has left") from None
        asked = _asked(self._model, body)
        if asked.stream:
            parts = self._parts(asked)
            first = await parts.__anext__()  # an error before it is one of the response
            lines = _lines(first, parts)
            return StreamingResponse(lines, media_type="application/x-ndjson")
        answers = await _unless_left(request, self._answers(asked))
        seconds = self._seconds.labels(asked.call.signature)
        seconds.observe(time.monotonic() - began)
        content: dict[str, Any] = {"predictions": [each.prediction for each in answers]}
        if self._model.labels:
            content["labels"] = self._model.labels
        for name in Answer._fields[1:]:
            content[name] = [getattr(each, name) for each in answers]
        return _json(content)

    async def _answers(self, asked: Asked) -> list[Answer]:
        """The answers to the rows of a request."""
        call, rows, _ = asked
        with self._computing.counted(len(rows)):
            batch = self._model.batch(call, rows)
            keeps_tokens = self._model.keeps_tokens(call)
            found = await self._computing.answers(call, rows, batch, keeps_tokens)
        for number, each in enumerate(found):
            if isinstance(each, UserError):
                raise UserError(f"instance {number}: {each}")
        return found

    async def _parts(self, asked: Asked) -> AsyncIterator[dict[str, Any]]:
        """The parts of a generated text, each as it comes."""
        # A slow client delays nobody: the parts, which `max_tokens` limits, wait for it here.
        computing, loop = self._computing, asyncio.get_running_loop()
        parts: asyncio.Queue[Any] = asyncio.Queue()
        taken = loop.create_future()  # cancelled when nobody takes parts any more
        end = loop.time() + limits.MAX_SECONDS

        def post(part: Any) -> None:
            loop.call_soon_threadsafe(parts.put_nowait, part)

        def generate() -> None:
            try:
                for part in self._model.stream(asked.call, asked.rows[0]):
                    post(part)
                post(None)
            except Exception as e:  # raised where the parts are taken
                post(e)

        with computing.counted(1):
            async with computing.reading:
                work = asyncio.ensure_future(computing.compute([taken], generate))
                try:
                    while True:
                        part = await asyncio.wait_for(parts.get(), end - loop.time())
                        if part is None:
                            break
                        if isinstance(part, Exception):
                            raise part
                        yield part
                except asyncio.TimeoutError:
                    raise _out_of_time() from None
                finally:
                    taken.cancel()
                    await asyncio.wait([work])  # its copy of the graph is in use


def _json(content: Any, status: int = 200, headers: Any = None) -> Response:
    # Lone surrogates of a request are JSON's escapes.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    body = text.encode(errors="backslashreplace")
    return Response(body, status, headers, "application/json")


def _out_of_time() -> HTTPException:
    return HTTPException(503, f"not answered within {limits.MAX_SECONDS} s")


async def _body(request: Request) -> bytes:
    """The body; one that is too large is not kept, but read: its client, which still sends, gets an
    answer."""
    body = bytearray()
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= limits.MAX_BODY:
            body += part
    if size > limits.MAX_BODY:
        raise HTTPException(413, f"the request has more than {limits.MAX_BODY} bytes")
    return bytes(body)


def _asked(model: ServedModel, body: bytes) -> Asked:
    """The request of a body."""
    try:
        given = files.parse_json(body, has_rows=True)
    except ValueError as e:
        raise UserError(f"not JSON: {e}") from None
    if not isinstance(given, dict):
        raise wrong("the request", "no object", "an object with instances")
    for name, value in given.items():
        if name not in _FIELDS:
            raise wrong("the request", f"'{name:.80}'", ", ".join(_FIELDS))
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
    return Asked(call, model.rows(call, instances), stream)


async def _unless_left(request: Request, work: Awaitable[Any]) -> Any:
    """The result of work; it ends when the client leaves or its time is over."""
    working = asyncio.ensure_future(work)
    left = asyncio.ensure_future(request.receive())
    try:
        both = {working, left}
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(both, timeout=limits.MAX_SECONDS, return_when=first)
        if working.done():
            return working.result()
        if left.done():
            raise HTTPException(499, "the client has left")
        raise _out_of_time()
    finally:
        working.cancel()
        left.cancel()


async def _lines(first: Any, parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """The parts of a response as lines of JSON; an error is the last one."""
    yield json.dumps(first).encode() + b"\n"
    try:
        async for part in parts:
            yield json.dumps(part).encode() + b"\n"
    except Exception as e:
        reason = getattr(e, "detail", str(e))
        yield json.dumps({"error": reason}).encode() + b"\n"


# ---- the server


def bind(host: str, port: int) -> socket.socket:
    """A socket with this address, port 0 for any free one; UserError if it is in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Without it the body of a response waits for the acknowledgement of its head, 40 ms.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.bind(address)
    except (OSError, OverflowError) as e:
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
