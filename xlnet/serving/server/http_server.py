"""A model over HTTP: JSON in, JSON out, and a page for people.

Requests are those of TensorFlow Serving's REST API: `POST /v1/models/NAME:predict` with
{"signature_name": ..., "instances": [example, ...]} is answered by {"predictions": [answer, ...]}.
The answers of a signature with one output are its values. There is neither encryption nor
authentication.
"""

from __future__ import annotations

import contextlib
import http
import ipaddress
import json
import logging
import mimetypes
import pathlib
import re
import socket
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Optional

from xlnet.errors import UserError
from xlnet.serving.server import saved_model
from xlnet.serving.server.gathering import Gathering, by_row
from xlnet.serving.settings import LimitSettings

try:
    import prometheus_client
    import waitress
    from waitress import wasyncore
except ModuleNotFoundError as e:
    raise UserError("the server needs the package %s: pip install 'xlnet[serve]', or '.[serve]' in "
                    "a checkout" % e.name) from None

_log = logging.getLogger(__name__)

_FRESH = 5.0                # maximum age of an answer that shows that the model answers [s]

_READ = 1 << 26             # of a request that is refused in words; a larger one is cut off [bytes]
_SECONDS_TO_END = 30        # for requests that are in progress when the server ends

_HEADERS = [
    ("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "
     "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache")]

_PAGE = pathlib.Path(__file__).parent / "page"
_REST = re.compile(r"(?:/versions/(\d+))?(|/metadata|:predict)")     # after the model's name


class Refused(UserError):
    """A request that is refused with an HTTP status."""

    def __init__(self, http_status: int, reason: str):
        super().__init__(reason)
        self.http_status = http_status


