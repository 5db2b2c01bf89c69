"""Start a private slurmctld, judge it, and leave nothing behind."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..errors import ConfigError, Problem, SlurmError, SlurmTimeout, SupernodeError, Where
from ..slurm import CliClient
from ..slurm.run import run
from ..slurmconf.facts import AS_GIVEN
from ..slurmconf.release import Release, find_release
from . import config, home, live, loopback, preflight
from .daemons import (
    Daemon,
    User,
    as_user,
    free_ports,
    kill_together,
    listens,
    ourselves,
    program,
    search_path,
    spawn,
    unprivileged_user,
)
from .installed import installed_release
from .log import judge
from .preflight import Findings
from .reading import read
from .siteconf import Dropped, SiteConf, read_site_conf

_UP_S = 20.0
_PING_S = 5.0
_FOREIGN = re.compile(r"SLURM|SRUN_|SBATCH_|SALLOC_|SQUEUE_|SINFO_|SACCT_|SCANCEL_|PMI")


@dataclass(frozen=True, slots=True)
class TwinSpec:
    """What a twin shall be."""

    files: Mapping[str, str]
    """Slurm's files as generated from an inventory, by name."""
    live: bool = False
    """Run a slurmd for each node, with stand-in devices; else nodes are CLOUD nodes."""
    site_conf: str | None = None
    """Text of the site's slurm.conf, to take its scheduling parameters."""
    directory: Path | None = None
    """Where the twin's own directory is made; None for the system's temporary one."""
    foreign: tuple[str, ...] = ()
    """Nodes that the files may name and do not define; no job gets them."""


class Twin:
    """A private Slurm, up inside ``with`` and gone after it.

    Entering raises ``ConfigError`` for a configuration that slurmctld dies of, with
    its own lines or with ours, and ``SlurmNotFound`` where Slurm or munge is not installed.
    """

    directory: Path
    """The twin's files, logs among them."""
    release: str
    """Of slurmctld, like ``24.11``."""

    def __init__(self, spec: TwinSpec) -> None:
        """Prepare; nothing starts before ``with``."""
        self._spec = spec
        self._site = SiteConf((), ()) if spec.site_conf is None else read_site_conf(spec.site_conf)
        self._stack = ExitStack()
        self._controller: Daemon | None = None
        self._remarks: tuple[str, ...] = ()
        self._findings = Findings()

    def __enter__(self) -> Twin:
        release = find_release(installed_release())
        self.release = release.name
        self._findings = preflight.check(self._spec.files, release, self._spec.foreign)
        if self._findings.errors:
            raise ConfigError(self._findings.errors)
        with ExitStack() as stack:
            self._start(stack, release)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def env(self) -> dict[str, str]:
        """Return what the environment of a Slurm program needs on top of its own."""
        return {"SLURM_CONF": str(self.directory / "slurm.conf"), "PATH": search_path()}

    @property
    def messages(self) -> tuple[str, ...]:
        """Return what is wrong with the files, and what slurmctld complained about so far."""
        said = _complaints(self._controller, self.directory) if self._controller else ()
        lines = (line for line in said if not self._findings.covers(line))
        return (*map(str, self.findings), *lines)

    @property
    def findings(self) -> tuple[Problem, ...]:
        """Return what slurmctld keeps silent on."""
        found = list(self._findings.warnings)
        if self._spec.site_conf is not None:
            site = read({"slurm.conf": self._spec.site_conf}, "slurm.conf")
            found += preflight.scheduling(site, find_release(self.release))
            found += preflight.beside(read(self._spec.files, preflight.MAIN), site)
        return tuple(found)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what this machine would not let the twin do."""
        return self._remarks

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """Return the parameters of the site that the twin did not take over."""
        return self._site.dropped

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return an environment for programs: the outer one, pointed at this twin alone.

        Variables of an enclosing job, and what is meant for another cluster, are left out.
        """
        kept = {name: value for name, value in outer.items() if not _FOREIGN.match(name)}
        return {**kept, **self.env}

    def client(self) -> CliClient:
        """Return a client of this twin."""
        return CliClient(self.environment(os.environ))

    def _start(self, stack: ExitStack, release: Release) -> None:
        slurmctld = program("slurmctld", "slurmctld slurm-client")
        munged = program("munged", "munge")
        user = unprivileged_user()
        listening = loopback.find()
        self._remarks = listening.remarks
        self.directory = home.make_home(stack, self._spec.directory, user)
        state = home.make_state(stack, self.directory, user)
        env = _daemon_environment(self.env)
        hosts = config.node_names(self._spec.files) if self._spec.live else ()
        layout = config.Layout(
            directory=self.directory,
            state=state,
            user=user.name,
            owner=ourselves().name,
            address=listening.address,
            port=free_ports(2 + len(hosts)),
            communication=listening.communication,
        )
        self._write(layout, release)
        _start_munged(stack, munged, user, home.make_munge(self.directory, user), env)
        argv = [*listening.prefix, *as_user(user), slurmctld, "-D"]
        self._controller = spawn("slurmctld", argv, env, self.directory / "slurmctld.log")
        # Nobody reads the state that it would save; asked to end, 22.05 takes a second or more.
        stack.callback(kill_together, [self._controller])
        _await_up(self._controller, layout, self.environment(os.environ))
        if self._spec.live:
            devices = config.device_names(self._spec.files)
            live.start(stack, live.Room(layout, hosts, devices, listening, env), self.client())

    def _write(self, layout: config.Layout, release: Release) -> None:
        spec = self._spec
        files = spec.files
        changed = config.live_files(files, layout) if spec.live else config.cloud_files(files)
        changed["slurm.conf"] = config.slurm_conf(layout, self._site.kept, spec.live, spec.foreign)
        changed["cgroup.conf"] = config.cgroup_conf(release)
        (self.directory / AS_GIVEN).mkdir()
        for name, text in files.items():
            (self.directory / AS_GIVEN / name).write_text(text, encoding="utf-8")
        for name, text in changed.items():
            (self.directory / name).write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                (self.directory / name).chmod(0o755)


