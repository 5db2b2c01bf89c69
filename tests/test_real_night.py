"""A night at a site: what changed is found, written and installed; docs/drift.md shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import signature
from pathlib import Path

import pytest

from supernode_slurm.inventory import load, loads
from supernode_slurm.slurmconf import find_release, generate, write
from supernode_slurm.twin import installed_release
from tests.apply_site import Site, made
from tests.test_import_update_sources import answer

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "drift.md"
BLOCK = re.compile(r"<!-- night ([a-z ]+) -->\n(.*?)<!-- end -->", re.DOTALL)
SHOWN_ON = "22.05"
"""The release whose words the page shows."""
ROOM = """\
# The GPU room of the institute.
version: 1
cluster: institute

pools:
  - name: pool-h100
    nodes:
      hosts: "n[01-06]"            # bought in 2024
      devices: {h100-sxm: 8}
      sockets: 2
      cores: 48
      memory: 1900 GiB             # the rest is for the system
      cloud: true

partitions:
  gpu: {pools: [pool-h100], max_time: 7-00:00:00, default: true}

absent:
  - {hosts: n06, since: 2026-08-03}   # its board is being exchanged
"""

pytestmark = pytest.mark.slurm


def new_site() -> AbstractContextManager[Site]:
    """Return a site of its own; its maker may ask for the kind."""
    make: Callable[..., AbstractContextManager[Site]] = made
    return make(Site) if signature(made).parameters else make()


class Night:
    """The commands of a night, as the page shows them."""

    def __init__(self, site: Site, request: pytest.FixtureRequest) -> None:
        self._site = site
        self._update = bool(request.config.getoption("--update-golden"))
        self.folder = site.directory.parent

    def plain(self, line: str, code: int) -> str:
        """Run one command and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", "from supernode_slurm.cli.main import main; main()",
             *line.split()],
            cwd=self.folder,
            env={**os.environ, **self._site.env, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    def sn(self, name: str, line: str, code: int) -> str:
        """Run one command, compare what it prints with the page, and return it."""
        printed = self.plain(line, code)
        shown = printed.replace(str(self._site.directory), "/etc/slurm")
        shown = re.sub(r"\d{4}-\d\d-\d\dT[0-9:+]+", "2026-08-22T03:00:00+00:00", shown)
        shown = re.sub(r"\betc(?=: )", "/etc/slurm", shown).replace("-o etc ", "-o /etc/slurm ")
        if installed_release() == SHOWN_ON:
            self._compare(name, [f"$ sn {line}", *shown.splitlines()])
        return printed

    def _compare(self, name: str, lines: list[str]) -> None:
        text = PAGE.read_text("utf-8")
        old = {found[1]: found[2] for found in BLOCK.finditer(text)}[name]
        new = "".join(f"    {line}".rstrip() + "\n" for line in lines)
        if self._update:
            mark = f"<!-- night {name} -->\n"
            PAGE.write_text(text.replace(f"{mark}{old}<!--", f"{mark}{new}<!--", 1), "utf-8")
        else:
            assert old == new, "run pytest --update-golden"


def answers(folder: Path) -> None:
    """Write what 'clush -w @all sn-probe' prints: n03 lost a card, n04 is silent, n06 is back."""
    third = answer("n03")
    del third["devices"][5]
    records = [answer("n01"), answer("n02"), third, answer("n05"), answer("n06")]
    text = "".join(f"{record['host']}: {json.dumps(record)}\n" for record in records)
    (folder / "answers").write_text(text)


def test_a_night_finds_writes_and_installs_what_changed(request: pytest.FixtureRequest) -> None:
    with new_site() as site:
        night = Night(site, request)
        room = night.folder / "site.yaml"
        room.write_text(ROOM)
        write(generate(loads(ROOM), find_release(installed_release())), site.directory)
        site.start()
        time.sleep(1.1)  # slurmctld tells the second in which it started
        answers(night.folder)
        words = "import answers --complete --update site.yaml --yes --date"
        night.sn("found", f"{words} 2026-08-22", 0)
        found = load(room)
        cards = {h: n.device_count for n in found.node_classes for h in n.hosts}
        assert cards == {**dict.fromkeys(("n01", "n02", "n04", "n05", "n06"), 8), "n03": 7}
        assert [item.hosts for item in found.upkeep.absent] == [("n04",)]
        assert "# bought in 2024" in room.read_text()
        night.sn("checked", "check -i site.yaml", 0)
        night.sn("drifted", "check -i site.yaml --against live", 5)
        installed = night.sn("installed", "apply -i site.yaml --yes", 0)
        before = room.read_bytes()
        said = night.plain("import slurm: --update site.yaml --yes", 0)
        if "cards of n03" in installed:  # read at a start alone: what runs is older
            assert "slurmctld is older than its files" in said
        assert room.read_bytes() == before  # the old cards that it shows are no news
        site.stop()
        site.start()
        night.sn("proven", "apply -i site.yaml --yes", 0)
        night.sn("healed", "check -i site.yaml --against live", 0)
        assert "Gres=gpu:h100:7" in site.scontrol("show", "node", "n03")
        before = room.read_bytes()
        night.sn("next", f"{words} 2026-08-23", 0)
        assert room.read_bytes() == before
