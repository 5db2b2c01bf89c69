"""Power sums: nodes, racks, feeds and their failures, beside published ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from supernode_slurm.inventory import Cooling, Inventory, loads
from supernode_slurm.inventory.cooling import AIR_W, DIRECT_LIQUID_W, air_limit, cooling_limit
from supernode_slurm.inventory.power import RackPower, RoomPower, is_over, room_power

DATA = Path(__file__).resolve().parents[2] / "shared/data/supernodes.yaml"

DPS = (
    "  - {name: 'pdu[1-4]', power: 450 kW, source: board}\n"
    "  - {name: board, power: 1.6 MW, source: utility}\n"
    "  - {name: utility, power: 750 kW}\n"
)
"""The feeds of a published sample: two racks on each PDU, all of them on one board."""


def room(
    nodes: int = 18,
    power: str = "power: 6.667 kW",
    *,
    racks: tuple[str, ...] = ("",),
    feeds: str = "",
    more: str = "",
    devices: str = "{gb200: 4}",
) -> Inventory:
    """Return a supernode and a rack for each of ``racks``, which is what the rack says more."""
    own = f", {power}" if power else ""
    supernodes, stands = [], []
    for number, words in enumerate(racks, 1):
        hosts = f"sn{number}-[001-{nodes:03}]"
        supernodes.append(
            f"  - name: sn{number}\n    interconnect: {{kind: switch}}\n"
            f"    nodes: {{hosts: '{hosts}', devices: {devices}, sockets: 2, cores: 72, "
            f"memory: 940 GiB{own}}}\n"
        )
        stands.append(f"  - {{name: r{number}, hosts: '{hosts}'{words and f', {words}'}}}\n")
    text = f"version: 1\ncluster: t\nsupernodes:\n{''.join(supernodes)}racks:\n{''.join(stands)}"
    return loads(f"{text}{feeds and f'feeds:{chr(10)}{feeds}'}{more}")


def only(inventory: Inventory) -> RackPower:
    (rack,) = room_power(inventory).racks
    return rack


def dps(power: str) -> RoomPower:
    racks = tuple(f"power: 132 kW, feeds: pdu{(n + 1) // 2}" for n in range(1, 9))
    return room_power(room(18, f"power: {power}", racks=racks, feeds=DPS))


# Published sums.


def published(name: str) -> dict[str, Any]:
    if not DATA.exists():
        pytest.skip(f"no {DATA.name} beside the repository")
    cases = yaml.safe_load(DATA.read_text("utf-8"))["power_cases"]
    (found,) = [case for case in cases if case["id"] == name]
    return dict(found)


SUMS = """
    h100-4up h100-4up-legacy h100-2up-20 gb200-nodes-only gb200-n-plus-n gb300-rack dps-sim-high
    dps-sim-medium dps-sim-pdu gb200-idle nvl36x2 scalex640-pair al128-gpus b300-farm b300-rack
    b300-2up
