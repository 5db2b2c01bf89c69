"""What nvidia-smi prints: cards, their versions, links and fabrics.

Python 3.6, standard library only.
"""

import csv
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple
from xml.etree import ElementTree

from .text import decimal, known, lines, mebibytes, outline, whole, without_none

QUERY = (
    *("index", "name", "uuid", "pci.bus_id", "memory.total", "vbios_version", "driver_version"),
    *("power.limit", "power.max_limit", "pcie.link.gen.current", "pcie.link.gen.max"),
    *("pcie.link.width.current", "pcie.link.width.max", "ecc.mode.current"),
)
"""What is asked for where ``-q -x`` fails."""
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\Z")
_LISTED = re.compile(r"\s*GPU ([0-9]{1,4}): (.{1,200}?) \(UUID: (GPU-[0-9A-Za-z-]{1,60})\)")
_MIG = re.compile(r"\s*MIG ([0-9a-z.+-]{1,20})\s+Device\s+[0-9]{1,3}:")
_LINK = re.compile(r"\s*Link ([0-9]{1,3}): (.{1,60})")
_MARKS = re.compile(r"(?:GPU|NIC)[0-9]{1,3}\Z")
_NIC = re.compile(r"\s*(NIC[0-9]{1,3}): ([A-Za-z0-9_.-]{1,60})\s*\Z")

Device = Dict[str, Any]


def read_xml(text: str) -> Dict[str, Any]:
    """Return what ``nvidia-smi -q -x`` says; nothing where that is no XML of its."""
    start = text.find("<nvidia_smi_log")
    end = text.find("</nvidia_smi_log>")
    if start < 0 or end < 0 or "<!ENTITY" in text:
        return {}
    try:
        root = ElementTree.fromstring(text[start : end + len("</nvidia_smi_log>")])
    except (ElementTree.ParseError, ValueError):
        return {}
    return without_none(
        {
            "driver": known(root.findtext("driver_version")),
            "cuda": known(root.findtext("cuda_version")),
            "attached": whole(root.findtext("attached_gpus")),
            "devices": [_of_xml(number, node) for number, node in enumerate(root.iter("gpu"))],
        }
    )


def _of_xml(number: int, node: "ElementTree.Element") -> Device:
    def said(*paths: str) -> str:
        return next(filter(None, (known(node.findtext(path)) for path in paths)), "")

    link = "pci/pci_gpu_link_info/"
    power = ("gpu_power_readings/", "power_readings/", "module_power_readings/")
    migs = [whole(mig.findtext("gpu_instance_id")) for mig in node.iter("mig_device")]
    return without_none(
        {
            "index": number,
            "name": said("product_name"),
            "memory_mib": mebibytes(said("fb_memory_usage/total")),
            "uuid": said("uuid"),
            "bus": known(node.get("id")) or said("pci/pci_bus_id"),
            "serial": said("serial"),
            "minor": whole(said("minor_number")),
            "vbios": said("vbios_version"),
            "gsp": said("gsp_firmware_version"),
            "power_w": decimal(
                said(
                    *(path + "current_power_limit" for path in power),
                    *(path + "power_limit" for path in power),
                )
            ),
            "power_max_w": decimal(said(*(path + "max_power_limit" for path in power))),
            "pcie": without_none(
                {
                    "gen": whole(said(link + "pcie_gen/current_link_gen")),
                    "gen_max": whole(said(link + "pcie_gen/max_link_gen")),
                    "width": whole(said(link + "link_widths/current_link_width")),
                    "width_max": whole(said(link + "link_widths/max_link_width")),
                }
            ),
            "ecc": said("ecc_mode/current_ecc"),
            "mig": said("mig_mode/current_mig"),
            "instances": [item for item in migs if item is not None],
            "fabric": without_none(
                {
                    "state": said("fabric/state"),
                    "status": said("fabric/status"),
                    "cluster": said("fabric/clusterUuid"),
                    "clique": said("fabric/cliqueId"),
                }
            ),
        }
    )


_OF_QUERY = {
    ("product name",): "name",
    ("gpu uuid",): "uuid",
    ("minor number",): "minor",
    ("vbios version",): "vbios",
    ("gsp firmware version",): "gsp",
    ("fb memory usage", "total"): "memory_mib",
    ("gpu power readings", "current power limit"): "power_w",
    ("gpu power readings", "max power limit"): "power_max_w",
    ("power readings", "power limit"): "power_w",
    ("power readings", "max power limit"): "power_max_w",
    ("pcie generation", "current"): "pcie.gen",
    ("pcie generation", "max"): "pcie.gen_max",
    ("link width", "current"): "pcie.width",
    ("link width", "max"): "pcie.width_max",
    ("ecc mode", "current"): "ecc",
    ("mig mode", "current"): "mig",
    ("fabric", "state"): "fabric.state",
    ("fabric", "status"): "fabric.status",
    ("fabric", "clusteruuid"): "fabric.cluster",
    ("fabric", "cliqueid"): "fabric.clique",
}
_NUMBERS = ("minor", "pcie.gen", "pcie.gen_max", "pcie.width", "pcie.width_max")


def read_query(text: str) -> Dict[str, Any]:
    """Return what ``nvidia-smi -q`` says, in the shape of ``read_xml``."""
    found: Dict[str, Any] = {"devices": []}
    above: List[Tuple[int, str]] = []
    for depth, key, value in outline(text):
        card = _GPU.match(key)
        if card:
            found["devices"].append({"index": len(found["devices"]), "bus": card.group(1)})
            above = []
            continue
        while above and above[-1][0] >= depth:
            above.pop()
        heading = above[-1][1] if above else ""
        above.append((depth, key.casefold()))
        if not found["devices"]:
            name = {"driver version": "driver", "cuda version": "cuda"}.get(key.casefold())
            if name and value:
                found[name] = value
            elif key == "Attached GPUs":
                found["attached"] = whole(value)
        else:
            _put(found["devices"][-1], heading, key.casefold(), value)
    return without_none(found)


