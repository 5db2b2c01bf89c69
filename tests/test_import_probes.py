"""Answers of sn-probe become an inventory, alone and beside other sources."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supernode_slurm.catalogue import accelerators
from supernode_slurm.discovery import Imported, import_sources, probes
from supernode_slurm.errors import ConfigError, UsageError
from supernode_slurm.inventory import Inventory, NodeClass
from supernode_slurm.slurm import CliClient
from tests.probe_samples import H100, ROOT, ZERO, gpus, line, real, shape

SLURM = "ClusterName=c\nSlurmctldHost=c\nGresTypes=gpu\n"
PARTITION = "PartitionName=all Nodes=ALL Default=YES\n"


def card(number: int, name: str = "NVIDIA H100 80GB HBM3", **more: Any) -> dict[str, Any]:
    base = {"index": number, "minor": number, "name": name, "vendor": "nvidia"}
    return {**base, "memory_mib": 81559, **more}


def answer(host: str, count: int = 8, **more: Any) -> dict[str, Any]:
    """Return the record of a node with H100."""
    node = {"sockets": 2, "cores": 56, "threads": 2, "memory_mib": 2063000}
    found = {"sn_probe": 1, "host": host, "node": node, "devices": [card(n) for n in range(count)]}
    return {**found, **more}


def adapters(*names: str, kind: str = "MT4129", state: str = "Active") -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "type": kind,
            "firmware": "28.41.1000",
            "guid": f"{index + 1:016x}",
            "ports": [{"port": 1, "state": state, "physical": "LinkUp", "rate_gbits": 400}],
        }
        for index, name in enumerate(names)
    ]


def lines(*records: dict[str, Any], prefix: bool = True) -> str:
    """Return the records as clush prints them."""
    return "".join(
        (item["host"] + ": " if prefix else "") + json.dumps(item, separators=(",", ":")) + "\n"
        for item in records
    )


def load(folder: Path, text: str, conf: str = "", given: dict[str, str] | None = None) -> Imported:
    (folder / "answers").write_text(text, encoding="utf-8")
    sources = [str(folder / "answers")]
    if conf:
        (folder / "slurm.conf").write_text(SLURM + conf + PARTITION)
        sources.append(str(folder / "slurm.conf"))
    return import_sources(sources, given or {}, lambda: CliClient({}))


def classes(inventory: Inventory) -> dict[str, NodeClass]:
    return {
        host: nodes
        for domain in inventory.domains
        for nodes in domain.nodes
        for host in nodes.hosts
    }


def told(found: Imported, kind: str = "") -> list[str]:
    return [str(item) for item in found.remarks if kind in ("", item.kind)]


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return str(caught.value)


# What carries the answers


@pytest.mark.parametrize(
    "carried",
    [
        "{}\n",
        "h1: {}\n",
        "h1.example.org: {}\n",
        "0: {}\n",
        "h1 | CHANGED | rc=0 | (stdout) {}\n",
        "Warning: Permanently added 'h1' to the list of known hosts.\n\nh1: {}\r\n",
        "*** Authorized users only ***\nh1: {}\nclush: 1/1\n",
    ],
)
def test_answers_are_found_behind_whatever_carries_them(carried: str, tmp_path: Path) -> None:
    text = carried.replace("{}", lines(answer("h1"), prefix=False).strip())
    found = load(tmp_path, text)
    (pool,) = found.inventory.pools
    assert (pool.hosts, pool.nodes[0].devices[0].count) == (("h1",), 8)


def test_standard_input_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO(lines(answer("h1")).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="utf-8"))
    found = import_sources(["-"], {}, lambda: CliClient({}))
    assert [pool.hosts for pool in found.inventory.pools] == [("h1",)]
    assert found.text.startswith("# Imported from standard input\n")


def test_the_command_line_takes_a_pipe(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-c",
        "from supernode_slurm.cli.main import main; main()",
        "import",
        "-",
    ]
    done = subprocess.run(
        argv, input=lines(answer("h1")), capture_output=True, text=True, timeout=60, check=False,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "devices: {h100-sxm: 8}" in done.stdout


def test_the_last_answer_of_a_host_counts_and_is_told(tmp_path: Path) -> None:
    found = load(tmp_path, lines(answer("h1", 7), answer("h1", 8)))
    assert classes(found.inventory)["h1"].devices[0].count == 8
    assert any("h1 answered more than once" in text for text in told(found, "lost"))


def test_nodes_that_give_themselves_one_name_are_kept_apart(tmp_path: Path) -> None:
    named = lines(*(answer("localhost", count) for count in (8, 7, 8)), prefix=False).split("\n")
    text = "".join(f"n{number}: {each}\n" for number, each in enumerate(named[:3], 1))
    found = load(tmp_path, text)
    counts = {host: nodes.devices[0].count for host, nodes in classes(found.inventory).items()}
    assert counts == {"n1": 8, "n2": 7, "n3": 8}
    assert any("n[1-3] call themselves 'localhost'" in text for text in told(found, "fault"))
    tasks = "".join(f"{number}: {each}\n" for number, each in enumerate(named[:2]))
    assert list(classes(load(tmp_path, tasks).inventory)) == ["localhost"]


def test_what_is_no_answer_is_counted_and_its_host_named(tmp_path: Path) -> None:
    text = (
        "h2: bash: sn-probe: command not found\n"
        "clush: h2: exited with exit code 127\n"
        "h3: ssh: connect to host h3 port 22: No route to host\n"
        + lines(answer("h1"))
        + 'h4: {"sn_probe":1,"host":"h4","no\n'
    )
    found = load(tmp_path, text)
    assert any("4 lines are no answers of sn-probe" in each for each in told(found, "lost"))
    silent = told(found, "fault")
    assert any(
        "h2 gave no facts, but said 'bash: sn-probe: command not found'" in s for s in silent
    )
    assert any("h3 gave no facts" in s for s in silent)
    assert any("h4 gave no facts, but said 'its answer is cut or mangled'" in s for s in silent)


def test_folded_answers_are_refused_in_words(tmp_path: Path) -> None:
    text = f"---------------\nh[1-4] (4)\n---------------\n{lines(answer('h1'), prefix=False)}"
    assert "is folded: one answer stands for several nodes; leave -b (dshbak) away" in refused(
        tmp_path, text
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"sn_probe":1,\n', "holds no answer of sn-probe: 'answer is cut or mangled'"),
        ('{"sn_probe":99,"host":"a"}\n', "answer has schema 99, known are 1 to 1: update sn"),
        ('{"sn_probe":1,"host":"a b"}\n', "answer names no host"),
        ('{"sn_probe":' + "[" * 100_000 + "}\n", "nested without end"),
    ],
)
def test_texts_without_an_answer_are_refused_with_the_reason(
    text: str, what: str, tmp_path: Path
) -> None:
    assert what in refused(tmp_path, text)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a line of more than 4 MiB" in refused(tmp_path, '{"sn_probe":' + "1" * 5_000_000)
    monkeypatch.setattr(probes, "MOST_BYTES", 2**20)
    many = lines(*(answer(f"h{number}") for number in range(2000)))
    assert "is larger than 1 MiB" in refused(tmp_path, many)


# What becomes of them


def test_equal_nodes_become_one_class_with_the_least_of_their_memory(tmp_path: Path) -> None:
    records = [answer(f"h{number:02d}") for number in range(1, 5)]
    for number, record in enumerate(records):
        record["node"] = {**record["node"], "memory_mib": 2063000 + 900 * number}
    found = load(tmp_path, lines(*records))
    (pool,) = found.inventory.pools
    (nodes,) = pool.nodes
    assert len(nodes.hosts) == 4
    assert nodes.memory_mib == 2063000 >> 10 << 10
    assert (nodes.sockets, nodes.cores, nodes.threads) == (2, 56, 2)
    assert "# probe of h[01-04]" in found.text
    assert "see slurmd -C" not in found.text


def test_a_node_with_a_card_less_is_a_class_of_its_own_and_told(tmp_path: Path) -> None:
    records = [answer(f"h{number}") for number in range(1, 4)]
    gap = answer("h4")
    del gap["devices"][5]
    found = load(tmp_path, lines(*records, gap))
    nodes = classes(found.inventory)["h4"]
    assert (nodes.devices[0].count, nodes.devices[0].missing) == (7, (5,))
    assert classes(found.inventory)["h1"].devices[0].count == 8
    (fault,) = told(found, "fault")
    assert "probe of h4: 7 h100-sxm, where 3 others of its make have 8" in fault


def test_cards_that_fell_off_the_bus_are_told(tmp_path: Path) -> None:
    found = load(tmp_path, lines(answer("h1", 7, bus={"nvidia": {"0x2330": 8}})))
    assert any("7 of 8 nvidia cards on the PCI bus answer" in text for text in told(found, "fault"))
    dead = answer("h2", 0, bus={"nvidia": {"0x2330": 8}})
    found = load(tmp_path, lines(dead))
    assert any(
        "8 nvidia cards on the PCI bus, and no tool" in text for text in told(found, "fault")
    )


@pytest.mark.parametrize(
    ("name", "mib", "accelerator"),
    [
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-sxm-80g"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-sxm-40g"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-pcie-80g"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie"),
        ("NVIDIA GB200", 189471, "gb200"),
        ("Tesla T4", 15360, "t4"),
        ("Tesla V100-SXM2-32GB", 32768, "v100-sxm-32g"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090"),
    ],
)
def test_names_of_tools_are_names_of_the_catalogue(
    name: str, mib: int, accelerator: str, tmp_path: Path
) -> None:
    record = answer("h1", devices=[card(0, name, memory_mib=mib)])
    found = load(tmp_path, lines(record))
    assert [item.accelerator for item in classes(found.inventory)["h1"].devices] == [accelerator]


def test_memory_keeps_a_name_from_meaning_another_card(tmp_path: Path) -> None:
    # npu-smi calls a 910C by the name of the first 910; here nothing says that it has two chips.
    npu = {"index": 0, "minor": 0, "name": "Ascend910", "vendor": "huawei", "memory_mib": 65536}
    found = load(tmp_path, lines(answer("n1", devices=[npu])))
    assert classes(found.inventory)["n1"].devices == ()
    assert any("it shows 64 GiB, ascend-910a has 32" in text for text in told(found, "unsaid"))


def test_every_card_of_the_catalogue_is_found_by_its_names_and_memory(tmp_path: Path) -> None:
    wrong = []
    for item in accelerators():
        mib = int((item.memory_gib or 0) * 1024)
        for name in (item.id, *item.aliases[:1]):
            device = {"index": 0, "name": name, "vendor": item.vendor, "memory_mib": mib}
            record = answer("n1", devices=[device])
            (tmp_path / "answers").write_text(lines(record), encoding="utf-8")
            room_cards = load(tmp_path, lines(record)).inventory
            kinds = [d.accelerator for d in classes(room_cards)["n1"].devices]
            if kinds != [item.id]:
                wrong.append((name, kinds))
    assert wrong == []


def test_an_unknown_card_is_counted_named_and_may_be_given(tmp_path: Path) -> None:
    record = answer("h1", devices=[card(n, "NVIDIA B9000", memory_mib=1) for n in range(4)])
    found = load(tmp_path, lines(record))
    nodes = classes(found.inventory)["h1"]
    assert [(item.name, item.type, item.count) for item in nodes.other_gres] == [
        ("gpu", "nvidia-b9000", 4)
    ]
    (text,) = [text for text in told(found, "unsaid") if "B9000" in text]
    assert "did you mean" in text
    assert "--accelerator 'NVIDIA B9000=NAME'" in text
    found = load(tmp_path, lines(record), given={"NVIDIA B9000": "b200-sxm"})
    assert classes(found.inventory)["h1"].devices[0].accelerator == "b200-sxm"
    with pytest.raises(UsageError, match="--accelerator: no accelerator 'b2000'"):
        load(tmp_path, lines(record), given={"NVIDIA B9000": "b2000"})


def test_cards_whose_tool_names_none_may_be_given_by_vendor(tmp_path: Path) -> None:
    text = line(
        tmp_path / "n",
        {
            "hy-smi": real("vendor/hy_smi_8_full_load.txt"),
            "slurmd -C": shape("d1", 2, 32, 1, 510000),
        },
    )
    found = load(tmp_path, text)
    assert any("8 cards 'hygon': the tool names no kind" in said for said in told(found, "unsaid"))
    found = load(tmp_path, text, given={"hygon": "dcu-k100-ai"})
    assert classes(found.inventory)["d1"].devices[0].accelerator == "dcu-k100-ai"
    assert any("cards of hygon are read without proof" in said for said in told(found, "unsaid"))


def test_npus_with_high_numbers_keep_their_files(tmp_path: Path) -> None:
    info = real("ascend/npu_smi_info_910b2c_ids12_15.txt")
    text = line(tmp_path / "n", {"npu-smi info": info, "slurmd -C": shape("a1", 4, 48, 1, 1545000)})
    (devices,) = classes(load(tmp_path, text).inventory)["a1"].devices
    assert (devices.accelerator, devices.count) == ("ascend-910b2c", 4)
    assert devices.files == tuple(f"/dev/davinci{number}" for number in range(12, 16))


def test_cards_of_two_vendors_get_two_names_of_gres(tmp_path: Path) -> None:
    npus = [
        {"index": n, "minor": n, "name": "910B3", "vendor": "huawei", "memory_mib": 65536}
        for n in range(2)
    ]
    record = answer("x1", devices=[card(0), card(1), *npus])
    devices = classes(load(tmp_path, lines(record)).inventory)["x1"].devices
    assert [(item.accelerator, item.gres, item.count) for item in devices] == [
        ("h100-sxm", "gpu", 2),
        ("ascend-910b3", "npu", 2),
    ]


def test_equal_mig_instances_are_kept_unequal_ones_told(tmp_path: Path) -> None:
    split: dict[str, Any] = {"mig": "Enabled", "mig_instances": [["3g.40gb", 2], ["3g.40gb", 1]]}
    record = answer("h1", devices=[card(n, **split) for n in range(2)])
    (devices,) = classes(load(tmp_path, lines(record)).inventory)["h1"].devices
    assert devices.mig == (("3g.40gb", (1, 2)),)
    record["devices"][1]["mig_instances"] = []
    found = load(tmp_path, lines(record))
    assert classes(found.inventory)["h1"].devices[0].mig == ()
    assert any("not the same on all cards" in text for text in told(found, "lost"))


# Networks


def test_network_cards_are_kept_by_node(tmp_path: Path) -> None:
    one = answer("h1", network=adapters("mlx5_0", "mlx5_3", "mlx5_5", "mlx5_8"))
    two = answer("h2", network=adapters("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"))
    found = classes(load(tmp_path, lines(one, two)).inventory)
    assert found["h1"].network.hcas == ("mlx5_0", "mlx5_3", "mlx5_5", "mlx5_8")
    assert found["h2"].network.hcas == ("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5")


def test_bridges_and_slower_cards_are_no_rails(tmp_path: Path) -> None:
    text = line(
        tmp_path / "n",
        {
            "nvidia-smi -q -x": gpus("NVIDIA B300 SXM6 AC", 7, 275040),
            "ibstat": real("ib/ibstat_b300_cx8_down_cx7_up.txt"),
            "slurmd -C": shape("b1", 2, 64, 1, 2000000),
        },
    )
    found = load(tmp_path, text)
    assert classes(found.inventory)["b1"].network.hcas == (
        *("mlx5_0", "mlx5_1", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9", "mlx5_10"),
    )
    assert any("mlx5_[0-1,6-10]: Down (Disabled)" in text for text in told(found, "fault"))
    text = line(
        tmp_path / "r",
        {
            "ibstat": real("ib/ibstat_h100_roce_2_ports_down.txt"),
            "slurmd -C": shape("r1", 2, 64, 1, 2000000),
        },
    )
    found = load(tmp_path, text)
    hcas = classes(found.inventory)["r1"].network.hcas
    assert len(hcas) == 8
    assert not {"mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8"} & set(hcas)  # of 100 Gb/s
    assert any("mlx5_5: Down (Disabled)" in text for text in told(found, "fault"))


def test_guids_of_probes_name_the_adapters_of_a_fabric(tmp_path: Path) -> None:
    record = answer("h1", network=adapters("mlx5_0"))
    other = answer("h2", network=[{**adapters("mlx5_0")[0], "guid": "00000000000000ff"}])
    fabric = (
        "vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0xaa\nswitchguid=0xaa(aa)\n"
        'Switch\t3 "S-00000000000000aa"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 1 lmc 0\n'
        '[1]\t"H-0000000000000001"[1](1) \t\t# "MT4129 ConnectX7   Mellanox" lid 2 4xNDR\n'
        '[2]\t"H-00000000000000ff"[1](ff) \t\t# "MT4129 ConnectX7   Mellanox" lid 3 4xNDR\n\n'
        + "".join(
            f"vendid=0x2c9\ndevid=0x1021\nsysimgguid=0x{guid}\ncaguid=0x{guid}\n"
            f'Ca\t1 "H-{guid:0>16}"\t\t# "MT4129 ConnectX7   Mellanox"\n'
            f'[1]({guid}) \t"S-00000000000000aa"[{port}]\t\t# lid 2 lmc 0 "MF0;leaf1:MQM8700/U1"'
            " lid 1 4xNDR\n\n"
            for port, guid in ((1, "1"), (2, "ff"))
        )
    )
    (tmp_path / "fabric.txt").write_text(fabric)
    (tmp_path / "answers").write_text(lines(record, other))
    sources = [str(tmp_path / "fabric.txt"), str(tmp_path / "answers")]
    found = import_sources(sources, {}, lambda: CliClient({}))
    assert len(found.inventory.fabrics) == 1
    assert not any("name no host" in text for text in told(found))


# Scale-up fabrics


def nvl(host: str, cluster: str, clique: str = "1", state: str = "Completed") -> dict[str, Any]:
    fabric = {"state": state, "cluster": cluster, "clique": clique}
    cards = [card(n, "NVIDIA GB200", memory_mib=189471, fabric=fabric) for n in range(4)]
    return answer(host, devices=cards)


def test_nodes_of_one_nvlink_domain_are_a_supernode(tmp_path: Path) -> None:
    racks = {
        "r1": "5e797fc6-0f46-421a-8724-0e102c0f723c",
        "r2": "6e797fc6-0f46-421a-8724-000000000001",
    }
    records = [
        nvl(f"gb-{rack}-{n:02d}", uuid) for rack, uuid in racks.items() for n in range(1, 19)
    ]
    found = load(tmp_path, lines(*records))
    assert [(item.name, len(item.hosts)) for item in found.inventory.supernodes] == [
        ("gb-r1", 18),
        ("gb-r2", 18),
    ]
    assert {item.interconnect.kind for item in found.inventory.supernodes} == {"switch"}
    assert "assumed" not in found.text


def test_cliques_part_a_cluster_and_no_domain_is_none(tmp_path: Path) -> None:
    uuid = "5e797fc6-0f46-421a-8724-0e102c0f723c"
    parts = [nvl(f"n{n}", uuid, "1" if n < 3 else "2") for n in range(1, 5)]
    found = load(tmp_path, lines(*parts))
    assert [item.hosts for item in found.inventory.supernodes] == [("n1", "n2"), ("n3", "n4")]
    for cluster, clique in ((ZERO, "0"), ("N/A", "N/A"), ("", ""), (uuid, "32766")):
        none = [nvl(f"n{n}", cluster, clique) for n in range(1, 3)]
        assert load(tmp_path, lines(*none)).inventory.supernodes == ()


def test_a_fabric_that_is_not_up_leaves_its_node_out_of_blocks(tmp_path: Path) -> None:
    uuid = "5e797fc6-0f46-421a-8724-0e102c0f723c"
    records = [nvl("n1", uuid), nvl("n2", uuid), nvl("n3", "", "", "In Progress")]
    found = load(tmp_path, lines(*records))
    assert [item.hosts for item in found.inventory.supernodes] == [("n1", "n2")]
    (fault,) = told(found, "fault")
    assert "n3: in no NVLink domain (state In Progress); look at the chassis" in fault


def test_ascend_super_pods_are_supernodes(tmp_path: Path) -> None:
    info = real("ascend/npu_smi_info_910c_16chips.txt")
    texts = []
    for number, pod in ((1, 0), (2, 0), (3, 1), (4, 1)):
        said = f"\tSDID : 1\n\tSuper Pod Size : 384\n\tSuper Pod ID : {pod}\n"
        texts.append(
            line(
                tmp_path / str(number),
                {
                    "npu-smi info": info,
                    "npu-smi info -t spod-info -i 0 -c 0": said,
                    "slurmd -C": shape(f"cm-{number}", 4, 48, 1, 1945000),
                },
            )
        )
    found = load(tmp_path, "".join(texts))
    assert [(item.name, item.hosts) for item in found.inventory.supernodes] == [
        ("super-pod-0", ("cm-1", "cm-2")),
        ("super-pod-1", ("cm-3", "cm-4")),
    ]
    nodes = classes(found.inventory)["cm-1"]
    assert [(item.accelerator, item.count) for item in nodes.devices] == [("ascend-910c", 16)]
    assert found.inventory.supernodes[0].interconnect.kind == "clos"


# Versions


def test_versions_stand_by_component_with_the_hosts_that_have_them(tmp_path: Path) -> None:
    records = [
        answer(f"h{n}", versions={"driver": "550.54.15", "nccl": "2.21.5"}) for n in (1, 2, 3)
    ]
    records[2]["versions"] = {"driver": "550.90.07", "odd name": "1", "cann": "a,b\n"}
    found = load(tmp_path, lines(*records))
    installed = {
        (item.component, item.version): item.hosts for item in found.inventory.upkeep.installed
    }
    assert installed == {
        ("driver", "550.54.15"): ("h1", "h2"),
        ("driver", "550.90.07"): ("h3",),
        ("nccl", "2.21.5"): ("h1", "h2"),
    }


# Beside a slurm.conf


def test_slurm_conf_and_probes_that_agree_say_nothing(tmp_path: Path) -> None:
    conf = (
        "NodeName=h[1-2] NodeAddr=10.0.0.[1-2] Sockets=2 CoresPerSocket=56 ThreadsPerCore=2"
        " RealMemory=2000000 Gres=gpu:h100:8\n"
    )
    found = load(tmp_path, lines(answer("h1"), answer("h2")), conf)
    assert not told(found, "disagreement")
    nodes = classes(found.inventory)["h1"]
    assert nodes.memory_mib == 2000000  # a site may keep some back
    assert dict(nodes.options)["NodeAddr"] == "10.0.0.[1-2]"
    assert "# slurm.conf:4, probe of h[1-2]" in found.text


def test_differences_are_listed_and_the_files_counts_are_kept(tmp_path: Path) -> None:
    conf = "NodeName=h[1-2] Sockets=2 CoresPerSocket=64 RealMemory=2100000 Gres=gpu:8\n"
    found = load(tmp_path, lines(answer("h1"), answer("h2", 7)), conf)
    listed = "\n".join(told(found, "disagreement"))
    assert "gpu: 8 h100-sxm of h2 in slurm.conf, the probe sees 7" in listed
    assert "cores of h[1-2]: 64 in slurm.conf, 56 by the probe" in listed
    assert "memory of h[1-2]: 2100000 MiB in slurm.conf" in listed
    assert "threads" not in listed  # slurm.conf says nothing of them: filled in
    nodes = classes(found.inventory)["h2"]
    assert (nodes.devices[0].count, nodes.cores, nodes.threads) == (8, 64, 2)


def test_gaps_of_slurm_conf_are_filled_from_probes(tmp_path: Path) -> None:
    conf = "NodeName=h1 CPUs=224\nNodeName=h2\n"
    found = load(tmp_path, lines(answer("h1"), answer("h2"), answer("h3")), conf)
    for host in ("h1", "h2", "h3"):
        nodes = classes(found.inventory)[host]
        assert (nodes.sockets, nodes.cores, nodes.threads) == (2, 56, 2), host
        assert nodes.devices[0].accelerator == "h100-sxm"
    listed = "\n".join(told(found, "disagreement"))
    assert "slurm.conf has no Gres= for h[1-2], the probe sees 8 h100-sxm" in listed
    assert "h3 answered, and no line of slurm.conf names them" in listed
    assert "no source says" not in "\n".join(t for t in told(found, "unsaid") if "sockets" in t)


def test_a_probe_tells_which_card_an_untyped_gres_is(tmp_path: Path) -> None:
    pcie = [card(n, "NVIDIA A100-PCIE-40GB", memory_mib=40960) for n in range(4)]
    shape_ = "Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2000000"
    for gres in ("gpu:4", "gpu:a100:4"):
        conf = f"NodeName=h1 {shape_} Gres={gres}\n"
        found = load(tmp_path, lines(answer("h1", devices=pcie)), conf)
        (devices,) = classes(found.inventory)["h1"].devices
        assert (devices.accelerator, devices.count) == ("a100-pcie-40g", 4)
        assert not told(found, "disagreement")
    found = load(
        tmp_path, lines(answer("h1", devices=pcie)), f"NodeName=h1 {shape_} Gres=gpu:h100:4\n"
    )
    listed = "\n".join(told(found, "disagreement"))
    assert "gpu: 4 h100-sxm of h1 in slurm.conf, the probe sees 4 a100-pcie-40g" in listed


def test_what_did_not_answer_is_told(tmp_path: Path) -> None:
    tools = {
        "nvidia-smi -q -x": {"answer": "timeout: no answer in 20 s"},
        "npu-smi info": {"answer": "missing"},
        "lscpu": {"answer": "ok"},
    }
    record = answer("h1", 0, tools=tools, stopped="while reading versions, after 58 s")
    listed = told(load(tmp_path, lines(record)), "fault")
    assert len(listed) == 2
    assert "probe of h1: nvidia-smi -q -x: timeout: no answer in 20 s" in "\n".join(listed)
    assert "sn-probe stopped while reading versions" in "\n".join(listed)


def test_links_and_lanes_that_are_down_are_told(tmp_path: Path) -> None:
    cards = [card(n, pcie={"width": 16}, nvlink={"up": 18, "down": 0}) for n in range(8)]
    cards[3]["pcie"] = {"width": 8}
    cards[4]["nvlink"] = {"up": 17, "down": 1}
    listed = "\n".join(told(load(tmp_path, lines(answer("h1", devices=cards))), "fault"))
    assert "equal cards have unequal PCIe links: x8, x16" in listed
    assert "1 cards have scale-up links that are down" in listed


def test_a_probe_to_an_inventory_to_slurms_files(tmp_path: Path) -> None:
    text = line(
        tmp_path / "n", {"nvidia-smi -q -x": H100, "slurmd -C": shape("h1", 2, 56, 2, 2063000)}
    )
    found = load(tmp_path, text)
    site = tmp_path / "site.yaml"
    site.write_text(found.text + "partitions:\n  main: {pools: [pool-h100], default: true}\n")
    argv = [
        *(sys.executable, "-c", "from supernode_slurm.cli.main import main; main()", "generate"),
        *("-i", str(site), "--release", "24.11", "-o", str(tmp_path / "out")),
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    gres = (tmp_path / "out/gres.conf").read_text()
    assert "NodeName=h1 Name=gpu Type=h100 File=/dev/nvidia[0-7]" in gres
