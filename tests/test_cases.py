"""The cases reported from practice: docs/cases.md says of the model what the model says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from supernode_slurm.inventory import load
from supernode_slurm.placement import Room, inventory_view
from supernode_slurm.sizing import Study, parse_layout, study
from tests.test_sizing import ask_of

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, SITE = DOCS / "cases.md", DOCS / "cases.yaml"
BLOCK = re.compile(r"<!-- (sn plan [^\n]*) -->\n(.*?)<!-- end -->", re.DOTALL)
TABLE = re.compile(r"(?<=<!-- cases -->\n).*?(?=<!-- cases end -->)", re.DOTALL)
ROW = re.compile(r"^ +(1|yours) .*? (\d+\.\d+) +(\d+\.\d)% ", re.MULTILINE)
CASES = (
    ("70B, 128 ordinary cards", "about 30 %"),
    ("70B, 256 ordinary cards", "22 %, less than a fifth less time"),
    ("70B, 128 supernode cards", "-"),
    ("70B, 256 supernode cards", "-"),
    ("13B, 128 ordinary cards", "34 %"),
    ("13B, 64 supernode cards", "58 %, 40 % less time"),
)
"""What each block of the page is of, and what was reported."""
COMPARED = {1: 0, 3: 2, 5: 4}
"""Cases whose time is held against another's."""
USUAL = "tp=8,cp=1,pp=4,vpp=1,micro-batch=1,recompute=selective"
ERROR = 0.15
"""A little more than the expected error on these cards, which the page prints."""


@dataclass(frozen=True)
class Figures:
    """Step time and MFU of a layout, as printed."""

    step_s: float
    mfu: float

    def beside(self, other: Figures | None) -> str:
        text = f"{self.mfu:.1f} %, {self.step_s:.2f} s"
        return (
            text
            if other is None
            else f"{text}, {100 - 100 * self.step_s / other.step_s:.0f} % less time"
        )


def printed() -> list[dict[str, Figures]]:
    """Return the figures of the best and of the usual layout of each case."""
    return [
        {name: Figures(float(step_s), float(mfu)) for name, step_s, mfu in ROW.findall(found[2])}
        for found in BLOCK.finditer(PAGE.read_text("utf-8"))
    ]


def table() -> str:
    figures = printed()
    lines = [
        "| | reported | such a job's layout | the best layout |",
        "|---|---|---|---|",
    ]
    for number, (case, reported) in enumerate(CASES):
        other = figures[COMPARED[number]] if number in COMPARED else {}
        cells = [figures[number][name].beside(other.get(name)) for name in ("yours", "1")]
        lines.append(f"| {' | '.join([case, reported, *cells])} |")
    return "".join(f"{line}\n" for line in lines)


def ran(cards: int, network: float = 1.0, **said: object) -> Study:
    """Return the answer for the usual layout on ordinary nodes."""
    inventory = load(SITE)
    fabrics = tuple(
        replace(item, rail_gbs=(item.rail_gbs or 0) * network) for item in inventory.fabrics
    )
    inventory = replace(inventory, fabrics=fabrics)
    words = {"framework": "mindspeed", "global_batch": 256, **said}
    ask = ask_of(inventory, model="llama-2-70b", cards=f"ascend910b2:{cards}", **words)
    own = parse_layout(USUAL, "--explain")[0]
    return study(Room(inventory, inventory_view(inventory)), ask, 1, own)


def fall(network: float = 1.0, **said: object) -> float:
    """Return by how much the MFU of 256 cards is below that of 128."""
    mfus = []
    for cards in (128, 256):
        explained = ran(cards, network, **said).explained
        assert explained is not None
        assert not explained.problems
        mfus.append(explained.predicted.mfu)
    return mfus[0] - mfus[1]


def test_the_table_holds_what_the_commands_beside_it_print(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text("utf-8")
    assert [len(figures) for figures in printed()] == [2] * len(CASES)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(TABLE.sub(table(), text), "utf-8")
    else:
        assert TABLE.findall(text) == [table()], "run pytest --update-golden, twice"


def test_the_model_agrees_on_ordinary_clusters() -> None:
    reported = {0: 30, 1: 22, 4: 34}
    figures = printed()
    for number, mfu in reported.items():
        assert figures[number]["yours"].mfu == pytest.approx(mfu, rel=ERROR), CASES[number][0]


def test_the_planner_finds_better_layouts_on_ordinary_clusters() -> None:
    for figures in printed():
        assert figures["1"].step_s < figures["yours"].step_s


def test_the_fall_is_less_than_half_on_the_supernode() -> None:
    ordinary, twice, wide, wider = printed()[:4]
    for name in ("1", "yours"):
        less = wide[name].mfu - wider[name].mfu
        assert 2 * less < ordinary[name].mfu - twice[name].mfu


def test_the_fall_needs_a_slow_network_and_full_training() -> None:
    assert fall() > 0.05
    assert 2 * fall(network=8) < fall()
    assert 2 * fall(train="lora") < fall()


def test_most_of_the_gain_on_the_supernode_is_in_the_layout() -> None:
    ordinary, wide = printed()[4:]
    same, best = wide["yours"].step_s, wide["1"].step_s
    assert ordinary["yours"].step_s - same < same - best


def test_of_the_reported_gain_a_part_is_predicted() -> None:
    ordinary, wide = printed()[4:]
    assert wide["1"].mfu < 58 * (1 - ERROR)
    less = 1 - wide["1"].step_s / ordinary["yours"].step_s
    assert f"{less:.0%} less".replace("%", " %") in PAGE.read_text("utf-8")


def test_what_the_reports_say_by_themselves() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    step = 1 / 2 * 30 / 22
    assert f"a step that is {1 - step:.0%}".replace("%", " %") in text
    # Of the time on 128 cards; all of it but the steps stays as it is.
    outside = (0.8 - step) / (1 - step)
    assert f"at least {outside:.0%}".replace("%", " %") in text
    ordinary, wide = 128 * 0.34, 64 * 0.58
    assert f"{ordinary:.1f} to {wide:.1f} cards" in text
    assert f"{ordinary / wide / 0.6:.2f} times the peak" in text
