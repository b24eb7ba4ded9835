"""A WSGI server: waitress with a limit of the time in which a request must arrive, refusal of
requests with two lengths, and refusals that reach the client."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any, Callable, Optional

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask
from waitress.utilities import Error, RequestEntityTooLarge

from xlnet.errors import UserError

_SECONDS_TO_END = 30        # for requests that are in progress when the server ends


class _Timeout(Error):
    code, reason = 408, "Request Timeout"


class _Parser(HTTPRequestParser):
    """Notes when a request began to arrive; refuses one with two lengths."""

    def __init__(self, adj: Any):
        super().__init__(adj)
        self.began = time.monotonic()

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        names = {line.partition(b":")[0].lower() for line in header_plus.split(b"\r\n")}
        if b"transfer-encoding" in names and (b"content-length" in names or self.version != "1.1"):
            raise ParsingError("Transfer-Encoding with Content-Length, or before version 1.1")

    def received(self, data: bytes) -> int:
        count = super().received(data)
        if self.error:
            self.expect_continue = False        # or waitress would ask for the body
        return count


class _ErrorTask(ErrorTask):
    """An HTTP error as JSON."""

    def execute(self) -> None:
        error = self.request.error
        if isinstance(error, RequestEntityTooLarge):
            error.body = "the request has more than %d bytes (--max_body)" % (
                self.channel.adj.max_request_body_size - 1)
        self.channel.server.on_error(error.code)
        self.channel.is_refused = True
        content = json.dumps({"error": error.body}).encode()
        self.status = "%d %s" % (error.code, error.reason)
        self.response_headers.append(("Content-Type", "application/json"))
        self.set_close_on_finish()
        self.content_length = len(content)
        self.write(content)


class _Channel(HTTPChannel):
    """A connection. After a refusal only its writing side is closed, and more from the client is
    dropped: closing both would reset the connection, and the client would lose the refusal."""
    parser_class = _Parser
    error_task_class = _ErrorTask
    close_when_flushed: bool
    is_refused = False
    refused_at: Optional[float] = None      # when the writing side was closed [s]

    def handle_write(self) -> None:
        if self.is_refused and self.close_when_flushed and not self.total_outbufs_len:
            self.close_when_flushed = False
            self.refused_at = time.monotonic()
            with contextlib.suppress(OSError):      # it is closed already
                self.socket.shutdown(socket.SHUT_WR)
        else:
            super().handle_write()

    def received(self, data: bytes) -> bool:
        return self.refused_at is not None or super().received(data)


class _Waitress(TcpWSGIServer):
    channel_class = _Channel
    on_error: Callable[[int], object]

    def maintenance(self, now: float) -> None:
        """Closes silent connections, and refuses requests that take too long."""
        super().maintenance(now)
        oldest = time.monotonic() - self.adj.channel_timeout
        for channel in self.active_channels.values():
            with channel.requests_lock:
                request = channel.request
                if channel.refused_at is not None:
                    channel.will_close |= channel.refused_at < oldest
                elif request is not None and request.began < oldest and not channel.requests:
                    request.error = _Timeout("the request took more than %d s to arrive"
                                             % self.adj.channel_timeout)
                    channel.request, channel.will_close = None, False
                    channel.requests.append(request)
                    self.add_task(channel)


class Listening:
    """Serves a WSGI application.

    Args:
      address: (host, port). Port 0 is any free one; host "::" is IPv6 and IPv4.
      max_body: size of a request [bytes].
      connections: open at a time; others wait until one is closed.
      arrival: time within which a request must arrive [s].
      on_error: called with the status of each request that the application does not see.

    Attributes:
      host, port: bound address.

    Raises:
      UserError: it cannot listen there.
    """

    def __init__(self, application: Callable, address: tuple[str, int], *, max_body: int,
                 connections: int, arrival: int, on_error: Callable[[int], object]):
        host, port = address
        try:
            listening = socket.create_server(
                address, family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128,
                dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6())
        except (OSError, OverflowError) as e:
            raise UserError("cannot listen at %s port %d: %s" % (
                host, port, getattr(e, "strerror", None) or e)) from None
        self.host, self.port = listening.getsockname()[:2]
        # A thread for each connection, so that a waiting one does not block the others.
        self._server = _Waitress(
            application, _sock=listening, bind_socket=False,
            sockinfo=(listening.family, listening.type, listening.proto, listening.getsockname()),
            adj=Adjustments(
                sockets=[listening], threads=connections, connection_limit=connections + 3,
                channel_timeout=arrival, cleanup_interval=1, max_request_body_size=max_body + 1,
                max_request_header_size=1 << 16, asyncore_use_poll=True, ident="xlnet"))
        self._server.on_error = on_error

    def run(self) -> None:
        """Answers until `stop`, or an exception in this thread such as SystemExit. Requests in
        progress are still answered."""
        server = self._server
        try:
            wasyncore.loop(timeout=1, use_poll=True, map=server._map)
        finally:
            server.task_dispatcher.shutdown(timeout=_SECONDS_TO_END)
            wasyncore.close_all(server._map)

    def stop(self) -> None:
        """Ends `run`; any thread may call it."""
        with contextlib.suppress(OSError):      # the loop was faster and has closed its trigger
            self._server.trigger.pull_trigger(lambda: wasyncore.close_all(self._server._map))
