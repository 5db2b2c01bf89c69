"""The twin's files: the generated ones, changed as little as possible, and its own slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import hostlist
from ..slurmconf.facts import TWIN, is_ours
from ..slurmconf.plugin import PLUGIN
from ..slurmconf.release import Release
from .preflight import MAIN

_GRES = "gres.conf"
_TASK_PROLOG = "supernode-task-prolog.sh"

_NODE = re.compile(r"^\s*NodeName=(\S+)", re.IGNORECASE)
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_KEY = re.compile(r"\s*(\w+)\s*=")
_FILES = re.compile(r"\b(?:Multiple)?Files?=/dev/\S+", re.IGNORECASE)
_DEVICE = re.compile(r"/dev/((?:[^\s,\[]|\[[^\]]*\])+)")
_PROGRAM = re.compile(r"\w*(?:prolog|epilog|prog)\w*\Z", re.IGNORECASE)
# A twin has no slurmdbd, and slurmctld dies of both without one.
_TRACKING = "accountingstoragetres"
_PLUGINS = "jobsubmitplugins"
_BILLING = "tresbillingweights"
# Where a node really is: a twin contacts nobody.
_PLACE = ("state", "nodeaddr", "nodehostname", "bcastaddr", "port")
_ENV_FLAGS = re.compile(r" Flags=\w+_gpu_env\b")

_DEFAULTS = {
    "ProctrackType": "proctrack/linuxproc",
    "MpiDefault": "none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
    "ReturnToService": "2",
    "MailProg": "/bin/true",
    "PrivateData": "cloud",
}
_CLOUD = {
    "SuspendProgram": "/bin/true",
    "ResumeProgram": "/bin/true",
    "SuspendTime": "86400",
    # The largest values that Slurm takes: an allocated cloud node never "comes up".
    "ResumeTimeout": "65000",
    "SuspendTimeout": "30",
}
# Stand-in nodes are bigger than the machine that plays them.
_LIVE = {
    "SlurmdParameters": "config_overrides",
    "KillWait": "2",
    # The slurmds may have a file of their own, which differs in where they listen.
    "DebugFlags": "NO_CONF_HASH",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a twin keeps its things, and where it listens."""

    directory: Path
    state: Path
    """Where slurmctld saves its state."""
    user: str
    """Runs slurmctld and munged."""
    owner: str
    """Runs slurmd and its jobs: the account that starts the twin."""
    address: str
    """Loopback address on which slurmctld listens."""
    port: int
    """Of slurmctld; slurmd's default is the next, and those of live nodes follow."""
    communication: str
    """CommunicationParameters, empty for none."""

    @property
    def conf(self) -> Path:
        """Return the path of slurm.conf."""
        return self.directory / "slurm.conf"

    @property
    def devices(self) -> Path:
        """Return the directory of the stand-in devices."""
        return self.directory / "dev"

    @property
    def munge_socket(self) -> Path:
        """Return the path of the private munge socket."""
        return self.directory / "munge" / "socket"


def slurm_conf(
    layout: Layout, site: Iterable[tuple[str, str]], live: bool, foreign: Sequence[str] = ()
) -> str:
    """Return the text of the twin's slurm.conf.

    Foreign nodes stand in it as FUTURE nodes: a topology may name them, no job gets them.
    """
    directory = layout.directory
    own = {
        "ClusterName": "twin",
        "SlurmctldHost": f"localhost({layout.address})",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "CredType": "cred/munge",
        "SlurmUser": layout.user,
        "SlurmdUser": layout.owner,
        "SlurmctldPort": str(layout.port),
        "SlurmdPort": str(layout.port + 1),
        "StateSaveLocation": str(layout.state),
        "SlurmctldPidFile": str(layout.state / "slurmctld.pid"),
        "SlurmdSpoolDir": str(directory / "spool" / "%n"),
        "SlurmdPidFile": str(directory / "spool" / "%n.pid"),
    }
    if layout.communication:
        own["CommunicationParameters"] = layout.communication
    taken = dict(site)
    settings = {**_DEFAULTS, **(_LIVE if live else _CLOUD), **taken, **own}
    if "SelectType" in taken and "SelectTypeParameters" not in taken:
        del settings["SelectTypeParameters"]  # ours belong to select/cons_tres
    lines = [TWIN, *(f"{name}={value}" for name, value in settings.items())]
    if foreign:
        lines.append(f"NodeName={hostlist.fold(foreign)} CPUs=1 State=FUTURE")
    return "\n".join([*lines, f"Include {MAIN}", ""])


