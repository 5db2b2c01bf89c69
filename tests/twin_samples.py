"""Slurm's files as an inventory yields them, small."""

from __future__ import annotations

NODES = """\
NodeName=h1-[01-08] Sockets=2 CoresPerSocket=48 ThreadsPerCore=1 RealMemory=1900000 \
Gres=gpu:h100:8 Feature=h100,h1 State=UNKNOWN
NodeName=a[001-004],b[1-2] Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1000000 \
Gres=gpu:a100:4 Feature=a100 State=UNKNOWN
"""
PARTITIONS = """\
PartitionName=h Nodes=h1-[01-08] Default=YES State=UP MaxTime=7-00:00:00
PartitionName=a Nodes=a[001-004],b[1-2] State=UP MaxTime=INFINITE
"""
GRES = """\
NodeName=h1-[01-08] Name=gpu Type=h100 File=/dev/nvidia[0-7] Flags=nvidia_gpu_env
NodeName=a[001-004],b[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env
"""
TREE = """\
SwitchName=leaf1 Nodes=h1-[01-08]
SwitchName=leaf2 Nodes=a[001-004],b[1-2]
SwitchName=top Switches=leaf[1-2]
"""
BLOCK = """\
BlockName=b1 Nodes=h1-[01-04]
BlockName=b2 Nodes=h1-[05-08]
BlockSizes=4,8
"""
YAML = """\
- topology: t1
  cluster_default: true
  block:
    block_sizes: [4, 8]
    blocks:
      - block: b1
        nodes: h1-[01-04]
      - block: b2
        nodes: h1-[05-08]
"""
HOSTS = (*(f"h1-{n:02d}" for n in range(1, 9)), "a001", "a002", "a003", "a004", "b1", "b2")


def files(plugin: str = "tree", topology: str = TREE) -> dict[str, str]:
    """Return a configuration of two supernodes' worth of nodes under a topology plugin."""
    main = (
        f"GresTypes=gpu\nTopologyPlugin=topology/{plugin}\n"
        "Include supernode-nodes.conf\nInclude supernode-partitions.conf\n"
    )
    return {
        "supernode.conf": main,
        "supernode-nodes.conf": NODES,
        "supernode-partitions.conf": PARTITIONS,
        "gres.conf": GRES,
        "topology.conf": topology,
    }


def block() -> dict[str, str]:
    """Return the configuration with two blocks of four nodes; from 24.11 on."""
    return files("block", BLOCK)


def with_yaml(text: str = YAML) -> dict[str, str]:
    """Return the same blocks as a topology.yaml; from 25.05 on."""
    whole = files("block", "")
    del whole["topology.conf"]
    main = whole["supernode.conf"].replace("TopologyPlugin=topology/block\n", "")
    return {**whole, "supernode.conf": main, "topology.yaml": text}


def changed(name: str, old: str, new: str, plugin: str = "tree") -> dict[str, str]:
    """Return a configuration with one text replaced in one file."""
    whole = files(plugin, BLOCK if plugin == "block" else TREE)
    if old not in whole[name]:
        raise ValueError(f"{old!r} is not in {name}")
    return {**whole, name: whole[name].replace(old, new, 1)}
