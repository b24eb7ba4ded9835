"""What a client can do to the server below HTTP, with bytes sent by hand: no request becomes two, a
refusal arrives, and nobody keeps a connection for ever."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time

import pytest
from helpers.serving import started

from xlnet.errors import UserError
from xlnet.serving.server.connections import Listening

SECRET = b"GET /secret HTTP/1.1\r\nHost: a\r\n\r\n"
MOST = 1000         # bytes of a request


@pytest.fixture(scope="module")
def server():
    with running(connections=4) as server:
        yield server


@contextlib.contextmanager
def running(host="127.0.0.1", application=None, **changes):
    """A server that answers with the path and the size of the body; `errors`, `paths`: seen."""
    def echo(environ, start_response):
        server.paths.append(environ["PATH_INFO"])
        start_response("200 OK", [("Content-Type", "text/plain")])
        size = len(environ["wsgi.input"].read())
        return [b"%s %d;" % (environ["PATH_INFO"].encode(), size)]
    errors = []
    server = Listening(application or echo, (host, 0), on_error=errors.append, **{
        "max_body": MOST, "connections": 8, "arrival": 1, **changes})
    server.paths, server.errors = [], errors
    with started(server):
        yield server


def raw(server, request, host="127.0.0.1"):
    """The bytes that are answered to bytes, until the server closes."""
    with socket.create_connection((host, server.port), timeout=20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize("request_, status", [
    (b"GET /x HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(SECRET), SECRET), 200),
    (b"POST /x HTTP/1.1\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
     + SECRET, 400),
    (b"POST /x HTTP/1.1\r\nTransfer-Encoding:\r\nContent-Length: 4\r\n\r\nabcd" + SECRET, 400),
    (b"POST /x HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
     + SECRET, 400),
    (b"POST /x HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nabcde" + SECRET, 400),
    (b"POST /x HTTP/1.1\r\nContent-Length: +1\r\n\r\na" + SECRET, 400),
    (b"POST /x HTTP/1.1\r\nContent-Length: -1\r\n\r\n" + SECRET, 400),
    (b"POST /x HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SECRET, 501),
    (b"POST /x HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SECRET, 400),
    (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n" + SECRET, 400),
    (b"POST /x HTTP/1.1\nContent-Length: 0\n\n" + SECRET, 400),
], ids=lambda value: None)
def test_no_request_is_smuggled(server, request_, status):
    """A body, or what another server could take for one, is never the next request."""
    server.paths.clear()
    answer = raw(server, request_)
    assert answer.startswith(b"HTTP/1.1 %d " % status) or answer.startswith(
        b"HTTP/1.0 %d " % status), answer
    assert answer.count(b"HTTP/1.") == 1 and "/secret" not in server.paths


def test_a_chunked_body_is_read(server):
    assert raw(server, b"POST /x HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
                       b"\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").endswith(b"/x 5;")


@pytest.mark.parametrize("head, body", [
    (b"Content-Length: 20000000", b"x" * 20_000_000),
    (b"Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (20_000_000, b"x" * 20_000_000)),
], ids=["length", "chunked"])
def test_a_refusal_arrives_at_a_client_that_still_sends(server, head, body):
    answer = raw(server, b"POST /x HTTP/1.1\r\n%s\r\n\r\n%s" % (head, body))
    assert answer.startswith(b"HTTP/1.1 413 ") and b"more than 1000 bytes" in answer
    assert server.errors[-1] == 413


def test_a_client_that_asks_first_is_refused_at_once(server):
    began = time.monotonic()
    answer = raw(server, b"POST /x HTTP/1.1\r\nExpect: 100-continue\r\n"
                         b"Content-Length: 2000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ") and time.monotonic() - began < 0.9


@pytest.mark.parametrize("size, status", [(MOST, b"200"), (MOST + 1, b"413")])
def test_the_limit_is_exact(server, size, status):
    assert raw(server, b"POST /x HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
               + b"x" * size).split()[1] == status


@pytest.mark.parametrize("begin", [b"GET /x HTTP/1.1\r\nA: ",
                                   b"POST /x HTTP/1.1\r\nContent-Length: 900\r\n\r\n"])
def test_a_request_that_arrives_slowly_is_refused(server, begin):
    """A byte now and then keeps no connection."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(begin)
        connection.settimeout(0.1)
        answer = b""
        while not answer.startswith(b"HTTP/1.") and time.monotonic() - began < 10:
            with contextlib.suppress(socket.timeout):
                answer = connection.recv(4096)
            with contextlib.suppress(OSError):
                connection.sendall(b"x")
    assert answer.split()[1] == b"408" and time.monotonic() - began < 5


def test_a_silent_connection_is_closed(server):
    began = time.monotonic()
    assert raw(server, b"") == b"" and time.monotonic() - began < 5


def test_connections_beyond_the_limit_wait_until_others_close(server):
    """Silent clients keep others out for no longer than a request may take to arrive."""
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
    time.sleep(0.2)
    began = time.monotonic()
    assert raw(server, b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"/x 0;")
    assert time.monotonic() - began > 0.3
    for connection in silent:
        connection.close()


def test_a_head_that_is_too_large(server):
    assert b" 431 " in raw(server, b"GET /x HTTP/1.1\r\nA: %s\r\n\r\n" % (b"x" * 100_000))[:20]


@pytest.mark.parametrize("host, asked", [("::1", ("::1",)), ("::", ("::1", "127.0.0.1"))])
def test_ipv6(host, asked):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with running(host) as server:
        for each in asked:
            assert raw(server, b"GET /x HTTP/1.0\r\n\r\n", each).endswith(b"/x 0;")


def test_what_is_being_answered_is_answered_before_the_end(server):
    go = threading.Event()

    def slow(environ, start_response):
        go.set()
        time.sleep(0.5)
        start_response("200 OK", [])
        return [b"done"]
    ending = Listening(slow, ("127.0.0.1", 0), max_body=9, connections=2, arrival=9,
                       on_error=lambda status: None)
    answers = []
    client = threading.Thread(target=lambda: answers.append(raw(
        ending, b"GET / HTTP/1.0\r\n\r\n")))

    def end():
        go.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
    before = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
    client.start()
    threading.Thread(target=end).start()
    with pytest.raises(SystemExit):
        ending.run()
    signal.signal(signal.SIGUSR1, before)
    client.join()
    assert answers[0].endswith(b"done")


def test_it_can_be_stopped_while_its_loop_ends():
    """Another thread may wake the loop between the two steps of `stop`."""
    ending = Listening(None, ("127.0.0.1", 0), max_body=1, connections=1, arrival=1,
                       on_error=lambda status: None)
    thread = threading.Thread(target=ending.run)
    trigger = ending._server.trigger
    pull = trigger._physical_pull

    def after_the_end():
        pull()
        thread.join()
        pull()
    trigger._physical_pull = after_the_end
    thread.start()
    ending.stop()
    assert not thread.is_alive()


def test_an_answer_ends_when_its_reader_has_gone():
    """Such as a text that is generated: nobody computes on for nobody."""
    ended = threading.Event()

    def endless(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                time.sleep(0.01)
                yield b"more"
        finally:
            ended.set()
    with running(application=endless) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(4096)
        assert ended.wait(10)


@pytest.mark.parametrize("address", [("127.0.0.1", 70_000), ("no.such.host.invalid", 0)])
def test_where_nobody_can_listen(address):
    with pytest.raises(UserError, match="cannot listen at %s" % address[0]):
        Listening(None, address, max_body=1, connections=1, arrival=1, on_error=lambda status: None)
