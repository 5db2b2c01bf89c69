"""Spoilt configurations, inventories and answers of Slurm: taken, or refused in words.

SN_FUZZ is how many inputs each reader gets.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.discovery.room import Room
from supernode_slurm.discovery.sources import READERS
from supernode_slurm.errors import ConfigError, SlurmError
from supernode_slurm.inventory import loads
from supernode_slurm.slurm import parse
from supernode_slurm.slurmconf.facts import is_ours
from tests.mangled import COUNT, mangled

ROOT = Path(__file__).parents[1]
EXPECTED = ROOT / "topology_conf" / "expected"
RECORDED = ROOT / "tests" / "recorded"
WORDS = (
    *("[", "]", "[1-", "n[1-99999999]", "{n}", "=", "\\\n", "#", '"', "'", ":", "- ", "&a", "*a"),
    *("ALL", "DEFAULT", "Include x", "null", "true", "1e400", "-1", "0x1F", "2026-13-01", "9" * 80),
    *("NodeName=n1 ", "Nodes=", "Switches=s1", "BlockSizes=0", "gpu:", "(null)", "  ", "\r"),
)


def samples(pattern: str) -> list[str]:
    found = [path.read_text() for path in sorted(EXPECTED.glob(pattern))]
    assert found
    return found


def recorded(pattern: str) -> list[str]:
    found = [path.read_text() for path in sorted(RECORDED.rglob(pattern))]
    assert found, pattern
    return found


MODEL = (
    "switches:\n  top: {switches: [leaf1, leaf2]}\n"
    "blocks:\n  - {switch: leaf1, nodes: ['n[1-4]']}\n"
    "  - {switch: leaf2, nodes: [n9], annotations: {accelerator.topology.test/domain: d1}}\n"
)
DOMAINS = "".join(f"gb-{n:02}: {n % 4:08x}-0000-4000-8000-0000000000ab\n" for n in range(1, 19))
FILES = {
    "slurm.conf": lambda: samples("*/24.11/supernode*.conf"),
    "gres.conf": lambda: samples("*/22.05/gres.conf"),
    "topology.conf": lambda: samples("*/24.11/topology.conf"),
    "topology.yaml": lambda: samples("*/26.05/topology.yaml"),
    "topograph": lambda: [MODEL],
    "domains": lambda: [DOMAINS],
}


def spoilt(texts: list[str], dice: random.Random) -> str:
    """Return one of the texts, spoilt by words of its own kind and at random."""
    text = dice.choice(texts)
    for _ in range(dice.randint(0, 4)):
        at = dice.randint(0, len(text))
        text = text[:at] + dice.choice(WORDS) + text[at + dice.choice((0, 0, 1, 9)) :]
    return mangled(text, dice) if dice.random() < 0.5 else text


@pytest.mark.parametrize("kind", FILES)
def test_a_spoilt_source_is_read_or_refused_in_words(kind: str, tmp_path: Path) -> None:
    dice = random.Random(kind)
    texts, path = FILES[kind](), tmp_path / kind
    read = refused = 0
    for _ in range(COUNT):
        path.write_text(spoilt(texts, dice), encoding="utf-8", errors="replace")
        room = Room()
        try:
            READERS[kind](path, room)
            room.check()
            read += 1
        except ConfigError as error:
            refused += 1
            assert all(problem.what for problem in error.problems)
    assert read
    assert refused


def test_a_spoilt_inventory_is_read_or_refused_with_its_places() -> None:
    dice = random.Random("inventory")
    texts = [path.read_text() for path in sorted((ROOT / "topology_conf/inventories").iterdir())]
    read = refused = 0
    for _ in range(COUNT):
        try:
            loads(spoilt(texts, dice))
            read += 1
        except ConfigError as error:
            refused += 1
            assert all(problem.where.file == "inventory" for problem in error.problems)
    assert read
    assert refused


ANSWERS: dict[str, tuple[Callable[[str], object], str]] = {
    "nodes": (parse.nodes, "*node*"),
    "partitions": (parse.partitions, "*partition*"),
    "reservations": (parse.reservations, "*res*"),
    "topology": (parse.topology, "*topology*"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_spoilt_answer_of_slurm_is_read_or_refused_in_words(what: str) -> None:
    reader, pattern = ANSWERS[what]
    dice = random.Random(what)
    texts = recorded(pattern)
    read = 0
    for _ in range(COUNT):
        try:
            reader(spoilt(texts, dice))
            read += 1
        except SlurmError as error:
            assert str(error)
    assert read


def test_settings_of_slurm_are_read_from_any_text() -> None:
    dice = random.Random("config")
    for _ in range(COUNT):
        found = parse.config(spoilt(["SLURM_CONF = /etc/slurm/slurm.conf\nBoot = 2026\n"], dice))
        assert all("\n" not in key for key in found)


def test_a_spoilt_host_list_is_expanded_or_refused_in_words() -> None:
    dice = random.Random("hosts")
    texts = ["n[01-18],x,sn1-[01-04,07]", "a[1-2]b[3-4]", "gpu007,gpu[008-010]"]
    read = refused = 0
    for _ in range(COUNT):
        text = spoilt(texts, dice)[:2000]
        try:
            hosts = hostlist.expand(text)
            read += 1
            assert hostlist.expand(hostlist.fold(hosts)) == sorted_by_fold(hosts)
        except ValueError as error:
            refused += 1
            assert str(error)
    assert read
    assert refused


def sorted_by_fold(hosts: list[str]) -> list[str]:
    """Return the hosts as their own folded list names them: each once, in Slurm's order."""
    found = hostlist.expand(hostlist.fold(hosts))
    assert sorted(found) == sorted(set(hosts))
    return found


def test_what_is_ours_is_told_from_any_text() -> None:
    dice = random.Random("ours")
    texts = samples("*/24.11/supernode.conf")
    assert all(map(is_ours, texts))
    for _ in range(COUNT):
        assert is_ours(spoilt(texts, dice)) in (True, False)
