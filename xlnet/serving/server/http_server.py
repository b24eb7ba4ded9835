"""A model over HTTP: JSON in, JSON out, and a page for people.

Requests are those of TensorFlow Serving's REST API: `POST /v1/models/NAME:predict` with
{"signature_name": ..., "instances": [example, ...]} is answered by {"predictions": [answer, ...]}.
The answers of a signature with one output are its values. There is neither encryption nor
authentication.
"""

# A request for predictions, in the order of events:
#   _Protocol         bytes to a request (h11); closes a connection that sends no head in time
#   Server._answer    the ASGI application, a task for each request; errors become answers
#   Server._predict   checks the page's origin, reads the body, parses and checks it
#   RequestBatching   waits with the examples of other requests; a thread runs the model on a batch
#   Server._predict   JSON with the answers of its own examples
# If the client leaves, `_Protocol` cancels the task; if the time is over, `_predict` does. Either
# takes its examples out of the queue, or stops the computation at its next call of the network.

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import pathlib
import socket
import time
import urllib.parse
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from xlnet.errors import UserError, did_you_mean
from xlnet.serving.server.model_directory import Call, ServedModel
from xlnet.serving.server.request_batching import RequestBatching, by_row
from xlnet.serving.settings import LimitSettings

try:
    import prometheus_client
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as e:
    raise UserError(
        f"the server needs the package {e.name}: "
        "pip install 'uvicorn>=0.38' 'prometheus-client>=0.21'"
    ) from None

_log = logging.getLogger(__name__)

_SILENT = 30  # longest that a head, a body, or the taking of a part may last [s]
_STUCK = 60  # a computation so long after the end of its request hangs [s]
_READ = 1 << 26  # of a body that is refused in words; a larger one is cut off [bytes]
_INLINE = 1 << 14  # a body that is parsed at once, not in a thread [bytes]
_NEXT = 1 << 16  # of the next request, while one is being answered [bytes]

_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; "
        b"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
]
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
_KEYS = ("signature_name", "instances", "parameters", "stream")  # of a request


class Refused(UserError):
    """A request that is refused with an HTTP status."""

    def __init__(self, http_status: int, reason: str):
        super().__init__(reason)
        self.http_status = http_status


class _Left(Exception):
    """The client takes nothing of its answer."""


class _Asked(NamedTuple):
    """What a body asks for; cost: as of `ServedModel.cost`."""

    call: Call
    rows: list
    stream: bool
    cost: Optional[int]