def _daemon_environment(own: Mapping[str, str]) -> dict[str, str]:
    zone = {name: os.environ[name] for name in ("TZ",) if name in os.environ}
    return {**zone, **own, "HOME": "/", "LC_ALL": "C"}


def _start_munged(
    stack: ExitStack, munged: str, user: User, directory: Path, env: Mapping[str, str]
) -> None:
    key = directory / "key"
    with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(secrets.token_bytes(128))
    os.chown(key, user.uid, user.gid)
    files = [f"--{name}-file={directory / name}" for name in ("key", "pid", "log", "seed")]
    socket = directory / "socket"
    # munged wants a directory that all may enter; ours is closed on purpose.
    options = ["--foreground", "--force", "--origin=127.0.0.1", f"--socket={socket}", *files]
    daemon = spawn("munged", [*as_user(user), munged, *options], env, directory / "stderr")
    stack.callback(daemon.stop)
    deadline = time.monotonic() + _UP_S
    while not socket.exists():
        if not daemon.is_alive or time.monotonic() > deadline:
            raise SlurmError(f"munged did not start: {daemon.said().strip()[-800:]}")
        time.sleep(0.005)


def _await_up(controller: Daemon, layout: config.Layout, env: Mapping[str, str]) -> None:
    """Wait until slurmctld answers; say why where it does not."""
    deadline = time.monotonic() + _UP_S
    delay_s = 0.005
    while controller.is_alive:
        if listens(layout.address, layout.port) and _answers(env):
            return
        if time.monotonic() > deadline:
            lines = _complaints(controller, layout.directory)
            said = "\n".join(lines) or controller.said()[-800:]
            raise SlurmTimeout(f"slurmctld is not up after {_UP_S:g} s:\n{said}")
        time.sleep(delay_s)
        delay_s = min(delay_s * 1.5, 0.1)
    raise _died(controller, layout.directory)


def _answers(env: Mapping[str, str]) -> bool:
    """Whether slurmctld says that it is up; it may listen long before."""
    try:
        return "is UP" in run(["scontrol", "ping"], timeout_s=_PING_S, env=env).stdout
    except SlurmTimeout:
        return False


def _complaints(controller: Daemon, directory: Path) -> tuple[str, ...]:
    """Return slurmctld's complaints, with the files under the names that the user knows."""
    return judge(controller.said().replace(f"{directory}/", ""))


def _died(controller: Daemon, directory: Path) -> SupernodeError:
    """Return slurmctld's own last words as an error."""
    lines = _complaints(controller, directory)
    if not lines:
        return SlurmError(f"slurmctld ended without a word: {controller.said().strip()[-800:]}")
    return ConfigError([Problem(Where("slurmctld"), line) for line in lines])
