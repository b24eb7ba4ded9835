"""A small HTTP server for an exported model: JSON in, JSON out.

Its requests are those of TensorFlow Serving, so that what asks the one can ask the other:
`POST /v1/models/NAME:predict` with {"signature_name": ..., "instances": [row, ...]} is answered by
{"predictions": [row, ...]}, where the rows of a signature with one output are its values. It is an
example for trials and small use; it has neither encryption nor users, so it listens where it is
told to and nowhere else.
"""

from __future__ import annotations

import collections
import dataclasses
import http
import http.server
import json
import logging
import socket
import threading
import time
import urllib.parse
from typing import Any, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.serving.server import saved_model
from xlnet.serving.server.gathering import Busy, Gathering
from xlnet.serving.server.saved_model import BadRequest, SavedModel

_log = logging.getLogger(__name__)

_SECONDS_OF_SILENCE = 30        # after which a connection that sends nothing is closed

# Upper bounds of the histogram of answers' times [s].
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


@dataclasses.dataclass(frozen=True)
class Limits:
    """body: bytes of a request. rows: of a request. values: of a list in a row, such as ids, as
    attention's memory grows with their square. characters: of a text. waiting: rows that wait for
    an answer. batch: rows computed together. wait: for more rows [s]."""
    body: int = 1 << 20
    rows: int = 128
    values: int = 4096
    characters: int = 100_000
    waiting: int = 1024
    batch: int = 32
    wait: float = 0.002


class Refused(Exception):
    """A request that is not answered: (HTTP status, why)."""