class Server:
    """Serves a model under `/v1/models/NAME`, and a page for it at `/`, at a socket of `bind`;
    UserError if another process listens there since.

    Args:
      hosts: accepted host names of requests, in addition to the address, localhost and the name of
        this machine; pages of these hosts may send requests, too. Empty: only these at a loopback
        address, any at another one.
    """

    def __init__(
        self,
        model: ServedModel,
        name: str,
        listening: socket.socket,
        limits: Optional[LimitSettings] = None,
        hosts: Sequence[str] = (),
    ):
        self.model, self.name = model, name
        self.limits = limits = limits or LimitSettings()
        self._listening = listening
        bound, self.port = listening.getsockname()[:2]
        try:
            listening.listen(128)  # who connects from now on waits for `run`
        except OSError as e:
            raise _cannot_listen(bound, self.port, e) from None
        self._given_hosts = {_host_name(host) for host in hosts}
        self._hosts = _accepted_hosts(bound, self._given_hosts)

        # What is counted, for Prometheus: in a registry of its own, as a process may have servers.
        prometheus_client.disable_created_metrics()
        self._registry = registry = prometheus_client.CollectorRegistry()
        self._requests = prometheus_client.Counter(
            "xlnet_requests", "requests by HTTP status", ["status"], registry=registry
        )
        self._rows = prometheus_client.Counter(
            "xlnet_rows", "examples that were answered", registry=registry
        )
        self._seconds = prometheus_client.Histogram(
            "xlnet_answer_seconds", "from the request to its answer", registry=registry
        )
        batches = prometheus_client.Counter("xlnet_batches", "batches computed", registry=registry)
        self._batching = RequestBatching(
            lambda call, rows: model.run(call, rows),
            max_batch=limits.max_batch,
            budget=limits.budget,
            max_waiting=limits.max_waiting,
            on_batch=batches.inc,
        )
        prometheus_client.Gauge(
            "xlnet_rows_waiting", "examples that wait", registry=registry
        ).set_function(lambda: self._batching.rows_waiting)

        # What GET answers, by path: functions that return (content, its type).
        self._root = "/v1/models/" + name
        self._gets: dict[str, Any] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics,
            "/v1/models": lambda: (_json({"models": [{"name": name}]}), _JSON),
            self._root: self._status,
        }
        folder = pathlib.Path(__file__).parent / "page"
        for path, (file, form) in _PAGE.items():
            page = (folder / file).read_bytes(), form
            self._gets[path] = lambda page=page: page

        # uvicorn counts the connection of a request itself: so `max_connections` are served.
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=128,
                limit_concurrency=limits.max_connections + 1,
                timeout_keep_alive=_SILENT,
                timeout_graceful_shutdown=limits.grace,
                h11_max_incomplete_event_size=1 << 16,
            )
        )

    def run(self) -> bool:
        """Answers requests until `stop`, or until the process is signalled (Ctrl-C, SIGTERM).
        Requests in progress are still answered, for at most `limits.grace` seconds.

        Returns:
          Whether nothing is computed any more; what is may run for some seconds.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # not each request that is none
        loop = asyncio.new_event_loop()  # not asyncio.run: it waits for what was cancelled
        loop.run_until_complete(self._uvicorn.serve(sockets=[self._listening]))
        return not self._batching.oldest

    def stop(self) -> None:
        """Ends `run`; any thread may call it."""
        self._uvicorn.should_exit = True

    # ---- any request

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application: answers one request, with an error in words if need be."""
        scope["task"] = asyncio.current_task()  # for `_Protocol`
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        # After a request with two lengths the connection is closed (RFC 9112, 6.1): a proxy in
        # front may have read another one, and what follows may be no request. So it is after a body
        # that did not arrive.
        response = _Response(
            send, self._requests, is_last={"content-length", "transfer-encoding"} <= set(headers)
        )
        refusal: Optional[tuple[int, str]] = None
        try:
            host = _host_name(headers.get("host", ""))
            if self._hosts and host and host not in self._hosts:
                raise Refused(
                    421,
                    "the request is for host {}, expected one of {} (--allowed_hosts)".format(
                        host, ", ".join(sorted(self._hosts))
                    ),
                )
            await self._route(scope["method"], scope["path"], headers, receive, response)
        except asyncio.CancelledError:
            refusal = (
                (503, "the server ends") if scope["task"] else (499, "the client has left")
            )  # nobody reads it
        except _Left:
            pass
        except UserError as e:
            refusal = getattr(e, "http_status", 400), str(e)
        except Exception as e:  # of TensorFlow, or a result that is no number
            refusal = (
                500,
                "the model failed on this: {}: {}".format(type(e).__name__, str(e).split("\n")[0]),
            )
            _log.warning("not answered: %s", refusal[1])
        scope["task"] = None  # no end of the client breaks off a refusal
        if refusal:
            await response.refuse(*refusal)

    async def _route(self, method, path, headers, receive, response):
        if path == self._root + ":predict":
            if method != "POST":
                raise Refused(405, f"{method} {path}, expected POST")
            await self._predict(headers, receive, response)
        elif path not in self._gets:
            raise Refused(
                404,
                f"no {path}; there are /, /health, /ready, /metrics, GET {self._root} and POST "
                f"{self._root}:predict",
            )
        elif method not in ("GET", "HEAD"):
            raise Refused(405, f"{method} {path}, expected GET")
        else:
            await response.send(200, *self._gets[path]())

    def _health(self):
        """Liveness: it answers, and no computation hangs."""
        oldest = self._batching.oldest
        if oldest > self.limits.max_seconds + _STUCK:
            raise Refused(503, f"a computation hangs: it began {oldest} s ago")
        return b"ok\n", _TEXT

    def _ready(self):
        """Readiness: one more example may wait."""
        self._batching.check_waiting()
        return b"ok\n", _TEXT

    def _metrics(self):
        return prometheus_client.generate_latest(
            self._registry
        ), "text/plain; version=0.0.4; charset=utf-8"

    def _status(self):
        model = self.model
        return _json(
            {
                "model_version_status": [
                    {  # as TensorFlow Serving has it
                        "version": "1",
                        "state": "AVAILABLE",
                        "status": {"error_code": "OK", "error_message": ""},
                    }
                ],
                "about": model.about,
                "labels": model.labels,
                "default_signature": model.default,
                "signatures": {name: sorted(model.inputs(name)) for name in model.names},
                "verb": model.verb,
                "examples": model.examples,
                "layers": model.n_layer,
                "heads": model.n_head,
            }
        ), _JSON

    # ---- predictions

    async def _predict(self, headers, receive, response):
        began = time.monotonic()
        # A browser sends the requests of any page, but says of which site it is: without this,
        # every page that a visitor opens could use a server in their network.
        origin = headers.get("origin")
        if (
            origin is not None
            and origin.split("//")[-1] != headers.get("host")
            and _host_name(origin) not in self._given_hosts
        ):
            raise Refused(
                403,
                "the page of another site asks: {}; --allowed_hosts={} allows it".format(
                    origin, _host_name(origin) or "HOST"
                ),
            )

        # The request. A large body is parsed in a thread: the loop answers others meanwhile.
        body = await self._body(headers, receive)
        asked = (
            self._parsed(body)
            if len(body) < _INLINE
            else await self._batching.compute(self._parsed, body)
        )

        # The predictions, within the time of a request.
        work = self._write_parts(asked, response) if asked.stream else self._predictions(asked)
        try:
            answers = await asyncio.wait_for(work, self.limits.max_seconds)
        except asyncio.TimeoutError:
            raise Refused(
                503, f"not answered within {self.limits.max_seconds:.0f} s (--max_seconds)"
            ) from None

        # The response; of a stream, its end.
        if asked.stream:
            await response.end()
        else:
            content = {"predictions": answers}
            if self.model.labels and isinstance(answers[0], dict) and "probabilities" in answers[0]:
                content["labels"] = self.model.labels
            await response.send(200, _json(content))
        self._rows.inc(len(asked.rows))
        self._seconds.observe(time.monotonic() - began)

    async def _predictions(self, asked):
        """The answers to the examples: in batches, or next to them and counted by their cost."""
        model, batching = self.model, self._batching
        if asked.cost is None:
            return await batching.ask(asked.call, asked.rows, list(map(model.size, asked.rows)))
        async with batching.alone(len(asked.rows), asked.cost):
            return by_row(await batching.compute(model.run, asked.call, asked.rows))

    async def _write_parts(self, asked, response):
        """Sends the parts of a generated text as JSON lines, each as it comes."""
        async with self._batching.alone(1, asked.cost):
            parts = self.model.stream(asked.call, asked.rows[0])
            try:
                while True:
                    part = await self._batching.compute(next, parts, None)
                    if part is None:
                        return
                    await response.send_part(_json(part) + b"\n")
            finally:
                parts.close()

    async def _body(self, headers, receive):
        """The body; a longer one than `max_body` is not kept, but read, so that the client, which
        still sends, gets its answer."""
        # Who sends a byte now and then would hold a connection and a task for as long as it likes:
        # the limit is on all of the body, not on the time between two parts.
        reading = asyncio.ensure_future(self._read(headers, receive))
        try:  # not `wait_for`, as in `_Response.send_part`
            await asyncio.wait([reading], timeout=_SILENT)
            if not reading.done():
                raise Refused(408, f"the body of the request did not arrive within {_SILENT:g} s")
        finally:
            reading.cancel()
        return reading.result()

    async def _read(self, headers, receive):
        # What is known to be too long is refused before it is sent: a client that expects "100
        # Continue" waits for that, and a body above `_READ` would not be read to its end.
        most = self.limits.max_body
        too_long = Refused(413, f"the request has more than {most} bytes (--max_body)")
        length = headers.get("content-length", "")
        declared = int(length) if length.isdecimal() else 0
        if declared > most and (declared > _READ or "expect" in headers):
            raise too_long
        body, size, message = bytearray(), 0, {"more_body": True}
        while message.get("more_body") and size <= _READ:
            message = await receive()  # the end of the client cancels this task
            size += len(message.get("body", b""))
            if size <= most:
                body.extend(message.get("body", b""))
        if size > most:
            raise too_long
        return bytes(body)

    def _parsed(self, body):
        """What a body asks for, an `_Asked`, within the limits."""
        model, limits = self.model, self.limits
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError) as e:
            raise UserError(f"not JSON: {e}") from None
        if not isinstance(asked, dict):
            raise UserError(f"expected a JSON object, found {type(asked).__name__}")
        for key in asked:
            if key not in _KEYS:
                raise UserError(
                    "no '{}' in a request{} (there are {})".format(
                        key, did_you_mean(key, _KEYS), ", ".join(_KEYS)
                    )
                )
        signature, rows = asked.get("signature_name", model.default), asked.get("instances")
        parameters, stream = asked.get("parameters", {}), asked.get("stream", False)
        if (
            not isinstance(signature, str)
            or not isinstance(parameters, dict)
            or not (isinstance(rows, list) and rows)
        ):
            raise UserError(
                'expected {"signature_name": "...", "instances": [example, ...]}, one '
                "example or more"
            )
        if not isinstance(stream, bool):
            raise UserError(f"stream is {json.dumps(stream)!s:.80}, expected true or false")
        if len(rows) > limits.max_rows:
            raise Refused(
                413,
                f"{len(rows)} rows, at most {limits.max_rows} are answered at once (--max_rows)",
            )
        call = model.call(signature, parameters)
        rows = model.rows(call.signature, rows)
        for row in rows:
            for name, value in row.items():
                if any(
                    len(text) > limits.max_characters
                    for text in ([value] if isinstance(value, str) else value)
                ):
                    raise Refused(
                        413,
                        f"'{name}' has more than {limits.max_characters} characters "
                        "(--max_characters)",
                    )
        if stream and (call.signature != "generate" or len(rows) != 1):
            raise UserError(
                "stream: expected signature generate with one prompt, found "
                f"{call.signature} with {len(rows)}"
            )
        return _Asked(call, rows, stream, model.cost(call, rows, limits.budget))


