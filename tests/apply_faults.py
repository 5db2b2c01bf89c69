"""What `sn apply` leaves behind when something goes wrong, on the Slurm on PATH.

    python -m tests.apply_faults

prints the table of docs/apply.md for this release; tests/test_real_apply.py holds it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from supernode_slurm.apply import read_target
from supernode_slurm.apply.prove import differences, intent, observe
from supernode_slurm.inventory import load
from supernode_slurm.slurm.run import Result, run
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import installed_release
from tests import apply_site
from tests.apply_site import INVENTORY, Site

ROOT = Path(__file__).resolve().parents[1]
CARDS = INVENTORY.replace("a100: 2", "a100: 3")
MEMORY = INVENTORY.replace("memory: 100 GiB", "memory: 90 GiB")
ROOM = INVENTORY.replace('"a[1-4]"', '"a[1-6]"')
# What runs in the process of sn apply before it starts.
DRIVER = """
import os, sys
sys.path.insert(0, {root!r})
import supernode_slurm.apply as apply, supernode_slurm.apply.session as session
{before}
from supernode_slurm.cli.main import main
main(["apply", *sys.argv[1:]])
"""
SPOIL = """
from dataclasses import replace
made = apply.from_inventory
def spoilt(*words):
    found = made(*words)
    files = dict(found.files)
    name = next(name for name in files if name.startswith("topology."))
    lines = files[name].splitlines(True)
    again = next((line for line in lines if "Name=" in line and line[0] != "#"), {text!r})
    files[name] += again
    return replace(found, files=files)
apply.from_inventory = spoilt
"""
UNSEEN = "session.Session.__init__.__defaults__ = (lambda *_: (),)\n"
BAD = "- topology: more\n  tree: {switches: [{switch: s1, children: gone}]}\n"
AS_NOBODY = """
import importlib, pkgutil, supernode_slurm, importlib.readers
import importlib.resources.readers, encodings.unicode_escape, encodings.idna
for found in pkgutil.walk_packages(supernode_slurm.__path__, "supernode_slurm."):
    if "torch" not in found.name: importlib.import_module(found.name)
import rich.console, rich.table, rich.box, yaml, click.shell_completion, click.testing, difflib
os.setgroups([]); os.setgid(1); os.setuid(1)
"""
KILL = "from tests.apply_fake import KillingDisk; apply.Disk = lambda: KillingDisk({step})\n"
COUNT = """
from tests.apply_fake import FailingDisk, Killed
disk = FailingDisk(10**6, Killed(), for_good=True)
apply.Disk = lambda: disk
import atexit; atexit.register(lambda: print("steps", 10**6 - disk.left))
"""
DIES_NOW = """
from supernode_slurm.slurm import CliController
asked = CliController.reconfigure
def dies(self):
    os.kill(int(open({pid!r}).read()), 9)
    return asked(self)
CliController.reconfigure = dies
"""


@dataclass
class Room(Site):
    """A site with the small inventory installed and running, and what happens to it."""

    old: dict[str, str] = field(default_factory=dict)

    def apply(self, *words: str, before: str = "", env: dict[str, str] | None = None) -> Result:
        """Run ``sn apply`` on the site's inventory."""
        code = DRIVER.format(root=str(ROOT), before=before)
        inventory = [] if "--rollback" in words else ["-i", str(self.inventory)]
        argv = [sys.executable, "-c", code, *inventory, "--watch", "1", *words]
        return run(argv, timeout_s=300, env={**self.env, **(env or {})}, cwd=ROOT)

    def set_up(self, *, foreground: bool = False) -> None:
        """Install the inventory and start the controller."""
        self.apply("--yes", "--no-controller")
        self.old = self.files()
        self.start(foreground=foreground)

    def files(self) -> dict[str, str]:
        return dict(read_target(self.directory).installed)

    def wanted(self) -> dict[str, str]:
        release = find_release(installed_release())
        return generate(load(self.inventory), release).files

    def told_files(self) -> str:
        """Return in a word which files are installed."""
        found = self.files()
        if found == self.old:
            return "old"
        return "new" if found == self.wanted() else "mixed"

    def told_controller(self) -> str:
        """Return in words what the controller runs."""
        if not self.is_up:
            return "dead"
        if self.runs(self.old):
            return "runs old"
        return "runs new" if self.runs(self.wanted()) else "runs something else"

    def runs(self, files: dict[str, str]) -> bool:
        """Whether the controller runs files: topology, cards and memory are asked for."""
        meant = intent(files, find_release(installed_release()))
        seen = observe(self.client(), meant.topologies)
        said = re.search(r"NodeName=a\S+ .*RealMemory=([0-9]+)", files["supernode-nodes.conf"])
        assert said is not None
        memory = {node.memory_mib for node in seen.nodes.values() if node.name.startswith("a")}
        return set(meant.gres) == set(seen.nodes) and not any(differences(meant, seen)) and (
            memory == {int(said[1])}
        )  # fmt: skip


