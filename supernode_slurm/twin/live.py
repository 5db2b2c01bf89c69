"""Real slurmds for a few nodes, all on this machine, with devices that stand in for cards."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from ..errors import SlurmError, SlurmTimeout
from ..slurm import SlurmClient
from ..slurm.run import run
from .config import Layout
from .daemons import Daemon, program, spawn
from .log import judge
from .loopback import Listening

_UP_S = 60.0
_PROBE_S = 10.0
_NULL = os.makedev(1, 3)


@dataclass(frozen=True, slots=True)
class Room:
    """What the slurmds share."""

    layout: Layout
    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    """Names under /dev that gres.conf wants."""
    listening: Listening
    env: Mapping[str, str]


def start(stack: ExitStack, room: Room, client: SlurmClient) -> None:
    """Start a slurmd for each host and wait until all of them are idle."""
    make_devices(room)
    slurmd = program("slurmd", "slurmd")
    prefix = _prefix()
    daemons = []
    for host in room.hosts:
        (room.layout.directory / "spool" / host).mkdir(parents=True)
        log = room.layout.directory / f"slurmd.{host}.log"
        daemon = spawn(host, [*prefix, slurmd, "-D", "-N", host], room.env, log)
        stack.callback(daemon.stop)
        daemons.append(daemon)
    await_idle(daemons, client)


def make_devices(room: Room) -> None:
    """Make a character device for each name: null devices, which any job may open."""
    for name in room.devices:
        path = room.layout.devices / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR | 0o666, _NULL)
        path.chmod(0o666)


def await_idle(daemons: list[Daemon], client: SlurmClient) -> None:
    """Wait until every node is free; say which are not, and what their slurmds said."""
    deadline = time.monotonic() + _UP_S
    delay_s = 0.05
    while True:
        waiting = {node.name: node for node in client.nodes() if not node.is_free}
        if not waiting:
            return
        for daemon in daemons:
            if not daemon.is_alive:
                said = "; ".join(judge(daemon.said())) or daemon.said().strip()[-400:]
                raise SlurmError(f"the slurmd of {daemon.name} ended: {said}")
        if time.monotonic() > deadline:
            name, node = min(waiting.items())
            state = "+".join(sorted(node.states))
            raise SlurmTimeout(
                f"{len(waiting)} nodes are not idle after {_UP_S:g} s: {name} is {state} {node.reason}"
            )
        time.sleep(delay_s)
        delay_s = min(delay_s * 1.5, 0.5)


def _prefix() -> list[str]:
    """Return what runs a slurmd so that its jobs end with it, and it with us.

    The steps of a slurmd outlive it; in a PID namespace whose first process it is,
    the kernel ends them. ``unshare`` ignores SIGTERM: only SIGKILL may follow our death.
    """
    setpriv = program("setpriv", "util-linux")
    unshare = program("unshare", "util-linux")
    space = [unshare, "--pid", "--fork", "--kill-child", "--mount-proc"]
    if run([*space, "true"], timeout_s=_PROBE_S).returncode == 0:
        return [setpriv, "--pdeathsig=KILL", *space]
    return [setpriv, "--pdeathsig=TERM"]