class _Response:
    """The response to a request: sent at once, or in parts, lines of JSON."""

    def __init__(self, send: Any, counter: Any, is_last: bool):
        self._send, self._counter, self._is_last = send, counter, is_last
        self._has_begun = False

    async def _begin(self, status, form, *headers):
        self._has_begun = True
        self._counter.labels(status).inc()
        last = [(b"connection", b"close")] if self._is_last or status == 408 else []
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", form.encode()), *headers, *_HEADERS, *last],
            }
        )

    async def send(self, status: int, content: bytes, form: str = _JSON) -> None:
        await self._begin(status, form, (b"content-length", b"%d" % len(content)))
        await self._send({"type": "http.response.body", "body": content})

    async def send_part(self, line: bytes) -> None:
        """Raises _Left if the client takes nothing for a while."""
        if not self._has_begun:
            await self._begin(200, "application/x-ndjson")
        sending = asyncio.ensure_future(
            self._send({"type": "http.response.body", "body": line, "more_body": True})
        )
        try:  # not `wait_for`, which may drop a cancellation before Python 3.12
            await asyncio.wait([sending], timeout=_SILENT)
            if not sending.done():
                raise _Left
        finally:
            sending.cancel()
        sending.result()

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, status: int, reason: str) -> None:
        """Sends an error: as the response, or as the last one of its parts."""
        content = _json({"error": reason})
        if self._has_begun:
            await self._send({"type": "http.response.body", "body": content + b"\n"})
        else:
            await self.send(status, content)


