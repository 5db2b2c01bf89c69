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
    address = _own_address()
    if address and ipaddress.ip_address(address).is_loopback:
        return Listening(address, "NoCtldInAddrAny,NoInAddrAny")
    prefix = _renamed()
    if prefix and run([*prefix, "true"], timeout_s=_PROBE_S).returncode == 0:
        return Listening("127.0.0.1", "NoCtldInAddrAny", prefix)
    remark = (
        "warning: this machine's name is no loopback address and no namespace can be made:"
        " slurmctld listens on all addresses, behind its own munge key"
    )
    return Listening("127.0.0.1", "", (), (remark,))


def own_namespace() -> tuple[str, ...]:
    """Return the options of ``unshare`` without which only root may make other namespaces."""
    return () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")


def _renamed() -> tuple[str, ...]:
    """Return a prefix that runs a command where the machine is called localhost."""
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("hostname") is None:
        return ()
    return (unshare, *own_namespace(), "--uts", "sh", "-c", _RENAME, "sh")


def _own_address() -> str:
    """Return the IPv4 address of the machine's own name, empty if it has none."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        return str(found[0][4][0])
    except OSError:
        return ""
