"""Rooms whose topologies went wrong once, each a kind: partitions, leaves, networks, sizes."""

from __future__ import annotations

from supernode_slurm.inventory import Inventory, loads

_LINK = "interconnect: {kind: %s, bandwidth: 900 GB/s%s}"
_NODE = "devices: {%s: 4}, sockets: 2, cores: 72, memory: 940 GiB"


def supernodes(name: str, nodes: int, spares: int = 0, kind: str = "switch", more: str = "") -> str:
    """Return supernodes ``name`` with nodes ``NAME-01`` to so many."""
    stem = name.partition("[")[0]
    hosts = f"{stem}{{n}}-[01-{nodes:02d}]" if "[" in name else f"{name}-[01-{nodes:02d}]"
    link = _LINK % (kind, more if kind == "torus" else "")
    options = more if kind != "torus" else ""
    return (
        f"  - name: {name}\n    {link}\n    spares: {spares}\n"
        f"    nodes: {{hosts: '{hosts}', {_NODE % 'gb200'}{options}}}\n"
    )


def pool(name: str, hosts: str, more: str = "") -> str:
    """Return a pool."""
    return f"  - name: {name}\n    nodes: {{hosts: '{hosts}', {_NODE % 'h100'}{more}}}\n"


def fabric(name: str, **switches: str) -> str:
    """Return a fabric by what hangs under each switch."""
    lines = "".join(f"      {key}: [{below}]\n" for key, below in switches.items())
    speed = "rails: {count: 4, bandwidth: 400 Gb/s}"
    return f"  - name: {name}\n    kind: fat-tree\n    {speed}\n    switches:\n{lines}"


def a_room(fabrics: str = "", wide: str = "", pools: str = "", **partitions: str) -> Inventory:
    """Return a room of these parts."""
    parts = {"fabrics": fabrics, "supernodes": wide, "pools": pools}
    text = "".join(f"{key}:\n{part}" for key, part in parts.items() if part)
    first, *_ = partitions
    partitions[first] += ", default: true"
    lines = "".join(f"  {key}: {{{held}}}\n" for key, held in partitions.items())
    return loads(f"version: 1\ncluster: c\n{text}partitions:\n{lines}")


RACKS = fabric("ib", spine="'sn[1-4]'")


def parts_of_racks() -> Inventory:
    """Return four racks of 18, all but two nodes of each for training and those for trying."""
    train = ", ".join(f"'sn{n}-[01-16]'" for n in range(1, 5))
    debug = ", ".join(f"'sn{n}-[17-18]'" for n in range(1, 5))
    halves = "'sn1-[01-09]', 'sn2-[01-09]'"
    return a_room(
        RACKS,
        supernodes("sn[1-4]", 18, 2),
        train=f"hosts: [{train}]",
        debug=f"hosts: [{debug}]",
        halves=f"hosts: [{halves}]",
        corner="hosts: ['sn1-[17-18]']",
    )


def a_short_rack() -> Inventory:
    """Return three racks of 18 and one of 12, of which nobody has described the network."""
    wide = supernodes("sn[1-3]", 18, 2) + supernodes("sn4", 12, 1)
    return a_room(wide=wide, every="supernodes: ['sn[1-4]']")


def two_networks() -> Inventory:
    """Return two racks on one network, a pool on another, and a partition of both."""
    return a_room(
        fabric("ib", spine="'sn[1-2]'")
        + fabric("roce", core="l1, l2", l1="'h[01-20]'", l2="'h[21-40]'"),
        supernodes("sn[1-2]", 18, 2),
        pool("hgx", "h[01-40]"),
        every="supernodes: ['sn[1-2]'], pools: [hgx]",
        racks="supernodes: ['sn[1-2]']",
    )


def a_pool_on_leaves() -> Inventory:
    """Return four racks, and a pool of 100 nodes on five leaves."""
    leaves = {f"l{n}": f"'h[{20 * n - 19:03d}-{20 * n:03d}]'" for n in range(1, 6)}
    return a_room(
        fabric("ib", spine="top, l1, l2, l3, l4, l5", top="'sn[1-4]'", **leaves),
        supernodes("sn[1-4]", 18, 2),
        pool("hgx", "h[001-100]"),
        racks="supernodes: ['sn[1-4]']",
        hgx="pools: [hgx]",
    )


def a_small_pool_between() -> Inventory:
    """Return two racks, a pool too small for a block, and a partition of both."""
    return a_room(
        fabric("ib", spine="'sn[1-2]', few"),
        supernodes("sn[1-2]", 18, 2),
        pool("few", "h[1-4]"),
        every="supernodes: ['sn[1-2]'], pools: [few]",
    )


def rings() -> Inventory:
    """Return four rings of eight nodes, two nodes of each, and a row of five in one."""
    pairs = ", ".join(f"'sn{n}-[01-02]'" for n in range(1, 5))
    return a_room(
        RACKS,
        supernodes("sn[1-4]", 8, kind="ring"),
        every="supernodes: ['sn[1-4]']",
        pairs=f"hosts: [{pairs}]",
        row="hosts: ['sn1-[02-06]']",
        two="hosts: ['sn1-01', 'sn1-08']",
        gap="hosts: ['sn1-01', 'sn1-03', 'sn1-05']",
    )


def toruses() -> Inventory:
    """Return two toruses of 64 nodes, a plane of one, and a box that no shape stands on."""
    return a_room(
        wide=supernodes("sn[1-2]", 64, kind="torus", more=", dims: [4, 4, 4]"),
        every="supernodes: ['sn[1-2]']",
        plane="hosts: ['sn1-[01-16]']",
        askew="hosts: ['sn1-[02-03,06-07]']",
    )


def cloud_leaves() -> Inventory:
    """Return cloud nodes: a supernode for each leaf, one over two leaves, and a pool."""
    return a_room(
        fabric(
            "efa",
            spine="l1, l2, l3, l4",
            l1="sn1",
            l2="sn2",
            l3="'big-[01-04]'",
            l4="'big-[05-08]', p",
        ),
        supernodes("sn[1-2]", 4, more=", cloud: true")
        + supernodes("big", 8, more=", cloud: true, options: {NodeAddr: 'ip[11-18]'}"),
        pool("p", "h[1-2]", ", cloud: true"),
        every="supernodes: ['sn[1-2]', big], pools: [p]",
        pair="supernodes: ['sn[1-2]']",
        one="supernodes: [big]",
    )


REFUSED: dict[str, dict[str, dict[str, int | None]]] = {
    "parts_of_racks": {
        "22.05": {"train": None, "debug": None, "halves": None, "corner": None},
        "24.11": {"train": None, "debug": 3, "halves": 10, "corner": None},
        "26.05": {"train": None, "debug": None, "halves": None, "corner": None},
    },
    "a_short_rack": {name: {"every": None} for name in ("22.05", "24.11", "26.05")},
    "a_pool_on_leaves": {
        "22.05": {"racks": None, "hgx": None},
        "24.11": {"racks": None, "hgx": 81},
        "26.05": {"racks": None, "hgx": None},
    },
    "rings": {
        "26.05": {"every": 9, "pairs": None, "row": None, "two": None, "gap": None},
    },
    "toruses": {"26.05": {"every": 3, "plane": 3, "askew": None}},
}
"""First size that a release refuses to each partition of a room, None for none."""
