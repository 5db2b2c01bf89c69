"""Random fat trees read back as they were wired, and texts spoilt at random refused in words."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.discovery.adapters import Wanted
from supernode_slurm.discovery.cabling import add_fabrics
from supernode_slurm.discovery.guids import is_guids, read_guids, read_ibstats
from supernode_slurm.discovery.ibnetdiscover import parse_ibnetdiscover
from supernode_slurm.discovery.nvlink import read_nvidia_smi
from supernode_slurm.discovery.room import Room, TopologyFacts
from supernode_slurm.discovery.super_pods import read_rank_table, read_spod_info
from supernode_slurm.errors import ConfigError
from tests.fabric_text import Net
from tests.test_import_domains import U1, before, ibstat, query, rank_table, spod
from tests.test_import_fabric import two_rails

SHARED = Path(__file__).resolve().parents[2] / "shared"

Paths = dict[str, set[frozenset[str]]]
"""By host the hosts under its leaf and under each switch above."""


@st.composite
def fat_trees(draw: st.DrawFn) -> tuple[Net, Paths]:
    """Return a fat tree of one to three levels, and what is above each host of it."""
    pods = draw(
        st.lists(st.lists(st.integers(2, 5), min_size=1, max_size=4), min_size=1, max_size=3)
    )
    rails = draw(st.integers(1, 3))
    per_pod, cores = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    by_rail = rails > 1 and draw(st.booleans())
    naming = draw(st.sampled_from(["mlx5_{}", "HCA-{}"]))
    net, above, number = Net(), {}, 0
    wires: list[tuple[str, str]] = []
    everybody: set[str] = set()
    for pod, leaves in enumerate(pods):
        here: set[str] = set()
        for leaf, count in enumerate(leaves):
            hosts = frozenset(f"n{number + at:03}" for at in range(count))
            number += count
            here |= hosts
            for host in hosts:
                above[host] = {hosts}
                wires += [
                    (f"{host} {naming.format(r)}", f"leaf{pod}-{leaf}-{r}") for r in range(rails)
                ]
        for host in here:
            above[host].add(frozenset(here))
        everybody |= here
        for leaf in range(len(leaves)):
            for rail in range(rails):
                own = f"-{rail}" if by_rail else ""
                wires += [
                    (f"leaf{pod}-{leaf}-{rail}", f"spine{pod}-{at}{own}") for at in range(per_pod)
                ]
        spines = dict.fromkeys(b for _, b in wires if b.startswith(f"spine{pod}-"))
        wires += [(spine, f"core{at}") for spine in spines for at in range(cores)]
    for held in above.values():
        held.add(frozenset(everybody))
    for one, other in draw(st.permutations(wires)):
        net.wire(one, other)
    for switch in net.switches() if draw(st.booleans()) else ():
        net.wire("Mellanox Technologies Aggregation Node", switch, port=65)
    return net, above


def read_back(text: str) -> TopologyFacts:
    room = Room(sources=["text"])
    room.subnets.append(("text", parse_ibnetdiscover(text, "text")))
    add_fabrics(room, Wanted())
    (topology,) = room.topologies
    return topology


def paths(topology: TopologyFacts) -> Paths:
    parent = {child: switch.name for switch in topology.switches for child in switch.switches}
    below: dict[str, set[str]] = {}
    for switch in topology.switches:
        name: str | None = switch.name
        while name is not None:
            below.setdefault(name, set()).update(switch.nodes)
            name = parent.get(name)
    found: Paths = {}
    for switch in topology.switches:
        for host in switch.nodes:
            name = switch.name
            while name is not None:
                found.setdefault(host, set()).add(frozenset(below[name]))
                name = parent.get(name)
    return found


@given(fat_trees())
def test_a_random_fat_tree_is_read_back_with_its_leaves_and_what_is_above(
    wired: tuple[Net, Paths],
) -> None:
    net, above = wired
    assert paths(read_back(str(net))) == above
    assert paths(read_back(net.ports())) == above


@given(fat_trees())
def test_rails_are_counted_whatever_the_order_of_lines(wired: tuple[Net, Paths]) -> None:
    net, _ = wired
    wanted = {cable[0] for cable in net.cables if cable[0].startswith("n000 ")}
    fabric = read_back(str(net)).switches[0].fabric
    assert fabric is not None
    assert (fabric.rails, fabric.rail_gbs) == (len(wanted), 50.0)


# --- spoilt texts


def spoilt(text: str, dice: random.Random) -> str:
    """Return a text with a few lines or letters cut, doubled, moved or changed."""
    for _ in range(dice.randint(1, 4)):
        lines = text.split("\n")
        at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        place = dice.randrange(len(text) + 1)
        change = dice.randrange(8)
        if change == 0:
            del lines[at]
        elif change == 1:
            lines.insert(other, lines[at])
        elif change == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif change == 3:
            lines[at] = lines[at][: dice.randrange(len(lines[at]) + 1)]
        elif change == 4:
            lines[at] += lines[other]
        if change < 5:
            text = "\n".join(lines)
        elif change == 5:
            text = text[:place]
        elif change == 6:
            text = text[:place] + dice.choice(ODD) + text[place + 1 :]
        else:
            text = text[:place] + dice.choice(ODD) * 3 + text[place:]
        text = text or "\n"
    return text


ODD = ("\0", "\t", "\x1b[31m", '"', "[", "]", "(", "#", ":", "²", "٣", "ü", "\u2028", "-", "9" * 30,
       "???", "'", "{", "<", ">", "S-", "H-", "0x", "N/A", ",")  # fmt: skip


def place(text: str) -> None:
    room = Room(sources=["text"])
    room.subnets.append(("text", parse_ibnetdiscover(text, "text")))
    add_fabrics(room, Wanted())
    room.all_remarks()


def reader(read: Callable[[Path, Room], None], path: Path) -> Callable[[str], None]:
    def run(text: str) -> None:
        path.write_text(text, encoding="utf-8")
        room = Room(sources=["text"])
        read(path, room)
        room.all_remarks()

    return run


def survives(run: Callable[[str], None], text: str, times: int, seed: int) -> None:
    """Check that a reader takes or refuses spoilt texts, and always in words."""
    dice = random.Random(seed)
    taken = 0
    for _ in range(times):
        try:
            run(spoilt(text, dice))
            taken += 1
        except ConfigError as error:
            assert "text" in str(error)
    assert 0 < taken < times


@pytest.mark.parametrize("form", ["whole", "ports"])
def test_spoilt_fabrics_are_taken_or_refused_in_words(form: str) -> None:
    net = two_rails()
    survives(place, str(net) if form == "whole" else net.ports(), 2000, 7)


TEXTS: dict[str, tuple[Callable[[Path, Room], None], str]] = {
    "nvidia-smi -q": (read_nvidia_smi, before("a", query(U1, "1")) + before("b", query(U1, "1"))),
    "csv": (read_nvidia_smi, f"a: {U1}, 1\nb: {U1}, 1\nc: N/A, N/A\n"),
    "xml": (
        read_nvidia_smi,
        before(
            "a",
            f"<nvidia_smi_log>\n<gpu>\n<fabric><state>Completed</state>\n"
            f"<clusterUuid>{U1}</clusterUuid>\n</fabric></gpu>\n</nvidia_smi_log>",
        ),
    ),
    "spod-info": (read_spod_info, before("a", spod(0)) + before("b", spod(1))),
    "rank table": (read_rank_table, rank_table(["n1", "n2", "n3"])),
    "ibstat": (read_ibstats, before("a", ibstat(["00000000000000aa", "00000000000000ab"]))),
    "guids": (read_guids, "a: 0x155dfffd33ff33\na: 0x155dfffd33ff34\nb: 0x155dfffd33ff35\n"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_spoilt_answers_are_taken_or_refused_in_words(name: str, tmp_path: Path) -> None:
    read, text = TEXTS[name]
    survives(reader(read, tmp_path / "text"), text, 1000, 11)


REAL = {
    "peer_suite/topograph/ibnetdiscover/example.out": (None, 60),
    "realdata/logs/ib/exporter_ibnetdiscover_test.txt": (None, 1000),
    "realdata/logs/ib/ibstat_guid_per_host.txt": (read_guids, 500),
    "peer_suite/azure/nodes_guids.txt": (read_guids, 300),
}


@pytest.mark.parametrize("name", REAL)
def test_spoilt_real_files_are_taken_or_refused_in_words(name: str, tmp_path: Path) -> None:
    if not (SHARED / name).is_file():
        pytest.skip("the collected files are not beside the repository")
    read, times = REAL[name]
    run = reader(read, tmp_path / "text") if read else place
    survives(run, (SHARED / name).read_text(), times, 13)


def test_spoilt_texts_are_never_taken_for_lists_of_guids_without_hosts() -> None:
    dice = random.Random(3)
    for _ in range(500):
        is_guids(spoilt("a: 0x155dfffd33ff33\nVM_hostname b\n155dfffd33ff3444\n", dice))
