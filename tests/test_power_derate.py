"""Lost cooling: who is capped and who is drained, what is left, and the scripts that do it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.catalogue import (
    accelerators,
    capped,
    find_accelerator,
    least_rate_share,
    platform,
    rate_share,
)
from supernode_slurm.derating import (
    DeratePlan,
    JobShare,
    Usage,
    apply_script,
    cap_command,
    derate,
    no_command,
    undo_script,
    usage_of,
)
from supernode_slurm.derating.commands import TOOLS, UNSURE
from supernode_slurm.derating.model import Kind, Node
from supernode_slurm.derating.rack import rack_plan
from supernode_slurm.errors import UsageError, Where
from supernode_slurm.inventory import Cooling, Inventory, Rack, loads
from supernode_slurm.placement import Room, Wanted, choose, find_slots, inventory_view, remarks
from supernode_slurm.planner.rates import best_tflops
from supernode_slurm.sizing.cost import cost_of
from supernode_slurm.slurm import JobId, LiveJob
from tests.fake_slurm import FakeSlurm
from tests.test_cli import MIXED
from tests.test_power import room
from tests.test_sizing import ask_of

TRAY = "power: {most: 6.667 kW, idle: 1 kW}"


def site(
    air: str = "80 kW", *, power: str = TRAY, devices: str = "{gb200: 4}", more: str = ""
) -> Inventory:
    """Return two supernodes, each in a rack of 18 trays whose air takes so much."""
    words = f"cooling: {{kind: cold-plate, liquid: 115 kW, air: {air}}}"
    return room(18, power, racks=(words, words), devices=devices, more=more)


def with_spares(inventory: Inventory, count: int) -> Inventory:
    supernodes = tuple(replace(item, spares=count) for item in inventory.supernodes)
    return replace(inventory, supernodes=supernodes)


def drained(plan: DeratePlan) -> list[str]:
    return [node.host for node in plan.drained]


def caps(plan: DeratePlan) -> list[tuple[str, int, int]]:
    return [(cap.kind.accelerator, len(cap.hosts), cap.watts) for cap in plan.caps]


# Who is capped.


def test_caps_alone_bring_a_rack_under_what_the_air_takes() -> None:
    plan = derate(site("80 kW"), "sn1")
    # 18 hosts of 1867 W leave 46394 W for 72 cards.
    assert caps(plan) == [("gb200", 18, 644)]
    assert drained(plan) == []
    (rack,) = plan.racks
    assert rack.after_w == 18 * (1867 + 4 * 644)
    assert rack.after_w <= 80e3 < rack.after_w + 72
    assert plan.is_enough
    assert plan.domain_caps == {"sn1": 644}


def test_a_rack_that_the_air_can_cool_is_left_alone() -> None:
    plan = derate(site("130 kW"), "sn1")
    assert (plan.caps, plan.drained, plan.is_enough) == ((), (), True)
    assert plan.racks[0].after_w == plan.racks[0].before_w == pytest.approx(120_006)
    assert "nothing to do" in apply_script(plan)


def test_no_card_goes_below_its_lowest_cap() -> None:
    for kilowatts in range(20, 121, 5):
        plan = derate(site(f"{kilowatts} kW"), "sn1")
        assert all(200 <= cap.watts < 1200 for cap in plan.caps)
        (rack,) = plan.racks
        assert rack.is_enough == (rack.after_w <= kilowatts * 1e3 + 1e-3)
        assert plan.is_enough


def test_the_fewest_nodes_are_drained() -> None:
    # All at 200 W draw 18 x 2667; each drained one saves 1667.
    for kilowatts in (47, 40, 33, 21):
        plan = derate(site(f"{kilowatts} kW"), "sn1")
        count = len(plan.drained)
        least = 18 * 2667.0 - 1667.0 * count
        assert least <= kilowatts * 1e3 < least + 1667.0
    assert len(derate(site("21 kW"), "sn1", is_off=True).drained) < count


def test_where_even_idle_nodes_are_too_much_the_plan_says_so() -> None:
    plan = derate(site("17 kW"), "sn1")
    assert len(plan.drained) == 18
    assert plan.racks[0].after_w == 18e3
    assert not plan.is_enough
    off = derate(site("17 kW"), "sn1", is_off=True)
    assert off.is_enough
    assert len(off.drained) == 12


def test_equipment_is_served_before_cards() -> None:
    words = (
        "cooling: {kind: cold-plate, air: 80 kW}, "
        "equipment: {switch-tray: {count: 9, power: 400 W}, loss: {power: 800 W}}"
    )
    plan = derate(room(18, TRAY, racks=(words,)), "sn1")
    assert caps(plan) == [("gb200", 18, 583)]
    assert plan.racks[0].after_w <= 80e3


def test_a_rack_is_planned_whole_whoever_stands_in_it() -> None:
    text = (
        "version: 1\ncluster: t\nsupernodes:\n"
        "  - name: a\n    interconnect: {kind: switch}\n    nodes: {hosts: 'a[1-4]', "
        "devices: {gb200: 4}, sockets: 2, cores: 9, memory: 9 GiB, power: 6.667 kW}\n"
        "  - name: b\n    interconnect: {kind: switch}\n    nodes: {hosts: 'b[1-2]', "
        "devices: {h100-sxm: 8}, sockets: 2, cores: 9, memory: 9 GiB, power: 10.2 kW}\n"
        "racks:\n  - {name: r, hosts: 'a[1-4],b1', cooling: {kind: rear-door, air: 25 kW}}\n"
    )
    plan = derate(loads(text), "a")
    # 25 kW less 4 x 1867 and 4600 W is 12932 W, of 16 x 1200 and 8 x 700 W.
    assert caps(plan) == [("gb200", 4, 625), ("h100-sxm", 1, 365)]
    assert plan.domain_caps == {"a": 625, "b": 365}
    assert derate(loads(text), "r").caps == plan.caps
    other = derate(loads(text), "b")
    assert other.outside == ("b2",)
    assert not other.is_enough


def test_what_is_under_a_cap_already_is_never_raised() -> None:
    plan = derate(site("80 kW", more="derated: [{on: sn1, cap: 500 W}]\n"), "sn1")
    assert plan.caps == ()
    assert plan.racks[0].before_w == 18 * (1867 + 2000)
    lower = derate(site("60 kW", more="derated: [{on: sn1, cap: 500 W}]\n"), "sn1")
    assert [cap.watts for cap in lower.caps] == [366]


# Who is drained.


def test_spares_are_drained_first_then_the_last_nodes() -> None:
    plan = derate(with_spares(site("40 kW"), 2), "sn1")
    assert drained(plan) == [f"sn1-{n:03}" for n in (18, 17, 16, 15, 14)]


def test_idle_nodes_go_before_small_jobs_and_small_jobs_before_large() -> None:
    hosts = [f"sn1-{n:03}" for n in range(1, 19)]
    large, small = JobShare("1", "large", 12), JobShare("2", "small", 2)
    jobs = {host: (large,) for host in hosts[6:]} | {host: (small,) for host in hosts[3:5]}
    usage = Usage(frozenset({hosts[5]}), jobs)
    plan = derate(with_spares(site("40 kW"), 2), "sn1", usage)
    # Out: 6; idle: 3, 2, 1; then a node of the small job. Busy spares are no spares.
    assert drained(plan) == [hosts[5], hosts[2], hosts[1], hosts[0], hosts[4]]
    assert [job.id for job in plan.ended_jobs] == ["2"]
    assert [job.id for job in plan.slowed_jobs] == ["1"]


def test_what_slurm_says_is_read_job_by_job() -> None:
    inventory = site()
    slurm = FakeSlurm(inventory)
    slurm.change(["sn1-001"], "IDLE", "DRAIN")
    slurm.change(["sn1-002"], "IDLE", "RESERVED")

    def job(number: int, hosts: tuple[str, ...], state: str, offset: int | None = None) -> LiveJob:
        return LiveJob(
            id=JobId(number, offset), name="t", states=frozenset({state}), reason="", nodes="",
            partition="p", hosts=hosts, features="", gres=(), exit_code=0,
        )  # fmt: skip

    found = (
        job(1, ("sn1-003", "sn1-004"), "RUNNING", 0),
        job(1, ("sn1-005",), "RUNNING", 1),
        job(2, ("sn1-003",), "COMPLETED"),
        job(3, ("sn1-006",), "SUSPENDED"),
    )
    slurm.jobs = lambda ids=(): found  # type: ignore[method-assign]
    usage = usage_of(slurm)
    assert usage.out == {"sn1-001"}
    assert {host: [(s.id, s.nodes) for s in shares] for host, shares in usage.jobs.items()} == {
        "sn1-003": [("1+0", 3)],
        "sn1-004": [("1+0", 3)],
        "sn1-005": [("1+1", 3)],
        "sn1-006": [("3", 1)],
    }


# What nobody has said.


def test_what_is_assumed_is_said() -> None:
    plain = derate(room(4, "", racks=("cooling: cold-plate",), devices="{h200-sxm: 8}"), "sn1")
    text = "\n".join(plain.assumed)
    assert "r1: nobody has said what the air takes of it; the usual figure" in text
    assert "host power of a node taken as 0.82 of its cards' TDP, 4592 W" in text
    assert "lowest cap taken as 50% of its TDP, 350 W" in text
    assert "drained" not in text
    hot = derate(room(4, "", racks=("cooling: {kind: cold-plate, air: 16 kW}",)), "sn1")
    assert "a drained node taken to draw 0.15 of its most, 1310 W" in hot.assumed[-1]
    assert len(hot.assumed) == 2
    assert derate(site(), "sn1").assumed == ()


def test_a_figure_of_the_site_takes_the_place_of_an_assumed_one() -> None:
    more = "accelerators: {gb200: {least_power: 700 W}}\n"
    plan = derate(site("80 kW", more=more), "sn1")
    assert len(plan.drained) == 2
    assert all(cap.watts >= 700 for cap in plan.caps)


def test_cards_of_unknown_power_are_not_capped() -> None:
    inventory = site("80 kW", power="power: {most: 6 kW, idle: 1 kW}", devices="{ascend910c: 16}")
    plan = derate(inventory, "sn1")
    assert plan.caps == ()
    assert len(plan.drained) == 6
    assert "so none is capped" in plan.assumed[0]
    assert plan.flops is None


def test_of_nodes_of_which_nothing_is_known_no_plan_is_promised() -> None:
    plan = derate(site("80 kW", power="", devices="{ascend910c: 16}"), "sn1")
    assert len(plan.racks[0].unknown) == 18
    assert not plan.is_enough


def test_a_rack_without_liquid_has_none_to_lose() -> None:
    plan = derate(room(4, TRAY, racks=("cooling: air",)), "sn1")
    assert (plan.caps, plan.drained, plan.is_enough) == ((), (), True)
    assert plan.assumed == ("r1 is cooled by air alone: it loses nothing with the liquid",)
    # What the inventory says of the air holds all the same.
    assert derate(room(4, TRAY, racks=("cooling: {kind: air, air: 20 kW}",)), "sn1").caps


def test_immersed_nodes_are_all_drained_where_nobody_has_said_what_air_takes() -> None:
    plan = derate(room(2, TRAY, racks=("cooling: immersion",)), "sn1")
    assert len(plan.drained) == 2
    assert not plan.is_enough
    assert "leaves nothing to the air" in plan.assumed[0]


@pytest.mark.parametrize(
    ("target", "what"),
    [("sn3", "no supernode, pool or rack 'sn3'; did you mean"), ("p", "p stands in no rack")],
)
def test_a_name_of_nothing_is_refused(target: str, what: str) -> None:
    pool = (
        "pools: [{name: p, nodes: {hosts: 'p[1-2]', devices: {t4: 1}, sockets: 1, cores: 4, "
        "memory: 8 GiB}}]\n"
    )
    with pytest.raises(UsageError, match=what):
        derate(site(more=pool), target)


# What is left.


def test_the_peak_left_follows_the_one_rule() -> None:
    plan = derate(site("80 kW"), "sn1")
    flops = plan.flops
    assert flops is not None
    assert flops.before == 72 * 2500
    assert flops.after == pytest.approx(72 * 2500 * rate_share(644 / 1200))
    assert flops.after_least == pytest.approx(72 * 2500 * least_rate_share(644 / 1200))
    fewer = derate(site("40 kW"), "sn1")
    left = fewer.flops
    assert left is not None
    watts = fewer.caps[0].watts
    assert left.after == pytest.approx(13 * 4 * 2500 * rate_share(watts / 1200))


def test_a_capped_card_is_slower_and_nothing_else() -> None:
    card = find_accelerator("h100-sxm")
    slow = capped(card, 350)
    share = rate_share(0.5)
    assert 0.79 < share < 0.8
    assert slow.peak_tflops("bf16") == pytest.approx(989 * share)
    assert slow.matmul_tflops("fp8") == pytest.approx(1402.6 * share)
    assert (slow.card_memory_gbs, slow.card_scale_up_gbs) == (3350, 450)
    assert slow.card_tdp_w == 350
    assert capped(card, None) is card
    assert capped(card, 700) is card
    unsaid = replace(card, card_tdp_w=None)
    assert capped(unsaid, 350) is unsaid


@pytest.mark.parametrize(("key", "usual"), [("gb300", 1400), ("gh200", 600), ("h100-sxm", 700)])
def test_cards_whose_clock_follows_their_power_follow_a_cap_too(key: str, usual: float) -> None:
    card = find_accelerator(key)
    slow = best_tflops(capped(card, 400), "bf16")
    assert slow == pytest.approx(best_tflops(card, "bf16") * rate_share(400 / usual))


def test_lowest_caps_are_below_the_tdp() -> None:
    known = [card for card in accelerators() if card.card_least_w is not None]
    assert {"gb200", "h100-sxm", "a100-sxm-80g"} <= {card.id for card in known}
    for card in known:
        assert card.card_tdp_w is not None
        assert 0 < (card.card_least_w or 0) < card.card_tdp_w


# Commands and scripts.


def test_a_vendor_has_a_command_with_its_source_or_is_said_to_have_none() -> None:
    for vendor in {card.vendor for card in accelerators()}:
        assert platform(vendor)
        if vendor in TOOLS:
            assert TOOLS[vendor].source
            assert vendor not in UNSURE
        else:
            assert f"no command is known that caps cards of {vendor}" in no_command(vendor)


def test_two_kinds_of_cards_of_one_vendor_in_a_node_are_named_by_their_indexes() -> None:
    devices = "{h100-sxm: 4, a100-sxm-80g: 2}"
    words = "cooling: {kind: rear-door, air: 4 kW}"
    plan = derate(room(1, "power: {host: 1 kW}", racks=(words,), devices=devices), "sn1")
    assert [cap_command(cap) for cap in plan.caps] == [
        "nvidia-smi -pm 1 && nvidia-smi -i 0,1,2,3 -pl 583",
        "nvidia-smi -pm 1 && nvidia-smi -i 4,5 -pl 333",
    ]


def fakes(folder: Path, **bodies: str) -> dict[str, str]:
    """Return an environment whose programs write their words into a log."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    log.touch()
    for name, body in bodies.items():
        path = folder / name
        path.write_text(
            f'#!/bin/sh\nprintf "%s" "{name}" >>"$LOG"\nprintf " <%s>" "$@" >>"$LOG"\n'
            f'echo >>"$LOG"\n{body}\n'
        )
        path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "LOG": str(log)}


