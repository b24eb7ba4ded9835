"""A model over HTTP: JSON in, JSON out, and a page for people.

Requests are those of TensorFlow Serving's REST API: `POST /v1/models/NAME:predict` with
{"signature_name": ..., "instances": [instance, ...]} is answered by {"predictions": [answer, ...]}.
A request may also have "parameters", the settings of the signature, and "stream": true. There is
neither encryption nor authentication.
"""

# A request for predictions, in the order of events: the body is read and checked
# (`_parse_request`), its instances, which are called rows once they are checked, wait in
# `Computing` with those of other requests, a thread runs the model, and the answers are sent as
# JSON. If the client leaves or the time is over, the task that waits for the answers is cancelled:
# rows that wait are dropped, and a computation ends before its next call of the network.

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
from xlnet.support.errors import UserError, escape_control_characters, wrong

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
# The names in requests that a server for this machine alone accepts: another site can have its own
# name resolved to this machine (DNS rebinding). Some versions of Starlette cut a name at its first
# colon, and leave "[" of an IPv6 address.
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1", "[")


class Application:
    """Serves a model under `/v1/models/NAME`, and a page for it at `/`.

    Args:
      model: what computes the answers.
      name: NAME.
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
                Route("/v1/models", self._models),
                # The first that matches is taken, and `path` matches this address, too.
                Route(path + ":predict", self._predict, methods=["POST"]),
                Route(path, self._status),
                Mount("/", StaticFiles(directory=PAGE, html=True)),
            ],
            exception_handlers=dict.fromkeys(
                (HTTPException, UserError, Exception), self._error_response
            ),
            middleware=[hosts] if is_local else [],
            lifespan=self._lifespan,
        )
        # The metrics of this application alone: a process may have several.
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
        # Called for each GET /metrics, so after `_lifespan` has made `_computing`.
        waiting.set_function(lambda: self._computing.rows)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Makes `_computing` when the server starts, as it belongs to the server's event loop."""
        self._computing = Computing(self._model.run, self._model.turns)
        yield

    async def _error_response(self, request: Request, error: Exception) -> Response:
        """The response to a request that ends with an error: a status, and {"error": a line}."""
        headers = None
        if isinstance(error, UserError):  # the request is wrong
            status, line = 400, str(error)
        elif isinstance(error, HTTPException):
            status, line, headers = error.status_code, error.detail, error.headers
        else:
            reason = str(error).partition("\n")[0]
            line = f"the model failed on this: {type(error).__name__}: {reason}"
            status = 500
        if status in (404, 405):  # says which method and path are not there
            line = f"{request.method} {request.url.path[:200]}: {line}"
        self._errors.labels(status).inc()
        # It may quote half a surrogate, which is no text.
        line = escape_control_characters(line)
        return JSONResponse({"error": line}, status, headers)

    # ---- the state

    async def _health(self, request: Request) -> Response:
        """Liveness: the server answers."""
        return Response("ok\n")

    async def _ready(self, request: Request) -> Response:
        """Readiness: one more instance may wait; HTTPException 503 if not."""
        with self._computing.admit(1):
            return Response("ok\n")

    async def _metrics(self, request: Request) -> Response:
        text = prometheus_client.generate_latest(self._registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"models": [{"name": self._name}]})

    async def _status(self, request: Request) -> Response:
        """The state of the model as TensorFlow Serving reports it, and what the page shows."""
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
        """Raises HTTPException 404 if the path of a request names another model."""
        if request.path_params["name"] != self._name:
            raise HTTPException(404, f"the model is {self._name}")

    # ---- predictions

    async def _predict(self, request: Request) -> Response:
        """The answers to all instances of a request, or the parts of a generated text as a stream.
        A bad instance is an error of the request."""
        began = time.monotonic()
        self._check_name(request)
        try:
            body = await _read_body(request)
        except ClientDisconnect:
            raise _client_left() from None
        call, rows, is_streamed = _parse_request(self._model, body)
        if is_streamed:
            parts = self._stream(call, rows[0])  # the only row
            # An error before the first part still has a status of its own. The response begins with
            # status 200, and a later error is a line of the response.
            first = await parts.__anext__()
            lines = _json_lines(first, parts)
            return StreamingResponse(lines, media_type="application/x-ndjson")
        with self._computing.admit(len(rows)):
            work = self._computing.answers(call, rows)
            answers = await _unless_client_leaves(request, work)
        for number, answer in enumerate(answers):
            if isinstance(answer, UserError):
                raise UserError(f"instance {number}: {answer}")
        seconds = self._seconds.labels(call.signature)
        seconds.observe(time.monotonic() - began)
        # From an `Answer` for each row to a tuple for each field; the first field is `prediction`.
        predictions, *others = zip(*answers)
        content: dict[str, Any] = {"predictions": predictions}
        if self._model.labels:
            content["labels"] = self._model.labels
        content.update(zip(Answer._fields[1:], others))
        return JSONResponse(content)

    async def _stream(self, call: Call, row: Row) -> AsyncIterator[dict[str, Any]]:
        """Yields the parts of a generated text, see `ServedModel.stream`, as they are generated.
        HTTPException 503 if too many instances wait, or the time of a request is over."""
        computing, loop = self._computing, asyncio.get_running_loop()
        # This future never has a result. It is cancelled when nobody takes parts any more, which
        # ends the computation in the thread (`Computing.compute`).
        taken = loop.create_future()
        end = loop.time() + limits.MAX_SECONDS
        with computing.admit(1):
            async with computing.keeping_tokens:
                parts = self._model.stream(call, row)
                try:
                    while True:
                        # `next(parts, None)` in a thread: None after the last part
                        work = computing.compute([taken], next, parts, None)
                        part = await asyncio.wait_for(work, end - loop.time())
                        if part is None:
                            break
                        yield part
                except asyncio.TimeoutError:
                    raise _out_of_time() from None
                finally:
                    taken.cancel()


