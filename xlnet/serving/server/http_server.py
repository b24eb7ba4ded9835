"""A model over HTTP: JSON in, JSON out, and a page for people.

Requests are those of TensorFlow Serving's REST API: `POST /v1/models/NAME:predict` with
{"signature_name": ..., "instances": [example, ...]} is answered by {"predictions": [answer, ...]}.
The answers of a signature with one output are its values. There is neither encryption nor
authentication.
"""

# A request for predictions, in the order of events:
#   _Protocol         bytes to a request (h11); closes a connection that sends no head in time, or
#                     takes nothing of its answer
#   Server._answer    the ASGI application, a task for each request; errors become answers
#   request_forms     the body, parsed and checked
#   RequestBatching   waits with the examples of other requests; a thread runs the model on a batch
#   Response          JSON with the answers of its own examples
# If the client leaves, `_Protocol` cancels the task; if the time is over, `_predict` does. Either
# takes its examples out of the queue, or stops the computation at its next call of the network.

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import signal
import socket
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Optional

import xlnet
from xlnet.errors import UserError, escape_control_characters
from xlnet.serving.batched_calls import Computed
from xlnet.serving.server.model_directory import PAGE, ServedModel
from xlnet.serving.server.request_batching import RequestBatching, by_row
from xlnet.serving.settings import LimitSettings

try:
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from xlnet.serving.server import openapi
    from xlnet.serving.server.metrics import Metrics
except ModuleNotFoundError as e:
    raise UserError(
        f"the server needs the package {e.name}: pip install 'uvicorn>=0.38' "
        "'prometheus-client>=0.21'"
    ) from None

from xlnet.serving.server.request_forms import (
    PredictionRequest,
    Refused,
    answer,
    decoded,
    inference_answer,
    parsed,
    parsed_inference,
)
from xlnet.serving.server.response import (
    JSON,
    TEXT,
    Response,
    accepts_gzip,
    as_json,
    plain_headers,
    request_id,
)

_log = logging.getLogger(__name__)
_access = logging.getLogger(__name__ + ".access")  # a line for each request

Content = tuple[bytes, str]  # a body and its type

_SILENT = 30  # longest that a head, a body, or the taking of a part may last [s]
_STUCK = 60  # a computation so long after the end of its request hangs [s]
_READ = 1 << 26  # of a body that is refused in words; a larger one is cut off [bytes]
_INLINE = 1 << 14  # a body that is parsed at once, not in a thread [bytes]
_NEXT = 1 << 16  # of the next request, while one is being answered [bytes]
_SPARE = 64  # connections that are answered for the state of the server, above twice the limit
_PREFLIGHT = [  # what the page of another site may send
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type, x-request-id"),
    (b"access-control-max-age", b"600"),
]

