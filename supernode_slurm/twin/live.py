"""Real slurmds for a few nodes, all on this machine, with devices that stand in for cards."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..errors import SlurmError, SlurmTimeout
from ..slurm import SlurmClient
from ..slurm.run import run
from .config import Layout
from .daemons import Daemon, kill_together, program, spawn
from .log import judge
from .loopback import Listening, own_namespace

_UP_S = 60.0
_END_S = 15.0
_COMMAND_S = 10.0


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
    _make_devices(room)
    slurmd = program("slurmd", "slurmd")
    cage = _cage()
    prefix = [program("setpriv", "util-linux"), f"--pdeathsig={'KILL' if cage else 'TERM'}", *cage]
    env = {**room.env, "SLURM_CONF": str(_conf(room))}
    daemons: list[Daemon] = []
    if cage:
        # The first process of a namespace may not hear SIGTERM yet; all within ends with it.
        stack.callback(kill_together, daemons)
    for host in room.hosts:
        (room.layout.directory / "spool" / host).mkdir(parents=True)
        log = room.layout.directory / f"slurmd.{host}.log"
        argv = [*prefix, *room.listening.prefix, slurmd, "-D", "-N", host]
        daemons.append(spawn(host, argv, env, log))
        if not cage:
            stack.callback(daemons[-1].stop)
    if not cage:
        stack.callback(_end_jobs, room.env)
    _await_idle(daemons, client)


def _make_devices(room: Room) -> None:
    """Give each name the null device: slurmd wants a character device, any job may open it."""
    for name in room.devices:
        path = room.layout.devices / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.devnull)


def _conf(room: Room) -> Path:
    """Return the slurm.conf of the slurmds, which keeps them on loopback.

    In a namespace of their own they bind the address of its name. Clients outside
    must not do so: srun would listen where no slurmstepd could reach it.
    """
    outer = room.layout.conf
    if not room.listening.prefix:
        return outer
    directory = outer.parent / "slurmd"
    directory.mkdir()
    for path in outer.parent.glob("*.conf"):
        (directory / path.name).symlink_to(path)
    inner = directory / outer.name
    inner.unlink()
    text = outer.read_text(encoding="utf-8")
    inner.write_text(
        text.replace("NoCtldInAddrAny", "NoCtldInAddrAny,NoInAddrAny"), encoding="utf-8"
    )
    return inner


def _cage() -> list[str]:
    """Return what makes a slurmd the first process of a PID namespace, or nothing.

    Its steps would outlive a slurmd; those of a namespace end with its first process,
    at once and for certain. ``unshare`` itself ignores SIGTERM.
    """
    unshare = program("unshare", "util-linux")
    # Changing the propagation of / fails in a chroot; /proc is made private all the same.
    space = ["--pid", "--fork", "--kill-child", "--propagation=unchanged", "--mount-proc"]
    cage = [unshare, *own_namespace(), *space]
    return cage if run([*cage, "true"], timeout_s=_COMMAND_S).returncode == 0 else []


def _await_idle(daemons: list[Daemon], client: SlurmClient) -> None:
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
                f"{len(waiting)} nodes are not idle after {_UP_S:g} s: {name} is {state}"
                f" {node.reason}".rstrip()
            )
        time.sleep(delay_s)
        delay_s = min(delay_s * 1.5, 0.5)


def _end_jobs(env: Mapping[str, str]) -> None:
    """End all running jobs while their slurmds can still do it."""
    run(["scancel", "--state=RUNNING"], timeout_s=_COMMAND_S, env=env)
    deadline = time.monotonic() + _END_S
    argv = ["squeue", "-h", "-t", "RUNNING,COMPLETING", "-o", "%i"]
    while run(argv, timeout_s=_COMMAND_S, env=env).stdout.strip():
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)