def _put(device: Device, heading: str, key: str, value: str) -> None:
    name = _OF_QUERY.get((heading, key)) or _OF_QUERY.get((key,))
    if name is None or not value:
        return
    kept: Any = value
    if name in _NUMBERS:
        kept = whole(value)
    elif name == "memory_mib":
        kept = mebibytes(value)
    elif name.startswith("power"):
        kept = decimal(value)
    group, dot, inner = name.partition(".")
    if kept is not None:
        if dot:
            device.setdefault(group, {}).setdefault(inner, kept)
        else:
            device.setdefault(name, kept)


def read_csv(text: str) -> List[Device]:
    """Return the cards of ``nvidia-smi --query-gpu=... --format=csv``, whichever fields it has."""
    names = {
        "index": "index",
        "name": "name",
        "uuid": "uuid",
        "pci.bus_id": "bus",
        "memory.total": "memory_mib",
        "vbios_version": "vbios",
        "driver_version": "driver",
        "power.limit": "power_w",
        "power.max_limit": "power_max_w",
        "ecc.mode.current": "ecc",
        "mig.mode.current": "mig",
    }
    groups = {
        "pcie.link.gen.current": "gen",
        "pcie.link.gen.max": "gen_max",
        "pcie.link.width.current": "width",
        "pcie.link.width.max": "width_max",
    }
    found: List[Device] = []
    head: List[str] = []
    for line in csv.reader(_csv_lines(text), skipinitialspace=True):
        cells = [known(cell) for cell in line]
        if "index" in cells[:1] or not head:
            head = [cell.partition(" ")[0] for cell in cells]
            continue
        said = dict(zip(head, cells))
        if not re.match(r"[0-9]{1,4}\Z", said.get("index", "")):
            continue
        device: Device = {to: said[name] for name, to in names.items() if said.get(name)}
        for name in ("power_w", "power_max_w"):
            device[name] = decimal(device.get(name))
        device["memory_mib"] = mebibytes(device.get("memory_mib"))
        device["index"] = whole(said.get("index"))
        device["pcie"] = without_none({to: whole(said.get(n)) for n, to in groups.items()})
        fabric = {key.partition(".")[2]: said[key] for key in said if key.startswith("fabric.")}
        device["fabric"] = without_none(dict(fabric))
        found.append(without_none(device))
    return found


def _csv_lines(text: str) -> Iterator[str]:
    for line in lines(text):
        if line.strip() and "\0" not in line:
            yield line[:4096].replace('"', "")


def read_list(text: str) -> List[Device]:
    """Return the cards of ``nvidia-smi -L``, with the profiles of their MIG instances."""
    found: List[Device] = []
    for line in lines(text):
        card, mig = _LISTED.match(line), _MIG.match(line)
        if card:
            name, uuid = known(card.group(2)), card.group(3)
            found.append({"index": int(card.group(1)), "name": name, "uuid": uuid})
        elif mig and found:
            found[-1].setdefault("profiles", []).append(mig.group(1))
    return found


def read_links(text: str) -> List[Device]:
    """Return the cards of ``nvidia-smi nvlink -s`` with the GB/s of each link, 0 for one down."""
    found: List[Device] = []
    for line in lines(text):
        card, link = _LISTED.match(line), _LINK.match(line)
        if card:
            named = {"index": int(card.group(1)), "name": known(card.group(2))}
            found.append({**named, "uuid": card.group(3), "links": []})
        elif link and found:
            found[-1]["links"].append(decimal(link.group(2)) or 0.0)
    return found


def read_topology(text: str) -> Dict[str, Any]:
    """Return what ``nvidia-smi topo -m`` says: columns, rows, near CPUs, names of the NICs.

    Cells are separated by tabs, or by blanks where a person has pasted them; near CPUs may
    stand empty.
    """
    columns: List[str] = []
    links: Dict[str, List[str]] = {}
    cpus: Dict[str, str] = {}
    nics: Dict[str, str] = {}
    for line in lines(text):
        nic = _NIC.match(line)
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if nic:
            nics[nic.group(1)] = nic.group(2)
        elif not columns:
            marks = [cell for cell in cells if _MARKS.match(cell)]
            columns = marks if len(marks) > 1 or "Affinity" in line else []
        elif cells and cells[0] in columns and len(cells) > len(columns):
            links[cells[0]] = cells[1 : len(columns) + 1]
            near = known(cells[len(columns) + 1]) if len(cells) > len(columns) + 1 else ""
            if near:
                cpus[cells[0]] = near
    if not links:
        return {}
    return without_none({"columns": columns, "links": links, "cpus": cpus, "nics": nics})


def joined(*parts: Optional[List[Device]]) -> List[Device]:
    """Return the cards of several answers as one list, by uuid, else by index."""
    found: Dict[Any, Device] = {}
    by_index: Dict[Any, Device] = {}
    for part in parts:
        for device in part or []:
            mine = found.get(device.get("uuid")) or by_index.get(device.get("index"))
            if mine is None:
                mine = {}
                by_index[device.get("index")] = mine
            if device.get("uuid"):
                found[device["uuid"]] = mine
            for key, value in device.items():
                mine.setdefault(key, value)
    return list(by_index.values())