_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/forms.json": ("forms.json", "application/json"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/answers.js": ("answers.js", "text/javascript; charset=utf-8"),
    "/elements.js": ("elements.js", "text/javascript; charset=utf-8"),
    "/streams.js": ("streams.js", "text/javascript; charset=utf-8"),
}
_METRICS_FORM = "text/plain; version=0.0.4; charset=utf-8"
_ALWAYS = (
    "/health",
    "/ready",
    "/metrics",
    "/v2/health/live",
    "/v2/health/ready",
)  # when all is full


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
        self._is_ending = False
        bound, self.port = listening.getsockname()[:2]
        try:
            listening.listen(128)  # who connects from now on waits for `run`
        except OSError as e:
            raise _cannot_listen(bound, self.port, e) from None
        self._given_hosts = {_host_name(host) for host in hosts}
        if "null" in self._given_hosts:  # the origin of any sandboxed frame
            raise UserError("allowed_hosts names null, expected names of hosts")
        self._hosts = _accepted_hosts(bound, self._given_hosts)

        self._batching = RequestBatching(
            lambda call, rows: model.run(call, rows),
            max_batch=limits.max_batch,
            budget=limits.budget,
            max_waiting=limits.max_waiting,
            on_batch=self._count_batch,
        )
        self._metrics = Metrics(limits.max_seconds, lambda: self._batching.rows_waiting)

        # What GET answers, by path: functions that return (content, its type).
        self._root = "/v1/models/" + name
        self._gets: dict[str, Any] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": lambda: (self._metrics.text(), _METRICS_FORM),
            "/openapi.json": lambda: (as_json(openapi.describe(model, name, limits)), JSON),
            "/v1/models": lambda: (as_json({"models": [{"name": name}]}), JSON),
            self._root: self._status,
            self._root + "/metadata": self._metadata,
        }
        self._posts = {self._root + ":predict": self._predict}
        # TensorFlow Serving's names for the same.
        self._gets["/monitoring/prometheus/metrics"] = self._gets["/metrics"]
        for end in ("", "/metadata"):
            self._gets[f"{self._root}/versions/1{end}"] = self._gets[self._root + end]
        self._posts[self._root + "/versions/1:predict"] = self._predict
        self._add_inference_protocol()
        folder = PAGE
        for path, (file, form) in _PAGE.items():
            page = (folder / file).read_bytes(), form
            self._gets[path] = lambda page=page: page

        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                http=type("Protocol", (_Protocol,), {"served_by": self}),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=128,
                timeout_keep_alive=_SILENT,
                timeout_graceful_shutdown=limits.grace,
                h11_max_incomplete_event_size=1 << 16,
            )
        )
        self._uvicorn.drain = limits.drain

    def run(self) -> bool:
        """Answers requests until `stop`, or until the process is signalled (Ctrl-C, SIGTERM).
        Requests in progress are still answered, for at most `limits.grace` seconds.

        Returns:
          Whether nothing is computed any more; what is may run for some seconds.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # not each request that is none
        self._uvicorn.on_ending = self._end_readiness
        loop = asyncio.new_event_loop()  # not asyncio.run: it waits for what was cancelled
        loop.run_until_complete(self._uvicorn.serve(sockets=[self._listening]))
        return not self._batching.oldest

    def stop(self) -> None:
        """Ends `run`; any thread may call it."""
        self._uvicorn.should_exit = True

    def _end_readiness(self) -> None:
        self._is_ending = True

    def _count_batch(self, call: Any, count: int) -> None:
        self._metrics.batches.labels(call.signature).inc()
        self._metrics.batch_size.labels(call.signature).observe(count)

    def _add_inference_protocol(self) -> None:
        """The paths of the Open Inference Protocol (KServe v2)."""
        root = "/v2/models/" + self.name
        server = {"name": "xlnet", "version": xlnet.__version__, "extensions": []}
        self._gets["/v2"] = lambda: (as_json(server), JSON)
        self._gets["/v2/health/live"] = self._health
        self._gets["/v2/health/ready"] = self._ready
        for each in (root, root + "/versions/1"):
            self._gets[each] = self._inference_metadata
            self._gets[each + "/ready"] = self._ready
            self._posts[each + "/infer"] = self._infer

    # ---- any request

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application: answers one request, with an error in words if need be."""
        scope["task"] = asyncio.current_task()  # for `_Protocol`
        began = time.monotonic()
        headers = plain_headers(scope)
        id = request_id(headers, secrets.token_hex(8))
        is_full = len(self._uvicorn.server_state.connections) > self.limits.max_connections
        # After a request with two lengths the connection is closed (RFC 9112, 6.1): a proxy in
        # front may have read another one, and what follows may be no request. So it is after a body
        # that did not arrive, and of a connection too many.
        is_last = is_full or {"content-length", "transfer-encoding"} <= set(headers)
        response = Response(send, is_last, id, accepts_gzip(headers))
        refusal: Optional[tuple[int, str]] = None
        try:
            if is_full and scope["path"] not in _ALWAYS:
                raise Refused(
                    503,
                    f"more than {self.limits.max_connections} connections are open "
                    "(--max_connections); try again later",
                )
            self._check_host(headers)
            is_preflight = self._check_origin(scope["method"], headers, response)
            if is_preflight:
                await response.send(204, b"", "", *_PREFLIGHT)
            else:
                await self._route(scope["method"], scope["path"], headers, receive, response)
        except asyncio.CancelledError:
            # Nobody reads it.
            refusal = (503, "the server ends") if scope["task"] else (499, "the client has left")
        except UserError as e:
            refusal = getattr(e, "http_status", 400), str(e)
        except Exception as e:  # of TensorFlow, or a result that is no number
            reason = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
            refusal = 500, f"the model failed on this: {reason}"
            _log.warning("not answered: request %s: %s", id, refusal[1])
        scope["task"] = None  # no end of the client breaks off a refusal
        if refusal:
            await response.refuse(*refusal)
        status = refusal[0] if refusal else response.status
        self.count(status)
        _access.info(
            "%s %s %s %d %d bytes %.1f ms",
            id,
            scope["method"],
            escape_control_characters(scope["path"])[:200],
            status,
            response.size,
            1000 * (time.monotonic() - began),
        )

    def count(self, status: int) -> None:
        """Counts a response."""
        self._metrics.requests.labels(status).inc()

    def _check_host(self, headers: Mapping[str, str]) -> None:
        host = _host_name(headers.get("host", ""))
        if self._hosts and host and host not in self._hosts:
            hosts = ", ".join(sorted(self._hosts))
            raise Refused(
                421,
                f"the request is for host {host:.80}, expected one of {hosts} (--allowed_hosts)",
            )

    def _check_origin(self, method: str, headers: Mapping[str, str], response: Response) -> bool:
        """Raises Refused for what the page of another site may not do; says whether this is the
        question of a browser whether it may (CORS)."""
        # A browser sends the requests of any page, but says of which site it is: without this,
        # every page that a visitor opens could use a server in their network.
        origin = headers.get("origin")
        if origin is None or origin.split("//")[-1] == headers.get("host"):
            return False
        # "null" is the origin of every sandboxed frame, of whatever site.
        if "//" in origin and _host_name(origin) in self._given_hosts:
            response.allow_origin(origin)
            return method == "OPTIONS" and "access-control-request-method" in headers
        if method in ("GET", "HEAD"):  # its page cannot read the answer
            return False
        host = _host_name(origin)[:80] or "HOST"
        remedy = f"; --allowed_hosts={host} allows it" if "//" in origin else ""
        raise Refused(403, f"the page of another site asks: {origin:.80}{remedy}")

    async def _route(
        self, method: str, path: str, headers: Mapping[str, str], receive: Any, response: Response
    ) -> None:
        if path in self._posts:
            if method != "POST":
                raise Refused(405, f"{method} {path}, expected POST")
            await self._posts[path](headers, receive, response)
        elif path not in self._gets:
            raise Refused(
                404,
                f"no {path[:200]}; there are /, /health, /ready, /metrics, /openapi.json, GET "
                f"{self._root} and POST {self._root}:predict",
            )
        elif method not in ("GET", "HEAD"):
            raise Refused(405, f"{method} {path}, expected GET")
        else:
            await response.send(200, *self._gets[path]())

    def _health(self) -> Content:
        """Liveness: it answers, and no computation hangs."""
        oldest = self._batching.oldest
        if oldest > self.limits.max_seconds + _STUCK:
            raise Refused(503, f"a computation hangs: it began {oldest} s ago")
        return b"ok\n", TEXT

    def _ready(self) -> Content:
        """Readiness: one more example may wait, and the server does not end."""
        if self._is_ending:
            raise Refused(503, "the server ends")
        self._batching.check_waiting()
        return b"ok\n", TEXT

    def _metadata(self) -> Content:
        """As of TensorFlow Serving: the inputs of the signatures, texts."""
        signatures = {}
        for name in self.model.names:
            inputs = {}
            for key, count in self.model.inputs(name).items():
                sizes = [-1] if count is None else [-1, count]
                shape = {"dim": [{"size": str(size)} for size in sizes]}
                inputs[key] = {"dtype": "DT_STRING", "tensor_shape": shape, "name": key}
            signatures[name] = {"inputs": inputs}
        definition = {"signature_def": {"signature_def": signatures}}
        spec = {"name": self.name, "signature_name": "", "version": "1"}
        return as_json({"model_spec": spec, "metadata": definition}), JSON

    def _inference_metadata(self) -> Content:
        inputs = []
        for key, count in self.model.inputs(self.model.default).items():
            shape = [-1] if count is None else [-1, count]
            inputs.append({"name": key, "datatype": "BYTES", "shape": shape})
        found = {
            "name": self.name,
            "versions": ["1"],
            "platform": "xlnet_tensorflow",
            "inputs": inputs,
            "outputs": [],
        }
        return as_json(found), JSON

    def _status(self) -> Content:
        model = self.model
        return as_json(
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
                "examples": {
                    name: [example._asdict() for example in examples]
                    for name, examples in model.examples.items()
                },
                "layers": model.n_layer,
                "heads": model.n_head,
            }
        ), JSON

    # ---- predictions

    async def _predict(self, headers: Mapping[str, str], receive: Any, response: Response) -> None:
        began = time.monotonic()
        asked = await self._read_request(parsed, headers, receive)
        if asked.stream:
            computed = await self._in_time(self._write_parts(asked, response))
            await response.end()
        else:
            computed = await self._in_time(self._predictions(asked))
            await response.send(200, as_json(answer(asked, computed, self.model.labels)))
        self._count_answer(asked, computed)
        self._metrics.rows.labels(asked.call.signature).inc(len(asked.rows))
        self._metrics.seconds.labels(asked.call.signature).observe(time.monotonic() - began)

    async def _infer(self, headers: Mapping[str, str], receive: Any, response: Response) -> None:
        began = time.monotonic()
        asked = await self._read_request(parsed_inference, headers, receive)
        computed = await self._in_time(self._predictions(asked))
        has_arrays = self.model.has_arrays(asked.call.signature)
        await response.send(200, as_json(inference_answer(self.name, asked, computed, has_arrays)))
        self._count_answer(asked, computed)
        self._metrics.rows.labels(asked.call.signature).inc(len(asked.rows))
        self._metrics.seconds.labels(asked.call.signature).observe(time.monotonic() - began)

    def _count_answer(self, asked: PredictionRequest, computed: Sequence[Computed]) -> None:
        read = sum(each.tokens_read or 0 for each in computed)
        cut = sum((each.tokens_read or 0) < (each.tokens or 0) for each in computed)
        self._metrics.tokens_read.labels(asked.call.signature).inc(read)
        self._metrics.cut_texts.labels(asked.call.signature).inc(cut)

    async def _read_request(
        self, parse: Callable[..., PredictionRequest], headers: Mapping[str, str], receive: Any
    ) -> PredictionRequest:
        """Reads and checks a body. A large one is parsed in a thread: the loop answers others
        meanwhile."""
        body = await self._body(headers, receive)
        encoding = headers.get("content-encoding", "").lower()

        def checked() -> PredictionRequest:
            return parse(self.model, self.limits, decoded(body, encoding, self.limits.max_body))

        if len(body) < _INLINE and not encoding:
            return checked()
        return await self._batching.compute(checked, signature="")

    async def _in_time(self, work: Awaitable[Any]) -> Any:
        """The result of work, within the time of a request."""
        try:
            return await asyncio.wait_for(work, self.limits.max_seconds)
        except asyncio.TimeoutError:
            raise Refused(
                503, f"not answered within {self.limits.max_seconds:.0f} s (--max_seconds)"
            ) from None

    async def _predictions(self, asked: PredictionRequest) -> list[Computed]:
        """The answers to the examples: in batches, or next to them."""
        model, batching = self.model, self._batching
        if asked.cost is None:
            return await batching.ask(asked.call, asked.rows, list(map(model.size, asked.rows)))
        graph_of_signature = asked.call.signature if asked.needs_own_graph else None
        async with batching.exclusive(len(asked.rows), asked.cost, graph_of_signature):
            found = await batching.compute(
                model.run, asked.call, asked.rows, signature=asked.call.signature, is_long=True
            )
            return by_row(found)

    async def _write_parts(self, asked: PredictionRequest, response: Response) -> list[Computed]:
        """Sends the parts of a generated text as JSON lines, each as it comes; returns the counts
        of the prompt's tokens, which the last part of a text has."""
        computed: list[Computed] = []
        assert asked.cost is not None
        graph_of_signature = asked.call.signature if asked.needs_own_graph else None
        async with self._batching.exclusive(1, asked.cost, graph_of_signature):
            parts = self.model.stream(asked.call, asked.rows[0])
            request = self._batching.request(asked.call.signature)
            try:
                while True:
                    part = await self._batching.compute(
                        next,
                        parts,
                        None,
                        signature=asked.call.signature,
                        request=request,
                        is_long=True,
                    )
                    if part is None:
                        return computed
                    if "ended" in part:  # of each sample, with the same counts
                        computed = [Computed(None, part["tokens_read"], part["tokens"])]
                    await response.send_part(as_json(part) + b"\n")
            finally:
                parts.close()

    async def _body(self, headers: Mapping[str, str], receive: Any) -> bytes:
        """The body; a longer one than `max_body` is not kept, but read, so that the client, which
        still sends, gets its answer."""
        # Who sends a byte now and then would hold a connection and a task for as long as it likes:
        # the limit is on all of the body, not on the time between two parts.
        reading = asyncio.ensure_future(self._read(headers, receive))
        try:  # not `wait_for`, which may drop a cancellation before Python 3.12
            await asyncio.wait([reading], timeout=_SILENT)
            if not reading.done():
                raise Refused(408, f"the body of the request did not arrive within {_SILENT:g} s")
        finally:
            reading.cancel()
        return reading.result()

    async def _read(self, headers: Mapping[str, str], receive: Any) -> bytes:
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


