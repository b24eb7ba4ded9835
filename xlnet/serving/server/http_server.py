"""A model over HTTP: JSON in, JSON out, and a page for people.

Requests are those of TensorFlow Serving's REST API: `POST /v1/models/NAME:predict` with
{"signature_name": ..., "instances": [example, ...]} is answered by {"predictions": [answer, ...]}.
The answers of a signature with one output are its values. There is neither encryption nor
authentication.
"""

from __future__ import annotations

import dataclasses
import http
import ipaddress
import json
import logging
import mimetypes
import pathlib
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Optional

from xlnet.errors import UserError
from xlnet.serving.server import saved_model
from xlnet.serving.server.gathering import Busy, Gathering

try:
    import prometheus_client

    from xlnet.serving.server.connections import Listening
except ModuleNotFoundError as e:
    raise UserError("the server needs the package %s: pip install 'xlnet[serve]', or '.[serve]' in "
                    "a checkout" % e.name) from None

_log = logging.getLogger(__name__)

# Upper bounds of the histogram of latencies [s].
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_FRESH = 5.0                # maximum age of an answer that shows that the model answers [s]

_HEADERS = [
    ("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "
     "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache")]

_EXAMPLES_KEY = {"predict": "instances", "classify": "examples", "regress": "examples"}