def _client_left() -> HTTPException:
    return HTTPException(499, "the client has left")


def _out_of_time() -> HTTPException:
    return HTTPException(503, f"not answered within {limits.MAX_SECONDS} s")


async def _read_body(request: Request) -> bytes:
    """The body of a request; HTTPException 413 if it is too large, `ClientDisconnect` if the client
    leaves before its end."""
    # A body that is too large is read to its end, but not kept: a client reads the error once it
    # has sent everything.
    body = bytearray()
    async for part in request.stream():
        body += part
        del body[limits.MAX_BODY + 1 :]
    if len(body) > limits.MAX_BODY:
        raise HTTPException(413, f"the request has more than {limits.MAX_BODY} bytes")
    return bytes(body)


def _parse_request(model: ServedModel, body: bytes) -> tuple[Call, list[Row], bool]:
    """Parses and checks the body of a request; UserError if it is wrong.

    Returns:
      (the signature with the parameters, the instances as rows, whether the answer is streamed). A
      streamed request has one row.
    """
    try:
        content = files.parse_json(body, nan_is_null=True)
    except ValueError as e:
        raise UserError(f"not JSON: {e}") from None
    if not isinstance(content, dict):
        raise wrong("the request", "no object", "an object with instances")
    for name, value in content.items():
        if name not in _FIELDS:
            raise wrong("the request", f"{name!r:.80}", ", ".join(_FIELDS))
        field_type, expected = _FIELDS[name]
        if not isinstance(value, field_type):
            raise wrong(name, json.dumps(value)[:80], expected)
    instances = content.get("instances", [])
    if not 1 <= len(instances) <= limits.MAX_INSTANCES:
        raise wrong("instances", len(instances), f"1 to {limits.MAX_INSTANCES}")
    signature = content.get("signature_name", model.default)
    call = model.call(signature, content.get("parameters", {}))
    is_streamed = content.get("stream", False)
    if is_streamed and (call.signature != "generate" or len(instances) != 1):
        found = f"{len(instances)} of {call.signature}"
        raise wrong("stream", found, "one of generate")
    return call, model.check_instances(call, instances), is_streamed


async def _unless_client_leaves(request: Request, work: Awaitable[Any]) -> Any:
    """The result of `work`, which is cancelled if the client leaves (HTTPException 499) or the time
    of a request is over (503)."""
    working = asyncio.ensure_future(work)
    # The body is read, so the next message is that the client has disconnected.
    disconnect = asyncio.ensure_future(request.receive())
    disconnect.add_done_callback(lambda _: working.cancel())
    try:
        return await asyncio.wait_for(working, limits.MAX_SECONDS)
    except asyncio.TimeoutError:
        raise _out_of_time() from None
    except asyncio.CancelledError:
        if not disconnect.done():
            raise  # the server ends, and cancels the task of the request
        raise _client_left() from None
    finally:
        disconnect.cancel()


async def _json_lines(first: Any, parts: AsyncIterator[Any]) -> AsyncIterator[str]:
    """Yields the first part of a response and the others as lines of JSON. An error, whatever it
    is, becomes the last line, as the response has begun."""
    yield json.dumps(first) + "\n"
    try:
        async for part in parts:
            yield json.dumps(part) + "\n"
    except Exception as e:
        reason = getattr(e, "detail", str(e))  # an HTTPException has a detail
        yield json.dumps({"error": reason}) + "\n"


# ---- the server


def bind(host: str, port: int) -> socket.socket:
    """A socket that has this address but does not listen yet, port 0 for any free one; UserError if
    the address is in use or not one of this machine."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # Without the protocol asyncio does not set TCP_NODELAY: the body of a response waits for
        # the acknowledgement of its head, 40 ms.
        family, kind, protocol, _, address = addresses[0]
        bound = socket.socket(family, kind, protocol)
        # A server that is started again gets the port although old connections are not over yet.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as e:
        found = f"{host}, port {port}: {e}"
        raise wrong("host", found, "an address to listen at", "--host") from None
    return bound


def server(model: ServedModel, name: str, listening: socket.socket) -> uvicorn.Server:
    """The server of a model; its `serve(sockets=[listening])` runs it.

    Args:
      model: what computes the answers.
      name: that of the model in the address.
      listening: a socket of `bind`. At an address of this machine alone, 127.x.x.x or ::1, only
        requests for a name of this machine are answered.
    """
    address = listening.getsockname()[0]  # then its port
    is_local = address.startswith("127.") or address == "::1"
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