def cgroup_conf(release: Release) -> str:
    """Return a cgroup.conf that works without any cgroup mount."""
    if release.cgroup_disabled:
        return "CgroupPlugin=disabled\n"
    return "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


def cloud_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files with every node a CLOUD node: Slurm allocates it without a slurmd.

    slurmctld reads the gres.conf of cloud nodes as if all its lines were for one node, and
    dies of two vendors' environment flags; only a slurmd uses them.
    """
    changed = _each_node_line(_own(files, ""), lambda line, _: _with_state(line, "CLOUD"))
    if _GRES in files:
        changed[_GRES] = _ENV_FLAGS.sub("", files[_GRES])
    return changed


def live_files(files: Mapping[str, str], layout: Layout) -> dict[str, str]:
    """Return the files with every node on this machine, on ports from ``layout.port + 2``."""
    port = layout.port + 2

    def place(line: str, hosts: int) -> str:
        nonlocal port
        ports = f"[{port}-{port + hosts - 1}]" if hosts > 1 else str(port)
        port += hosts
        here = f"NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports}"
        return f"{_with_state(line, 'UNKNOWN')} {here}"

    prolog = f"TaskProlog={layout.directory / _TASK_PROLOG}" if _TASK_PROLOG in files else ""
    changed = _each_node_line(_own(files, prolog), place)
    if _GRES in files:
        changed[_GRES] = _FILES.sub(
            lambda found: found[0].replace("/dev/", f"{layout.devices}/"), files[_GRES]
        )
    return changed


def node_names(files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of all NodeName lines, in order."""
    lines = (line for name, text in files.items() if name != _GRES for line in text.splitlines())
    return tuple(host for line in lines for host in _hosts(line))


def device_names(files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names under /dev that gres.conf wants, each once."""
    names: dict[str, None] = {}
    lists = " ".join(_FILES.findall(files.get(_GRES, "")))
    for item in _DEVICE.findall(lists):
        folder, slash, folded = item.rpartition("/")
        names.update(dict.fromkeys(folder + slash + name for name in hostlist.expand(folded)))
    return tuple(names)


def _own(files: Mapping[str, str], prolog: str) -> dict[str, str]:
    """Return the files without what needs slurmdbd, and with no program but ours."""
    changed = dict(files)
    runs_plugin = PLUGIN not in files or is_ours(files[PLUGIN])
    for name in (name for name in files if name.endswith(".conf") and name != _GRES):
        lines = (_own_line(line, prolog, runs_plugin) for line in files[name].splitlines())
        changed[name] = "".join(f"{line}\n" for line in lines if line is not None)
    return changed


def _own_line(line: str, prolog: str, runs_plugin: bool) -> str | None:
    """Return what the twin makes of a line, None for nothing."""
    found = _KEY.match(line)
    key = found[1].casefold() if found else ""
    if key == "taskprolog" and prolog:
        return prolog
    if key == _PLUGINS:
        return "JobSubmitPlugins=lua" if runs_plugin else None
    if key == _TRACKING or _PROGRAM.match(key):
        return None
    return _without(line, (_BILLING,)) if key == "partitionname" else line


def _without(line: str, keys: Collection[str]) -> str:
    """Return a line without the pairs of these keys, whose values may stand in quotes."""
    words = _WORD.findall(line)
    kept = [word for word in words if word.partition("=")[0].casefold() not in keys]
    return line if len(kept) == len(words) else " ".join(kept)


def _each_node_line(files: Mapping[str, str], change: Callable[[str, int], str]) -> dict[str, str]:
    """Return the files with each NodeName line of slurm.conf changed, given its host count."""
    changed = dict(files)
    for name in (name for name in files if name != _GRES):
        lines = files[name].splitlines()
        counts = [len(_hosts(line)) for line in lines]
        pairs = zip(lines, counts, strict=True)
        changed[name] = "".join(f"{change(a, n) if n else a}\n" for a, n in pairs)
    return changed


def _hosts(line: str) -> list[str]:
    found = _NODE.match(line)
    return hostlist.expand(found[1]) if found and found[1].upper() != "DEFAULT" else []


def _with_state(line: str, state: str) -> str:
    return f"{_without(line, _PLACE).rstrip()} State={state}"