_PAGE = pathlib.Path(__file__).parent / "page"
_REST = re.compile(r"(?:/versions/(?P<version>\d+))?(?P<what>/metadata|:[a-z]+)?")


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a server."""
    body: int = 1 << 20             # of a request [bytes]
    rows: int = 128                 # examples of a request
    characters: int = 100_000       # of a text
    waiting: int = 1024             # examples that wait for an answer
    batch: int = 32                 # examples computed together
    budget: int = 32 * 512 ** 2     # examples x tokens² computed together
    wait: float = 0.002             # for more examples [s]
    connections: int = 256          # open at a time
    arrival: int = 30               # time within which a request must arrive [s]


class Refused(Exception):
    """A refused request: (HTTP status, reason)."""


class Server:
    """Serves a model under `/v1/models/NAME`, and a page for it at `/`.

    Args:
      model: a `saved_model.SavedModel` or a `model_directory.ModelDirectory`.
      name: of the model in the address.
      address: (host, port); port 0 is any free one, then in `port`.
      limits: default: those of `Limits`.
      hosts: accepted host names of requests, in addition to the address, localhost and the name of
        this machine. Empty: only these at a loopback address, any at another one.

    Raises:
      UserError: it cannot listen there.
    """

    def __init__(self, model: Any, name: str, address: tuple[str, int],
                 limits: Optional[Limits] = None, hosts: Sequence[str] = ()):
        self.model, self.name = model, name
        self.limits = limits = limits or Limits()
        self._root = "/v1/models/" + name
        prometheus_client.disable_created_metrics()
        self._registry = registry = prometheus_client.CollectorRegistry()
        self._requests = prometheus_client.Counter(
            "xlnet_requests", "requests by HTTP status", ["status"], registry=registry)
        self._rows = prometheus_client.Counter(
            "xlnet_rows", "examples that were answered", registry=registry)
        self._seconds = prometheus_client.Histogram(
            "xlnet_answer_seconds", "from the request to its answer", buckets=_BUCKETS,
            registry=registry)
        batches = prometheus_client.Counter("xlnet_batches", "batches computed", registry=registry)
        self._gathering = Gathering(
            lambda call, arrays: call[0].run(call[1], arrays), max_batch=limits.batch,
            budget=limits.budget, wait=limits.wait, max_waiting=limits.waiting,
            on_batch=batches.inc)
        prometheus_client.Gauge(
            "xlnet_rows_waiting", "examples that wait", registry=registry).set_function(
            lambda: self._gathering.rows_waiting)
        try:
            self._listening = Listening(
                self._application, address, max_body=limits.body, connections=limits.connections,
                arrival=limits.arrival, on_error=self._count)
        except UserError:
            self._gathering.close()
            raise
        self.port = self._listening.port
        self._hosts = _accepted_hosts(address[0], self._listening.host, hosts)
        self.stop = self._listening.stop
        self._static = {"/" + file.name.replace("index.html", ""): (
            "%s; charset=utf-8" % mimetypes.guess_type(file.name)[0], file.read_bytes(), 0)
            for file in _PAGE.iterdir()}

    def run(self) -> None:
        """Answers requests until `stop`, or until the process is signalled (Ctrl-C, SIGTERM)."""
        try:
            self._listening.run()
        finally:
            self._gathering.close()

    # ---- requests

    def _application(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        """The WSGI application."""
        began = time.monotonic()
        status, form = 200, "application/json"
        try:
            form, content, rows = self._answer(environ)
        except Refused as e:
            status, content, rows = e.args[0], _json({"error": e.args[1]}), 0
        except Exception as e:           # of TensorFlow, or an answer that is not a number
            _log.warning("not answered: %s: %s", type(e).__name__, e)
            status, rows = 500, 0
            content = _json({"error": "the model failed on this: %s: %s" % (
                type(e).__name__, str(e).split("\n")[0])})
        self._count(status)
        if rows:
            self._rows.inc(rows)
            self._seconds.observe(time.monotonic() - began)
        is_whole = isinstance(content, bytes)
        start_response("%d %s" % (status, http.HTTPStatus(status).phrase), [
            ("Content-Type", form), *_HEADERS,
            *([("Content-Length", str(len(content)))] if is_whole else [])])
        return content if not is_whole else [content] * (environ["REQUEST_METHOD"] != "HEAD")

    def _count(self, status):
        self._requests.labels(status).inc()

    def _answer(self, environ):
        """(content type, bytes or an iterator of them, examples that were answered)."""
        host = _host_name(environ.get("HTTP_HOST", ""))
        if self._hosts and host and host not in self._hosts:
            raise Refused(421, "the request is for host %s, expected one of %s (--allowed_hosts)"
                          % (host, ", ".join(sorted(self._hosts))))
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
        rest = _REST.fullmatch(path[len(self._root):]) if path.startswith(self._root) else None
        parts = rest.groupdict() if rest else {}
        version, what = parts.get("version"), parts.get("what") or ""
        verb = what.partition(":")[2]
        other = {"/health": self._health, "/metrics": self._metrics, "/v1/models": self._models}
        if not rest and path not in self._static and path not in other:
            raise Refused(404, "no %s; there are /, /health, /metrics, GET %s, GET %s/metadata and "
                               "POST %s:predict" % (path, *[self._root] * 3))
        if method not in (("POST",) if verb else ("GET", "HEAD")):
            raise Refused(405, "%s %s, expected %s" % (method, path, "POST" if verb else "GET"))
        if path in self._static:
            return self._static[path]
        if path in other:
            return (*other[path](), 0)
        model = self.model              # once: `follow` may replace it at any time
        if version and version != model.version:
            raise Refused(404, "no version %s of %s; version %s is served" % (
                version, self.name, model.version))
        if verb:
            return self._post(model, verb, environ)
        return "application/json", _json((self._metadata if what else self._status)(model)), 0

    def _health(self):
        """Refuses unless the model answers."""
        model = self.model
        try:
            if time.monotonic() - self._gathering.answered > _FRESH:
                call, example = model.example(next(
                    name for name in (model.default, *model.names) if name not in model.alone))
                self._gathering.ask((model, call), example, model.tokens(call, example), _FRESH)
        except Exception as e:
            raise Refused(503, "the model does not answer: %s: %s" % (type(e).__name__, e)
                          ) from None
        return "text/plain", b"ok\n"

    def _metrics(self):
        return "text/plain; version=0.0.4", prometheus_client.generate_latest(self._registry)

    def _models(self):
        return "application/json", _json({"models": [{"name": self.name}]})

    def _status(self, model):
        return {"model_version_status": [{
            "version": model.version, "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""}}],
            "about": model.about, "labels": model.labels, "default_signature": model.default,
            "signatures": {name: sorted(model.inputs(name)) for name in model.names}}

    def _metadata(self, model):
        return {"model_spec": {"name": self.name, "signature_name": "", "version": model.version},
                "metadata": {"signature_def": {"signature_def": model.signature_def()}}}

    def _post(self, model, verb, environ):
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and origin.split("//")[-1] != environ.get("HTTP_HOST"):
            raise Refused(403, "the page of another site asks: %s" % origin)
        if verb not in _EXAMPLES_KEY:
            raise Refused(404, "no :%s; there are :predict, :classify and :regress" % verb)
        asked = _parsed(environ["wsgi.input"].read())
        try:
            signature, rows, parameters = self._read(asked, verb, model)
            arrays = saved_model.arrays(model.inputs(signature), rows)
            self._check_lengths(arrays)
            call = model.call(signature, parameters)
            tokens = model.tokens(call, arrays)
            if not self._gathering.fits(1, int(tokens.max())):
                raise Refused(413, "an example of up to %d tokens, at most %d are computed "
                                   "(--budget)" % (tokens.max(), self.limits.budget ** .5))
            alone = self._gathering.alone(len(rows), int(tokens.max()))
            if asked.get("stream") is True and hasattr(model, "stream"):
                parts = _within(alone, model.stream(call, arrays))
                return "application/x-ndjson", _lines(parts), len(rows)
            if signature in model.alone:
                with alone:
                    answers = model.run(call, arrays)
            else:
                answers = self._gathering.ask((model, call), arrays, tokens)
        except UserError as e:
            raise Refused(400, str(e)) from None
        except Busy as e:
            raise Refused(503, str(e)) from None
        answer = {"outputs": saved_model.as_columns(answers)} if "inputs" in asked else {
            "predictions": answers} if verb == "predict" else {
            "results": [_result(verb, model.labels, each) for each in answers]}
        if verb == "predict" and _has_probabilities(answers[0], model.labels):
            answer["labels"] = model.labels
        return "application/json", _json(answer), len(rows)

    def _read(self, asked, verb, model):
        """(signature, examples, parameters) of a request."""
        signature = asked.get("signature_name", model.default)
        parameters = asked.get("parameters", {})
        key = _EXAMPLES_KEY[verb]
        rows = saved_model.rows_of_columns(asked["inputs"]) if "inputs" in asked else asked.get(key)
        if not isinstance(signature, str) or not isinstance(parameters, dict) or not (
                isinstance(rows, list) and rows):
            raise Refused(400, 'expected {"signature_name": "...", "%s": [example, ...]}, one '
                               'example or more' % key)
        if len(rows) > self.limits.rows:
            raise Refused(413, "%d rows, at most %d are answered at once (--max_rows)" % (
                len(rows), self.limits.rows))
        if signature == saved_model.DEFAULT and signature not in model.names:
            signature = model.default
        return signature, rows, parameters

    def _check_lengths(self, arrays):
        for name, values in arrays.items():
            if values.dtype == object and any(
                    len(text.decode(errors="replace")) > self.limits.characters
                    for text in values.ravel()):
                raise Refused(413, "'%s' has more than %d characters (--max_characters)" % (
                    name, self.limits.characters))


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
        raise Refused(400, "not JSON: %s" % e) from None
    if not isinstance(asked, dict):
        raise Refused(400, "expected a JSON object, found %s" % type(asked).__name__)
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


def _has_probabilities(answer, labels):
    return isinstance(answer, dict) and labels and "probabilities" in answer


def _result(verb, labels, answer):
    """An answer in the form of TensorFlow Serving's classify or regress."""
    if verb == "classify" and _has_probabilities(answer, labels):
        return [list(each) for each in zip(labels, answer["probabilities"])]
    if verb == "regress" and isinstance(answer, (int, float)):
        return answer
    raise Refused(400, "this signature has no %s; use :predict" % (
        "labels" if verb == "classify" else "score"))


def follow(server: Server, path: str, seconds: float = 5.0) -> None:
    """Starts a thread that serves new versions of an export as they appear.

    Args:
      path: of a directory with versions.
      seconds: between checks.
    """
    def look():
        said = ""
        while True:
            time.sleep(seconds)
            try:
                if saved_model.newest_version(path) == server.model.path:
                    continue
                model = saved_model.SavedModel(path)
                model.warm_up()
                server.model = model
                _log.info("serving %s", model.path)
            except Exception as e:          # half a copy, which may be complete at the next look
                if str(e) != said:
                    said = str(e)
                    _log.warning("%s is still served: %s", server.model.path, e)
    threading.Thread(target=look, name="versions", daemon=True).start()