def sh(script: str, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-s", "--", *words], input=script, env=env, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def logged(env: dict[str, str]) -> list[str]:
    return Path(env["LOG"]).read_text().splitlines()


def test_a_script_does_nothing_before_it_is_told_to(hostile_path: Path) -> None:
    env = fakes(hostile_path / "bin", clush="", scontrol="", sinfo="")
    for text in (apply_script(plan := derate(site("40 kW"), "sn1")), undo_script(plan)):
        done = sh(text, env)
        assert (done.returncode, done.stderr) == (0, "")
        assert "nvidia-smi" in done.stdout
        assert logged(env) == []
        wrong = sh(text, env, "--dry")
        assert (wrong.returncode, logged(env)) == (2, [])


def test_a_script_caps_then_drains_what_is_not_drained_yet(tmp_path: Path) -> None:
    env = fakes(
        tmp_path / "bin",
        clush="",
        scontrol="",
        sinfo="case $4 in sn1-018) echo drained; echo drained ;; *) echo idle ;; esac",
    )
    plan = derate(site("40 kW"), "sn1")
    done = sh(apply_script(plan), env, "--run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    lines = logged(env)
    assert lines[0].startswith("clush <-b> <-S> <-w> <sn1-[001-013]> <--> <nvidia-smi -pm 1 && ")
    assert lines[1].startswith("clush <-b> <-S> <-w> <sn1-[014-018]>")
    assert lines[1].endswith("nvidia-smi -pl 200>")
    updates = [line for line in lines if line.startswith("scontrol")]
    assert updates == [
        f"scontrol <update> <NodeName=sn1-{n:03}> <State=DRAIN> <Reason=sn power: cooling of sn1>"
        for n in (17, 16, 15, 14)
    ]


def test_a_script_goes_on_past_what_fails_and_says_so_at_the_end(tmp_path: Path) -> None:
    env = fakes(tmp_path / "bin", pdsh="exit 3", scontrol="exit 1", sinfo="exit 1")
    env["SN_CARRY"] = "pdsh"
    done = sh(apply_script(derate(site("40 kW"), "sn1")), env, "--run")
    assert done.returncode == 1
    assert sum(line.startswith("pdsh <-S> <-w>") for line in logged(env)) == 2
    assert sum(line.startswith("scontrol <update>") for line in logged(env)) == 5


def test_the_carrier_may_be_a_program_of_the_site(tmp_path: Path) -> None:
    env = fakes(tmp_path / "bin", carry="")
    env["SN_CARRY"] = str(tmp_path / "bin/carry")
    assert sh(apply_script(derate(site("80 kW"), "sn1")), env, "--run").returncode == 0
    assert logged(env) == ["carry <sn1-[001-018]> <nvidia-smi -pm 1 && nvidia-smi -pl 644>"]


def test_ssh_reaches_node_by_node(tmp_path: Path) -> None:
    env = fakes(tmp_path / "bin", ssh="", scontrol="echo sn1-001; echo sn1-002")
    env["SN_CARRY"] = "ssh"
    assert sh(apply_script(derate(site("80 kW"), "sn1")), env, "--run").returncode == 0
    reached = [line for line in logged(env) if line.startswith("ssh")]
    assert [line.split("<")[-2] for line in reached] == ["sn1-001> ", "sn1-002> "]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ("leave", []),
        ("requeue", ["scontrol <requeue> <7_3>"]),
        ("cancel", ["scancel <7_3>"]),
    ],
)
def test_jobs_on_drained_nodes_are_left_unless_asked(
    jobs: str, expected: list[str], tmp_path: Path
) -> None:
    squeue = "case $3 in sn1-018) echo 7_3 ;; esac"
    env = fakes(
        tmp_path / "bin", clush="", scontrol="", scancel="", sinfo="echo idle", squeue=squeue
    )
    env["SN_JOBS"] = jobs
    assert sh(apply_script(derate(site("40 kW"), "sn1")), env, "--run").returncode == 0
    lines = [line for line in logged(env) if "requeue" in line or line.startswith("scancel")]
    assert lines == expected
    env["SN_JOBS"] = "kill"
    assert sh(apply_script(derate(site("40 kW"), "sn1")), env, "--run").returncode == 2


