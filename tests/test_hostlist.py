"""Host lists: Slurm's notation, nothing lost, nothing invented, in Slurm's order."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supernode_slurm.hostlist import expand, fold
from supernode_slurm.twin import installed_release

DATA = Path(__file__).parent / "data" / "hostlist"
RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
each_release = pytest.mark.parametrize("release", RECORDED)

TABLE = [
    ("n[01-03]", ["n01", "n02", "n03"]),
    ("na,nb[001,003],nc", ["na", "nb001", "nb003", "nc"]),
    ("gpu[007-010]", ["gpu007", "gpu008", "gpu009", "gpu010"]),
    ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
    ("r[1-2]a[3-4]n[5,6]", [f"r{r}a{a}n{n}" for a in (3, 4) for r in (1, 2) for n in (5, 6)]),
    ("r16-n-[001-002,004],r17-n-[001]", ["r16-n-001", "r16-n-002", "r16-n-004", "r17-n-001"]),
    ("n[1-2],", ["n1", "n2"]),
    ("n[8-11]", ["n8", "n9", "n10", "n11"]),
    ("a[1-2]-b", ["a1-b", "a2-b"]),
]

hosts = st.lists(
    st.one_of(
        st.builds(
            lambda stem, number, width: f"{stem}{number:0{width}d}",
            st.sampled_from(["n", "gpu-", "r1n", "a.b", "x_"]),
            st.integers(0, 1200) | st.integers(10**17, 10**17 + 3) | st.integers(10**18, 10**19),
            st.integers(1, 4) | st.integers(17, 20),
        ),
        st.from_regex(r"[a-z][a-z0-9.-]{0,5}[a-z-]", fullmatch=True),
        st.sampled_from(["n", "gpu-", "r1n", "x_"]),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize(("text", "names"), TABLE)
def test_a_list_expands_in_the_order_written(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n01", "n02", "n10", "n007", "n008"], "n[01-02,10],n[007-008]"),
        (["compute-001", "compute-002"], "compute-[001-002]"),
        (["n9", "n10"], "n[9-10]"),
        (["n08", "n09", "n10", "n100"], "n[08-10,100]"),
        (["n0", "n1", "n00", "n01"], "n[0-1],n[00-01]"),
        (["login", "a1"], "a1,login"),
        (["login", "login1", "login2", "login02"], "login,login[1-2],login02"),
        (["n1.example.com", "n2.example.com"], "n1.example.com,n2.example.com"),
        (["x" + "1" * 20, "x" + "1" * 19 + "2"], "x" + "1" * 20 + ",x" + "1" * 19 + "2"),
    ],
)
def test_a_list_folds_as_slurm_writes_it(names: list[str], text: str) -> None:
    assert fold(names) == text


def test_unsorted_folding_keeps_the_order() -> None:
    assert expand(fold(["n3", "n1", "n2"], sort=False)) == ["n3", "n1", "n2"]


def test_a_bracket_may_hold_more_hosts_than_one_range() -> None:
    names = [f"n{number}" for number in range(100_000)]
    assert fold(names) == "n[0-65535,65536-99999]"
    assert expand(fold(names)) == names


@given(hosts)
def test_folding_loses_and_invents_nothing(names: list[str]) -> None:
    text = fold(names)
    assert sorted(expand(text)) == sorted(set(names))
    assert expand(fold(names, sort=False)) == list(dict.fromkeys(names))
    assert fold(reversed(names)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "n[1-3", "n]1[", "n[3-1]", "n[[1]]", "n[]", "n[a-b]", "n[1-10/3]", "a b", "a;reboot",
        "n[0-1000000000]", "n[0-60000]m[0-60000]", "-n1", "n[1-2]\n", "é[1-2]", "x" * 64,
        "n[0-65536]", "n18446744073709551615", "n[1,9999999999999999999,2]9", "n1" + "0" * 20,
    ],
)  # fmt: skip
def test_what_is_no_host_list_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        expand(text)


INPUTS = (DATA / "inputs.txt").read_text(encoding="utf-8").split()
OUR_OWN = {
    "n[1-]": "half a range",
    ",n1": "an empty name",
    "n1,,n2": "an empty name",
    "node[1-3": "22.05 makes 'node]' of it",
    "node]1": "no host name",
    "n[1-2]]": "no host name",
    "n[[1-2]]": "no host name",
    "n1;n2": "no host name",
    "n1(x2)": "no host name",
    "é[1-2]": "no host name",
    "x18446744073709551615": "Slurm takes every larger number for this one",
    "x18446744073709551616": "Slurm takes it for another number",
    "x111111111111111111111": "Slurm takes it for another number",
}
"""What scontrol takes and we refuse, and why."""
MIXED_WIDTHS = {
    "n[1,3-4,07]", "n[07,8]", "n[01-02,003]", "n[1-2,004-005]", "n01,n02,n10,n007",
}  # fmt: skip
"""scontrol puts numbers of several widths into one bracket; we give each its own."""
LONG = re.compile(r"[0-9]{19}")
"""Numbers that scontrol folds and we leave alone."""
BEFORE_SUFFIXES = ("22.05", "23.02")
"""Releases whose brackets end a name."""


def has_suffix(text: str) -> bool:
    return any(re.search(r"\][^\[\],]+\Z", item) for item in re.split(r",(?![^\[]*\])", text))


def test_the_releases_on_which_tests_run_are_recorded() -> None:
    assert list(RECORDED) == ["22.05", "24.11", "26.05"]
    assert all(list(table) == INPUTS for table in RECORDED.values())


@each_release
def test_what_we_read_is_what_scontrol_reads(release: str) -> None:
    for text, said in RECORDED[release].items():
        try:
            names = expand(text)
        except ValueError:
            assert said["hostnames"] is None or text in OUR_OWN
        else:
            expected = None if has_suffix(text) and release in BEFORE_SUFFIXES else names
            assert said["hostnames"] == expected, text


@each_release
def test_what_scontrol_writes_of_names_is_what_we_write(release: str) -> None:
    for text, said in RECORDED[release].items():
        if said["hostnames"] is None or text in OUR_OWN:
            continue
        names = said["hostnames"]
        assert expand(said["hostlist"]) == names
        is_plain = text not in MIXED_WIDTHS and not LONG.search(text)
        if is_plain and len(set(names)) == len(names):
            assert fold(names, sort=False) == said["hostlist"], text


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with the file on which scontrol insists, even to fold names."""
    path = tmp_path_factory.mktemp("conf") / "slurm.conf"
    path.write_text("ClusterName=t\nSlurmctldHost=localhost(127.0.0.1)\nNodeName=n1\n")
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "SLURM_CONF": str(path), "LC_ALL": "C.UTF-8"}


