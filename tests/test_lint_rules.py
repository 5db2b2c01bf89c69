"""Each rule of sn check: what it finds, in which words, and where it is silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pytest

from supernode_slurm.inventory import Finding, loads
from supernode_slurm.slurmconf.lint import RULES, lint

TODAY = date(2026, 12, 1)
ROOM = """\
version: 1
cluster: t
slurm: {release: "26.05"}
fabrics:
  - name: ib
    kind: fat-tree
    rails: {count: 8, bandwidth: 400 Gb/s}
    switches: {spine: [left, right], left: ["sn[1-2]"], right: [p]}
supernodes:
  - name: sn[1-2]
    interconnect: {kind: switch, bandwidth: 450 GB/s}
    spares: 1
    nodes:
      hosts: h{n}-[1-9]
      devices: {h100-sxm: 8}
      sockets: 2
      cores: 48
      memory: 900 GiB
      power: 10 kW
pools:
  - name: p
    nodes: {hosts: "a[1-4]", devices: {a100-sxm-80g: 8}, sockets: 2, cores: 32, memory: 9 GiB}
partitions:
  train: {supernodes: ["sn[1-2]"], default: true}
  small: {pools: [p]}
"""
SMALL, TRAIN = "small: {pools: [p]", 'train: {supernodes: ["sn[1-2]"]'
LINK = "kind: switch, bandwidth: 450 GB/s"
IB = "kind: fat-tree\n"
TORUS = "kind: torus, dims: [3, 3, 1]"
POOL, HOST = (
    '"a[1-4]", devices: {a100-sxm-80g: 8}',
    "hosts: h{n}-[1-9]\n      devices: {h100-sxm: 8}",
)
BOTH = "train: {supernodes: [sn1], pools: [p]"

Edit = tuple[str, str]


def found(*edits: Edit | str, release: str | None = None, today: date = TODAY) -> list[Finding]:
    """Return what is found in the room with words of it replaced and others added."""
    text = ROOM
    for edit in edits:
        if isinstance(edit, str):
            text += edit
        else:
            assert edit[0] in text, edit[0]
            text = text.replace(*edit)
    return lint(loads(text, "i.yaml"), today, release)


def rack(words: str = "", hosts: str = "'h1-[1-9]'") -> str:
    return f"racks: [{{name: r1, hosts: {hosts}{words and f', {words}'}}}]\n"


def two_racks(one: str, other: str) -> str:
    return (
        f"racks:\n  - {{name: r1, hosts: 'h1-[1-9]', {one}}}\n"
        f"  - {{name: r2, hosts: 'h2-[1-9]', {other}}}\n"
    )


def feeds(**kilowatts: str) -> str:
    lines = (f"  - {{name: {name}, power: {words}}}\n" for name, words in kilowatts.items())
    return f"feeds:\n{''.join(lines)}"


def sizes(*numbers: int) -> str:
    return f"policy: {{job_sizes: [{', '.join(map(str, numbers))}]}}\n"


def versions(words: str) -> str:
    return f"versions: {{driver: {{{words}}}}}\n"


def care(words: str) -> str:
    return f"maintenance: [{{name: coolant, on: sn1, every: 180 d{words}}}]\n"


@dataclass(frozen=True)
class Case:
    """A room in which a rule finds something, and one in which it is silent."""

    rule: str
    fires: tuple[Edit | str, ...]
    what: str
    on: tuple[str, ...]
    silent: tuple[Edit | str, ...]
    todo: str = ""
    """Empty for the rule's remedy."""
    hosts: str = ""
    """In order, joined by commas."""
    release: str | None = None


