"""sn check: what is accepted, what counts, what is printed; rules that need a room of their own."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.cli.check import command
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import Finding, loads
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.slurmconf.levels import first_refused, refuses
from supernode_slurm.slurmconf.lint import RULES, lint
from supernode_slurm.slurmconf.topology import choose
from tests import test_power
from tests.test_lint_rules import BOTH, IB, ROOM, TODAY, TRAIN, found, rack, versions
from tests.test_power import published

THIN = (IB, f"{IB}    oversubscription: 3\n")
RULE = {rule.name: rule for rule in RULES}


def accept(rule: str, on: str, more: str = "") -> str:
    return f"accept: [{{rule: {rule}, on: {on}, why: it is known{more}}}]\n"


def accepted(rule: str, findings: list[Finding]) -> list[bool]:
    return [item.accepted is not None for item in findings if item.rule == rule]


# What is accepted.


@pytest.mark.parametrize(
    ("on", "is_accepted"),
    [("ib", True), ("train", True), ("'sn[1-9]'", False), ("[x, ib]", True)],
)
def test_any_name_that_a_finding_is_about_accepts_it(on: str, is_accepted: bool) -> None:
    findings = found(THIN, accept("oversubscription", on))
    assert accepted("oversubscription", findings) == [is_accepted]


def test_without_names_every_finding_of_a_rule_is_accepted() -> None:
    both = f"absent: [{{hosts: a1, since: {TODAY}}}, {{hosts: a2, since: {TODAY}}}]\n"
    assert accepted("absent-hosts", found(both)) == [False, False]
    every = "accept: [{rule: absent-hosts, why: it is known}]\n"
    assert accepted("absent-hosts", found(both, every)) == [True, True]


def test_hosts_accept_a_finding_only_if_all_of_them_are_named() -> None:
    text = versions("1: 'h1-[1-7]', 2: 'h1-[8-9]'")
    for on, is_accepted in (
        ("h1-8", False),
        ("'h1-[8-9]'", True),
        ("driver", True),
        ("sn2", False),
    ):
        findings = found(text, accept("versions-supernode", on))
        assert accepted("versions-supernode", findings) == [is_accepted]


def test_an_acceptance_holds_on_its_last_day_and_not_after() -> None:
    text = (THIN, accept("oversubscription", "ib", ", until: 2026-12-01"))
    assert accepted("oversubscription", found(*text)) == [True]
    assert accepted("oversubscription", found(*text, today=date(2026, 12, 2))) == [False]


def test_an_acceptance_of_one_rule_is_none_of_another() -> None:
    assert accepted("oversubscription", found(THIN, accept("mixed-cards", "ib"))) == [False]


def test_of_two_acceptances_the_one_that_still_holds_counts() -> None:
    lines = (
        "accept:\n  - {rule: oversubscription, why: old, until: 2020-01-01}\n"
        "  - {rule: oversubscription, why: new}\n"
    )
    (finding,) = (item for item in found(THIN, lines) if item.rule == "oversubscription")
    assert finding.accepted is not None
    assert finding.accepted.why == "new"


# Rules that need a room of their own.


def test_what_a_release_cannot_say_is_what_generate_warns_of() -> None:
    text = ROOM.replace(TRAIN, f"{BOTH}, mixed: true")
    for release in ("22.05", "24.11", "26.05"):
        notes = choose(loads(text), find_release(release)).notes
        told = [item for item in found((TRAIN, f"{BOTH}, mixed: true"), release=release)]
        assert {item.what for item in told if item.rule == "release-loses"} == set(notes)
        assert {item.severity for item in told if item.rule == "release-loses"} == {"note"}


def padded_room(length: int) -> str:
    """Return a room whose topology.yaml is so long but for the name of its cluster."""
    text = ROOM
    for count in range(5, 900):
        text = ROOM.replace("a[1-4]", f"a[{','.join(str(n) for n in range(1, 2 * count, 2))}]")
        size = len(generate(loads(text), find_release("25.05")).files["topology.yaml"])
        if length - 60 < size <= length:
            return text.replace("cluster: t", f"cluster: {'t' * (1 + length - size)}")
    raise AssertionError(f"no room of {length} bytes")


def test_a_file_that_would_kill_slurmctld_is_told() -> None:
    text = padded_room(4096)
    made = generate(loads(text), find_release("25.05")).files["topology.yaml"]
    assert len(made) == 4097
    (finding,) = (
        item for item in lint(loads(text), TODAY, "25.05") if item.rule == "topology-4096"
    )
    assert finding.what == (
        "topology.yaml would be 4096 bytes, of which slurmctld 25.05 dies: it ends with an empty "
        "line more"
    )
    shorter = text.replace("cluster: tt", "cluster: t")
    for room, release in ((shorter, "25.05"), (text, "26.05"), (text, "24.11")):
        rules = {item.rule for item in lint(loads(room), TODAY, release)}
        assert "topology-4096" not in rules


def test_eighteen_trays_of_a_published_rack_exceed_its_budget_by_six_watts() -> None:
    case = published("gb200-nodes-only")
    each = case["sum"].removeprefix("18 x ")
    text = ROOM.replace("h{n}-[1-9]", "h{n}-[01-18]").replace("power: 10 kW", f"power: {each} kW")
    room = text + rack(f"power: {case['budget_kW']} kW", "'h1-[01-18]'")
    told = [item.what for item in lint(loads(room), TODAY) if item.rule == "rack-power"]
    assert told == ["rack r1 draws 120.006 kW, 6 W over its budget of 120 kW"]


def test_the_feed_of_a_published_room_fails_though_every_rack_passes() -> None:
    case = published("dps-sim-high")
    room = test_power.room(
        power="power: 5.6 kW",
        racks=tuple(f"power: 132 kW, feeds: pdu{(n + 1) // 2}" for n in range(1, 9)),
        feeds=test_power.DPS,
    )
    told = [item.what for item in lint(room, TODAY) if item.severity == "error"]
    assert told == [
        f"feed utility carries {case['kW']} kW, 56.4 kW over its {case['budget_kW']} kW"
    ]
    ratings = [item.on for item in lint(room, TODAY) if item.rule == "feed-ratings"]
    assert ratings == [("board", "pdu1", "pdu2", "pdu3", "pdu4"), ("utility", "board")]


@given(
    st.integers(1, 6),
    st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any),
    st.sets(st.integers(1, 4)),
)
def test_the_first_size_that_is_refused_is_that_which_generate_tells(
    base: int, held: list[int], more: set[int]
) -> None:
    levels = sorted({0, *more})
    sizes = range(1, min(sum(held), base << levels[-1]) + 1)
    refused = [size for size in sizes if refuses(base, held, levels, size)]
    assert (refused[0] if refused else None) == first_refused(base, held, levels)


def test_a_release_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Slurm 21\.08 is not known"):
        lint(loads(ROOM), TODAY, "21.08")


def test_a_room_without_partitions_is_judged_too() -> None:
    text = ROOM[: ROOM.index("partitions:")] + "policy: {job_sizes: [72]}\n"
    rules = {item.rule for item in lint(loads(text), TODAY)}
    assert rules == {"no-partition", "size-over-block", "size-waste"}


# The command.


def run(path: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, ["-i", str(path), "--date", "2026-12-01", *words],
                              standalone_mode=False, env={"COLUMNS": "80"})  # fmt: skip
    if done.exception:
        raise done.exception
    assert isinstance(done.return_value, int)
    return done.return_value, done.output


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Return a room with an error, two warnings, and one that is accepted."""
    path = tmp_path / "room.yaml"
    text = ROOM.replace(*THIN).replace(TRAIN, BOTH)
    text += rack("power: 90 kW, cooling: air") + accept("rack-cooling-usual", "r1")
    path.write_text(text, encoding="utf-8")
    return path