def scontrol(argv: Sequence[str], env: dict[str, str], text: str = "") -> str:
    done = subprocess.run(
        ["scontrol", *argv], env=env, input=text, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return done.stdout if "Invalid" not in done.stderr else ""


def hostnames(lists: Sequence[str], env: dict[str, str]) -> list[list[str]]:
    """Return what each list expands to; one scontrol reads them all."""
    commands = "".join(f"show hostnames {text}\n" for text in lists)
    # It echoes its commands, and cuts them at the width of the terminal.
    said = scontrol([], {**env, "COLUMNS": "2000000"}, commands).removesuffix("scontrol: \n")
    _, *answers = said.split("scontrol: show hostnames ")
    return [answer.split("\n")[1:-1] for answer in answers]


@pytest.mark.slurm
def test_scontrol_still_says_what_is_recorded(
    golden: Callable[[Path, str], None], env: dict[str, str]
) -> None:
    """Record again: scripts/slurm-lab exec RELEASE -- pytest -k recorded --update-golden."""
    lines = []
    for text in INPUTS:
        names = scontrol(["show", "hostnames", text], env).split()
        folded = scontrol(["show", "hostlist", ",".join(names)], env).strip() if names else None
        said = {"hostnames": names or None, "hostlist": folded}
        lines.append(f"{json.dumps(text)}: {json.dumps(said)}")
    golden(DATA / f"{installed_release()}.json", "{\n" + ",\n".join(lines) + "\n}\n")


def brackets(suffixes: bool) -> st.SearchStrategy[str]:
    """Return what one item of a list may be: up to four brackets, numbers of all widths."""
    spans = st.builds(
        lambda low, more, width: f"{low:0{width}d}" + (f"-{low + more:0{width}d}" if more else ""),
        st.integers(0, 120) | st.integers(9_990, 10_010) | st.integers(10**18, 10**19 - 9),
        st.integers(0, 3),
        st.integers(1, 5),
    )
    bracket = st.lists(spans, min_size=1, max_size=2).map(lambda found: f"[{','.join(found)}]")
    stem = st.from_regex(r"[a-z_][a-z0-9.-]{0,3}", fullmatch=True)
    end = st.from_regex(r"[a-z.-][a-z0-9.-]{0,3}", fullmatch=True) if suffixes else st.nothing()
    parts = st.lists(st.tuples(stem, bracket).map("".join), max_size=4).map("".join)
    return st.one_of(
        st.builds(lambda head, tail: head + tail, parts, st.just("") | end),
        st.builds(lambda head, tail: f"{head}{tail}", stem, st.integers(0, 2**64 - 2)),
        st.tuples(stem, bracket, bracket).map("".join),
    ).filter(bool)


@pytest.mark.slurm
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_lists_expand_as_on_the_installed_slurm(
    data: st.DataObject, env: dict[str, str]
) -> None:
    item = brackets(suffixes=installed_release() not in BEFORE_SUFFIXES)
    texts = st.lists(item, min_size=1, max_size=3).map(",".join)
    ours: dict[str, list[str]] = {}
    for text in data.draw(st.lists(texts, min_size=1, max_size=100)):
        try:
            ours[text] = expand(text)
        except ValueError:
            continue  # longer than a host name may be
    assert dict(zip(ours, hostnames(list(ours), env), strict=True)) == ours


@pytest.mark.slurm
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(samples=st.lists(hosts, min_size=1, max_size=100))
def test_scontrol_reads_what_we_write_in_our_order(
    samples: list[list[str]], env: dict[str, str]
) -> None:
    given_order = [list(dict.fromkeys(names)) for names in samples]
    assert hostnames([fold(names, sort=False) for names in samples], env) == given_order
    ordered = [fold(names) for names in samples]
    assert hostnames(ordered, env) == [expand(text) for text in ordered]


@pytest.mark.slurm
def test_scontrol_reads_a_list_of_a_hundred_thousand(env: dict[str, str]) -> None:
    names = [f"r{number // 64:04d}n{number % 64:02d}" for number in range(110_000) if number % 11]
    assert hostnames([fold(names)], env) == [names]