class _Protocol(H11Protocol):
    """Closes a connection on which the head of a request does not come to its end, and cancels the
    task of a request whose client has left."""

    _deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()
        # Who does not read does not notice the end of the client: uvicorn pauses after a large body
        # until `receive` is called again, and after the beginning of a next request.
        if (
            self.cycle is not None
            and not self.cycle.more_body
            and len(self.conn.trailing_data[0]) < _NEXT
        ):
            self.flow.resume_reading()

    def connection_lost(self, error: Optional[Exception]) -> None:
        super().connection_lost(error)
        self._end_watch()
        if self.cycle is not None and not self.cycle.response_complete:
            scope: Any = self.cycle.scope
            task = scope.get("task")
            if task is not None:
                scope["task"] = None  # says why
                task.cancel()

    def _watch(self):
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_watch()  # it has a task, which answers if the body takes too long
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_SILENT, self.transport.close)

    def _end_watch(self):
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Uvicorn(uvicorn.Server):
    """Says how long it takes to end, and delivers the cancellation of what takes longer."""

    async def shutdown(self, sockets: Optional[list[socket.socket]] = None) -> None:
        if self.server_state.tasks:
            _log.warning(
                "ending: %d requests are still answered, for at most %d s (--grace)",
                len(self.server_state.tasks),
                self.config.timeout_graceful_shutdown,
            )
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=0.2)


def bind(host: str, port: int) -> socket.socket:
    """A socket with this address, port 0 for any free one; UserError if there is none, or it is in
    use."""
    # A port in use is found before a model is loaded, which takes seconds; nobody can connect to
    # it before there is a `Server`, which listens.
    # Without the protocol asyncio does not set TCP_NODELAY: then the body of a response would wait
    # for the acknowledgement of its head, 40 ms.
    made = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
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
    return UserError(
        "cannot listen at {} port {}: {}".format(
            host, port, getattr(error, "strerror", None) or error
        )
    )


def _accepted_hosts(bound: str, given: set[str]) -> frozenset[str]:
    """The accepted host names of requests; empty: any."""
    # Another site can have its name resolved to this machine (DNS rebinding): then the requests of
    # its page have that name as host, and an origin that agrees.
    if not given and not ipaddress.ip_address(bound).is_loopback:
        return frozenset()
    return frozenset(
        {bound, "localhost", "127.0.0.1", "::1", _host_name(socket.gethostname()), *given}
    )


def _host_name(address: str) -> str:
    """The name in a Host header, an origin or a setting, in small letters, without port:
    "https://A.b.:80" -> "a.b", "fe80::2" and "[fe80::2]:80" -> "fe80::2"."""
    place = address.split("//")[-1]
    if place.count(":") > 1 and "[" not in place:
        place = f"[{place}]"
    try:
        return (urllib.parse.urlsplit("//" + place).hostname or "").rstrip(".")
    except ValueError:
        return place


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(
        errors="backslashreplace"
    )  # lone surrogates of a request, as JSON escapes
