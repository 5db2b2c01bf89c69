"""Plans over unlike cards, proven by training: they give the parameters of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training_site import (
    EQUAL,
    NEEDS_TORCH,
    Alone,
    Parameters,
    Ran,
    Site,
    Size,
    furthest,
    planned,
    program,
    site,
)

pytestmark = [pytest.mark.slurm, pytest.mark.live, NEEDS_TORCH]

RUNS = ("ddp", "ddp-varied", "fsdp-varied", "fsdp-sum", "followed")
FLAT, DEEP = Size(layers=4, batch=16), Size(layers=6, batch=8)
"""For replicas and for stages."""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    folder = tmp_path_factory.mktemp("alone")
    return Alone(folder, (FLAT, "plain"), (FLAT, "varied"), (DEEP, "varied"))


@pytest.fixture(scope="module")
def replicas(room: Site, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("replicas")
    body = f"sn-launch {program('replicas', folder, *RUNS, 'unweighted')}"
    return room.run(folder, planned("h100:1,a100:1", "torch", FLAT), body)


def test_unlike_cards_get_unlike_shares_of_the_batch(replicas: Ran) -> None:
    first, second = replicas.ranks()
    assert (first["group"], second["group"]) == ("h100", "a100")
    assert first["samples"] > second["samples"] > 0
    assert first["samples"] + second["samples"] == FLAT.batch
    assert second["offset"] == first["samples"]


@pytest.mark.parametrize("run", RUNS)
def test_unequal_replicas_train_as_one_process(run: str, replicas: Ran, alone: Alone) -> None:
    wanted, found = alone(FLAT, "plain" if run == "ddp" else "varied"), replicas.parameters(run)
    assert found.keys() == wanted.keys()
    assert furthest(found, wanted) < EQUAL


def test_the_mean_of_the_ranks_means_does_not(replicas: Ran, alone: Alone) -> None:
    assert furthest(replicas.parameters("unweighted"), alone(FLAT, "plain")) > 1e6 * EQUAL


def test_shares_follow_the_time_of_a_sample(replicas: Ran) -> None:
    """Equal at first, on cards of which one is told to take twice as long."""
    assert [rank["ended"]["followed"] for rank in replicas.ranks()] == [[11, 5], [11, 5]]


def check_stages(ran: Ran, wanted: Parameters) -> list[tuple[str, int]]:
    """Check that all ranks together hold all parameters of one process; return the stages."""
    assert ran.plan is not None
    (pipeline,) = ran.plan.pipelines
    ranks = ran.ranks()
    assert len(ranks) == ran.plan.devices
    names: set[str] = set()
    for rank in ranks:
        found = ran.parameters(f"rank{rank['rank']}")
        assert furthest(found, wanted) < EQUAL, rank
        names.update(found)
        assert rank["held"] == len(pipeline.stages) - rank["stage"]
    assert names == set(wanted)
    stages = {rank["stage"]: (rank["group"], rank["layers"]) for rank in ranks}
    assert [layers for _, layers in stages.values()] == [item.layers for item in pipeline.stages]
    return list(stages.values())


def test_two_uneven_stages_train_as_one_process(room: Site, tmp_path: Path, alone: Alone) -> None:
    body = f"sn-launch {program('stages', tmp_path)}"
    ran = room.run(tmp_path, planned("h100:1,a100:1", "torchtitan", DEEP), body)
    stages = dict(check_stages(ran, alone(DEEP, "varied")))
    assert stages["h100"] > stages["a100"]


def test_three_kinds_of_two_vendors_train_as_one_process(
    room: Site, tmp_path: Path, alone: Alone
) -> None:
    """The vendors meet at a pipeline boundary, and the kinds of one vendor at another."""
    body = f"sn-launch {program('stages', tmp_path)}"
    cards = "h100:1,a100:1,ascend910c:1"
    ran = room.run(tmp_path, planned(cards, "flagscale", DEEP), body)
    stages = check_stages(ran, alone(DEEP, "varied"))
    assert {group for group, _ in stages} == {"h100", "a100", "ascend910c"}
    assert len({layers for _, layers in stages}) > 1