RACK = (
    Case(
        "rack-power",
        (rack("power: 89.994 kW"),),
        "rack r1 draws 90 kW, 6 W over its budget of 89.994 kW",
        ("r1",),
        (rack("power: 90 kW"),),
    ),
    Case(
        "rack-power",
        (rack("shelves: {count: 8, power: 22 kW, redundancy: N+N}"),),
        "rack r1 draws 90 kW, 2 kW over its budget of 88 kW",
        ("r1",),
        (rack("shelves: {count: 8, power: 22 kW}"),),
    ),
    Case(
        "rack-cooling",
        (rack("cooling: {kind: cold-plate, liquid: 60 kW, air: 20 kW}"),),
        "rack r1 draws 90 kW, 10 kW over what its cooling takes, 80 kW",
        ("r1",),
        (rack("cooling: {kind: cold-plate, liquid: 60 kW, air: 30 kW}"),),
    ),
    Case(
        "rack-cooling-usual",
        (rack("cooling: air"),),
        "rack r1 draws 90 kW, 60 kW over what air usually takes, 30 kW",
        ("r1",),
        (rack("cooling: {kind: air, air: 90 kW}"),),
    ),
    Case(
        "feed-power",
        (feeds(a="150 kW"), two_racks("feeds: a", "feeds: a")),
        "feed a carries 180 kW, 30 kW over its 150 kW",
        ("a",),
        (feeds(a="180 kW"), two_racks("feeds: a", "feeds: a")),
    ),
    Case(
        "feed-failure",
        (feeds(a="150 kW", b="200 kW"), two_racks("feeds: [a, b]", "feeds: [a, b]")),
        "feed a carries 180 kW when feed b fails, 30 kW over its 150 kW",
        ("a", "b"),
        (feeds(a="180 kW", b="200 kW"), two_racks("feeds: [a, b]", "feeds: [a, b]")),
    ),
    Case(
        "rack-one-feed",
        (feeds(a="1 MW", b="1 MW"), two_racks("feeds: [a, b]", "feeds: b")),
        "rack r2 goes dark with feed b, and others have two",
        ("r2", "b"),
        (feeds(a="1 MW", b="1 MW"), two_racks("feeds: a", "feeds: b")),
    ),
    Case(
        "feed-ratings",
        (feeds(u="1 MW", a="600 kW, source: u", b="600 kW, source: u"), rack("feeds: [a, b]")),
        "a,b are rated for 1200 kW together, and feed u, on which they hang, for 1000 kW",
        ("u", "a", "b"),
        (feeds(u="1 MW", a="500 kW, source: u", b="500 kW, source: u"), rack("feeds: [a, b]")),
    ),
    Case(
        "power-unknown",
        (("      power: 10 kW\n", ""), rack("power: 90 kW")),
        "rack r1: nobody has said the power of the host without cards (h1-[1-9]): 50.4 kW of each "
        "are counted",
        ("r1",),
        (("      power: 10 kW\n", ""), rack()),
        hosts=",".join(f"h1-{n}" for n in range(1, 10)),
    ),
    Case(
        "power-unchecked",
        (
            ("h100-sxm: 8", "h800-sxm: 8"),
            ("power: 10 kW", "power: {host: 1 kW}"),
            rack("power: 1 MW"),
        ),
        "racks count h800-sxm by a figure that nobody has checked",
        ("h800-sxm",),
        (("power: 10 kW", "power: {host: 1 kW}"), rack("power: 1 MW")),
    ),
    Case(
        "power-uncounted",
        (rack("power: 90 kW", "'h1-[1-9],h2-[1-7]'"),),
        "a[1-4],h2-[8-9] stand in no rack: no sum counts their power",
        (),
        (rack("power: 1 MW", "'h1-[1-9],h2-[1-9],a[1-4]'"),),
        hosts="h2-8,h2-9,a1,a2,a3,a4",
    ),
)
NETWORK = (
    Case(
        "oversubscription",
        ((IB, f"{IB}    oversubscription: 2.1\n"),),
        "fabric ib is oversubscribed 2.1:1: partition train, small trains over it",
        ("ib", "train", "small"),
        ((IB, f"{IB}    oversubscription: 2\n"),),
        "training wants at most 2:1",
    ),
    Case(
        "oversubscription",
        (
            (IB, f"{IB}    oversubscription: 4.5\n"),
            (TRAIN, f"{TRAIN}, workload: [inference]"),
            (SMALL, f"{SMALL}, workload: [inference]"),
        ),
        "fabric ib is oversubscribed 4.5:1: partition train, small serves over it",
        ("ib", "train", "small"),
        (
            (IB, f"{IB}    oversubscription: 4\n"),
            (TRAIN, f"{TRAIN}, workload: [inference]"),
            (SMALL, f"{SMALL}, workload: [inference]"),
        ),
        "inference wants at most 4:1",
    ),
    Case(
        "oversubscription",
        (
            (IB, f"{IB}    oversubscription: 4\n"),
            (TRAIN, f"{TRAIN}, workload: [inference, moe]"),
            (SMALL, f"{SMALL}, workload: [inference]"),
        ),
        "fabric ib is oversubscribed 4:1: partition train trains over it",
        ("ib", "train"),
        ((IB, f"{IB}    oversubscription: 1\n"),),
        "training wants at most 2:1",
    ),
    Case(
        "interconnect-workload",
        ((LINK, "kind: torus, dims: [9, 1, 1]"), (TRAIN, f"{TRAIN}, workload: [moe]")),
        "partition train trains mixtures of experts on sn[1-2]: a torus of 9 x 1 x 1 nodes",
        ("train", "sn1", "sn2"),
        ((LINK, "kind: torus, dims: [9, 1, 1]"), (TRAIN, f"{TRAIN}, workload: [inference]")),
    ),
    Case(
        "interconnect-workload",
        ((LINK, "kind: ring"), (TRAIN, f"{TRAIN}, workload: [training, moe]")),
        "partition train trains mixtures of experts on sn[1-2]: a ring of 9 nodes",
        ("train", "sn1", "sn2"),
        ((TRAIN, f"{TRAIN}, workload: [training, moe]"),),
    ),
    Case(
        "interconnect-workload",
        ((IB, f"{IB}    oversubscription: 1.5\n"), (SMALL, f"{SMALL}, workload: [moe]")),
        "partition small trains mixtures of experts on p: their network, fabric ib, is "
        "oversubscribed 1.5:1",
        ("small", "p"),
        ((IB, f"{IB}    oversubscription: 1.5\n"), (TRAIN, f"{TRAIN}, workload: [moe]")),
    ),
    Case(
        "interconnect-workload",
        ((IB, "kind: torus\n"), (SMALL, f"{SMALL}, workload: [moe]")),
        "partition small trains mixtures of experts on p: their network, fabric ib, is a torus",
        ("small", "p"),
        ((LINK, TORUS), (TRAIN, f"{TRAIN}, workload: [moe]")),
    ),
    Case(
        "global-hca",
        (
            (
                POOL,
                f"{POOL}, network: {{hcas: [mlx5_0, mlx5_3], environment: {{NCCL_IB_HCA: mlx5}}}}",
            ),
            (
                HOST,
                f"{HOST}\n      network:\n        hcas: [mlx5_0, ib1]\n"
                "        environment: {NCCL_IB_HCA: mlx5}",
            ),
        ),
        "NCCL_IB_HCA=mlx5 for nodes with other cards: h1-[1-9] has mlx5_0,ib1; h2-[1-9] has "
        "mlx5_0,ib1",
        ("NCCL_IB_HCA",),
        (
            (
                POOL,
                f"{POOL}, network: {{hcas: [mlx5_0, mlx5_3], environment: {{NCCL_IB_HCA: mlx5}}}}",
            ),
        ),
        hosts=",".join(f"h{k}-{n}" for k in (1, 2) for n in range(1, 10)),
    ),
    Case(
        "global-hca",
        (
            (
                POOL,
                f"{POOL}, network: {{hcas: [mlx5_0], environment: "
                '{NCCL_IB_HCA: "=mlx5_0:1,mlx5_1"}}',
            ),
        ),
        "NCCL_IB_HCA==mlx5_0:1,mlx5_1 for nodes with other cards: a[1-4] has mlx5_0",
        ("NCCL_IB_HCA",),
        (
            (
                POOL,
                f"{POOL}, network: {{hcas: [mlx5_0], environment: {{NCCL_IB_HCA: ^mlx5_1}}}}",
            ),
        ),
        hosts="a1,a2,a3,a4",
    ),
    Case(
        "uneven-rails",
        ((POOL, f"{POOL}, network: {{hcas: [{', '.join(f'mlx5_{n}' for n in range(7))}]}}"),),
        "a[1-4]: 7 network cards under 'hcas', and fabric ib has 8 rails",
        ("ib",),
        ((POOL, f"{POOL}, network: {{hcas: [{', '.join(f'mlx5_{n}' for n in range(8))}]}}"),),
        hosts="a1,a2,a3,a4",
    ),
)
LONE = (
    "pools:\n  - name: q\n    nodes: {hosts: a4, devices: {a100-sxm-80g: COUNT}, sockets: 2, "
    "cores: 9, memory: 1 TiB}\n"
)
CARDS = (
    Case(
        "mixed-cards",
        ((TRAIN, BOTH),),
        "partition train holds h100 (794 TFLOPS), a100 (271 TFLOPS): h100 is 2.9 times as fast as "
        "a100",
        ("train",),
        ((TRAIN, f"{BOTH}, mixed: true"),),
    ),
    Case(
        "mixed-cards",
        ((TRAIN, BOTH), ("a100-sxm-80g: 8", "br106: 8")),
        "partition train holds h100 (794 TFLOPS), br106 (of unknown speed)",
        ("train",),
        # As fast as each other: what differs is the memory.
        ((TRAIN, BOTH), ("h100-sxm: 8", "a100-sxm-40g: 8")),
    ),
    Case(
        "mixed-cards",
        ((TRAIN, BOTH), ("a100-sxm-80g: 8", "v100-sxm-32g: 8")),
        "partition train holds h100 (794 TFLOPS), v100 (88 TFLOPS): h100 is 9.1 times as fast as "
        "v100",
        ("train",),
        ((TRAIN, BOTH), ("h100-sxm: 8", "v100-sxm-16g: 8"), ("a100-sxm-80g", "v100-sxm-32g")),
    ),
    Case(
        "uneven-nodes",
        (
            (POOL, '"a[1-3]", devices: {a100-sxm-80g: 8}'),
            (
                "pools:\n",
                LONE.replace("COUNT", "7"),
            ),
            (SMALL, "small: {pools: [p, q]"),
            ("[p]}\nsup", "[p, q]}\nsup"),
        ),
        "partition small: 7 a100 in a4, and 8 in its other nodes",
        ("small",),
        (
            (POOL, '"a[1-3]", devices: {a100-sxm-80g: 8}'),
            (
                "pools:\n",
                LONE.replace("COUNT", "8"),
            ),
            (SMALL, "small: {pools: [p, q]"),
            ("[p]}\nsup", "[p, q]}\nsup"),
        ),
        hosts="a4",
    ),
    Case(
        "vendors-one-gres",
        ((TRAIN, BOTH), ("a100-sxm-80g: 8", "mi300x: 8")),
        "partition train: --gres=gpu:N takes cards of nvidia and amd alike",
        ("train",),
        ((TRAIN, BOTH), ("{a100-sxm-80g: 8}", "{mi300x: 8}, gres: dcu")),
    ),
    Case(
        "vendor-collectives",
        ((TRAIN, BOTH), ("{a100-sxm-80g: 8}", "{ascend910b3: 8}, gres: npu")),
        "partition train: NCCL of nvidia and HCCL of huawei do not join in one group",
        ("train",),
        (("{a100-sxm-80g: 8}", "{ascend910b3: 8}, gres: npu"),),
        "a job over both can only be a pipeline that crosses once, through host memory by gloo "
        "(framework flagscale); else give each vendor a partition",
    ),
    Case(
        "vendor-collectives",
        ((TRAIN, f"{BOTH}, mixed: true"), ("{a100-sxm-80g: 8}", "{mlu590: 8}, gres: mlu")),
        "partition train: NCCL of nvidia and CNCL of cambricon do not join in one group",
        ("train",),
        ((TRAIN, f"{BOTH}, mixed: true"),),
        "a job over both can only be a pipeline that crosses once, FlagCX joins them there "
        "(framework flagscale); else give each vendor a partition",
    ),
    Case(
        "vendor-variable",
        (("{a100-sxm-80g: 8}", "{ascend910b3: 8}, gres: npu"),),
        "Slurm sets no ASCEND_RT_VISIBLE_DEVICES for ascend910b3",
        ("huawei", "ascend910b3"),
        (
            ("{a100-sxm-80g: 8}", "{ascend910b3: 8}, gres: npu"),
            ('"26.05"', '"26.05", task_prolog: /p.sh'),
        ),
    ),
)
JOB_SIZES = (
    Case(
        "size-over-block",
        (sizes(64, 72),),
        "jobs of 72 devices take 9 of the 9 nodes of sn[1-2], whose planning block is 8: Slurm "
        "cuts them over two supernodes",
        ("sn1", "sn2"),
        (sizes(64),),
        "ask for 64 devices, or have fewer than 1 spares",
    ),
    Case(
        "size-no-spare",
        (("    spares: 1\n", ""), sizes(72)),
        "jobs of 72 devices take all 9 nodes of sn[1-2], which have no spares: one dead node "
        "strands them",
        ("sn1", "sn2"),
        (("    spares: 1\n", ""), sizes(64, 8)),
    ),
    Case(
        "size-waste",
        (sizes(40),),
        "jobs of 40 devices take 5 of 8 nodes of sn[1-2], and 3 are left that no size of the "
        "site's fills",
        ("sn1", "sn2"),
        (sizes(24, 40),),
    ),
    Case(
        "size-waste",
        (sizes(8, 12),),
        "jobs of 12 devices leave 4 devices idle in the 2 nodes that they take of sn[1-2]",
        ("sn1", "sn2"),
        (sizes(8, 16),),
    ),
    Case(
        "supernode-below-sizes",
        (sizes(80, 128),),
        "sn[1-2]: 72 devices, fewer than the least size of the site's jobs, 80: none stays inside "
        "one supernode",
        ("sn1", "sn2"),
        (sizes(64, 128),),
    ),
    Case(
        "size-nowhere",
        (sizes(64, 152),),
        "jobs of 152 devices fit nowhere: the largest partition, train, holds 144 on one network",
        ("job_sizes",),
        (sizes(64, 144),),
    ),
)
UPKEEP = (
    Case(
        "versions-supernode",
        (versions("550.54.15: 'h1-[1-7,9]', 550.90: h1-8"),),
        "driver in sn1: 550.90 on h1-8, 550.54.15 on the other 8",
        ("sn1", "driver"),
        (versions("550.54.15: 'h1-[1-9]', 550.90: 'h2-[1-9]'"),),
        "bring h1-8 to 550.54.15, or the others to theirs",
        "h1-8",
    ),
    Case(
        "versions-supernode",
        (versions("1: 'h1-[1-4]', 2: 'h1-[5-8]', 3: h1-9"),),
        "driver in sn1: 3 on h1-9, 1 on h1-[1-4], 2 on h1-[5-8]",
        ("sn1", "driver"),
        (versions("1: 'h1-[1-9]'"),),
        hosts="h1-9,h1-1,h1-2,h1-3,h1-4,h1-5,h1-6,h1-7,h1-8",
    ),
    Case(
        "versions-pool",
        (versions("1: 'a[1-3]', 2: a4"),),
        "driver in p: 2 on a4, 1 on the other 3",
        ("p", "driver"),
        (versions("1: 'a[1-4]', 2: 'h1-[1-9]'"),),
        "bring a4 to 1, or the others to theirs",
        "a4",
    ),
    Case(
        "versions-partition",
        (versions("1: 'h1-[1-9]', 2: 'h2-[1-9]'"),),
        "driver in partition train: 1 on sn1, 2 on sn2",
        ("train", "driver"),
        # Other cards may need other drivers.
        ((TRAIN, f"{BOTH}, mixed: true"), versions("1: 'h1-[1-9]', 2: 'a[1-4]'")),
    ),
    Case(
        "versions-unknown",
        (versions("1: 'h1-[1-8]'"),),
        "driver in sn1: nobody has said that of h1-9, and that of 8 others",
        ("sn1", "driver"),
        (versions("1: 'h1-[1-9]'"),),
        hosts="h1-9",
    ),
    Case(
        "maintenance-overdue",
        (care(", last: 2026-06-03"),),
        "coolant of sn1 is overdue by 1 day: every 180 days, last 2026-06-03",
        ("coolant", "sn1"),
        (care(", last: 2026-06-04"),),
    ),
    Case(
        "maintenance-due",
        (care(", last: 2026-06-22"),),
        "coolant of sn1 is due on 2026-12-19, in 18 days",
        ("coolant", "sn1"),
        (care(", last: 2026-06-23"),),
    ),
    Case(
        "maintenance-due",
        (care(", last: 2026-06-04"),),
        "coolant of sn1 is due on 2026-12-01, today",
        ("coolant", "sn1"),
        (care(", last: 2026-06-03"),),
    ),
    Case(
        "maintenance-date",
        (care(""),),
        "coolant of sn1: nobody has said when it was last done",
        ("coolant", "sn1"),
        (care(", last: 2026-12-01"),),
    ),
    Case(
        "maintenance-date",
        (care(", last: 2027-12-01"),),
        "coolant of sn1 was last done on 2027-12-01, which is to come",
        ("coolant", "sn1"),
        (),
    ),
)
PLACES = (
    Case(
        "no-fabric",
        ((", right]", "]"), (", right: [p]", "")),
        "p hangs under no switch",
        ("p",),
        (),
    ),
    Case("no-partition", ((f"  {SMALL}}}\n", ""),), "p is in no partition", ("p",), ()),
    Case(
        "no-default",
        ((", default: true", ""),),
        "no partition is the default",
        ("train", "small"),
        (),
    ),
    Case(
        "absent-hosts",
        ("absent: [{hosts: 'a[2-3]', since: 2026-11-30}]\n",),
        "a[2-3]: no source showed it since 2026-11-30",
        (),
        (),
        hosts="a2,a3",
    ),
    Case(
        "absent-over-spares",
        ("absent: [{hosts: 'h1-[2-3]', since: 2026-11-30}]\n",),
        "sn1: h1-[2-3] of 9 hosts are absent: 7 are left of a planning block of 8",
        ("sn1",),
        ("absent: [{hosts: h1-2, since: 2026-11-30}]\n",),
        hosts="h1-2,h1-3",
    ),
    Case(
        "cpu-jobs-on-cards",
        ("foreign: [{name: c, hosts: 'c[1-9]'}]\n", (SMALL, f"{SMALL}, foreign: [c]")),
        "partition small holds nodes without cards beside a[1-4], all of one weight",
        ("small",),
        (
            "foreign: [{name: c, hosts: 'c[1-9]'}]\n",
            (SMALL, f"{SMALL}, foreign: [c]"),
            (POOL, f"{POOL}, options: {{Weight: '50'}}"),
        ),
    ),
    Case(
        "weight-over-topology",
        (
            (
                "    nodes:\n      hosts: h{n}-[1-9]\n",
                "    nodes:\n    - hosts: h{n}-9\n      options"
                ": {Weight: '5'}\n      devices: {h100-sxm: 8}\n      sockets: 2\n      cores: 48\n"
                "      memory: 900 GiB\n    - hosts: h{n}-[1-8]\n",
            ),
        ),
        "nodes of sn1 have weights 1, 5",
        ("sn1",),
        ((HOST, f"{HOST}\n      options: {{Weight: '5'}}"),),
    ),
)
SIX = (
    ("sn[1-2]\n", "sn[1-6]\n"),
    ('left: ["sn[1-2]"], right: [p]', 'left: ["sn[1-3]"], right: ["sn[4-6]", p]'),
    (TRAIN, 'train: {supernodes: ["sn[1-6]"]'),
)
"""Three supernodes on each of two switches: Slurm 26.05 starts 45 nodes, and refuses 46 and 48."""
RELEASES = (
    Case(
        "size-refused",
        (*SIX, sizes(64, 320, 328, 368, 392)),
        "jobs of 328, 368 devices in partition train find no place in blocks of 8, 16, 64 nodes "
        "without --segment, or none when the spares are down",
        ("train",),
        (*SIX, sizes(64, 320, 392)),
    ),
    Case(
        "size-no-shape",
        ((LINK, TORUS), ("    spares: 1\n", ""), sizes(8, 16, 24, 72)),
        "jobs of 16 devices in partition train have no shape in its torus: shapes hold 1, 3, 9 "
        "nodes",
        ("train",),
        ((LINK, TORUS), ("    spares: 1\n", ""), sizes(8, 24, 72)),
    ),
    Case(
        "no-segment",
        (sizes(64, 128),),
        "Slurm 22.05 has no --segment: jobs of 128 devices, more than 64 of sn1, are cut over "
        "supernodes as it happens",
        ("sn1",),
        (sizes(64),),
        release="22.05",
    ),
    Case(
        "cloud-blocks",
        ((HOST, f"{HOST}\n      cloud: true"),),
        "sn[1-2]: Slurm 25.11.0 to 25.11.2 drop cloud nodes that power down from their block; "
        "Topology= on their lines keeps them",
        ("sn1", "sn2"),
        (),
        release="25.11",
    ),
    Case(
        "reconfigure-dies",
        (('"26.05"', '"22.05"'),),
        "Slurm 22.05: a mistake in any file ends slurmctld at 'scontrol reconfigure', and nodes "
        "are added or removed by a restart only",
        ("22.05",),
        (('"26.05"', '"24.11"'),),
    ),
    Case(
        "option-unknown",
        ((TRAIN, f"{TRAIN}, options: {{ExclusiveTopo: 'YES'}}"),),
        "partition train: Slurm 22.05 does not know ExclusiveTopo, and ends",
        ("train", "ExclusiveTopo"),
        ((TRAIN, f"{TRAIN}, options: {{PriorityTier: '2'}}"),),
        release="22.05",
    ),
    Case(
        "option-unknown",
        ((POOL, f"{POOL}, options: {{RestrictedCoresPerGPU: '4'}}"),),
        "nodes a[1-4]: Slurm 22.05 does not know RestrictedCoresPerGPU, and ends",
        ("a[1-4]", "RestrictedCoresPerGPU"),
        (),
        release="22.05",
    ),
)
ACCEPT = (
    Case(
        "accept-unknown",
        ("accept: [{rule: rack-pwer, why: x}]\n",),
        "accepts 'rack-pwer', which is no rule",
        ("rack-pwer",),
        ("accept: [{rule: rack-power, why: x}]\n",),
        "did you mean 'rack-power'? 'sn check --rules' lists all",
    ),
    Case(
        "accept-expired",
        (
            (TRAIN, BOTH),
            "accept: [{rule: mixed-cards, on: train, why: old cards leave, until: 2026-11-30}]\n",
        ),
        "mixed-cards on train was accepted until 2026-11-30 (old cards leave): it counts again",
        ("mixed-cards", "train"),
        (
            (TRAIN, BOTH),
            "accept: [{rule: mixed-cards, on: train, why: old cards leave, until: 2026-12-01}]\n",
        ),
    ),
    Case(
        "accept-unused",
        ((TRAIN, BOTH), "accept: [{rule: mixed-cards, on: [small, q], why: x}]\n"),
        "mixed-cards on q,small is accepted, and nothing of it found",
        ("mixed-cards",),
        ((TRAIN, BOTH), "accept: [{rule: mixed-cards, on: [small, train], why: x}]\n"),
        "its findings are about train",
    ),
    Case(
        "accept-unused",
        ("accept: [{rule: mixed-cards, why: x, until: 2020-01-01}]\n",),
        "mixed-cards is accepted, and nothing of it found",
        ("mixed-cards",),
        (),
    ),
)
CASES = (
    *RACK, *NETWORK, *CARDS, *JOB_SIZES, *UPKEEP, *PLACES, *RELEASES, *ACCEPT,
)  # fmt: skip
ELSEWHERE = {"release-loses", "topology-4096"}
"""Rules with tests of their own."""


def of(rule: str, findings: list[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.rule == rule)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_finds_what_it_is_for_and_says_it(case: Case) -> None:
    rule = next(rule for rule in RULES if rule.name == case.rule)
    finding = next(of(case.rule, found(*case.fires, release=case.release)))
    assert finding.what == case.what
    assert finding.todo == (case.todo or rule.remedy)
    assert finding.severity == rule.severity
    assert (finding.on, ",".join(finding.hosts)) == (case.on, case.hosts)
    assert finding.where.file == "i.yaml"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_is_silent_where_all_is_well(case: Case) -> None:
    release = None if case.rule == "reconfigure-dies" else case.release
    assert list(of(case.rule, found(*case.silent, release=release))) == []


def test_the_room_of_these_tests_is_in_order() -> None:
    assert found() == []


def test_every_rule_has_a_case() -> None:
    assert {rule.name for rule in RULES} == {case.rule for case in CASES} | ELSEWHERE


def test_rules_have_names_of_their_own_and_short_reasons() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert [rule.name for rule in RULES if len(rule.reason) > 100 or "\n" in rule.reason] == []
