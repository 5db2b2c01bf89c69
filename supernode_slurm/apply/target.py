"""Where Slurm's configuration is installed, and what of it is ours."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import hostlist
from ..errors import ConfigError, Problem, SlurmError, SupernodeError, Where
from ..slurmconf.facts import is_ours
from ..slurmconf.generate import NODES, PARTITIONS, ROOT
from ..slurmconf.grammar import parse_lines, read_text
from ..slurmconf.plugin import PLUGIN
from ..slurmconf.prolog import TASK_PROLOG
from ..twin import reading
from .disk import Attributes

MAIN = "slurm.conf"
STORE = ".supernode"
"""The directory beside slurm.conf that holds lock, journal and history."""
NAMES = (
    ROOT,
    NODES,
    PARTITIONS,
    "gres.conf",
    "topology.conf",
    "topology.yaml",
    PLUGIN,
    TASK_PROLOG,
)
"""All files that may be ours."""
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Target:
    """An installed configuration."""

    directory: Path
    installed: Mapping[str, str]
    """Our files, by name."""
    strangers: frozenset[str]
    """Names of ours under which a person's file, or a symbolic link, stands."""
    site: reading.Conf
    """What the site's own lines say."""
    text: str
    """Of slurm.conf."""
    has_include: bool
    """Whether slurm.conf includes our files."""

    @property
    def main(self) -> Path:
        """Return the path of slurm.conf."""
        return self.directory / MAIN

    @property
    def store(self) -> Path:
        """Return the directory of lock, journal and history."""
        return self.directory / STORE

    @property
    def foreign(self) -> tuple[str, ...]:
        """Return the nodes that the site's own lines define."""
        return tuple(dict.fromkeys(host for item in self.site.nodes for host in item.hosts))

    def attributes(self, name: str) -> Attributes:
        """Return who may read a file that we put here: as before, else as slurm.conf is."""
        path = self.directory / name
        found = (path if path.exists() else self.main).stat()
        mode = stat.S_IMODE(found.st_mode)
        if not path.exists():
            # A task prolog is run by the user of a job.
            mode = 0o755 if name == TASK_PROLOG else mode & 0o644
        return Attributes(mode, found.st_uid, found.st_gid)


def find_directory(
    given: Path | None, env: Mapping[str, str], ask: Callable[[], Mapping[str, str]]
) -> Path:
    """Return the directory of slurm.conf: given, of SLURM_CONF, of the controller, or /etc/slurm.

    Raises ``ConfigError`` where no slurm.conf is.
    """
    found = given
    if found is None and env.get("SLURM_CONF"):
        found = Path(env["SLURM_CONF"]).parent
    if found is None:
        try:
            found = Path(ask().get("SLURM_CONF", "")).parent
        except SlurmError:
            found = Path("/etc/slurm")
        found = found if found.is_absolute() else Path("/etc/slurm")
    if not (found / MAIN).is_file():
        todo = "name the directory of slurm.conf with --conf-dir"
        raise ConfigError.one(str(found / MAIN), "there is no such file", todo)
    return found.resolve()


def read_target(directory: Path) -> Target:
    """Return what is installed in a directory; ``ConfigError`` for what cannot be read."""
    installed: dict[str, str] = {}
    strangers: set[str] = set()
    for name in NAMES:
        path = directory / name
        if path.is_symlink():
            strangers.add(name)
        elif path.exists():
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            if is_ours(text):
                installed[name] = text
            else:
                strangers.add(name)
    text, others, has_include = _site_files(directory)
    conf = reading.read({MAIN: text, **others}, MAIN)
    return Target(directory, installed, frozenset(strangers), conf, text, has_include)


