"""Topologies as data, and as the text of topology.conf or topology.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .. import hostlist


@dataclass(frozen=True, slots=True)
class SwitchLine:
    """A switch: either nodes or switches hang under it, the switches in the order of blocks."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """Switches, children before their parents; several roots do not meet."""

    switches: tuple[SwitchLine, ...]
    kind = "tree"


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes that share a scale-up fabric; a placeholder has none."""

    name: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks in the order in which they aggregate, and the sizes of the levels."""

    blocks: tuple[Block, ...]
    sizes: tuple[int, ...]
    """In nodes, the planning block first; empty where the release takes none."""
    kind = "block"


@dataclass(frozen=True, slots=True)
class Flat:
    """No structure: any nodes are as good as any others."""

    kind = "flat"


@dataclass(frozen=True, slots=True)
class Rings:
    """Nodes in the order of each ring."""

    rings: tuple[tuple[str, tuple[str, ...]], ...]
    kind = "ring"


@dataclass(frozen=True, slots=True)
class Torus:
    """Nodes of a torus, x fastest, and the shapes that a job may have."""

    name: str
    nodes: tuple[str, ...]
    dims: tuple[int, ...]
    placements: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Toruses:
    """Toruses that share no node."""

    toruses: tuple[Torus, ...]
    kind = "torus3d"


Body = Tree | Blocks | Flat | Rings | Toruses


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology by its name; ``comments`` stand above it."""

    name: str
    body: Body
    comments: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Return the name of Slurm's plugin."""
        return self.body.kind


def as_conf(topology: Topology) -> str:
    """Return the text of topology.conf, for a tree or blocks."""
    body = topology.body
    lines = list(topology.comments)
    if isinstance(body, Tree):
        lines += [line for switch in body.switches for line in _conf_switch(switch)]
    elif isinstance(body, Blocks):
        lines += [f"BlockName={item.name} Nodes={_hosts(item.nodes)}" for item in body.blocks]
        if body.sizes:
            lines.append(f"BlockSizes={','.join(map(str, body.sizes))}")
    else:
        raise ValueError(f"topology.conf cannot hold topology/{body.kind}")
    return "".join(f"{line}\n" for line in lines)


def as_yaml(topologies: Iterable[Topology]) -> str:
    """Return the text of topology.yaml; the first topology is the default one.

    Every text is in double quotes, which no reader takes for a number or a truth value.
    """
    lines: list[str] = []
    for index, topology in enumerate(topologies):
        lines += topology.comments
        lines.append(f'- topology: "{topology.name}"')
        lines.append(f"  cluster_default: {'false' if index else 'true'}")
        lines += [f"  {line}" for line in _yaml_body(topology.body)]
    return "".join(f"{line}\n" for line in lines)


def _conf_switch(switch: SwitchLine) -> Iterator[str]:
    if switch.comment:
        yield switch.comment
    if switch.switches:
        yield f"SwitchName={switch.name} Switches={_hosts(switch.switches, sort=False)}"
    else:
        yield f"SwitchName={switch.name} Nodes={_hosts(switch.nodes)}"


def _yaml_body(body: Body) -> Iterator[str]:
    if isinstance(body, Flat):
        yield "flat: true"
    elif isinstance(body, Tree):
        yield from ("tree:", "  switches:")
        for switch in body.switches:
            if switch.comment:
                yield f"    {switch.comment}"
            yield f'    - switch: "{switch.name}"'
            if switch.switches:
                yield f'      children: "{_hosts(switch.switches, sort=False)}"'
            else:
                yield f'      nodes: "{_hosts(switch.nodes)}"'
    elif isinstance(body, Blocks):
        yield from ("block:", f"  block_sizes: [{', '.join(map(str, body.sizes))}]", "  blocks:")
        for block in body.blocks:
            yield f'    - block: "{block.name}"'
            if block.nodes:
                yield f'      nodes: "{_hosts(block.nodes)}"'
    elif isinstance(body, Rings):
        yield from ("ring:", "  rings:")
        for name, nodes in body.rings:
            yield from (f'    - ring: "{name}"', f'      nodes: "{_hosts(nodes, sort=False)}"')
    else:
        yield from ("torus3d:", "  toruses:")
        for torus in body.toruses:
            yield from _yaml_torus(torus)


def _yaml_torus(torus: Torus) -> Iterator[str]:
    yield f'    - name: "{torus.name}"'
    yield f"      dims: {_dims(torus.dims)}"
    yield f'      nodes: "{_hosts(torus.nodes, sort=False)}"'
    yield "      placements:"
    for shape in torus.placements:
        yield f"        - dims: {_dims(shape)}"


def _dims(dims: tuple[int, ...]) -> str:
    return "{" + ", ".join(f"{axis}: {size}" for axis, size in zip("xyz", dims, strict=True)) + "}"


def _hosts(names: tuple[str, ...], sort: bool = True) -> str:
    return hostlist.fold(names, sort=sort)