class Server:
    """Serves a model under `/v1/models/NAME`, and a page for it at `/`.

    Args:
      model: a `saved_model.SavedModel` or a `model_directory.ModelDirectory`.
      name: of the model in the address.
      address: (host, port); port 0 is any free one, then in `port`.
      limits: default: those of `LimitSettings`.
      hosts: accepted host names of requests, in addition to the address, localhost and the name of
        this machine. Empty: only these at a loopback address, any at another one.

    Raises:
      UserError: it cannot listen there.
    """

    def __init__(self, model: Any, name: str, address: tuple[str, int],
                 limits: Optional[LimitSettings] = None, hosts: Sequence[str] = ()):
        self.model, self.name = model, name
        self.limits = limits = limits or LimitSettings()
        self._root = "/v1/models/" + name
        listening = _listening_socket(*address)
        bound, self.port = listening.getsockname()[:2]
        self._hosts = _accepted_hosts(address[0], bound, hosts)
        prometheus_client.disable_created_metrics()
        self._registry = registry = prometheus_client.CollectorRegistry()
        self._requests = prometheus_client.Counter(
            "xlnet_requests", "requests by HTTP status", ["status"], registry=registry)
        self._rows = prometheus_client.Counter(
            "xlnet_rows", "examples that were answered", registry=registry)
        self._seconds = prometheus_client.Histogram(
            "xlnet_answer_seconds", "from the request to its answer", registry=registry)
        batches = prometheus_client.Counter("xlnet_batches", "batches computed", registry=registry)
        self._gathering = Gathering(
            lambda call, arrays: model.run(call, arrays), max_batch=limits.max_batch,
            budget=limits.budget, max_waiting=limits.max_waiting, on_batch=batches.inc)
        prometheus_client.Gauge(
            "xlnet_rows_waiting", "examples that wait", registry=registry).set_function(
            lambda: self._gathering.rows_waiting)
        self._sockets: dict = {}        # waitress's, by number
        # A thread for each connection, so that a waiting one does not block the others.
        self._http = waitress.create_server(
            self._application, map=self._sockets, sockets=[listening], ident="xlnet",
            threads=limits.max_connections, connection_limit=limits.max_connections + 3,
            max_request_body_size=max(limits.max_body + 1, _READ), max_request_header_size=1 << 16,
            channel_timeout=30, asyncore_use_poll=True)
        self._static = {"/" + file.name.replace("index.html", ""): (
            "%s; charset=utf-8" % mimetypes.guess_type(file.name)[0], file.read_bytes(), 0)
            for file in _PAGE.iterdir()}

    def run(self) -> None:
        """Answers requests until `stop`, or until the process is signalled (Ctrl-C, SIGTERM).
        Requests in progress are still answered."""
        self._http.run()
        self._http.task_dispatcher.shutdown(timeout=_SECONDS_TO_END)
        self._gathering.close()

    def stop(self) -> None:
        """Ends `run`; any thread may call it."""
        with contextlib.suppress(OSError):      # the loop was faster and has closed its trigger
            self._http.trigger.pull_trigger(lambda: wasyncore.close_all(self._sockets))

    # ---- requests

    def _application(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        """The WSGI application."""
        began = time.monotonic()
        status, form = 200, "application/json"
        try:
            form, content, rows = self._answer(environ)
        except UserError as e:
            status, rows = getattr(e, "http_status", 400), 0
            content = _json({"error": str(e)})
        except Exception as e:           # of TensorFlow, or an answer that is not a number
            _log.warning("not answered: %s: %s", type(e).__name__, e)
            status, rows = 500, 0
            content = _json({"error": "the model failed on this: %s: %s" % (
                type(e).__name__, str(e).split("\n")[0])})
        self._requests.labels(status).inc()
        if rows:
            self._rows.inc(rows)
            self._seconds.observe(time.monotonic() - began)
        is_whole = isinstance(content, bytes)
        start_response("%d %s" % (status, http.HTTPStatus(status).phrase), [
            ("Content-Type", form), *_HEADERS,
            *([("Content-Length", str(len(content)))] if is_whole else [])])
        return content if not is_whole else [content] * (environ["REQUEST_METHOD"] != "HEAD")

    def _answer(self, environ):
        """(content type, bytes or an iterator of them, examples that were answered)."""
        host = _host_name(environ.get("HTTP_HOST", ""))
        if self._hosts and host and host not in self._hosts:
            raise Refused(421, "the request is for host %s, expected one of %s (--allowed_hosts)"
                          % (host, ", ".join(sorted(self._hosts))))
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
        rest = _REST.fullmatch(path[len(self._root):]) if path.startswith(self._root) else None
        version, what = rest.groups() if rest else (None, "")
        other = {"/health": self._health, "/metrics": self._metrics, "/v1/models": self._models}
        if not rest and path not in self._static and path not in other:
            raise Refused(404, "no %s; there are /, /health, /metrics, GET %s, GET %s/metadata and "
                               "POST %s:predict" % (path, *[self._root] * 3))
        expected = "POST" if what == ":predict" else "GET"
        if method != expected and (method, expected) != ("HEAD", "GET"):
            raise Refused(405, "%s %s, expected %s" % (method, path, expected))
        if path in self._static:
            return self._static[path]
        if path in other:
            return (*other[path](), 0)
        if version and version != self.model.version:
            raise Refused(404, "no version %s of %s; version %s is served" % (
                version, self.name, self.model.version))
        if what == ":predict":
            return self._predict(environ)
        return "application/json", _json(self._metadata() if what else self._status()), 0

    def _health(self):
        """Refuses unless the model answers."""
        model = self.model
        try:
            if time.monotonic() - self._gathering.answered > _FRESH:
                call, example = model.example(next(
                    name for name in (model.default, *model.names) if name not in model.alone))
                self._gathering.ask(call, example, model.tokens(call, example), _FRESH)
        except Exception as e:
            raise Refused(503, "the model does not answer: %s: %s" % (type(e).__name__, e)
                          ) from None
        return "text/plain", b"ok\n"

    def _metrics(self):
        return "text/plain; version=0.0.4", prometheus_client.generate_latest(self._registry)

    def _models(self):
        return "application/json", _json({"models": [{"name": self.name}]})

    def _status(self):
        model = self.model
        return {"model_version_status": [{
            "version": model.version, "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""}}],
            "about": model.about, "labels": model.labels, "default_signature": model.default,
            "signatures": {name: sorted(model.inputs(name)) for name in model.names}}

    def _metadata(self):
        return {"model_spec": {"name": self.name, "signature_name": "",
                               "version": self.model.version},
                "metadata": {"signature_def": {"signature_def": self.model.signature_def()}}}

    def _predict(self, environ):
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and origin.split("//")[-1] != environ.get("HTTP_HOST"):
            raise Refused(403, "the page of another site asks: %s" % origin)
        model, limits = self.model, self.limits
        if int(environ.get("CONTENT_LENGTH") or 0) > limits.max_body:
            raise Refused(413, "the request has more than %d bytes (--max_body)" % limits.max_body)
        asked = _parsed(environ["wsgi.input"].read())
        signature, rows, parameters = self._read(asked)
        arrays = saved_model.arrays(model.inputs(signature), rows)
        self._check_lengths(arrays)
        call = model.call(signature, parameters)
        tokens = model.tokens(call, arrays)
        if not self._gathering.fits(1, int(tokens.max())):
            raise Refused(413, "an example of up to %d tokens, at most %d are computed (--budget)"
                          % (tokens.max(), limits.budget ** .5))
        alone = self._gathering.alone(len(rows), int(tokens.max()))
        if asked.get("stream") is True and hasattr(model, "stream"):
            parts = _within(alone, model.stream(call, arrays))
            return "application/x-ndjson", _lines(parts), len(rows)
        if signature in model.alone:
            with alone:
                answers = by_row(model.run(call, arrays))
        else:
            answers = self._gathering.ask(call, arrays, tokens)
        answer = {"outputs": saved_model.as_columns(answers)} if "inputs" in asked else {
            "predictions": answers}
        if model.labels and isinstance(answers[0], dict) and "probabilities" in answers[0]:
            answer["labels"] = model.labels
        return "application/json", _json(answer), len(rows)

    def _read(self, asked):
        """(signature, examples, parameters) of a request."""
        signature = asked.get("signature_name", self.model.default)
        parameters = asked.get("parameters", {})
        rows = saved_model.rows_of_columns(asked["inputs"]) if "inputs" in asked else \
            asked.get("instances")
        if not isinstance(signature, str) or not isinstance(parameters, dict) or not (
                isinstance(rows, list) and rows):
            raise UserError('expected {"signature_name": "...", "instances": [example, ...]}, one '
                            'example or more')
        if len(rows) > self.limits.max_rows:
            raise Refused(413, "%d rows, at most %d are answered at once (--max_rows)" % (
                len(rows), self.limits.max_rows))
        if signature == saved_model.DEFAULT and signature not in self.model.names:
            signature = self.model.default
        return signature, rows, parameters

    def _check_lengths(self, arrays):
        for name, values in arrays.items():
            if values.dtype == object and any(
                    len(text.decode(errors="replace")) > self.limits.max_characters
                    for text in values.ravel()):
                raise Refused(413, "'%s' has more than %d characters (--max_characters)" % (
                    name, self.limits.max_characters))


def _listening_socket(host, port):
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6())
    except (OSError, OverflowError) as e:
        raise UserError("cannot listen at %s port %d: %s" % (
            host, port, getattr(e, "strerror", None) or e)) from None


def _accepted_hosts(given: str, bound: str, hosts: Sequence[str]) -> frozenset[str]:
    """The accepted host names of requests; empty: any.

    Another site can have its name resolved to this machine (DNS rebinding): then the requests of
    its page have that name as host, and an origin that agrees.
    """
    if not hosts and not ipaddress.ip_address(bound).is_loopback:
        return frozenset()
    return frozenset(_host_name("[%s]" % host if host.count(":") > 1 and "[" not in host else host)
                     for host in (given, bound, "localhost", "127.0.0.1", "::1",
                                  socket.gethostname(), *hosts))


def _host_name(header: str) -> str:
    """The name or address in a Host header, in small letters, without port: "[::1]:80" -> "::1"."""
    try:
        return (urllib.parse.urlsplit("//" + header).hostname or "").rstrip(".")
    except ValueError:
        return header


def _parsed(body):
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise UserError("not JSON: %s" % e) from None
    if not isinstance(asked, dict):
        raise UserError("expected a JSON object, found %s" % type(asked).__name__)
    return asked


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(
        errors="backslashreplace")      # lone surrogates of a request, as JSON escapes


def _within(block: AbstractContextManager[None],
            parts: Iterable[Any]) -> Generator[Any, None, None]:
    with block:
        yield from parts


def _lines(parts: Generator[Any, None, None]) -> Iterator[bytes]:
    """Parts of an answer as JSON lines; an error before the first part is raised here."""
    first = next(parts)

    def lines():
        try:
            yield _json(first) + b"\n"
            for part in parts:
                yield _json(part) + b"\n"
        except Exception as e:
            _log.warning("not answered to the end: %s: %s", type(e).__name__, e)
            yield _json({"error": "%s: %s" % (type(e).__name__, e)}) + b"\n"
        finally:
            parts.close()
    return lines()
