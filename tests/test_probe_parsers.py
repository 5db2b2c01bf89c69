"""What the probe makes of what vendors' tools printed on real nodes."""

from __future__ import annotations

import re

import pytest

from supernode_slurm.probe import amd, ascend, host, network, nvidia, others, software, text
from tests.probe_samples import real

# nvidia-smi


def test_the_log_of_an_a100_with_mig_is_read() -> None:
    found = nvidia.read_xml(real("nvsmi/telegraf_a100-sxm4-v12.xml"))
    assert (found["driver"], found["cuda"], found["attached"]) == ("535.54.03", "12.2", 4)
    (card,) = found["devices"]  # the author cut the others off
    assert card["name"] == "NVIDIA A100-SXM4-80GB"
    assert (card["memory_mib"], card["minor"], card["vbios"]) == (81920, 1, "92.00.36.00.02")
    assert (card["power_w"], card["power_max_w"], card["ecc"]) == (500.0, 500.0, "Enabled")
    assert card["pcie"] == {"gen": 4, "gen_max": 4, "width": 16, "width_max": 16}
    assert (card["mig"], card["instances"]) == ("Enabled", [3, 4, 5, 6])
    assert "fabric" not in card  # all of it is N/A


def test_the_log_of_a_t4_in_a_narrow_slot_is_read() -> None:
    (card,) = nvidia.read_xml(real("nvsmi/telegraf_tesla-t4.xml"))["devices"]
    assert (card["name"], card["memory_mib"], card["power_w"]) == ("Tesla T4", 15360, 70.0)
    assert (card["pcie"]["width"], card["pcie"]["width_max"]) == (8, 16)
    assert "mig" not in card


def test_the_log_of_the_newest_form_is_read() -> None:
    found = nvidia.read_xml(real("nvsmi/telegraf_rtx-3080-v13.xml"))
    (card,) = found["devices"]
    assert (found["driver"], found["cuda"]) == ("595.58.03", "13.2")
    assert (card["name"], card["memory_mib"]) == ("NVIDIA GeForce RTX 3080", 10240)
    assert (card["power_w"], card["power_max_w"]) == (320.0, 336.0)


def test_the_text_of_a_4090_is_read() -> None:
    found = nvidia.read_query(real("nvsmi/q_4090_idle_pcie_gen1.txt"))
    assert (found["driver"], found["cuda"], found["attached"]) == ("535.154.05", "12.2", 8)
    (card,) = found["devices"]
    assert (card["name"], card["memory_mib"]) == ("NVIDIA GeForce RTX 4090", 24564)
    # Idle cards fall back to generation 1: the width is what tells of a bad seat.
    assert card["pcie"] == {"gen": 1, "gen_max": 4, "width": 16, "width_max": 16}
    assert "fabric" not in card


def test_a_table_of_any_fields_is_read() -> None:
    text_ = real("fabric/gb300_fabric_in_progress.txt")
    cards = nvidia.read_csv(text_)
    assert [card["name"] for card in cards] == ["NVIDIA GB300"] * 4
    assert {card["fabric"]["state"] for card in cards} == {"In Progress"}
    drift = nvidia.read_csv(real("nvsmi/vbios_drift.txt"))
    assert [card["vbios"] for card in drift] == ["96.00.74.00.10"] * 2 + ["96.00.89.00.04"]


def test_links_are_read_by_card() -> None:
    cards = nvidia.read_links(real("nvsmi/nvlink_status_a100.txt"))
    assert [card["links"] for card in cards] == [[25.0] * 12] * 8
    assert cards[7]["uuid"] == "GPU-18d6d9f1-9d5b-1915-de26-4e49c9e45f11"


