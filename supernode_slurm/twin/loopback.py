"""Keep the daemons on loopback.

``NoCtldInAddrAny`` makes slurmctld bind the address of the machine's own name, and
nothing else (slurm_setup_addr of slurm_protocol_api.c). Where that name is no loopback
address, slurmctld gets a UTS namespace in which the machine is called localhost.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
from dataclasses import dataclass

from ..slurm.run import run

_PROBE_S = 10.0
_UNRESOLVED = (
    "this machine's own name {0} does not resolve: srun may hang for 10 s while slurmctld looks it"
    " up; add '127.0.0.1 {0}' to /etc/hosts"
)
_OPEN = (
    "slurmctld listens on all addresses, behind its own munge key: this machine's own name {0} is"
    " no loopback address, and no namespace can be made to change that"
)
_RENAME = 'hostname localhost && exec "$@"'


@dataclass(frozen=True, slots=True)
class Listening:
    """Where slurmctld listens, and how it is brought to do so."""

    address: str
    communication: str
    """CommunicationParameters for all."""
    prefix: tuple[str, ...] = ()
    """What goes before the command of slurmctld."""
    remarks: tuple[str, ...] = ()


def find() -> Listening:
    """Return the tightest way to listen that this machine allows."""
    name = socket.gethostname()
    address = _address_of(name)
    if address and ipaddress.ip_address(address).is_loopback:
        return Listening(address, "NoCtldInAddrAny,NoInAddrAny")
    remarks = [] if address else [_UNRESOLVED.format(name)]
    prefix = _renamed()
    if prefix and run([*prefix, "true"], timeout_s=_PROBE_S).returncode == 0:
        return Listening("127.0.0.1", "NoCtldInAddrAny", prefix, tuple(remarks))
    return Listening("127.0.0.1", "", (), (*remarks, _OPEN.format(name)))


def own_namespace() -> tuple[str, ...]:
    """Return the options of ``unshare`` without which only root may make other namespaces."""
    return () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")


def _renamed() -> tuple[str, ...]:
    """Return a prefix that runs a command where the machine is called localhost."""
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("hostname") is None:
        return ()
    return (unshare, *own_namespace(), "--uts", "sh", "-c", _RENAME, "sh")


def _address_of(name: str) -> str:
    """Return the IPv4 address of a machine's name, empty if it has none."""
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET)
    except OSError:
        return ""
    return str(found[0][4][0])