def _site_files(directory: Path) -> tuple[str, dict[str, str], bool]:
    """Return slurm.conf, the other files of the site by the words that include them, and
    whether ours are included."""
    main = read_text(directory / MAIN)
    cluster = re.search(r"^\s*ClusterName\s*=\s*(\S+)", main, re.IGNORECASE | re.MULTILINE)
    others: dict[str, str] = {}
    has_include = False
    waiting = [(main, directory, 0)]
    while waiting:
        text, folder, depth = waiting.pop()
        for line in parse_lines(text, MAIN):
            if line.first != "include":
                continue
            said = line.pairs[0][1]
            name = said.text.replace("%c", cluster[1].lower() if cluster else "%c")
            path = folder / name
            if path.name == ROOT and path.parent.resolve() == directory:
                has_include = True
            elif path.is_file() and depth < _MAX_DEPTH and said.text not in others:
                others[said.text] = read_text(path)
                waiting.append((others[said.text], path.parent, depth + 1))
    return main, others, has_include


def check_include(target: Target) -> None:
    """Raise ``ConfigError`` with the line to add where slurm.conf does not include our files."""
    if not target.has_include:
        raise ConfigError.one(
            str(target.main),
            f"does not include {ROOT}",
            f"write the files with --no-controller, add the line 'Include {ROOT}' at the"
            " end, take out the lines that it replaces, and apply again",
        )


def check_writable(target: Target, names: Iterable[str]) -> None:
    """Raise an error, before anything is written, for what could not be written as it is.

    ``ConfigError`` for a file that is a person's, ``SupernodeError`` for a lack of rights.
    """
    names = tuple(names)
    wrong = [name for name in names if name in target.strangers]
    problems = []
    for name in wrong:
        path = target.directory / name
        if path.is_symlink():
            what, todo = "is a symbolic link", "put the file itself there, or move the link away"
        else:
            what = "was not written by 'sn generate'"
            todo = "move it away; sn import takes over what it says"
        problems.append(Problem(Where(str(path)), what, todo))
    if problems:
        raise ConfigError(problems)
    me = os.geteuid()
    for name in names:
        owner = target.attributes(name).uid
        if me not in (0, owner):
            path = target.directory / name
            raise SupernodeError(
                f"{path}: belongs to {account(owner)}, which only root can keep so: run as root"
            )


def check_open(target: Target) -> None:
    """Raise ``SupernodeError`` where we may not write into the directory."""
    if not os.access(target.directory, os.W_OK | os.X_OK):
        me = account(os.geteuid())
        raise SupernodeError(f"{target.directory}: {me} may not write here: run as root")


def check_beside(target: Target, files: Mapping[str, str], root: str = ROOT) -> None:
    """Raise ``ConfigError`` where the site's own lines define what ours define: slurmctld dies."""
    ours = reading.read(files, root)
    own = {host for item in ours.nodes for host in item.hosts}
    problems = []
    for nodes in target.site.nodes:
        both = [host for host in nodes.hosts if host in own]
        if both:
            what = f"NodeName {hostlist.fold(both)} stands in slurm.conf and in the inventory"
            todo = "take it out of one; 'foreign' in the inventory names nodes of the site's own"
            problems.append(Problem(Where(str(target.main)), what, todo))
    mine = {item.name.text for item in ours.partitions}
    for partition in target.site.partitions:
        if partition.name.text in mine:
            what = f"PartitionName {partition.name.text} stands in slurm.conf and in the inventory"
            problems.append(Problem(Where(str(target.main)), what, "take it out of one"))
    if problems:
        raise ConfigError(problems)


def account(uid: int) -> str:
    """Return the name of an account, its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def check_trusted(path: Path, uid: int) -> None:
    """Refuse, as root, an inventory that others can change: it ends as root's configuration.

    Raises ``ConfigError`` with the command that closes it. A sticky directory is no danger.
    """
    if uid != 0:
        return
    real = path.resolve()
    for place in (real, *real.parents):
        found = place.stat()
        mode = stat.S_IMODE(found.st_mode)
        shared = mode & 0o022 and not (place != real and mode & stat.S_ISVTX)
        if found.st_uid != 0:
            what = f"belongs to {account(found.st_uid)}, who could change what root installs"
            raise ConfigError.one(str(place), what, f"chown root {place}")
        if shared:
            what = "others can write it, and so change what root installs"
            raise ConfigError.one(str(place), what, f"chmod go-w {place}")