def test_undoing_resumes_only_what_was_drained_for_this(tmp_path: Path) -> None:
    reason = "sn power: cooling of sn1"
    env = fakes(
        tmp_path / "bin",
        clush="",
        scontrol="",
        sinfo=f'case $4 in sn1-017) echo "{reason}" ;; sn1-018) echo bad DIMM ;; esac',
    )
    done = sh(undo_script(derate(site("40 kW"), "sn1")), env, "--run")
    assert (done.returncode, done.stderr) == (0, "")
    updates = [line for line in logged(env) if line.startswith("scontrol")]
    assert updates == ["scontrol <update> <NodeName=sn1-017> <State=UNDRAIN>"]
    (reset,) = [line for line in logged(env) if line.startswith("clush")]
    assert "power.default_limit" in reset


def test_the_vendors_own_limit_is_asked_of_the_driver_and_set_card_by_card(tmp_path: Path) -> None:
    env = fakes(
        tmp_path / "bin",
        **{"nvidia-smi": 'case $1 in --query*) echo "0, 1200.00"; echo "1, 1000.00" ;; esac'},
    )
    assert sh(TOOLS["nvidia"].reset, env).returncode == 0
    assert logged(env)[1:] == [
        "nvidia-smi <-i> <0> <-pl> <1200>",
        "nvidia-smi <-i> <1> <-pl> <1000>",
    ]