@contextmanager
def room(*, foreground: bool = False, running: bool = True) -> Iterator[Room]:
    """Make a site that runs the small inventory."""
    with apply_site.made(Room) as made:
        if running:
            made.set_up(foreground=foreground)
        yield made


@dataclass(frozen=True)
class Found:
    """What was found after a fault."""

    said: str
    """The exit code, and the line that matters."""
    files: str
    controller: str
    then: str
    """Of the next ``sn apply --yes``, once the fault is gone."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong."""

    name: str
    happen: Callable[[], Found]
    root_only: bool = False


def _line(result: Result, *words: str) -> str:
    """Return the exit code and the first line that says one of these words."""
    lines = (result.stderr + result.stdout).splitlines()
    for word in words:
        for line in lines:
            if word in line:
                text = re.sub(r"^sn: (?:error|note|warning): ", "", line)
                text = re.sub(r"/\S*sn-twin-\w+/", "", text)
                text = re.sub(r"since [0-9T:+-]+", "since TIME", text)
                return f"{result.returncode}: {re.sub(r'pid [0-9]+', 'pid N', text)}"
    return f"{result.returncode}: {lines[-1] if lines else ''}"


def _then(site: Room, *words: str) -> str:
    """Return what the next apply does, a dead controller started before it."""
    if not site.is_up:
        site.start()
    result = site.apply("--yes", *words)
    told = site.told_files(), site.told_controller()
    return f"{result.returncode}: {told[0]} files, slurmctld {told[1]}"


def _found(site: Room, said: str, *words: str) -> Found:
    return Found(said, site.told_files(), site.told_controller(), _then(site, *words))


def bad_topology() -> Found:
    with room() as site:
        site.write_inventory(MEMORY)
        result = site.apply("--yes", before=SPOIL.format(text=BAD))
        return _found(site, _line(result, "invalid child", "already been defined", "fatal"))


def _unseen(*, foreground: bool, restart: bool = False) -> Found:
    with room(foreground=foreground) as site:
        site.write_inventory(MEMORY)
        words = ["--restart", str(site.restart_command())] if restart else []
        result = site.apply("--yes", *words, before=SPOIL.format(text=BAD) + UNSEEN)
        return _found(site, _line(result, "slurmctld is dead", "slurmctld runs them"))


def unseen_in_daemon() -> Found:
    return _unseen(foreground=False)


def unseen_in_foreground() -> Found:
    return _unseen(foreground=True)


def unseen_with_restart() -> Found:
    return _unseen(foreground=False, restart=True)


def dead_before() -> Found:
    with room() as site:
        site.stop()
        site.write_inventory(MEMORY)
        return _found(site, _line(site.apply("--yes"), "does not answer"))


def dies_at_reconfigure() -> Found:
    with room() as site:
        site.write_inventory(MEMORY)
        before = DIES_NOW.format(pid=str(site.state / "slurmctld.pid"))
        return _found(site, _line(site.apply("--yes", before=before), "slurmctld is dead"))


def full_disk() -> Found:
    with ExitStack() as stack:
        site = stack.enter_context(room(running=False))
        kept = {path.name: path.read_text() for path in site.directory.iterdir()}
        run(["mount", "-t", "tmpfs", "-o", "size=160k,mode=755", "none", str(site.directory)],
            timeout_s=20)  # fmt: skip
        stack.callback(run, ["umount", "-l", str(site.directory)], timeout_s=20)
        for name, text in kept.items():
            (site.directory / name).write_text(text)
        site.set_up()
        site.write_inventory(MEMORY)
        filler = site.directory / "filler"
        try:
            with filler.open("wb") as stream:
                while True:
                    stream.write(b"x" * 4096)
                    stream.flush()
        except OSError:
            pass
        os.truncate(filler, filler.stat().st_size - 12288)
        said = _line(site.apply("--yes"), "No space left")
        told = site.told_files(), site.told_controller()
        filler.unlink()
        return Found(said, *told, _then(site))


