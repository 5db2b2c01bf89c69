"""A small site of its own: a slurm.conf, a controller that runs it, and an inventory to apply."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from supernode_slurm.slurm import CliClient
from supernode_slurm.slurm.run import run
from supernode_slurm.slurmconf import find_release
from supernode_slurm.twin import config, home, installed_release, loopback
from supernode_slurm.twin.daemons import (
    as_user,
    free_ports,
    ourselves,
    program,
    search_path,
    unprivileged_user,
)
from supernode_slurm.twin.twin import _start_munged

INVENTORY = """\
version: 1
cluster: apply
fabrics:
  - {name: ib, kind: fat-tree, switches: {top: [sn1, sn2, pool]}}
supernodes:
  - name: sn[1-2]
    interconnect: {kind: switch, bandwidth: 900 GB/s, latency: 500 ns}
    nodes: {hosts: "sn{n}-[1-4]", devices: {h100: 4}, sockets: 2, cores: 8, memory: 100 GiB,
      cloud: true}
pools:
  - name: pool
    nodes: {hosts: "a[1-4]", devices: {a100: 2}, sockets: 2, cores: 8, memory: 100 GiB, cloud: true}
partitions:
  train: {supernodes: [sn1, sn2], default: true}
  small: {pools: [pool]}
"""


def wait_for(what: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something that must come about, and fail if it does not."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass
class Site:
    """A configuration directory, and the controller that reads it."""

    directory: Path
    state: Path
    user: str
    prefix: tuple[str, ...]
    env: dict[str, str]
    stack: ExitStack
    inventory: Path = field(init=False)

    def __post_init__(self) -> None:
        self.inventory = self.directory.parent / "inventory.yaml"
        self.write_inventory(INVENTORY)

    def write_inventory(self, text: str) -> None:
        self.inventory.write_text(text, encoding="utf-8")

    @property
    def pid(self) -> int:
        """Return the pid that the controller wrote, 0 without one."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.state / "slurmctld.pid").read_text())
        return 0

    @property
    def is_up(self) -> bool:
        return "is UP" in run(["scontrol", "ping"], timeout_s=20, env=self.env).stdout

    def client(self) -> CliClient:
        return CliClient(self.env)

    def scontrol(self, *words: str) -> str:
        found = run(["scontrol", *words], timeout_s=60, env=self.env)
        return found.stdout + found.stderr

    @property
    def _program(self) -> str:
        return program("slurmctld", "slurmctld")

    @staticmethod
    def _as_user() -> list[str]:
        # The parent of a daemon ends at once: it must not die with it.
        words = as_user(unprivileged_user())
        return [word for word in words if not word.startswith("--pdeathsig")]

    def start(self, *, foreground: bool = False) -> None:
        """Start the controller, as a daemon or in the foreground, and wait until it answers."""
        argv = [*self.prefix, *self._as_user(), "--", self._program]
        argv += ["-D"] if foreground else []
        with (self.state / "stderr").open("ab") as log:
            process = subprocess.Popen(
                argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        if foreground:
            self.stack.callback(_end, process)
        else:
            process.wait(60)
        wait_for(lambda: self.is_up)

    def restart_command(self) -> Path:
        """Return a program that kills the controller and starts it as a daemon again."""
        path = self.directory.parent / "restart"
        argv = shlex.join([*self.prefix, *self._as_user(), "--", self._program])
        path.write_text(
            f"#!/bin/sh\npid=$(cat {self.state}/slurmctld.pid)\nkill -9 $pid 2>/dev/null\n"
            f"while kill -0 $pid 2>/dev/null; do sleep 0.1; done\nexec {argv}\n"
        )
        path.chmod(0o755)
        return path

    def stop(self) -> None:
        """Kill the controller that this site runs."""
        pid = self.pid
        if pid and _is_ours(pid, self.directory):
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not _is_ours(pid, self.directory))


def _is_ours(pid: int, directory: Path) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        return bool(environ) and f"SLURM_CONF={directory}/".encode() in environ
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()


def slurm_conf(layout: config.Layout) -> str:
    """Return a site's own slurm.conf: all but what comes from the inventory."""
    return config.slurm_conf(layout, (), live=False).replace(config.TWIN, "# This site's own.")


Made = TypeVar("Made", bound=Site)


@contextmanager
def made(kind: type[Made]) -> Iterator[Made]:
    """Make a site whose controller is not started yet; nothing is left of it afterwards."""
    with ExitStack() as stack:
        user = unprivileged_user()
        listening = loopback.find()
        top = home.make_home(stack, Path(tempfile.gettempdir()), user)
        state = home.make_state(stack, top, user)
        directory = top / "etc"
        directory.mkdir(mode=0o755)
        env = {
            "PATH": search_path(),
            "HOME": "/",
            "LC_ALL": "C",
            "SLURM_CONF": str(directory / "slurm.conf"),
        }
        munge = home.make_munge(top, user)
        layout = config.Layout(
            directory=top, state=state, user=user.name, owner=ourselves().name,
            address=listening.address, port=free_ports(2), communication=listening.communication,
        )  # fmt: skip
        _start_munged(stack, program("munged", "munge"), user, munge, env)
        (directory / "slurm.conf").write_text(slurm_conf(layout), encoding="utf-8")
        cgroup = config.cgroup_conf(find_release(installed_release()))
        (directory / "cgroup.conf").write_text(cgroup, encoding="utf-8")
        site = kind(directory, state, user.name, listening.prefix, env, stack)
        stack.callback(site.stop)
        yield site