def test_undoing_goes_back_to_a_cap_of_the_inventory() -> None:
    plan = derate(site("40 kW", more="derated: [{on: sn1, cap: 500 W}]\n"), "sn1")
    assert "nvidia-smi -pm 1 && nvidia-smi -pl 500'" in undo_script(plan)


def test_cards_without_a_known_command_are_left_to_a_person(tmp_path: Path) -> None:
    more = "accelerators: {ascend910c: {power: 350 W}}\n"
    inventory = site(
        "80 kW", power="power: {most: 6 kW, idle: 1 kW}", devices="{ascend910c: 16}", more=more
    )
    plan = derate(inventory, "sn1")
    assert plan.caps
    env = fakes(tmp_path / "bin", clush="")
    shown = sh(apply_script(plan), env)
    assert (shown.returncode, shown.stderr) == (0, "")
    done = sh(apply_script(plan), env, "--run")
    assert done.returncode == 1
    assert "by hand, on sn1-[001-018]: cap ascend-910c at" in done.stderr
    assert shown.stdout == done.stderr
    assert "npu-smi" in done.stderr
    assert logged(env) == []


@pytest.mark.parametrize("air", ["20 kW", "40 kW", "80 kW", "200 kW"])
def test_scripts_satisfy_shellcheck_and_a_strict_sh(air: str, tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck on this machine")
    plan = derate(site(air), "sn1")
    for name, text in (("apply", apply_script(plan)), ("undo", undo_script(plan))):
        path = tmp_path / name
        path.write_text(text)
        done = subprocess.run(
            ["shellcheck", str(path)], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (0, "")
        assert "set -eu" in text


# sn plan.


def derated_room(more: str) -> Room:
    inventory = loads(MIXED.read_text("utf-8") + more)
    return Room(inventory, inventory_view(inventory))


def powers(room: Room, devices: int) -> list[tuple[tuple[str, ...], float | None]]:
    slots = find_slots(room, Wanted("h100", devices))
    return [(slot.domains, slot.offer.accelerator.card_tdp_w) for slot in slots]


def test_a_capped_supernode_is_a_choice_of_its_own() -> None:
    assert powers(derated_room(""), 64) == [(("sn1", "sn2"), 700)]
    one = derated_room("derated: [{on: sn1, cap: 350 W}]\n")
    assert powers(one, 64) == [(("sn1",), 350), (("sn2",), 700)]
    both = derated_room("derated: [{on: 'sn[1-2]', cap: 350 W}]\n")
    assert powers(both, 64) == [(("sn1", "sn2"), 350)]


def test_a_job_over_a_capped_supernode_and_another_is_as_slow_as_the_capped() -> None:
    assert powers(derated_room(""), 128)[0][1] == 700
    (found,) = powers(derated_room("derated: [{on: sn1, cap: 350 W}]\n"), 128)
    assert found == (("sn1", "sn2"), 350)


def test_plans_avoid_a_capped_supernode_and_say_so_where_they_cannot() -> None:
    def best(more: str) -> tuple[float, tuple[str, ...], str]:
        room = derated_room(more)
        ask = ask_of(room.inventory, model="llama-3-8b", cards="h100:64")
        choice = choose(room, ask)[0]
        assert choice.plan.predicted is not None
        words = "\n".join(remarks(room.inventory, ask, choice))
        return choice.plan.predicted.step_time_s, choice.slots[0].domains, words

    usual, _, nothing = best("")
    assert "capped" not in nothing
    step_s, domains, words = best("derated: [{on: sn1, cap: 350 W}]\n")
    assert (step_s, domains) == (pytest.approx(usual), ("sn2",))
    assert "capped" not in words
    slow_s, domains, words = best("derated: [{on: 'sn[1-2]', cap: 350 W}]\n")
    assert domains == ("sn1", "sn2")
    assert 1 < slow_s / usual < 1 / rate_share(0.5)
    assert (
        "sn[1-2]: h100 capped at 350 of 700 W are planned at 79% of their rate, which may be as "
        "low as 50%" in words
    )


def test_energy_is_that_of_the_caps() -> None:
    def kwh(more: str) -> float:
        room = derated_room(more)
        ask = ask_of(room.inventory, model="llama-3-8b", cards="h100:64")
        plan = choose(room, ask)[0].plan
        cost = cost_of(room.inventory, plan)
        assert cost.energy_kwh is not None
        return cost.energy_kwh / cost.card_hours

    assert kwh("") == pytest.approx(0.7)
    assert kwh("derated: [{on: 'sn[1-2]', cap: 350 W}]\n") == pytest.approx(0.35)


# Any room.

KINDS = st.sampled_from(
    [
        Kind("a", "nvidia", 4, 0, 4, 1200, 1200, 200, 1.0),
        Kind("b", "amd", 8, 0, 8, 700, 700, 350, 1.0),
    ]
)


@st.composite
def racks(draw: st.DrawFn) -> list[Node]:
    found = []
    for index in range(draw(st.integers(1, 6))):
        job = draw(st.sampled_from([None, JobShare("1", "x", 2), JobShare("2", "y", 5)]))
        kinds = tuple(draw(st.lists(KINDS, max_size=2, unique=True)))
        found.append(
            Node(
                host=f"n{index}",
                domain="d",
                kinds=kinds,
                host_w=draw(st.integers(100, 3000)),
                off_w=draw(st.integers(0, 1500)),
                is_spare=draw(st.booleans()),
                is_out=draw(st.booleans()),
                jobs=(job,) if job else (),
            )
        )
    return found


@given(nodes=racks(), air_w=st.integers(0, 40_000))
def test_no_plan_drains_more_than_it_must_or_exceeds_its_limit(
    nodes: list[Node], air_w: int
) -> None:
    rack = Rack("r", (), None, None, Cooling("rear-door", air_w=air_w), (), (), Where("x"))
    plan = rack_plan(rack, nodes, ())

    def fits(gone: tuple[Node, ...]) -> bool:
        return air_w >= sum(n.off_w if n in gone else n.least_w for n in nodes)

    possible = [n for n in range(len(nodes) + 1) if any(map(fits, combinations(nodes, n)))]
    if possible:
        assert len(plan.drained) == possible[0]
        assert plan.is_enough
    else:
        assert len(plan.drained) == len(nodes)
    assert all(cap.kind.least_w <= cap.watts < cap.kind.most_w for cap in plan.caps)
    if plan.caps:
        # Nothing is given away: a watt more for every card would be too much.
        cards = sum(cap.kind.count * len(cap.hosts) for cap in plan.caps)
        assert plan.after_w + cards + 1 >= min(plan.limit.w, plan.before_w)
