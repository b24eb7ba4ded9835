"""Start of a run on several hosts: each waits until all of them are there.

TensorFlow would wait too, but it holds Python's lock meanwhile: signals have no effect, and no
message names the missing host.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import time
from collections.abc import Iterator, Sequence

from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_SECONDS_FOR_A_CONNECTION = 2
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_BETWEEN_LINES = 60


def wait_for_all(addresses: Sequence[str], own: int) -> None:
    """Waits, without a limit, until all other hosts listen at their addresses.

    Meanwhile this host listens at its own address, where TensorFlow will listen. Logs every minute
    which hosts are missing, and why.

    Args:
      addresses: "name:port" of each host.
      own: the index of this host.

    Raises:
      UserError: an address has no port, or another program listens at this host's.
    """
    places = [_place(address) for address in addresses]
    others = [index for index in range(len(addresses)) if index != own]
    said = time.monotonic()
    with _listening(addresses[own], places[own][1]):
        while True:
            silent = {index: _why_silent(places[index]) for index in others}
            silent = {index: why for index, why in silent.items() if why}
            if not silent:
                return
            if time.monotonic() > said + _SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                _log.info("note: waiting for %s", ", ".join(
                    "host %d (%s: %s)" % (index, addresses[index], why)
                    for index, why in silent.items()))
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _place(address):
    name, _, port = address.rpartition(":")
    if not name or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError("TF_CONFIG: the address of a host is '%s', expected name:port" % address)
    return name.strip("[]"), int(port)


@contextlib.contextmanager
def _listening(address: str, port: int) -> Iterator[None]:
    """Listens at all addresses of this machine, as TensorFlow's server does."""
    both = socket.has_dualstack_ipv6()
    try:
        server = socket.create_server(
            ("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)
    except OSError as e:
        why = "is taken by another program" if e.errno == errno.EADDRINUSE else str(e)
        raise UserError("TF_CONFIG: this host is %s, but port %d %s; stop what listens there, or "
                        "give all hosts another" % (address, port, why)) from e
    with server:
        yield


def _why_silent(place):
    """Why the host does not answer; None if it does. An unknown name may belong to a container that
    is not up yet."""
    try:
        socket.create_connection(place, _SECONDS_FOR_A_CONNECTION).close()
    except OSError as e:
        return e.strerror or str(e)
    except UnicodeError:        # of a name with an empty part
        return "not the name of a host"
    return None
