"""Where the ranks meet: an address that resolves, and a port that nobody has.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import re
import socket
from typing import Iterable, Iterator, Mapping

from .problem import LaunchError
from .program import run

_FIRST, _PORTS = 20000, 12000
"""Ports that we choose from: below 32768, where Linux begins to give ports to anyone."""
_GIVEN = "/proc/sys/net/ipv4/ip_local_port_range"
_ASK_S = 30.0


def address(node: str, environ: Mapping[str, str]) -> str:
    """Return a name of the node that resolves: its own, or the address Slurm knows."""
    with contextlib.suppress(OSError):
        socket.getaddrinfo(node, None)
        return node
    shown = run(["scontrol", "show", "node", node, "-o"], _ASK_S, environ)[1]
    found = re.search(r"\bNodeAddr=(\S+)", shown)
    return found.group(1) if found else node


def wished_port(environ: Mapping[str, str]) -> int:
    """Return the port that the user set in MASTER_PORT, 0 for none."""
    text = environ.get("MASTER_PORT", "")
    if text and not (text.isdecimal() and 0 < int(text) < 65536):
        raise LaunchError(f"MASTER_PORT={text!r} is no port: set it to 1 to 65535, or not at all")
    return int(text or 0)


def candidates(job: int, step: int = 0) -> Iterator[int]:
    """Yield the ports of a job and step, the same ones wherever they are asked for."""
    low, high = _given_to_anyone()
    every = range(_FIRST, _FIRST + _PORTS)
    usable = [port for port in every if not low <= port <= high] or list(every)
    start = job + 1009 * step  # steps of one job, and jobs that follow each other, differ
    for offset in range(len(usable)):
        yield usable[(start + offset) % len(usable)]


def free_ports(job: int) -> Iterator[int]:
    """Yield the ports of a job that are free on this host."""
    return (port for port in candidates(job) if is_free(port))


@contextlib.contextmanager
def claim_port(ports: Iterable[int]) -> Iterator[int]:
    """Yield the first of some ports that no other launcher on this machine has.

    A name in Linux's abstract namespace is the claim: it leaves no file, whatever happens.
    """
    for port in ports:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as claim:
            try:
                claim.bind(f"\0sn-launch.port.{port}")
            except OSError:
                continue
            yield port
            return
    raise LaunchError("no port is free where rank 0 runs; set MASTER_PORT")


def is_our_address(host: str) -> bool:
    """Say whether a name or address is one of this host's own."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as server:
            server.bind(place)
    except OSError:
        return False
    return True


def is_free(port: int) -> bool:
    """Say whether a server could listen on this port of this host, on all its addresses."""
    for family, anywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with contextlib.ExitStack() as stack:
            try:
                server = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind((anywhere, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def _given_to_anyone() -> tuple[int, int]:
    """Return the ports that Linux gives to any connection, an empty range where unknown."""
    try:
        with open(_GIVEN, encoding="ascii") as stream:
            low, high = map(int, stream.read().split())
    except (OSError, ValueError):
        return 1, 0
    return low, high
