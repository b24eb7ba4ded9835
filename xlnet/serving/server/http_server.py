"""A model over HTTP: JSON in, JSON out, and a page for people.

Requests are those of TensorFlow Serving's REST API: `POST /v1/models/NAME:predict` with
{"signature_name": ..., "instances": [example, ...]} is answered by {"predictions": [answer, ...]}.
The answers of a signature with one output are its values. There is neither encryption nor
authentication.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import pathlib
import socket
import time
import urllib.parse
from collections.abc import Awaitable, Sequence
from typing import Any, Optional

from xlnet.errors import UserError, did_you_mean
from xlnet.serving.server.model_directory import Call, ServedModel
from xlnet.serving.server.request_batching import RequestBatching, by_row
from xlnet.serving.settings import LimitSettings

try:
    import prometheus_client
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as e:
    raise UserError("the server needs the package %s: pip install 'xlnet[serve]', or '.[serve]' in "
                    "a checkout" % e.name) from None

_log = logging.getLogger(__name__)

_SILENT = 30                # a connection on which nothing comes, or is taken, is closed [s]
_STUCK = 60                 # a computation so long after the end of its request hangs [s]
_READ = 1 << 26             # of a body that is refused in words; a larger one is cut off [bytes]
_INLINE = 1 << 14           # a body that is parsed at once, not in a thread [bytes]

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache"}
_METHODS = ["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
_KEYS = ("signature_name", "instances", "inputs", "parameters", "stream")       # of a request


class Refused(UserError):
    """A request that is refused with an HTTP status."""

    def __init__(self, http_status: int, reason: str):
        super().__init__(reason)
        self.http_status = http_status


class _Left(Exception):
    """The client has left."""


class Server:
    """Serves a model under `/v1/models/NAME`, and a page for it at `/`.

    Args:
      model: what it serves.
      name: of the model in the address.
      listening: a bound socket, of `bind`.
      limits: default: those of `LimitSettings`.
      hosts: accepted host names of requests, in addition to the address, localhost and the name of
        this machine; pages of these hosts may send requests, too. Empty: only these at a loopback
        address, any at another one.

    Attributes:
      port: at which it listens.

    Raises:
      UserError: another process listens there since `bind`.
    """

    def __init__(self, model: ServedModel, name: str, listening: socket.socket,
                 limits: Optional[LimitSettings] = None, hosts: Sequence[str] = ()):
        self.model, self.name = model, name
        self.limits = limits = limits or LimitSettings()
        self._listening = listening
        bound, self.port = listening.getsockname()[:2]
        try:
            listening.listen(128)           # who connects from now on waits for `run`
        except OSError as e:                # since `bind`, another process listens there
            raise _cannot_listen(bound, self.port, e) from None
        self._given_hosts = {_host_name(host) for host in hosts}
        self._hosts = _accepted_hosts(bound, self._given_hosts)
        prometheus_client.disable_created_metrics()
        self._registry = registry = prometheus_client.CollectorRegistry()
        self._requests = prometheus_client.Counter(
            "xlnet_requests", "requests by HTTP status", ["status"], registry=registry)
        self._rows = prometheus_client.Counter(
            "xlnet_rows", "examples that were answered", registry=registry)
        self._seconds = prometheus_client.Histogram(
            "xlnet_answer_seconds", "from the request to its answer", registry=registry)
        batches = prometheus_client.Counter("xlnet_batches", "batches computed", registry=registry)
        self._batching = RequestBatching(
            lambda call, rows: model.run(call, rows), max_batch=limits.max_batch,
            budget=limits.budget, max_waiting=limits.max_waiting, on_batch=batches.inc)
        prometheus_client.Gauge(
            "xlnet_rows_waiting", "examples that wait", registry=registry).set_function(
            lambda: self._batching.rows_waiting)
        self._routes = self._application()
        self._uvicorn = _Uvicorn(uvicorn.Config(
            self._guarded, interface="asgi3", http=_Protocol, ws="none", lifespan="off",
            log_config=None, access_log=False, server_header=False, proxy_headers=False,
            backlog=128,
            limit_concurrency=limits.max_connections + 1, timeout_keep_alive=_SILENT,
            timeout_graceful_shutdown=limits.grace, h11_max_incomplete_event_size=1 << 16))

    def run(self) -> bool:
        """Answers requests until `stop`, or until the process is signalled (Ctrl-C, SIGTERM).
        Requests in progress are still answered, for at most `limits.grace` seconds.

        Returns:
          Whether nothing is computed any more; what is may run for some seconds.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # not each request that is none
        loop = asyncio.new_event_loop()     # not asyncio.run: it waits for what was cancelled
        loop.run_until_complete(self._uvicorn.serve(sockets=[self._listening]))
        return not self._batching.oldest

    def stop(self) -> None:
        """Ends `run`; any thread may call it."""
        self._uvicorn.should_exit = True

    # ---- requests

    def _application(self):
        own = "/v1/models/{name:path}"
        versions = (own + "/versions/{version}", own)
        routes = [
            Route("/health", self._answering(self._health)),
            Route("/ready", self._answering(self._ready)),
            Route("/metrics", self._answering(self._metrics)),
            Route("/v1/models", self._answering(self._models)),
            *(Route(path + ":predict", self._answering(self._predict), methods=_METHODS)
              for path in versions),
            *(Route(path + "/metadata", self._answering(self._metadata)) for path in versions),
            *(Route(path, self._answering(self._status)) for path in versions),
            Mount("/", StaticFiles(directory=pathlib.Path(__file__).parent / "page", html=True))]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._no_route})

    async def _guarded(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application: the routes for accepted hosts, with the headers of every response.

        After a request with two lengths the connection is closed (RFC 9112, 6.1): a proxy in front
        may have read another one, and what follows may be no request.
        """
        headers = dict(scope["headers"])
        more = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
        if {b"content-length", b"transfer-encoding"} <= set(headers):
            more.append((b"connection", b"close"))

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._requests.labels(message["status"]).inc()
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)
        host = _host_name(headers.get(b"host", b"").decode("latin-1"))
        application: Any = self._routes
        if self._hosts and host and host not in self._hosts:
            application = self._refusal(Refused(
                421, "the request is for host %s, expected one of %s (--allowed_hosts)"
                % (host, ", ".join(sorted(self._hosts)))))
        await application(scope, receive, sent)

    async def _no_route(self, request, error):
        root, path = "/v1/models/" + self.name, request.url.path
        said = "no %s; there are /, /health, /ready, /metrics, GET %s, GET %s/metadata and POST " \
            "%s:predict" % (path, root, root, root) if error.status_code == 404 else \
            "%s %s, expected %s" % (request.method, path, (error.headers or {}).get("Allow", "GET"))
        return self._respond(error.status_code, _json({"error": said}))

    def _answering(self, endpoint):
        """The endpoint with errors as answers."""
        async def answer(request: Request) -> Response:
            try:
                self._check_model(request)
                return await endpoint(request)
            except asyncio.CancelledError:
                return self._refusal(Refused(503, "the server ends"))
            except Exception as e:
                return self._refusal(e)
        return answer

    def _refusal(self, error):
        status, said = getattr(error, "http_status", 400), str(error)
        if isinstance(error, (_Left, ClientDisconnect)):
            status, said = 499, "the client has left"       # nobody reads it
        elif not isinstance(error, UserError):      # of TensorFlow, or a result that is no number
            status, said = 500, "the model failed on this: %s: %s" % (
                type(error).__name__, said.split("\n")[0])
            _log.warning("not answered: %s", said)
        return self._respond(status, _json({"error": said}))

    def _respond(self, status, content, form="application/json"):
        return Response(content, status, media_type=form)

    def _check_model(self, request):
        asked = request.path_params
        if asked.get("name", self.name) != self.name:
            raise Refused(404, "no model %s; %s is served" % (asked["name"], self.name))
        if asked.get("version", self.model.version) != self.model.version:
            raise Refused(404, "no version %s of %s; version %s is served" % (
                asked["version"], self.name, self.model.version))

    async def _health(self, request):
        """Liveness: it answers, and no computation hangs."""
        oldest = self._batching.oldest
        if oldest > self.limits.max_seconds + _STUCK:
            raise Refused(503, "a computation hangs: it began %d s ago" % oldest)
        return self._respond(200, b"ok\n", "text/plain")

    async def _ready(self, request):
        """Readiness: one more example may wait."""
        self._batching.check_waiting()
        return self._respond(200, b"ok\n", "text/plain")

    async def _metrics(self, request):
        return self._respond(200, prometheus_client.generate_latest(self._registry),
                             "text/plain; version=0.0.4")

    async def _models(self, request):
        return self._respond(200, _json({"models": [{"name": self.name}]}))

    async def _status(self, request):
        model = self.model
        return self._respond(200, _json({
            "model_version_status": [{
                "version": model.version, "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""}}],
            "about": model.about, "labels": model.labels, "default_signature": model.default,
            "signatures": {name: sorted(model.inputs(name)) for name in model.names},
            "verb": model.verb, "examples": model.examples, "layers": model.n_layer,
            "heads": model.n_head}))

    async def _metadata(self, request):
        return self._respond(200, _json({
            "model_spec": {"name": self.name, "signature_name": "", "version": self.model.version},
            "metadata": {"signature_def": {"signature_def": self.model.signature_def()}}}))

    # ---- predictions

    async def _predict(self, request):
        began = time.monotonic()
        if request.method != "POST":        # here, as `:predict` may also be the end of a name
            raise Refused(405, "%s %s, expected POST" % (request.method, request.url.path))
        self._check_origin(request)
        body = await self._body(request)
        asked, call, rows, cost = self._read(body) if len(body) < _INLINE else \
            await self._batching.compute(self._read, body)
        if asked.get("stream"):
            return _Stream(self, call, rows[0], cost)
        answers = await self._while_wanted(self._answers(call, rows, cost), request.receive)
        content = {"outputs": _as_columns(answers)} if "inputs" in asked else {
            "predictions": answers}
        if self.model.labels and isinstance(answers[0], dict) and "probabilities" in answers[0]:
            content["labels"] = self.model.labels
        self._rows.inc(len(rows))
        self._seconds.observe(time.monotonic() - began)
        return self._respond(200, _json(content))

    async def _answers(self, call, rows, cost):
        if cost is None:
            return await self._batching.ask(call, rows, [self.model.size(row) for row in rows])
        async with self._batching.alone(len(rows), cost):
            return by_row(await self._batching.compute(self.model.run, call, rows))

    async def _while_wanted(self, work: Awaitable, receive: Any) -> Any:
        """What `work` returns; it is cancelled when its time is over, or the client leaves."""
        tasks = [asyncio.ensure_future(each) for each in (work, _disconnected(receive))]
        try:
            done, _ = await asyncio.wait(tasks, timeout=self.limits.max_seconds,
                                         return_when=asyncio.FIRST_COMPLETED)
            if tasks[0] in done:
                return tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.wait(tasks)
        if done:
            raise _Left
        raise Refused(503, "not answered within %d s (--max_seconds)" % self.limits.max_seconds)

    def _check_origin(self, request):
        origin = request.headers.get("origin")
        if origin is not None and origin.split("//")[-1] != request.headers.get("host") \
                and _host_name(origin) not in self._given_hosts:
            raise Refused(403, "the page of another site asks: %s; --allowed_hosts=%s allows it"
                          % (origin, _host_name(origin) or "HOST"))

    async def _body(self, request):
        """The body; a longer one than `max_body` is not kept, but read, so that the client, which
        still sends, gets its answer."""
        most = self.limits.max_body
        length = request.headers.get("content-length", "")
        declared = int(length) if length.isdecimal() else 0
        too_long = Refused(413, "the request has more than %d bytes (--max_body)" % most)
        if declared > most and (declared > _READ or "expect" in request.headers):
            raise too_long
        body, size = bytearray(), 0

        async def read():
            nonlocal size
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    body.extend(part)
                elif size > _READ:
                    break
        try:
            await asyncio.wait_for(read(), _SILENT)
        except asyncio.TimeoutError:
            raise Refused(408, "the request did not arrive within %d s" % _SILENT) from None
        if size > most:
            raise too_long
        return bytes(body)

    def _read(self, body):
        """(request, `Call`, examples, cost as of `ServedModel.cost`) of a body."""
        model, limits = self.model, self.limits
        asked = _parsed(body)
        for key in asked:
            if key not in _KEYS:
                raise UserError("no '%s' in a request%s (there are %s)" % (
                    key, did_you_mean(key, _KEYS), ", ".join(_KEYS)))
        signature = asked.get("signature_name", model.default)
        parameters, stream = asked.get("parameters", {}), asked.get("stream", False)
        rows = _rows_of_columns(asked["inputs"]) if "inputs" in asked else asked.get("instances")
        if not isinstance(signature, str) or not isinstance(parameters, dict) or not (
                isinstance(rows, list) and rows) or {"inputs", "instances"} <= set(asked):
            raise UserError('expected {"signature_name": "...", "instances": [example, ...]}, one '
                            'example or more')
        if not isinstance(stream, bool):
            raise UserError("stream is %.80s, expected true or false" % json.dumps(stream))
        if len(rows) > limits.max_rows:
            raise Refused(413, "%d rows, at most %d are answered at once (--max_rows)" % (
                len(rows), limits.max_rows))
        call = model.call(signature, parameters)
        rows = model.rows(call.signature, rows)
        for row in rows:
            for name, value in row.items():
                if any(len(text) > limits.max_characters
                       for text in ([value] if isinstance(value, str) else value)):
                    raise Refused(413, "'%s' has more than %d characters (--max_characters)" % (
                        name, limits.max_characters))
        if stream and (call.signature != "generate" or len(rows) != 1):
            raise UserError("stream: expected signature generate with one prompt, found %s with %d"
                            % (call.signature, len(rows)))
        return asked, call, rows, model.cost(call, rows, limits.budget)


class _Stream(Response):
    """The parts of a generated text as JSON lines, each as it comes; an error before the first one
    is the answer."""

    def __init__(self, server: Server, call: Call, row: dict, cost: int):
        super().__init__(None, 200, media_type="application/x-ndjson")
        del self.headers["content-length"]
        self._server, self._call, self._row, self._cost = server, call, row, cost
        self._has_begun = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        server = self._server
        began = time.monotonic()
        try:
            await server._while_wanted(self._parts(send), receive)
        except _Left:
            return
        except Exception as e:
            refusal = server._refusal(e)
            if not self._has_begun:
                await refusal(scope, receive, send)
                return
            await self._send(send, refusal.body + b"\n")
        else:
            server._rows.inc()
            server._seconds.observe(time.monotonic() - began)
        await send({"type": "http.response.body", "body": b""})

    async def _parts(self, send):
        batching, model = self._server._batching, self._server.model
        async with batching.alone(1, self._cost):
            parts = model.stream(self._call, self._row)
            try:
                while True:
                    part = await batching.compute(next, parts, None)
                    if part is None:
                        return
                    await self._send(send, _json(part) + b"\n")
            finally:
                parts.close()

    async def _send(self, send, line):
        if not self._has_begun:
            self._has_begun = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            await asyncio.wait_for(send({
                "type": "http.response.body", "body": line, "more_body": True}), _SILENT)
        except asyncio.TimeoutError:
            raise _Left from None           # it takes nothing


class _Protocol(H11Protocol):
    """Closes a connection on which the head of a request does not come to its end."""
    _deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, error: Optional[Exception]) -> None:
        super().connection_lost(error)
        self._end_wait()

    def _wait(self):
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_wait()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_SILENT, self.transport.close)

    def _end_wait(self):
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Uvicorn(uvicorn.Server):
    """Says how long it takes to end, and delivers the cancellation of what takes longer."""

    async def shutdown(self, sockets: Optional[list[socket.socket]] = None) -> None:
        if self.server_state.tasks:
            _log.warning("ending: %d requests are still answered, for at most %d s (--grace)",
                         len(self.server_state.tasks), self.config.timeout_graceful_shutdown)
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=0.2)


def bind(host: str, port: int) -> socket.socket:
    """A socket with this address, port 0 for any free one; nobody can connect to it before there is
    a `Server`.

    Raises:
      UserError: there is no such address, or it is in use.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((host, port))
    except (OSError, OverflowError) as e:
        made.close()
        raise _cannot_listen(host, port, e) from None
    return made


def _cannot_listen(host, port, error):
    return UserError("cannot listen at %s port %d: %s" % (
        host, port, getattr(error, "strerror", None) or error))


def _accepted_hosts(bound: str, given: set[str]) -> frozenset[str]:
    """The accepted host names of requests; empty: any.

    Another site can have its name resolved to this machine (DNS rebinding): then the requests of
    its page have that name as host, and an origin that agrees.
    """
    if not given and not ipaddress.ip_address(bound).is_loopback:
        return frozenset()
    return frozenset({bound, "localhost", "127.0.0.1", "::1", _host_name(socket.gethostname()),
                      *given})


def _host_name(address: str) -> str:
    """The name in a Host header, an origin or a setting, in small letters, without port:
    "https://A.b.:80" -> "a.b", "fe80::2" and "[fe80::2]:80" -> "fe80::2"."""
    place = address.split("//")[-1]
    if place.count(":") > 1 and "[" not in place:
        place = "[%s]" % place
    try:
        return (urllib.parse.urlsplit("//" + place).hostname or "").rstrip(".")
    except ValueError:
        return place


async def _disconnected(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


def _parsed(body):
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise UserError("not JSON: %s" % e) from None
    if not isinstance(asked, dict):
        raise UserError("expected a JSON object, found %s" % type(asked).__name__)
    return asked


def _rows_of_columns(columns: Any) -> list[Any]:
    """The examples of TensorFlow Serving's column format: a dict of lists by name, or one list.

    Raises:
      UserError: it is neither, or the lists have different lengths.
    """
    if isinstance(columns, list):
        return columns
    if not isinstance(columns, dict) or not all(isinstance(each, list)
                                                for each in columns.values()):
        raise UserError('expected "inputs": {"name": [value, ...], ...}, or a list of values')
    if len({len(each) for each in columns.values()}) > 1:
        raise UserError("inputs have lists of %s, expected as many of each" % ", ".join(
            "%d (%s)" % (len(each), name) for name, each in columns.items()))
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _as_columns(rows: Sequence[Any]) -> Any:
    """Answers in TensorFlow Serving's column format."""
    return {name: [row[name] for row in rows] for name in rows[0]} if isinstance(
        rows[0], dict) else list(rows)


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(
        errors="backslashreplace")      # lone surrogates of a request, as JSON escapes