def no_permission() -> Found:
    with room() as site:
        _let_others_in(site)
        site.write_inventory(MEMORY)
        result = site.apply("--yes", before=AS_NOBODY)
        return _found(site, _line(result, "may not write"))


def unprivileged() -> Found:
    """Of someone who may write the files, and whom slurmctld does not obey."""
    with room() as site:
        _let_others_in(site)
        for path in (site.directory, *site.directory.rglob("*")):
            os.chown(path, 1, 1)
        site.write_inventory(MEMORY)
        result = site.apply("--yes", before=AS_NOBODY)
        found = _found(site, _line(result, "Invalid user", "ccess", "ermission", "reconfigure"))
        return found


def _let_others_in(site: Room) -> None:
    """Give another account (daemon) the way to files and munge, as on a real machine."""
    for path in (site.directory.parent, site.directory.parent / "munge"):
        path.chmod(0o711)


def killed(every: int = 1) -> Found:
    """Killed at one step after the other: what was found, over all of them."""
    with room() as site:
        site.write_inventory(MEMORY)
        result = site.apply("--yes", before=COUNT + UNSEEN)
        total = int(result.stdout.rpartition("steps ")[2])
        files, states, thens = set(), set(), set()
        for step in range(1, total + 1, every):
            site.write_inventory(INVENTORY)
            site.apply("--yes", before=UNSEEN)
            if (site.told_files(), site.told_controller()) != ("old", "runs old"):
                return Found(f"step {step}: the way back failed", "", "", "")
            site.write_inventory(MEMORY)
            done = site.apply("--yes", before=KILL.format(step=step) + UNSEEN)
            if done.returncode != -9:
                return Found(f"step {step}: exit code {done.returncode}", "", "", "")
            files.add(site.told_files())
            states.add(site.told_controller())
            thens.add(_then(site))
        words = (" or ".join(sorted(found)) for found in (files, states, thens))
        return Found(f"SIGKILL at each of {total} steps", *words)


def two_at_once() -> Found:
    with room() as site:
        site.write_inventory(MEMORY)
        hold = (
            "from supernode_slurm.apply import locked\n"
            "import contextlib; stack = contextlib.ExitStack()\n"
            "from pathlib import Path\n"
            f"stack.enter_context(locked(Path({str(site.directory / '.supernode')!r}), 'root'))\n"
        )
        return _found(site, _line(site.apply("--yes", before=hold), "applies since"))


def by_hand() -> Found:
    """Drift: a file was edited; a cron-like run sees and heals it."""
    with room() as site:
        path = site.directory / "supernode-nodes.conf"
        path.write_text(path.read_text().replace("RealMemory=102400", "RealMemory=92160"))
        site.scontrol("reconfigure")
        result = site.apply("--dry-run")
        said = _line(result, "supernode-nodes.conf: changed")
        return Found(said, "mixed", site.told_controller(), _then(site))


def more_nodes() -> Found:
    with room() as site:
        site.write_inventory(ROOM)
        result = site.apply("--yes")
        said = _line(result, "systemctl restart", "installed and proven")
        return _found(site, said, "--restart", str(site.restart_command()))


FAULTS = (
    Fault("a topology that slurmctld dies of", bad_topology),
    Fault("the same, unseen by the twin", unseen_in_daemon),
    Fault("the same, slurmctld in the foreground", unseen_in_foreground),
    Fault("the same, with --restart", unseen_with_restart),
    Fault("slurmctld is dead before", dead_before),
    Fault("slurmctld is killed as it reconfigures", dies_at_reconfigure),
    Fault("the disk is full", full_disk, root_only=True),
    Fault("no permission to write", no_permission, root_only=True),
    Fault("unprivileged, owner of the files", unprivileged, root_only=True),
    Fault("sn apply is killed", killed),
    Fault("another apply is at work", two_at_once),
    Fault("a file was changed by hand", by_hand),
    Fault("nodes are added", more_nodes),
)


def row(fault: Fault) -> str:
    """Let a fault happen and return its row of the table."""
    found = fault.happen()
    cells = (fault.name, found.said, found.files, found.controller, found.then)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


HEAD = (
    "| what goes wrong | sn apply says | files then | slurmctld then | the next sn apply |\n"
    "|---|---|---|---|---|"
)


def main() -> None:
    """Print the table of the release on PATH."""
    print(f"Slurm {installed_release()}\n\n{HEAD}")
    for fault in (fault for fault in FAULTS if sys.argv[1:] in ([], [fault.happen.__name__])):
        begun = time.monotonic()
        print(row(fault), flush=True)
        print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
