"""NVLink domains and Ascend super pods, as tools print them on many hosts; GUIDs of hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.discovery.per_host import answers_of
from supernode_slurm.discovery.scale_up import nvlink_domain
from supernode_slurm.errors import ConfigError
from tests.test_import_fabric import NODE, nobody, told, tree, two_rails

U1, U2 = "5e797fc6-0f46-421a-8724-0e102c0f723c", "0aa97fc6-0f46-421a-8724-0e102c0f7bbb"
ZERO = "00000000-0000-0000-0000-000000000000"


def load(folder: Path, text: str, name: str = "said.txt", conf: str = "") -> Imported:
    """Return what a text, and a slurm.conf, are imported as."""
    sources = [str(folder / name)]
    (folder / name).write_text(text, encoding="utf-8")
    if conf:
        (folder / "slurm.conf").write_text(f"ClusterName=c\n{conf}")
        sources.append(str(folder / "slurm.conf"))
    return import_sources(sources, {}, nobody)


def supernodes(found: Imported) -> dict[str, str]:
    return {item.name: ",".join(sorted(item.hosts)) for item in found.inventory.supernodes}


def pools(found: Imported) -> set[str]:
    return {host for pool in found.inventory.pools for host in pool.hosts}


def refused(folder: Path, text: str, name: str = "said.txt") -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, name)
    return str(caught.value)


def query(cluster: str, clique: str, state: str = "Completed") -> str:
    """Return a part of ``nvidia-smi -q``, with two cards."""
    card = f"""    Product Name                          : NVIDIA GB200
    Fabric
        State                             : {state}
        Status                            : Success
        CliqueId                          : {clique}
        ClusterUUID                       : {cluster}
        Health
            Bandwidth                     : Full
    Processes                             : None