@pytest.mark.parametrize(
    ("name", "cards", "columns", "link", "near"),
    [
        ("2gpu_nvlink_nv2", 2, 2, "NV2", "0-23"),
        ("2gpu_pcie_phb", 2, 2, "PHB", "0-11"),
        ("a100_8gpu_nv12", 8, 8, "NV12", "0-23"),
        ("dgx_a100_8gpu_10nic_gpurows", 8, 18, "NV12", "48-63,176-191"),
        ("h100_6nic_blank_affinity_gpurows", 8, 14, "NV18", None),
        ("h100_8gpu_18nic_full", 26, 26, "NV18", "0-55,112-167"),
        ("h100_8gpu_18nic_full_ansi", 26, 26, "NV18", "0-55,112-167"),
        ("h100_8gpu_nv18", 8, 8, "NV18", "0-51"),
    ],
)
def test_topologies_are_read(
    name: str, cards: int, columns: int, link: str, near: str | None
) -> None:
    found = nvidia.read_topology(real(f"topo/{name}.txt"))
    assert (len(found["links"]), len(found["columns"])) == (cards, columns)
    assert found["links"]["GPU0"][:2] == ["X", link]
    assert all(len(row) == columns for row in found["links"].values())
    assert found.get("cpus", {}).get("GPU0") == near
    if "full" in name:
        assert found["nics"]["NIC17"] == "mlx5_17"


def test_an_xml_that_defines_words_of_its_own_is_not_read() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "a">]><nvidia_smi_log>&a;</nvidia_smi_log>'
    assert nvidia.read_xml(bomb) == {}


# npu-smi and hccn_tool


def test_the_sixteen_chips_of_a_910c_are_devices_and_told_from_a_910b() -> None:
    found = ascend.read_info(real("ascend/npu_smi_info_910c_16chips.txt"))
    devices = found["devices"]
    assert found["driver"] == "24.1.rc3.7"
    assert [device["minor"] for device in devices] == list(range(16))
    assert [(device["npu"], device["chip"]) for device in devices[:3]] == [(0, 0), (0, 1), (1, 0)]
    assert {device["name"] for device in devices} == {"Ascend910"}
    assert {device["model"] for device in devices} == {"Ascend910C"}
    assert {device["memory_mib"] for device in devices} == {65536}
    one = ascend.read_info(real("ascend/npu_smi_info_910b2c_ids12_15.txt"))["devices"]
    assert [device["minor"] for device in one] == [12, 13, 14, 15]
    assert {device["name"] for device in one} == {"910B2C"}
    assert not any("model" in device for device in one)
    assert {device["memory_mib"] for device in one} == {65536}


def test_the_first_910_is_no_910c() -> None:
    assert ascend.model_of("Ascend910", 1, 32768) == "Ascend910A"
    assert ascend.model_of("Ascend910", 2, 65536) == "Ascend910C"
    assert ascend.model_of("910B3", 1, 65536) == "910B3"
    assert ascend.model_of("Ascend910", 1, 65536) == "Ascend910"  # nobody can say


def test_the_old_layout_of_a_310p_is_read() -> None:
    (device,) = ascend.read_info(real("ascend/npu_smi_info_310p_old_layout.txt"))["devices"]
    assert (device["name"], device["memory_mib"], device["minor"]) == ("310P3", 21534, 0)
    assert device["health"] == "OK"


def test_a_collected_log_is_read_by_command() -> None:
    parts = ascend.sections(real("ascend/npu_info_before.txt"))
    mapped = ascend.read_mapping(parts["npu-smi info -m"])
    assert [(item["npu"], item["name"]) for item in mapped] == [
        (number, "Ascend 910A") for number in range(8)
    ]
    board = ascend.read_board(parts["npu-smi info -i 0 -t board"])
    assert (board["driver"], board["firmware"]) == ("23.0.5", "7.1.0.7.220")
    assert ascend.read_link(parts["hccn_tool -i 0 -link_stat -g"]) == {"link": "UP", "ups": 2}
    assert ascend.read_address(parts["hccn_tool -i 0 -ip -g"])["ip"] == "10.183.121.11"
    assert ascend.read_address(parts["hccn_tool -i 2 -ip -g"]) == {}


def test_addresses_of_all_npus_are_read() -> None:
    parts = ascend.sections(real("ascend/hccn_ip_list.txt"))
    found = [ascend.read_address(part)["ip"] for part in parts.values()]
    assert len(set(found)) == 8
    assert found[7] == "10.42.94.49"


