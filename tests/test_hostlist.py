"""Host lists: Slurm's notation, nothing lost, nothing invented."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm.hostlist import expand, fold
from supernode_slurm.runtime import launch

TABLE = [
    ("n[01-03]", ["n01", "n02", "n03"]),
    ("na,nb[001,003],nc", ["na", "nb001", "nb003", "nc"]),
    ("gpu[007-010]", ["gpu007", "gpu008", "gpu009", "gpu010"]),
    ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
    ("r16-n-[001-002,004],r17-n-[001]", ["r16-n-001", "r16-n-002", "r16-n-004", "r17-n-001"]),
    ("n[1-2],", ["n1", "n2"]),
    ("n[8-11]", ["n8", "n9", "n10", "n11"]),
]

hosts = st.lists(
    st.builds(
        lambda stem, number, width: f"{stem}{number:0{width}d}",
        st.sampled_from(["n", "gpu-", "r1n", "a.b"]),
        st.integers(0, 1200),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize(("text", "names"), TABLE)
def test_a_list_expands_in_the_order_written(text: str, names: list[str]) -> None:
    assert expand(text) == names
    assert launch.expand(text) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n01", "n02", "n10", "n007", "n008"], "n[01-02,10],n[007-008]"),
        (["compute-001", "compute-002"], "compute-[001-002]"),
        (["n9", "n10"], "n[9-10]"),
        (["n08", "n09", "n10", "n100"], "n[08-10,100]"),
        (["login", "a1"], "a1,login"),
        (["n1.example.com", "n2.example.com"], "n1.example.com,n2.example.com"),
        (["x" + "1" * 20, "x" + "1" * 19 + "2"], "x" + "1" * 20 + ",x" + "1" * 19 + "2"),
    ],
)
def test_a_list_folds_as_slurm_writes_it(names: list[str], text: str) -> None:
    assert fold(names) == text


def test_unsorted_folding_keeps_the_order() -> None:
    assert expand(fold(["n3", "n1", "n2"], sort=False)) == ["n3", "n1", "n2"]


@given(hosts)
def test_folding_loses_and_invents_nothing(names: list[str]) -> None:
    text = fold(names)
    assert sorted(expand(text)) == sorted(set(names))
    assert expand(text) == launch.expand(text)
    assert expand(fold(names, sort=False)) == list(dict.fromkeys(names))


@pytest.mark.parametrize(
    "text",
    [
        "", "n[1-3", "n]1[", "n[3-1]", "n[[1]]", "n[]", "n[a-b]", "n[1-10/3]", "a b", "a;reboot",
        "n[0-1000000000]", "n[0-60000]m[0-60000]", "-n1", "n[1-2]\n", "é[1-2]", "x" * 64,
    ],
)  # fmt: skip
def test_what_is_no_host_list_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        expand(text)


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that scontrol insists on, even to fold names."""
    path = tmp_path_factory.mktemp("conf") / "slurm.conf"
    path.write_text("ClusterName=t\nSlurmctldHost=localhost(127.0.0.1)\nNodeName=n1\n")
    return path


@pytest.mark.slurm
@settings(max_examples=25)
@given(names=hosts)
def test_scontrol_reads_what_we_write(names: list[str], slurm_conf: Path) -> None:
    shown = subprocess.run(
        ["scontrol", "show", "hostnames", fold(names)],
        capture_output=True, text=True, timeout=20, check=True,
        env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(slurm_conf)},
    )  # fmt: skip
    assert sorted(shown.stdout.split()) == sorted(set(names))