class Counts:
    """What was asked and how long it took, in Prometheus's text form."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: collections.Counter[int] = collections.Counter()     # by status
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds, self._rows = 0.0, 0

    def add(self, status: int, seconds: float, rows: int) -> None:
        with self._lock:
            self._requests[status] += 1
            self._rows += rows
            if rows:
                self._buckets[int(np.searchsorted(_BUCKETS, seconds))] += 1
                self._seconds += seconds

    def text(self, batches: int, waiting: int) -> str:
        with self._lock:
            lines = ["# TYPE xlnet_requests_total counter"]
            lines += ['xlnet_requests_total{status="%d"} %d' % item
                      for item in sorted(self._requests.items())]
            lines += ["# TYPE xlnet_rows_total counter", "xlnet_rows_total %d" % self._rows,
                      "# TYPE xlnet_batches_total counter", "xlnet_batches_total %d" % batches,
                      "# TYPE xlnet_rows_waiting gauge", "xlnet_rows_waiting %d" % waiting,
                      "# TYPE xlnet_answer_seconds histogram"]
            totals = np.cumsum(self._buckets).tolist()
            lines += ['xlnet_answer_seconds_bucket{le="%s"} %d' % item
                      for item in zip((*map(str, _BUCKETS), "+Inf"), totals)]
            lines += ["xlnet_answer_seconds_sum %.6f" % self._seconds,
                      "xlnet_answer_seconds_count %d" % totals[-1]]
        return "\n".join(lines) + "\n"


class Server(http.server.ThreadingHTTPServer):
    """Serves a model under `/v1/models/<name>`.

    Args:
      address: (host, port); port 0 is any free one, then in `server_port`.

    Raises:
      UserError: it cannot listen there.
    """
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, model: SavedModel, name: str, address: tuple[str, int],
                 limits: Optional[Limits] = None):
        self.model = model
        self.name = name
        self.limits = limits = limits or Limits()
        self.counts = Counts()
        self.gathering = Gathering(model.run, max_rows=limits.batch, wait=limits.wait,
                                   max_waiting=limits.waiting)
        try:
            super().__init__(address, _Handler)
        except (OSError, OverflowError) as e:
            raise UserError("cannot listen at %s port %d: %s" % (
                *address, getattr(e, "strerror", None) or e)) from None

    def server_close(self) -> None:
        super().server_close()
        self.gathering.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.info("a connection of %s broke off", client_address[0])

    def predict(self, body: bytes) -> tuple[dict[str, Any], int]:
        """(the answer to a request, its rows).

        Raises:
          Refused: it is none.
        """
        asked = _parsed(body)
        signature = asked.get("signature_name", saved_model.DEFAULT)
        rows = asked.get("instances")
        if not isinstance(signature, str) or not isinstance(rows, list) or not rows:
            raise Refused(400, 'expected {"signature_name": "...", "instances": [row, ...]}, one '
                               'row or more')
        if len(rows) > self.limits.rows:
            raise Refused(413, "%d rows, at most %d are answered at once" % (
                len(rows), self.limits.rows))
        try:
            arrays = self.model.arrays(signature, rows)
            self._check_lengths(arrays)
            answers = self.gathering.ask(signature, arrays)
        except BadRequest as e:
            raise Refused(400, str(e)) from None
        except Busy as e:
            raise Refused(503, str(e)) from None
        return {"predictions": saved_model.as_rows(answers)}, len(rows)

    def _check_lengths(self, arrays):
        for name, values in arrays.items():
            if values.ndim > 1 and values.shape[1] > self.limits.values:
                raise Refused(413, "'%s' has %d values, at most %d are taken (--max_values)" % (
                    name, values.shape[1], self.limits.values))
            if values.dtype == object:
                longest = max((len(text) for text in values.ravel()), default=0)
                if longest > 4 * self.limits.characters or longest > self.limits.characters and max(
                        len(text.decode()) for text in values.ravel()) > self.limits.characters:
                    raise Refused(413, "'%s' has more than %d characters" % (
                        name, self.limits.characters))


def _parsed(body):
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise Refused(400, "not JSON: %s" % e) from None
    if not isinstance(asked, dict):
        raise Refused(400, "expected a JSON object, found %s" % type(asked).__name__)
    return asked


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "xlnet"
    sys_version = ""
    timeout = _SECONDS_OF_SILENCE
    # Headers and content go out together and at once: sent apart, TCP would hold the second back
    # until the first is acknowledged, 40 ms later.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        server = self.server
        path = self._path()
        if path == "/health":
            self._send(200, b"ok\n", "text/plain")
        elif path == "/metrics":
            self._send(200, server.counts.text(
                server.gathering.batches, server.gathering.rows_waiting).encode(),
                "text/plain; version=0.0.4")
        elif path == "/v1/models/" + server.name:
            self._send_json(200, {"model_version_status": [{"state": "AVAILABLE"}],
                                  "signatures": {name: sorted(server.model.inputs(name))
                                                 for name in server.model.names}})
        else:
            self._refuse(404, "no %s; there are /health, /metrics, GET /v1/models/%s and POST "
                              "/v1/models/%s:predict" % (path, server.name, server.name))

    def do_POST(self) -> None:
        began = time.monotonic()
        try:
            answer, rows = self.server.predict(self._body())
            content = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
        except Refused as e:
            return self._refuse(*e.args)
        except Exception as e:           # of TensorFlow, or an answer that is no number
            _log.warning("not answered: %s: %s", type(e).__name__, e)
            return self._refuse(500, "the model failed on this: %s" % str(e).split("\n")[0])
        self._send(200, content, "application/json")
        self.server.counts.add(200, time.monotonic() - began, rows)
        return None

    def _body(self):
        path, length = self._path(), self.headers.get("Content-Length", "")
        if path != "/v1/models/%s:predict" % self.server.name:
            raise Refused(404, "no %s; there is /v1/models/%s:predict" % (path, self.server.name))
        if not length.isdecimal():
            raise Refused(411, "expected the header Content-Length")
        # Python makes no number of more than 4,300 digits.
        if len(length) > 20 or int(length) > self.server.limits.body:
            raise Refused(413, "%.20s bytes, at most %d are read" % (
                length, self.server.limits.body))
        try:
            return self.rfile.read(int(length))
        except socket.timeout:      # TimeoutError from Python 3.10 on
            raise Refused(408, "nothing came for %d s" % self.timeout) from None

    def _path(self):
        """The path asked for: `http.server` reads its bytes as Latin-1."""
        path = self.path.split("?")[0].encode("latin-1")
        return urllib.parse.unquote_to_bytes(path).decode(errors="replace")

    def _refuse(self, status, why):
        self.close_connection = True            # what is left of the request is not read
        self.server.counts.add(status, 0.0, 0)
        self._send_json(status, {"error": why})

    def _send_json(self, status, value):
        self._send(status, json.dumps(value, ensure_ascii=False).encode(), "application/json")

    def _send(self, status, content, form):
        self.send_response(status)
        self.send_header("Content-Type", form)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: Optional[str] = None,
                   explain: Optional[str] = None) -> None:
        """What the standard library refuses, such as methods that there are not, as JSON too."""
        self._refuse(code, message or http.HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing for each request; /metrics counts them."""


def serve(server: Server) -> None:
    """Answers until the process is told to stop (Ctrl-C, SIGTERM)."""
    try:
        server.serve_forever()
    finally:
        server.server_close()