def test_a_super_pod_may_have_the_number_0() -> None:
    said = "".join(
        f"\t{key:<30} : {value}\n"
        for key, value in (
            ("SDID", 16777216),
            ("Super Pod Size", 384),
            ("Super Pod ID", 0),
            ("Server Index", 4),
        )
    )
    found = ascend.read_super_pod(said)
    assert found == {"id": 0, "size": 384, "server": 4, "sdid": 16777216}
    assert ascend.read_super_pod("This device does not support querying spod-info.\n") == {}


# rocm-smi and hy-smi


def test_what_rocm_smi_says_as_json_is_read() -> None:
    found = amd.read_json(real("vendor/rocm_smi_mi100_rocm602.json"))
    assert (found["driver"], len(found["devices"])) == ("6.3.6", 4)
    card = found["devices"][0]
    assert (card["name"], card["memory_mib"], card["power_w"]) == ("Instinct MI100", 32752, 290.0)
    assert (card["vbios"], card["pcie"]) == ("113-D3431401-101", {"gen": 4, "width": 16})
    (old,) = amd.read_json(real("vendor/rocm_smi_vega-20-WKS-GL-XE.json"))["devices"]
    assert (old["name"], old["memory_mib"]) == ("Radeon Instinct MI50 32GB", 32752)


def test_the_table_of_rocm_smi_is_read() -> None:
    cards = amd.read_table(real("vendor/rocm_smi_mi300x_8.txt"))
    assert [card["index"] for card in cards] == list(range(8))
    assert {(card["name"], card["power_w"]) for card in cards} == {("AMD Instinct MI300X", 750.0)}


@pytest.mark.parametrize(("name", "count"), [("full_load", 8), ("half_occupied", 7)])
def test_the_table_of_hy_smi_counts_cards_and_names_none(name: str, count: int) -> None:
    cards = amd.read_hy_table(real(f"vendor/hy_smi_8_{name}.txt"))
    assert cards == [{"index": number, "power_w": 800.0} for number in range(count)]


# Networks