"""


def terms(text: str) -> list[tuple[int, float]]:
    """Return (count, kW) of each term of ``18 x 6.667 + 9 x 0.4 + 0.8``."""
    return [
        (int(found[1] or 1), float(found[2]))
        for part in text.split(" + ")
        if (found := re.fullmatch(r"(?:(\d+) (?:racks )?x )?([\d.]+)", part))
    ]


@pytest.mark.parametrize("name", SUMS.split())
def test_a_published_sum_is_reached_and_judged(name: str) -> None:
    case = published(name)
    text = case["sum"].replace("2 racks x 18", "36")
    (count, each), *others = terms(text)
    equipment = ", ".join(
        f"e{i}: {{count: {n}, power: {kw} kW}}" for i, (n, kw) in enumerate(others)
    )
    words = f"power: {case.get('budget_kW', 10**6)} kW, equipment: {{{equipment}}}"
    found = only(room(count, f"power: {each} kW", racks=(words,)))
    assert found.most.w == pytest.approx(case["kW"] * 1e3, abs=1e-6)
    assert found.is_over == case["expect"].startswith("fail")


def test_eighteen_trays_exceed_120_kw_by_six_watts() -> None:
    case = published("gb200-nodes-only")
    found = only(room(18, racks=(f"power: {case['budget_kW']} kW",)))
    assert found.headroom_w == pytest.approx(-6.0)
    assert found.is_over


def test_installed_shelves_are_not_what_a_rack_may_draw() -> None:
    case = published("gb200-installed-trap")
    (count, each), *_ = terms(case["sum"].removesuffix(" installed"))
    shelves = f"shelves: {{count: {count}, power: {each} kW, redundancy: %s}}"
    assert only(room(racks=(shelves % "none",))).rack.budget_w == case["kW"] * 1e3
    assert only(room(racks=(shelves % "N+N",))).rack.budget_w == case["budget_kW"] * 1e3
    assert only(room(20, racks=(shelves % "N+N",))).is_over
    assert not only(room(20, racks=(shelves % "none",))).is_over


def test_a_rack_of_three_of_four_shelves_passes() -> None:
    case = published("vr-nvl72-max-p")
    shelves = "shelves: {count: 4, power: 110 kW, redundancy: N+1}"
    found = only(room(1, f"power: {case['kW']} kW", racks=(shelves,)))
    assert found.rack.budget_w == case["budget_kW"] * 1e3
    assert not found.is_over


def test_a_larger_rack_does_not_fit_the_slot_of_a_smaller() -> None:
    case = published("vr-nvl72-in-gb200-slot")
    words = f"power: {case['budget_kW']} kW"
    assert only(room(1, f"power: {case['kW']} kW", racks=(words,))).is_over


def test_a_pair_that_equals_its_cooling_is_not_over() -> None:
    case = published("scalex640-pair")
    words = f"cooling: {{kind: immersion, liquid: {case['budget_kW']} kW}}"
    found = only(room(2, "power: 860 kW", racks=(words,)))
    assert found.cooling is not None
    assert found.most.w == found.cooling.w
    assert not found.is_too_hot
    assert only(room(2, "power: 861 kW", racks=(words,))).is_surely_too_hot


def test_the_feed_of_a_room_fails_though_every_rack_passes() -> None:
    case = published("dps-sim-high")
    found = dps("5.6 kW")
    assert not any(item.is_over for item in found.racks)
    (over,) = found.normal.over
    assert (over.feed.name, over.feed.power_w) == ("utility", case["budget_kW"] * 1e3)
    assert over.drawn.w == pytest.approx(case["kW"] * 1e3)
    assert found.is_over
    assert not dps("3.2 kW").is_over


def test_a_pdu_of_two_racks_passes() -> None:
    case = published("dps-sim-pdu")
    load = dps("5.6 kW").normal.load("pdu3")
    assert load is not None
    assert load.drawn.w == pytest.approx(case["kW"] * 1e3)
    assert (load.feed.power_w, load.is_over) == (case["budget_kW"] * 1e3, False)


def test_feeds_rated_above_their_source_are_told() -> None:
    case = published("dps-sim-board")
    found = {item.source.name: item for item in dps("5.6 kW").overrated}
    assert found["board"].rated_w == case["kW"] * 1e3 > case["budget_kW"] * 1e3
    assert [feed.name for feed in found["board"].feeds] == ["pdu1", "pdu2", "pdu3", "pdu4"]
    assert found["utility"].rated_w == 1.6e6


def test_every_published_case_has_its_test() -> None:
    if not DATA.exists():
        pytest.skip(f"no {DATA.name} beside the repository")
    cases = yaml.safe_load(DATA.read_text("utf-8"))["power_cases"]
    text = Path(__file__).read_text("utf-8")
    assert len(cases) == 20
    assert [case["id"] for case in cases if case["id"] not in text] == []


def test_usual_limits_of_cooling_are_those_printed() -> None:
    if not DATA.exists():
        pytest.skip(f"no {DATA.name} beside the repository")
    limits = {
        item["what"]: item.get("kW")
        for item in yaml.safe_load(DATA.read_text("utf-8"))["cooling_limits"]
    }
    assert str(limits["air practical maximum"]).endswith(f"-{AIR_W / 1e3:.0f}")
    assert str(limits["direct liquid"]).endswith(f"-{DIRECT_LIQUID_W / 1e3:.0f}")


# Nodes.


@pytest.mark.parametrize(
    ("power", "devices", "watts", "missing"),
    [
        ("power: 6.667 kW", "{gb200: 4}", 6667, []),
        ("power: {host: 1.8 kW}", "{gb200: 4}", 6600, []),
        ("", "{gb200: 4}", 4800, ["power of the host without cards"]),
        ("power: {host: 2 kW}", "{ascend910c: 16}", 2000, ["power of ascend-910c"]),
        ("", "{ascend910c: 16}", None, ["power of the node"]),
        ("power: 12 kW", "{ascend910c: 16}", 12000, []),
        ("", "{mi250x: 8}", 4 * 560, ["power of the host without cards"]),
    ],
)
def test_the_power_of_a_node_is_what_was_said_else_the_sum_of_what_is_known(
    power: str, devices: str, watts: float | None, missing: list[str]
) -> None:
    found = only(room(1, power, devices=devices)).most
    assert (found.w, [item.what for item in found.missing]) == (watts, missing)
    assert found.is_whole == (not missing)


def test_idle_power_that_nobody_has_said_is_not_zero() -> None:
    assert only(room(1)).idle.w is None
    assert only(room(2, "power: {most: 6.667 kW, idle: 1 kW}")).idle.w == 2000


def test_cards_under_a_cap_draw_less() -> None:
    more = "derated: [{on: sn1, cap: 500 W}]\n"
    found = only(room(1, more=more))
    assert found.most.w == 6667 - 4 * 700
    assert found.is_capped
    assert only(room(1, "power: {host: 1 kW}", more=more)).most.w == 3000
    assert only(room(1, more="derated: [{on: sn1, cap: 9 kW}]\n")).most.w == 6667


def test_hosts_that_the_inventory_only_places_are_missing_from_a_sum() -> None:
    assert room_power(room(1)).homeless == ()
    text = "foreign: [{name: f, hosts: login1}]\nracks: [{name: r1, hosts: 'sn1-001,login1'}]\n"
    body = "version: 1\ncluster: t\nsupernodes:\n  - name: sn1\n    interconnect: {kind: switch}\n"
    nodes = (
        "    nodes: {hosts: 'sn1-[001-002]', devices: {gb200: 4}, sockets: 2, cores: 72, "
        "memory: 9 GiB, power: 6 kW}\n"
    )
    found = room_power(loads(body + nodes + text))
    (rack,) = found.racks
    assert rack.most.w == 6000
    assert rack.most.missing[0].hosts == ("login1",)
    assert found.homeless == ("sn1-002",)


def test_a_tdp_that_nobody_checked_is_told_where_it_counts() -> None:
    assert only(room(1, "", devices="{mtt-s4000: 8}")).most.w == 8 * 450
    assert room_power(room(1, "", devices="{mtt-s4000: 8}")).unsure == ("mtt-s4000",)
    assert room_power(room(1, "power: 5 kW", devices="{mtt-s4000: 8}")).unsure == ()
    own = "accelerators: {mtt-s4000: {power: 440 W}}\n"
    assert room_power(room(1, "", devices="{mtt-s4000: 8}", more=own)).unsure == ()
    assert room_power(room(1, "")).unsure == ()


# Cooling.


@pytest.mark.parametrize(
    ("cooling", "watts", "is_default"),
    [
        (Cooling("air"), 30e3, True),
        (Cooling("air", air_w=45e3), 45e3, False),
        (Cooling("cold-plate", 115e3, 17e3), 132e3, False),
        (Cooling("cold-plate", 115e3), 145e3, True),
        (Cooling("cold-plate"), 150e3, True),
        (Cooling("liquid", 200e3), 200e3, True),
        (Cooling("immersion", 860e3), 860e3, False),
    ],
)
def test_cooling_takes_what_the_inventory_says_else_the_usual(
    cooling: Cooling, watts: float, is_default: bool
) -> None:
    found = cooling_limit(cooling)
    assert found is not None
    assert (found.w, found.is_default) == (watts, is_default)


def test_of_some_kinds_of_cooling_nobody_knows_what_they_take() -> None:
    assert cooling_limit(None) is None
    assert cooling_limit(Cooling("rear-door")) is None
    assert cooling_limit(Cooling("immersion")) is None


def test_a_usual_figure_is_no_limit_of_the_inventory() -> None:
    found = room_power(room(18, racks=("cooling: air",)))
    assert found.racks[0].is_too_hot
    assert not found.racks[0].is_surely_too_hot
    assert not found.is_over
    assert room_power(room(18, racks=("cooling: {kind: air, air: 40 kW}",))).is_over


def test_air_is_what_remains_when_the_liquid_fails() -> None:
    assert air_limit(Cooling("cold-plate", 115e3, 17e3)).w == 17e3
    assert air_limit(Cooling("rear-door")).w == AIR_W
    assert air_limit(None).w == AIR_W
    assert air_limit(Cooling("immersion", 860e3)).w == 0


# Feeds.


def redundant(
    a: str, b: str, racks: tuple[str, ...] = ("feeds: [a, b]", "feeds: [a, b]")
) -> RoomPower:
    feeds = f"  - {{name: a, power: {a}}}\n  - {{name: b, power: {b}}}\n"
    return room_power(room(10, "power: 6 kW", racks=racks, feeds=feeds))


def test_redundant_feeds_share_and_each_must_carry_all() -> None:
    found = redundant("100 kW", "130 kW")
    assert [load.drawn.w for load in found.normal.loads] == [60e3, 60e3]
    assert found.normal.over == ()
    first, second = found.failures
    assert (first.failed, first.dead, first.dark, first.over) == ("a", ("a",), (), ())
    assert [load.feed.name for load in second.over] == ["a"]
    case, load = found.worst("a")
    assert (case.failed, load.drawn.w) == ("b", 120e3)
    assert found.is_over


def test_racks_on_one_feed_go_dark_with_it_and_load_nothing() -> None:
    found = redundant("100 kW", "130 kW", ("feeds: a", "feeds: [a, b]"))
    assert [load.drawn.w for load in found.normal.loads] == [90e3, 30e3]
    assert found.failures[0].dark == ("r1",)
    assert [load.drawn.w for load in found.failures[0].loads] == [60e3]


def test_all_that_hangs_on_a_failed_source_dies_with_it() -> None:
    feeds = (
        "  - {name: u1, power: 200 kW}\n  - {name: u2, power: 90 kW}\n"
        "  - {name: ups, power: 200 kW, source: [u1, u2]}\n"
        "  - {name: a, power: 200 kW, source: u1}\n  - {name: b, power: 200 kW, source: ups}\n"
    )
    racks = ("feeds: [a, b]", "feeds: a")
    found = room_power(room(10, "power: 6 kW", racks=racks, feeds=feeds))
    normal = {load.feed.name: load.drawn.w for load in found.normal.loads}
    assert normal == {"u1": 105e3, "u2": 15e3, "ups": 30e3, "a": 90e3, "b": 30e3}
    cases = {case.failed: case for case in found.failures}
    assert cases["u1"].dead == ("u1", "a")
    assert cases["u1"].dark == ("r2",)
    assert {load.feed.name: load.drawn.w for load in cases["u1"].loads} == {
        "u2": 60e3,
        "ups": 60e3,
        "b": 60e3,
    }
    assert cases["ups"].dead == ("ups", "b")


def test_what_is_missing_of_a_rack_is_missing_of_its_feeds() -> None:
    feeds = "  - {name: a, power: 10 kW}\n  - {name: b, power: 10 kW, source: a}\n"
    found = room_power(room(1, "", racks=("feeds: b",), feeds=feeds, devices="{ascend910c: 16}"))
    for load in found.normal.loads:
        assert load.drawn.w is None
        assert load.drawn.missing[0].hosts == ("sn1-001",)
    assert not found.is_over


def test_racks_without_a_feed_are_told_where_there_are_feeds() -> None:
    assert redundant("1 MW", "1 MW", ("", "feeds: a")).unfed == ("r1",)
    assert room_power(room()).unfed == ()


def test_thirds_of_a_load_are_no_overload() -> None:
    feeds = "".join(f"  - {{name: f{n}, power: 40002 W}}\n" for n in range(3))
    found = room_power(room(18, racks=("feeds: [f0, f1, f2]",), feeds=feeds))
    assert found.normal.over == ()
    assert not is_over(120_006.0000001, 120_006)
    assert is_over(120_006.01, 120_006)
