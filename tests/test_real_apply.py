"""sn apply on a real slurmctld: after each fault old or new files, and the next one mends it."""

from __future__ import annotations

import os

import pytest

from supernode_slurm.twin import installed_release
from tests.apply_faults import FAULTS, Fault, Found

pytestmark = pytest.mark.slurm

LEAVES = {
    "no permission to write": {"old"},
    "sn apply is killed": {"new or old", "old or new", "old", "new"},
    "a file was changed by hand": {"mixed"},
    "nodes are added": {"new"},
}
"""The files after a fault, old ones for those that are not named."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.happen.__name__)
def test_after_a_fault_the_files_are_whole_and_the_next_apply_mends_it(fault: Fault) -> None:
    if fault.root_only and os.geteuid():
        pytest.skip("only root can make this fault")
    if fault.happen.__name__ == "killed" and installed_release() != "22.05":
        pytest.skip("what a kill leaves does not depend on the release; it takes two minutes")
    found: Found = fault.happen()
    assert found.files in LEAVES.get(fault.name, {"old"})
    assert found.said
    hand = fault.name == "a file was changed by hand"
    assert (
        found.then
        == f"0: {'old' if hand else 'new'} files, slurmctld runs {'old' if hand else 'new'}"
    )
    assert "something else" not in found.controller or hand
