"""Ranks of one job may run other versions of Python: all of them compute the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supernode_slurm.runtime.archive import archive
from tests.test_house import ROOT, find_python38

PROGRAM = """
import json
import random

from supernode_slurm.runtime import (
    Balance, ShareSampler, balanced_shares, cut_by_length, equal_share, loss_scale, micro_steps,
    over_torch,
)

random.seed(1)
shown = []
for _ in range(200):
    costs = [random.uniform(0.1, 9) for _ in range(random.randint(1, 9))]
    shares = balanced_shares(len(costs) + random.randint(0, 99), costs)
    shown.append((shares, micro_steps(shares, [random.randint(1, 4) for _ in costs])))
    lengths = [random.randint(0, 4096) for _ in range(sum(shares))]
    shown.append(cut_by_length(lengths, shares))
mine = equal_share(12, 2, {"RANK": "1", "WORLD_SIZE": "3"})
sampler = ShareSampler(1001, mine.with_shares([6, 4, 2]), seed=5, last="pad", equal_steps=True)
for micros in sampler.steps(sampler):
    shown.append(micros)
    sampler.finish_step()
shown.append(sampler.state_dict())


def three_ranks(sent):
    # The other two are 0.1 + 0.2 times as slow.
    if len(sent) == 6:
        return [sent[2] * 0.3, 1.0, *sent[2:4], sent[2] * (0.1 + 0.2), 3.0]
    return [value * 3 for value in sent]


balance = Balance(mine, three_ranks, every=3, least_gain=0.0)
for step in range(30):
    shown.append((balance.rebalance(random.uniform(1, 2), 0.7), balance.costs))
shown.append(loss_scale(7, three_ranks))
print(json.dumps(shown))
"""


def shown_by(python: str, path: Path, folder: Path) -> str:
    # Nothing but the standard library and this path: neither site-packages nor the checkout.
    program = f"import sys; sys.path.insert(0, {str(path)!r})\n{PROGRAM}"
    done = subprocess.run(
        [python, "-I", "-S", "-c", program], cwd=folder, capture_output=True, text=True,
        timeout=120, check=False, env={**os.environ, "PYTHONPYCACHEPREFIX": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """Return sn-launch as one file."""
    path = tmp_path / "sn-launch.pyz"
    path.write_bytes(archive())
    return path


def test_the_launchers_file_computes_what_the_package_does(launcher: Path) -> None:
    shown = shown_by(sys.executable, ROOT, launcher.parent)
    assert shown.count("[") > 500
    assert shown == shown_by(sys.executable, launcher, launcher.parent)


def test_python_3_8_computes_the_same(launcher: Path) -> None:
    python = find_python38()
    if python is None:
        pytest.skip("no python3.8 on this machine")
    here = shown_by(sys.executable, launcher, launcher.parent)
    assert shown_by(python, launcher, launcher.parent) == here


def test_the_package_loads_what_a_loop_needs_only_on_use(launcher: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(launcher)!r})\n"
        "import supernode_slurm.runtime as r\n"
        "print(sorted(m for m in sys.modules if m.startswith('supernode_slurm')))\n"
        "print([getattr(r, name).__name__ for name in r.__all__ if name != 'SumOverRanks'])\n"
        "try: r.balanse\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    loaded, names, error = done.stdout.splitlines()
    assert loaded == str(
        ["supernode_slurm", "supernode_slurm.runtime", "supernode_slurm.runtime.share"]
    )
    assert names.count("'") == 2 * 11
    assert error == "module 'supernode_slurm.runtime' has no attribute 'balanse'"