def test_findings_are_told_by_rule_the_worst_first(room: Path) -> None:
    code, text = run(room)
    assert code == 5
    heads = [line for line in text.splitlines() if line[:1] not in (" ", "/")]
    assert heads == [
        "error oversubscription",
        "warning mixed-cards",
        "warning no-partition",
        "note power-uncounted",
        "note release-loses",
    ]
    assert f"{RULE['mixed-cards'].reason}\n" in text
    assert text.splitlines()[-1] == (
        f"{room}: 22 nodes, 1 error, 2 warnings, 2 notes, 1 accepted (--all shows them)"
    )


def test_all_shows_what_is_accepted_and_why(room: Path) -> None:
    code, text = run(room, "--all")
    assert code == 5
    assert "accepted rack-cooling-usual\n" in text
    assert "    why: it is known\n" in text
    assert text.endswith("1 accepted\n")


def test_of_very_many_findings_of_a_rule_the_first_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    text = ROOM + "".join(
        ["maintenance:\n", *(f"  - {{name: care{n:02}, every: 1 y}}\n" for n in range(14))]
    )
    path.write_text(text, encoding="utf-8")
    _, told = run(path)
    assert " ".join(told.split()).count("nobody has said when") == 12
    assert "  and 2 more: --all shows them\n" in told
    assert " ".join(run(path, "--all")[1].split()).count("nobody has said when") == 14