class _Protocol(H11Protocol):
    """Closes a connection on which the head of a request does not come to its end, and cancels the
    task of a request whose client has left."""

    served_by: Server  # set by the subclass of each server
    _deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Requests of connections too many are refused in words, but not of any number of them.
        if len(self.connections) > 2 * self.served_by.limits.max_connections + _SPARE:
            self.served_by.count(503)
            transport.abort()
        else:
            _limit_taking(transport.get_extra_info("socket"))
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is not HTTP, in JSON as all is."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # in the body of a request that is answered already
            return
        self.served_by.count(400)
        content = as_json({"error": f"not HTTP/1.1: {msg}"})
        headers = [
            (b"content-type", JSON.encode()),
            (b"content-length", b"%d" % len(content)),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

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
        if isinstance(error, TimeoutError):
            _log.warning("closed: a client took nothing of its answer for %g s", _SILENT)
        if self.cycle is not None and not self.cycle.response_complete:
            scope: Any = self.cycle.scope
            task = scope.get("task")
            if task is not None:
                scope["task"] = None  # says why
                task.cancel()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_watch()  # it has a task, which answers if the body takes too long
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_SILENT, self.transport.close)

    def _end_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Uvicorn(uvicorn.Server):
    """Ends in order: it is not ready any more, then its port closes, then what takes too long is
    cancelled."""

    on_ending: Callable[[], None]  # called when readiness ends
    drain = 0.0  # how long it is not ready before its port closes, if the process is terminated [s]
    _closes: Optional[float] = None  # the time at which the port closes

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.on_ending()
        is_first = self._closes is None and not self.should_exit
        super().handle_exit(sig, frame)
        # Whoever balances the load needs a moment to notice; a person at a terminal does not.
        if sig == signal.SIGTERM and is_first and self.drain:
            self.should_exit = False
            self._closes = time.monotonic() + self.drain

    async def on_tick(self, counter: int) -> bool:
        if self._closes is not None and time.monotonic() >= self._closes:
            self.should_exit = True
        return await super().on_tick(counter)

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


def _limit_taking(connection: socket.socket) -> None:
    """Lets the system end a connection whose client takes nothing of what is sent for `_SILENT`
    seconds."""
    # Only the system knows what a client takes: what is written goes to its buffer of some MB, and
    # a slow client may need minutes for that. Without this, whoever reads nothing holds the
    # connection and its answer for ever. Only Linux has it.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * _SILENT))


def _cannot_listen(host: str, port: int, error: Exception) -> UserError:
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
