"""The response to a request: headers of all responses, JSON, parts of a stream, gzip."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any, Optional

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
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
_LEAST_PACKED = 1024  # a smaller body is sent as it is [bytes]
_RETRY_AFTER = 1  # what a client that is refused should wait [s]


class Response:
    """The response to a request: sent at once, or in parts, lines of JSON.

    Attributes:
      status: of the response; 0: it has not begun.
      size: bytes of its body so far.
    """

    def __init__(self, send: Any, is_last: bool, request_id: str, accepts_gzip: bool) -> None:
        self._send, self._is_last = send, is_last
        self._accepts_gzip = accepts_gzip
        self.status = self.size = 0
        self.headers = [*_HEADERS, (b"x-request-id", request_id.encode("latin-1"))]

    def allow_origin(self, origin: str) -> None:
        """Lets the page of another site read the response."""
        self.headers += [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", b"x-request-id, retry-after"),
            (b"vary", b"origin"),
        ]

    async def _begin(self, status: int, form: str, *headers: tuple[bytes, bytes]) -> None:
        self.status = status
        more = [*headers]
        if self._is_last or status == 408:
            more.append((b"connection", b"close"))
        if status == 503:
            more.append((b"retry-after", b"%d" % _RETRY_AFTER))
        if form:
            more.append((b"content-type", form.encode()))
        await self._send(
            {"type": "http.response.start", "status": status, "headers": [*more, *self.headers]}
        )

    async def send(
        self, status: int, content: bytes, form: str = JSON, *headers: tuple[bytes, bytes]
    ) -> None:
        """Sends all of a response."""
        more = list(headers)
        if self._accepts_gzip and len(content) >= _LEAST_PACKED:
            content = gzip.compress(content, 1)
            more += [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
        self.size = len(content)
        if status != 204:
            more.append((b"content-length", b"%d" % len(content)))
        await self._begin(status, form, *more)
        await self._send({"type": "http.response.body", "body": content})

    async def send_part(self, line: bytes) -> None:
        """Sends a line; the next one waits until the client has taken most of what was sent."""
        if not self.status:
            await self._begin(200, "application/x-ndjson")
        self.size += len(line)
        await self._send({"type": "http.response.body", "body": line, "more_body": True})

    async def end(self) -> None:
        """Ends a response in parts."""
        await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, status: int, reason: str) -> None:
        """Sends an error: as the response, or as the last one of its parts."""
        content = as_json({"error": reason})
        if self.status:
            await self._send({"type": "http.response.body", "body": content + b"\n"})
        else:
            await self.send(status, content)


def as_json(value: Any) -> bytes:
    """JSON of a value; lone surrogates of a request are JSON's escapes."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")


def plain_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a request by name in small letters."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Whether a client takes a packed response."""
    for each in headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = each.replace(" ", "").partition(";q=")
        if name == "gzip" and quality not in ("0", "0.0", "0.00", "0.000"):
            return True
    return False


def request_id(headers: Mapping[str, str], made: str) -> str:
    """That of the client or its proxy, if it is a plain word; or `made`."""
    given: Optional[str] = headers.get("x-request-id")
    if given and len(given) <= 64 and given.isascii() and given.replace("-", "").isalnum():
        return given
    return made