def test_lines_are_not_wider_than_the_terminal(room: Path) -> None:
    _, text = run(room, "--all")
    assert [line for line in text.splitlines() if len(line) > 80 and str(room) not in line] == []
    _, text = run(room, "--rules")
    assert max(map(len, text.splitlines())) <= 80


def test_severities_are_coloured_on_a_terminal(room: Path) -> None:
    done = CliRunner().invoke(command, ["-i", str(room)], color=True)
    assert click.style("error", fg="red", bold=True) in done.output
    assert "\x1b" not in CliRunner().invoke(command, ["-i", str(room)]).output


def test_only_errors_count_and_warnings_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    path.write_text(ROOM.replace(TRAIN, BOTH), encoding="utf-8")
    assert run(path)[0] == 0
    assert run(path, "--strict")[0] == 5
    path.write_text(ROOM.replace(*THIN) + accept("oversubscription", "ib"), encoding="utf-8")
    assert run(path, "--strict")[0] == 0
    path.write_text(ROOM.replace('"26.05"', '"22.05"'), encoding="utf-8")
    code, text = run(path, "--strict")
    assert (code, "1 note" in text or "2 notes" in text) == (0, True)


def test_the_day_and_the_release_may_be_others(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    text = ROOM + "maintenance: [{name: fans, every: 1 y, last: 2026-06-01}]\n"
    path.write_text(text, encoding="utf-8")
    assert run(path) == (0, f"{path}: 22 nodes, nothing found\n")
    code, told = run(path, "--date", "2027-09-01", "--release", "22.05")
    assert code == 5
    assert "error maintenance-overdue" in told
    assert "note reconfigure-dies" in told


def test_json_tells_what_is_accepted_and_what_each_finding_is_about(room: Path) -> None:
    code, text = run(room, "--json", "--release", "24.11")
    found = json.loads(text)
    assert code == 5
    assert {key: found[key] for key in ("version", "inventory", "release", "nodes")} == {
        "version": 1,
        "inventory": str(room),
        "release": "24.11",
        "nodes": 22,
    }
    by_rule = {item["rule"]: item for item in found["findings"]}
    assert by_rule["rack-cooling-usual"]["accepted"] == {"why": "it is known", "until": None}
    assert by_rule["oversubscription"]["accepted"] is None
    assert by_rule["oversubscription"]["on"] == ["ib", "train", "small"]
    assert by_rule["oversubscription"]["line"] == 5
    assert by_rule["power-uncounted"]["hosts"] == "a[1-4],h2-[1-9]"


def test_rules_are_listed_without_an_inventory(tmp_path: Path) -> None:
    code, text = run(tmp_path / "absent.yaml", "--rules")
    assert code == 0
    assert [rule.name for rule in RULES] == [
        line.split()[1] for line in text.splitlines() if not line.startswith(" ")
    ]
    code, text = run(tmp_path / "absent.yaml", "--rules", "--json")
    listed = json.loads(text)
    assert listed["version"] == 1
    assert listed["rules"][0] == {
        "name": "rack-power",
        "severity": "error",
        "reason": RULE["rack-power"].reason,
        "remedy": RULE["rack-power"].remedy,
    }


def test_words_of_the_inventory_cannot_move_the_cursor(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2Jb.yaml"
    path.write_text(ROOM.replace(*THIN), encoding="utf-8")
    text = run(path, "--all")[1]
    assert "oversubscription" in text
    assert "\x1b" not in text
