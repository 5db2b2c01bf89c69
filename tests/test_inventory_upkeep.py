"""Racks, feeds, versions, care: what is read of them, and what is refused."""

from __future__ import annotations

from datetime import date

import pytest

from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import Inventory, NodePower, loads

ROOM = """\
version: 1
cluster: t
supernodes:
  - name: sn[1-2]
    interconnect: {kind: switch}
    nodes:
      {hosts: "sn{n}-[01-18]", devices: {gb200: 4}, sockets: 2, cores: 72, memory: 940 GiB, POWER}
partitions:
  main: {supernodes: ["sn[1-2]"], workload: [moe], mixed: true}
"""


def room(more: str = "", power: str = "power: 6.667 kW") -> Inventory:
    return loads(ROOM.replace("POWER", power) + more)


def refused(more: str) -> str:
    with pytest.raises(ConfigError) as caught:
        room(more)
    return str(caught.value)


def test_a_class_of_racks_has_the_shelves_that_are_left_as_its_budget() -> None:
    racks = room(
        "feeds: [{name: a, power: 150 kW}, {name: b, power: 150 kW, source: a}]\n"
        "racks:\n"
        "  - name: r[1-2]\n"
        "    hosts: sn{n}-[01-18]\n"
        "    power: 140 kW\n"
        "    shelves: {count: 8, power: 33 kW, redundancy: N+N}\n"
        "    cooling: {kind: cold-plate, liquid: 115 kW, air: 17 kW}\n"
        "    equipment: {switch-tray: {count: 9, power: 400 W}}\n"
        "    feeds: [a, b]\n"
    ).racks
    assert [(rack.name, rack.hosts[0], len(rack.hosts)) for rack in racks] == [
        ("r1", "sn1-01", 18),
        ("r2", "sn2-01", 18),
    ]
    assert (racks[0].power_w, racks[0].shelves_w, racks[0].budget_w) == (140e3, 132e3, 132e3)
    assert racks[0].cooling is not None
    assert racks[0].cooling.air_w == 17e3
    assert sum(item.count * item.power_w for item in racks[0].equipment) == 3600
    assert racks[0].feeds == ("a", "b")


def test_shelves_with_one_spare_deliver_those_that_are_left() -> None:
    rack = "racks: [{name: r, hosts: sn1-01, shelves: {count: 4, power: 110 kW, redundancy: N+1}}]"
    assert room(rack).racks[0].budget_w == 330e3


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        ("power: 6.667 kW", NodePower(6667.0)),
        ("power: {host: 1 kW, idle: 0.9 kW}", NodePower(None, 1000.0, 900.0)),
        ("threads: 1", NodePower()),
    ],
)
def test_the_power_of_a_node_may_be_given_whole_or_in_parts(
    power: str, expected: NodePower
) -> None:
    assert room(power=power).node_classes[0].power == expected


def test_feeds_come_after_what_they_hang_on() -> None:
    feeds = room(
        "feeds:\n"
        "  - {name: 'pdu[1-2]', power: 450 kW, source: [board, spare]}\n"
        "  - {name: board, power: 1.6 MW, source: utility}\n"
        "  - {name: spare, power: 1.6 MW}\n"
        "  - {name: utility, power: 750 kW}\n"
    ).upkeep.feeds
    assert [feed.name for feed in feeds] == ["spare", "utility", "board", "pdu1", "pdu2"]
    assert feeds[3].sources == ("board", "spare")


def test_versions_care_and_what_was_accepted_are_read() -> None:
    found = room(
        "versions: {driver: {'550.54.15': 'sn1-[01-17]', 550.90: sn1-18}}\n"
        "maintenance: [{name: coolant, on: [sn1, sn2-03], every: 180 d, last: 2026-01-01}]\n"
        "accept: [{rule: rack-power, on: r1, why: 'measured: 118 kW', until: 2027-01-01}]\n"
        "absent: [{hosts: sn2-03, since: 2026-11-30}]\n"
        "derated: [{on: sn1, cap: 700 W}]\n"
        "policy: {job_sizes: [64, 8, 64]}\n"
    )
    upkeep = found.upkeep
    assert [(item.version, len(item.hosts)) for item in upkeep.installed] == [
        ("550.54.15", 17),
        ("550.90", 1),
    ]
    assert upkeep.maintenance[0].on == ("sn1", "sn2-03")
    assert (upkeep.maintenance[0].every_days, upkeep.maintenance[0].last) == (180, date(2026, 1, 1))
    assert upkeep.accepted[0].until == date(2027, 1, 1)
    assert upkeep.absent[0].hosts == ("sn2-03",)
    assert (upkeep.cap_w("sn1"), upkeep.cap_w("sn2")) == (700, None)
    assert found.policy.job_sizes == (8, 64)
    assert (found.partitions[0].workload, found.partitions[0].mixed) == (("moe",), True)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("feeds: [{name: a, power: 1 kW, source: b}]", "no feed 'b'"),
        (
            "feeds: [{name: a, power: 1 kW, source: b}, {name: b, power: 1 kW, source: a}]",
            "feeds hang on each other: a, b",
        ),
        ("racks: [{name: r, hosts: sn1-01, feeds: x}]", "no feed 'x'"),
        ("racks: [{name: 'r[1-2]', hosts: sn1-01}]", "equal racks would share hosts"),
        ("racks: [{name: r, hosts: 'sn{n}-01'}]", "'{n}' needs a class of racks"),
        ("racks: [{name: r, hosts: zz}]", "rack 'r' holds unknown zz"),
        (
            "racks: [{name: r, hosts: sn1-01}, {name: q, hosts: sn1-01}]",
            "sn1-01 in rack 'r' and in 'q'",
        ),
        (
            "racks: [{name: r, hosts: sn1-01}, {name: r, hosts: sn1-02}]",
            "rack 'r' stands twice",
        ),
        ("racks: [{name: r, hosts: sn1-01, cooling: wind}]", "expected one of air, rear-door"),
        ("versions: {driver: {1: sn1-01, 2: sn1-01}}", "driver of sn1-01 is 1 and 2"),
        ("versions: {driver: {1: zz}}", "unknown zz"),
        ("maintenance: [{name: x, on: sn9, every: 1 y}]", "'sn9' is no supernode, pool, rack"),
        ("maintenance: [{name: x, every: 3 months}]", "expected a period like '180 d' or '1 y'"),
        ("maintenance: [{name: x, every: 1 y, last: 2026-02-30}]", "expected a day like"),
        ("derated: [{on: sn9, cap: 300 W}]", "no supernode or pool 'sn9'"),
        ("derated: [{on: sn1, cap: 300 W}, {on: sn1, cap: 3 W}]", "derated 'sn1' stands twice"),
        ("absent: [{hosts: zz, since: 2026-01-01}]", "unknown zz"),
        ("accept: [{rule: x-y, why: ''}]", "expected a line of text"),
    ],
)
def test_what_names_nothing_is_refused_with_its_place(more: str, what: str) -> None:
    text = refused(more)
    assert what in text
    assert text.startswith("inventory:")
