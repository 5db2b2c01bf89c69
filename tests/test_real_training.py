"""Plans over unlike cards, proven by training: they give the parameters of one process."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.training_site import (
    BATCH,
    Parameters,
    Ran,
    Site,
    furthest,
    one_process,
    planned,
    program,
    read,
    site,
)

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.live,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="no torch here: docs/dependencies.md says how to have it",
    ),
]

EQUAL = 1e-10
"""Parameters are of order 1 in float64. Sums in another order differ by some 1e-15, which 30
steps of AdamW amplify to 4e-13 as measured; a wrong weight shows as 1e-2."""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Parameters]:
    """Return the parameters of one process, by the lengths of sequences."""
    folder = tmp_path_factory.mktemp("alone")
    one_process(folder)
    return {name: read(folder / f"{name}.npz") for name in ("plain", "varied")}


RUNS = ("ddp", "ddp-varied", "fsdp-varied", "fsdp-sum")


@pytest.fixture(scope="module")
def replicas(room: Site, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("replicas")
    body = f"sn-launch {program('replicas', folder, *RUNS, 'unweighted')}"
    return room.run(folder, planned("h100:1,a100:1", "torch"), body)


def test_unlike_cards_get_unlike_shares_of_the_batch(replicas: Ran) -> None:
    first, second = replicas.ranks()
    assert (first["group"], second["group"]) == ("h100", "a100")
    assert first["samples"] > second["samples"] > 0
    assert first["samples"] + second["samples"] == BATCH
    assert second["offset"] == first["samples"]


@pytest.mark.parametrize("run", RUNS)
def test_unequal_replicas_train_as_one_process(
    run: str, replicas: Ran, alone: dict[str, Parameters]
) -> None:
    wanted = alone["plain" if run == "ddp" else "varied"]
    found = replicas.parameters(run)
    assert found.keys() == wanted.keys()
    assert furthest(found, wanted) < EQUAL


def test_the_mean_of_the_ranks_means_does_not(replicas: Ran, alone: dict[str, Parameters]) -> None:
    assert furthest(replicas.parameters("unweighted"), alone["plain"]) > 1e6 * EQUAL