"""
    head = "==============NVSMI LOG==============\n\nAttached GPUs                   : 2\n"
    return f"{head}GPU 00000008:01:00.0\n{card}\nGPU 00000009:01:00.0\n{card}"


def before(host: str, text: str) -> str:
    return "".join(f"{host}: {line}\n" for line in text.splitlines())


def test_cluster_and_clique_together_are_the_key(tmp_path: Path) -> None:
    lines = [f"a: {U1}, 1", f"b: {U1}, 1", f"c: {U1}, 2", f"d: {U2}, 1", f"e: {U1}, 2"]
    found = load(tmp_path, "\n".join(lines))
    assert supernodes(found) == {f"{U1}.1": "a,b", f"{U1}.2": "c,e", f"{U2}.1": "d"}


@pytest.mark.parametrize(
    ("cluster", "clique", "state", "why"),
    [
        (ZERO, "0", "Completed", f"ClusterUUID {ZERO}"),
        ("N/A", "N/A", "", "ClusterUUID N/A"),
        ("", "", "", "ClusterUUID N/A"),
        (U1, "32766", "Completed", "CliqueId 32766"),
        (U1, "N/A", "Completed", "CliqueId N/A"),
        ("N/A", "N/A", "In Progress", "state In Progress"),
        (U1, "3", "In Progress", "state In Progress"),
        ("N/A", "N/A", "N/A", "state N/A"),
    ],
)
def test_what_is_no_domain(cluster: str, clique: str, state: str, why: str) -> None:
    assert nvlink_domain(cluster, clique, state) == ("", why)


def test_clique_0_is_a_clique() -> None:
    assert nvlink_domain(U1, "0", "Completed") == (f"{U1}.0", "")


def test_hosts_in_no_domain_are_told_and_kept_out_of_supernodes(tmp_path: Path) -> None:
    text = f"a: {U1}, 1\nb: {U1}, 1\nc: {ZERO}, 0\nd: N/A, N/A\ne: {U1}, 32766\n"
    found = load(tmp_path, text)
    assert supernodes(found) == {f"{U1}.1": "a,b"}
    assert pools(found) == {"c", "d", "e"}
    assert f"c: in no NVLink domain (ClusterUUID {ZERO})" in told(found)
    assert "e: in no NVLink domain (CliqueId 32766)" in told(found)


def test_cards_in_progress_are_in_no_partition(tmp_path: Path) -> None:
    text = "".join(before(host, query(U1, "1")) for host in ("a", "b"))
    text += before("c", query("N/A", "N/A", "In Progress"))
    found = load(tmp_path, text)
    assert supernodes(found) == {f"{U1}.1": "a,b"}
    assert "c: in no NVLink domain (state In Progress)" in told(found)


def test_one_card_off_its_fabric_is_told_and_two_domains_on_a_host_are_none(
    tmp_path: Path,
) -> None:
    text = f"a: {U1}, 1\na: N/A, N/A\nb: {U1}, 1\nb: {U1}, 1\nc: {U1}, 1\nc: {U2}, 1\n"
    found = load(tmp_path, text)
    assert supernodes(found) == {f"{U1}.1": "a,b"}
    assert "a: 1 of 2 cards in no NVLink domain (ClusterUUID N/A)" in told(found)
    assert "cards of c are in 2 NVLink domains: left out" in told(found)


def test_csv_has_any_columns_in_any_order(tmp_path: Path) -> None:
    head = "index, fabric.cliqueId, name, fabric.clusterUuid, fabric.state"
    text = before("a", f"{head}\n0, 7, NVIDIA GB200, {U1}, Completed\n1, 7, X, {U1}, Completed")
    text += before("b", f"{head}\n0, [N/A], NVIDIA GB200, [N/A], In Progress")
    found = load(tmp_path, text)
    assert supernodes(found) == {f"{U1}.7": "a"}
    assert "b: in no NVLink domain (state In Progress)" in told(found)


def test_gathered_answers_count_for_all_their_hosts(tmp_path: Path) -> None:
    rule = "-" * 15
    text = f"{rule}\nn[1-3] (3)\n{rule}\n{query(U1, '1')}{rule}\nn4\n{rule}\n{query(U2, '1')}"
    assert supernodes(load(tmp_path, text)) == {f"{U1}.1": "n1,n2,n3", f"{U2}.1": "n4"}


def test_a_cut_out_fabric_section_is_enough(tmp_path: Path) -> None:
    lines = query(U1, "1").splitlines()
    at = lines.index("    Fabric")
    text = before("a", "\n".join(lines[at : at + 5])) + before("b", f"    ClusterUUID   : {U1}")
    assert supernodes(load(tmp_path, text)) == {f"{U1}.1": "a", U1: "b"}


def test_xml_is_read_per_host(tmp_path: Path) -> None:
    fabric = f"<fabric><state>Completed</state><cliqueId>1</cliqueId><clusterUuid>{U1}"
    gpu = f'<gpu id="1">\n{fabric}</clusterUuid></fabric>\n</gpu>'
    xml = f"<?xml version='1.0' ?>\n<nvidia_smi_log>\n{gpu}\n</nvidia_smi_log>"
    assert supernodes(load(tmp_path, before("a", xml) + before("b", xml))) == {f"{U1}.1": "a,b"}


def test_an_answer_without_host_takes_the_files_name_if_that_is_a_node(tmp_path: Path) -> None:
    assert "says no host" in refused(tmp_path, query(U1, "1"))
    text = query("N/A", "N/A", "In Progress")
    assert "cards that are in no domain: state In Progress" in refused(tmp_path, text)
    found = load(tmp_path, query(U1, "1"), "n1", conf=f"NodeName=n[1-2] {NODE}\n")
    assert supernodes(found) == {f"{U1}.1": "n1"}


def test_a_domain_list_keeps_its_hosts_without_domain_as_nodes(tmp_path: Path) -> None:
    found = load(tmp_path, f"a: {U1}\nb: N/A\nc: {U1}.32766\n")
    assert (supernodes(found), pools(found)) == ({U1: "a"}, {"b", "c"})


def test_headings_and_prefixes_are_told_from_answers() -> None:
    assert answers_of("x : 1\ny : 2\n", "s")[0].hosts == ()
    assert [answer.hosts for answer in answers_of("a: x\n\nb: y\na:\n", "s")] == [("a",), ("b",)]
    assert answers_of("a: x\nb: y\na:   z\n", "s")[0].text == "x\n  z"
    with pytest.raises(ConfigError, match="s:2:1"):
        answers_of("------\nn[1-\n------\nx\n", "s")


# --- Ascend super pods; lines as the vendor's documents have them


def spod(pod: object, server: object = 4, sdid: int = 16777216) -> str:
    return (
        f"\tSDID                           : {sdid}\n\tSuper Pod Size                 : 384\n"
        f"\tSuper Pod ID                   : {pod}\n\tServer Index                   : {server}\n"
    )


def test_super_pod_0_is_a_super_pod(tmp_path: Path) -> None:
    hosts = {"a": (0, 0), "b": (0, 1), "c": (3, 0)}
    text = "".join(before(h, spod(*said) + spod(*said, sdid=5)) for h, said in hosts.items())
    assert supernodes(load(tmp_path, text)) == {"super-pod-0": "a,b", "super-pod-3": "c"}


def test_all_bits_set_and_no_answer_are_no_super_pod(tmp_path: Path) -> None:
    text = before("a", spod(0)) + before("b", spod(4294967295, 1023))
    text += before("c", "This device does not support querying spod-info.")
    found = load(tmp_path, text)
    assert (supernodes(found), pools(found)) == ({"super-pod-0": "a"}, {"b", "c"})
    assert "b: in no super pod (Super Pod ID 4294967295)" in told(found)


def test_two_servers_of_one_number_may_be_two_super_pods_of_one_id(tmp_path: Path) -> None:
    found = load(tmp_path, before("a", spod(0, 4)) + before("b", spod(0, 4)))
    assert "b and a are both server 4 of super-pod-0; two super pods with one id?" in told(found)


def test_a_line_between_bars_is_read_too(tmp_path: Path) -> None:
    text = before("a", "| Super Pod ID                 : 3          | Pod ID : 1      |")
    assert supernodes(load(tmp_path, text)) == {"super-pod-3": "a"}


def rank_table(servers: list[str]) -> str:
    pods = [
        {"super_pod_id": "0", "server_list": [{"server_id": name} for name in servers[:2]]},
        {"super_pod_id": "1", "server_list": [{"server_id": name} for name in servers[2:]]},
    ]
    table = {"status": "completed", "version": "1.2", "server_list": [], "super_pod_list": pods}
    return json.dumps(table, indent=1)


def test_a_rank_table_names_hosts_or_their_addresses(tmp_path: Path) -> None:
    wanted = {"super-pod-0": "n1,n2", "super-pod-1": "n3"}
    assert supernodes(load(tmp_path, rank_table(["n1", "n2", "n3"]), "hccl.json")) == wanted
    addresses = [f"192.0.2.{n}" for n in (1, 2, 3)]
    conf = "".join(f"NodeName=n{n} NodeAddr=192.0.2.{n} {NODE}\n" for n in (1, 2, 3))
    assert supernodes(load(tmp_path, rank_table(addresses), "hccl.json", conf)) == wanted
    assert "server_id 192.0.2.1: no host" in refused(tmp_path, rank_table(addresses), "x.json")
    hostile = rank_table(["n1; $(x)", "n2"])
    assert "server_id n1; $(x): no host" in refused(tmp_path, hostile, "x.json")
    spoilt = rank_table(["n1", "n2"]).replace("server_list", "servers")
    assert "expected a list 'server_list'" in refused(tmp_path, spoilt, "x.json")


# --- whose adapters


def ibstat(guids: list[str]) -> str:
    return "".join(
        f"CA 'mlx5_{at}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tNode GUID: 0x{guid}\n"
        f"\tPort 1:\n\t\tState: Active\n\t\tPort GUID: 0x{guid}\n"
        for at, guid in enumerate(guids)
    )


@pytest.mark.parametrize("form", ["ibstat", "HOST: GUID", "HOST GUID GUID", "under the host"])
def test_makers_names_are_resolved_by_guids_of_another_source(form: str, tmp_path: Path) -> None:
    net = two_rails()
    guids = [net.guid(f"n3 mlx5_{rail}") for rail in range(2)]
    for rail in range(2):
        net.rename(f"n3 mlx5_{rail}", "MT4129 ConnectX7   Mellanox Technologies")
    (tmp_path / "ib").write_text(str(net))
    (tmp_path / "guids").write_text(
        {
            "ibstat": before("n3", ibstat(guids)),
            "HOST: GUID": f"n3: 0x{guids[0].lstrip('0'):0>14}\nn3: 0x{guids[1]}\n",
            "HOST GUID GUID": f"n3 {' '.join(guids)}\n",
            "under the host": "VM_hostname n3\n" + "\n".join(guids),
        }[form]
    )
    found = import_sources([str(tmp_path / "ib"), str(tmp_path / "guids")], {}, nobody)
    assert tree(found)["leaf0-0"] == {"n0", "n1", "n2", "n3"}


def test_a_guid_counts_before_a_stale_name_and_that_is_told(tmp_path: Path) -> None:
    net = two_rails()
    guid = net.guid("n3 mlx5_0")
    net.rename("n3 mlx5_0", "old7 mlx5_0")
    (tmp_path / "ib").write_text(str(net))
    (tmp_path / "guids").write_text(f"n3 {guid}\n")
    found = import_sources([str(tmp_path / "ib"), str(tmp_path / "guids")], {}, nobody)
    assert "n3" in tree(found)["leaf0-0"]
    assert f"adapter {guid} is of n3 by its GUID, of old7 by its name" in told(found)


def test_guids_without_hosts_or_with_two_are_refused(tmp_path: Path) -> None:
    guid = "00000000000000aa"
    assert "says no host" in refused(tmp_path, ibstat([guid]))
    rule = "-" * 15
    text = f"{rule}\nn[1-2] (2)\n{rule}\n{ibstat([guid])}"
    assert "2 hosts have the same GUIDs" in refused(tmp_path, text)
    path = tmp_path / "list"
    path.write_text(f"a {guid}\nb {guid}\n?\n")
    with pytest.raises(ConfigError) as caught:
        import_sources([f"guids:{path}"], {}, nobody)
    assert "is of b and of a (line 1)" in str(caught.value)
    assert "expected HOST GUID, got '?'" in str(caught.value)


def test_ids_that_repeat_from_host_to_host_are_domains_not_guids(tmp_path: Path) -> None:
    hive = "0x9f3c00d1e2b4a567"
    assert supernodes(load(tmp_path, f"a: {hive}\nb: {hive}\n")) == {hive: "a,b"}


def test_three_sources_meet_in_one_room(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(f"ClusterName=c\nNodeName=n[0-8] {NODE}\n")
    (tmp_path / "ib").write_text(str(two_rails()))
    (tmp_path / "nvl").write_text("".join(f"n{n}: {U1 if n < 4 else U2}, 1\n" for n in range(8)))
    found = import_sources([str(tmp_path / n) for n in ("slurm.conf", "ib", "nvl")], {}, nobody)
    assert {name: len(hosts.split(",")) for name, hosts in supernodes(found).items()} == {
        f"{U1}.1": 4,
        f"{U2}.1": 4,
    }
    assert tree(found)["leaf0-0"] == {"n0", "n1", "n2", "n3"}
    assert "n8: the fabric has no adapter under that name or GUID" in told(found)
    origins = {path: [where.file.rpartition("/")[2] for where in leaf.origin]
               for path, leaf in found.facts}  # fmt: skip
    assert origins["fabrics[0].rails.count"] == ["ib"]
    assert origins["supernodes[0].name"] == ["nvl"]