def test_bridges_to_the_switches_inside_a_box_are_marked() -> None:
    cards = network.read_ibstat(real("ib/ibstat_b300_cx8_down_cx7_up.txt"))
    inside = [card["name"] for card in cards if card.get("internal")]
    assert inside == ["mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5"]
    outside = [card for card in cards if not card.get("internal")]
    assert [card["name"] for card in outside] == [
        *("mlx5_0", "mlx5_1", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9", "mlx5_10")
    ]
    ports = [port for card in outside for port in card["ports"]]
    assert {(port["state"], port["physical"]) for port in ports} == {("Down", "Disabled")}
    assert outside[0]["guid"] == "7425540300353ded"


def test_roce_ports_are_read() -> None:
    cards = network.read_ibstat(real("ib/ibstat_h100_roce_2_ports_down.txt"))
    assert [card["name"] for card in cards] == [f"mlx5_{number}" for number in range(12)]
    assert not any(card.get("internal") for card in cards)
    down = {card["name"] for card in cards if card["ports"][0]["state"] == "Down"}
    assert down == {"mlx5_5", "mlx5_11"}
    assert cards[0]["ports"][0]["rate_gbits"] == 400
    assert "guid" not in cards[1]["ports"][0]  # it is zero


def test_files_of_the_kernel_tell_the_same_as_ibstat() -> None:
    cards = network.read_flat(real("ib/sysfs_h100_flat.txt"))
    assert [card["name"] for card in cards][-2:] == ["mlx5_9", "mlx5_bond_0"]
    first = cards[0]
    assert (first["type"], first["firmware"], first["board"]) == (
        *("MT4129", "28.41.1000", "MT_0000000838"),
    )
    assert first["ports"] == [
        {"port": 1, "state": "Active", "physical": "LinkUp", "rate_gbits": 400,
         "layer": "InfiniBand"}
    ]  # fmt: skip


def test_a_bridge_that_says_so_is_marked_whatever_it_shares() -> None:
    files = {
        "mlx5_0/hca_type": "MT4129",
        "mlx5_0/vpd": "\x82\x00NVIDIA SW_MNG",
        "mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:a088:c203:00ad:eab8",
        "mlx5_1/hca_type": "MT4131",
    }
    bridge, card = network.of_files(files)
    assert (bridge["internal"], card.get("internal")) == (True, None)
    assert bridge["ports"][0]["guid"] == "a088c20300adeab8"


# The machine and its software


def test_what_slurmd_says_comes_in_two_forms() -> None:
    said = "NodeName=n1 CPUs=192 Boards=2 SocketsPerBoard=1 CoresPerSocket=48 ThreadsPerCore=2"
    found = host.read_slurmd(f"slurmd: some word\n{said} RealMemory=1031000\nUpTime=0-1\n")
    assert found == {"name": "n1", "sockets": 2, "cores": 48, "threads": 2, "memory_mib": 1031000}
    old = host.read_slurmd("NodeName=n1 Sockets=4 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=9\n")
    assert (old["sockets"], old["cores"]) == (4, 8)


def test_lscpu_and_meminfo_are_read() -> None:
    said = "Architecture: aarch64\nThread(s) per core:  1\nCore(s) per cluster: 48\nSocket(s): -\n"
    assert host.read_lscpu(said) == {"architecture": "aarch64", "threads": 1, "cores": 48}
    assert host.read_meminfo("MemTotal:       24684000 kB\n") == {"memory_mib": 24105}


def test_versions_are_read_where_they_stand() -> None:
    listed = software.read_ldconfig(
        "\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnccl.so.2\n"
        "\tlibfoo.so.2 (libc6,x86-64) => /usr/lib/libfoo.so.2\n"
    )
    assert listed == {"nccl": "/usr/lib/x86_64-linux-gnu/libnccl.so.2"}
    assert software.read_ofed("MLNX_OFED_LINUX-5.8-2.0.3.0:\n") == "5.8-2.0.3.0"
    assert software.read_toolkit('{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}') == "12.4.1"
    assert ascend.read_install_info("package_name=toolkit\nversion=8.0.RC2\n") == "8.0.RC2"
    assert others.first_version("Fabric Manager version is : 535.104.05\n") == "535.104.05"


def test_several_firmwares_of_a_node_are_all_named() -> None:
    cards = [{"type": "MT4129", "firmware": "28.41"}, {"type": "MT4129", "firmware": "28.39"}]
    assert software.of_devices([], cards) == {"firmware-MT4129": "28.39 + 28.41"}


# Tools of which no real output is at hand: the form is that of their documents.


def test_outlines_of_unproven_tools_are_read() -> None:
    cnmon = (
        "Card 0\n    Product Name                   : MLU590-M9\n    UUID                  : 0a1b\n"
        "    Driver                         : v5.10.29\n"
        "    Physical Memory Usages\n        Total                      : 81920 MiB\n"
        "        Used                       : 0 MiB\n"
    )
    found = others.read_outline(cnmon)
    assert found["driver"] == "v5.10.29"
    assert found["devices"] == [
        {"index": 0, "name": "MLU590-M9", "uuid": "0a1b", "memory_mib": 81920}
    ]
    gmi = (
        "Driver Version                  : 2.7.0\n\nGPU0 00000000:3a:00.0\n"
        "    Product Name                : MTT S4000\n    MTBios Version              : 3.4.3\n"
        "    FB Memory Usage\n        Total                   : 49152MiB\n"
    )
    found = others.read_outline(gmi)
    assert found["driver"] == "2.7.0"
    assert found["devices"] == [
        {"index": 0, "name": "MTT S4000", "vbios": "3.4.3", "memory_mib": 49152}
    ]


def test_values_that_are_none_are_none() -> None:
    for said in ("", " N/A ", "[N/A]", "[Not Supported]", "-", "Unknown Error", "None"):
        assert text.known(said) == ""
    assert text.known("a\x1b[0m\x00b") == "a[0mb"
    assert (text.mebibytes("80 GiB"), text.mebibytes("49152MiB")) == (81920, 49152)
    assert text.whole("9" * 400) is not None
    assert re.fullmatch("x{200}", text.known("x" * 10_000))
