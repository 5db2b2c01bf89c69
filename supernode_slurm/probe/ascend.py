"""What npu-smi and hccn_tool print: NPUs and their chips, super-pods, the NPUs' own network.

A 910C is one NPU of two chips, each a device of its own, and npu-smi calls it ``Ascend910``,
as it does the first 910: they are told apart by the chips of an NPU. A 910B has one chip and
is called ``910B1`` to ``910B4``. Python 3.6, standard library only.
"""

import re
from typing import Any, Dict, List, Optional

from .text import known, lines, outline, pairs, plain, rows, whole, without_none

_USED_OF = re.compile(r"([0-9]{1,8})\s*/\s*([0-9]{1,8})")
_VERSION = re.compile(r"npu-smi\s+(\S{1,40})\s.*Version:\s*(\S{1,40})")
_NPU = re.compile(r"([0-9]{1,4})\s+(\S{1,60})\Z")
_CHIP = re.compile(r"([0-9]{1,4})(?:\s+([0-9]{1,4}))?\Z")
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\Z")
_MAPPED = re.compile(
    r"\s*([0-9]{1,4})\s+([0-9]{1,4})\s+([0-9]{1,4}|-)\s+(?:([0-9]{1,4}|-)\s+)?(\S.{0,60}?)\s*\Z"
)
_OLD_MIB = 32768
"""Memory of a chip of the first 910."""

Device = Dict[str, Any]


def read_info(text: str) -> Dict[str, Any]:
    """Return what ``npu-smi info`` says: its version and a device for each chip.

    Each takes two rows: number, name, health, power; then chip, bus, memory. In newer layouts
    the number of the device under ``/dev`` stands beside the chip's.
    """
    found: Dict[str, Any] = {"devices": []}
    version = _VERSION.search(plain(text)[:20000])
    if version:
        found["npu-smi"] = version.group(1)
        found["driver"] = version.group(2)
    has_files = False
    upper: Optional[List[str]] = None
    for cells in rows(text):
        if len(cells) < 3:
            continue
        if "Process id" in cells:
            break
        if cells[0].startswith("Chip"):
            has_files = "Phy-ID" in cells[0] or "Device" in cells[0]
            upper = None
        elif _BUS.match(cells[1]) and upper is not None:
            found["devices"] += _chip(upper, cells, has_files)
            upper = None
        else:
            upper = cells if _NPU.match(cells[0]) else None
    for number, device in enumerate(found["devices"]):
        device["index"] = number
        same = sum(other["npu"] == device["npu"] for other in found["devices"])
        model = model_of(device["name"], same, device.get("memory_mib"))
        if model != device["name"]:
            device["model"] = model
    return without_none(found)


def _chip(upper: List[str], lower: List[str], has_files: bool) -> List[Device]:
    npu, chip = _NPU.match(upper[0]), _CHIP.match(lower[0])
    if npu is None or chip is None:
        return []
    amounts = [int(total) for _, total in _USED_OF.findall(lower[2])]
    # The last is that of the HBM; cards without any have ordinary memory only.
    memory = next((amount for amount in reversed(amounts) if amount), None)
    phy = int(chip.group(2)) if chip.group(2) and has_files else None
    device = {
        "npu": int(npu.group(1)),
        "chip": int(chip.group(1)),
        "name": npu.group(2),
        "health": known(upper[1]),
        "bus": lower[1],
        "memory_mib": memory,
    }
    return [without_none({**device, "minor": phy if phy is not None else int(npu.group(1))})]


def model_of(name: str, chips: int, memory_mib: Optional[int]) -> str:
    """Return the name that tells generations apart, for one that npu-smi gives to several."""
    if name.replace(" ", "") != "Ascend910":
        return name
    if chips > 1:
        return "Ascend910C"
    return "Ascend910A" if memory_mib is not None and memory_mib <= _OLD_MIB else name


def read_mapping(text: str) -> List[Device]:
    """Return the chips of ``npu-smi info -m``: npu, chip, logical number, device, name."""
    found: List[Device] = []
    for line in lines(text):
        item = _MAPPED.match(line)
        if item:
            npu, chip, logic, phy, name = item.groups()
            if name.casefold() == "mcu" or not re.search("[A-Za-z]", name):
                continue
            device = {"npu": int(npu), "chip": int(chip), "logic": whole(logic), "name": name}
            found.append(without_none({**device, "phy": whole(phy)}))
    return found


def read_board(text: str) -> Dict[str, Any]:
    """Return the versions of ``npu-smi info -t board -i N``."""
    said = pairs(text)
    return without_none(
        {
            "driver": said.get("software version"),
            "firmware": said.get("firmware version"),
            "chip": said.get("chip name"),
            "board": said.get("board id"),
            "serial": said.get("serial number"),
        }
    )


def read_super_pod(text: str) -> Dict[str, Any]:
    """Return what ``npu-smi info -t spod-info -i N -c M`` says; its ids may be 0."""
    said = pairs(text)
    found = {
        "id": whole(said.get("super pod id")),
        "size": whole(said.get("super pod size")),
        "server": whole(said.get("server index")),
        "sdid": whole(said.get("sdid")),
    }
    return without_none(dict(found)) if found["id"] is not None else {}


def read_address(text: str) -> Dict[str, Any]:
    """Return what ``hccn_tool -i N -ip -g`` says; nothing where no address is set."""
    said = pairs(text.replace("ipaddr:", "ipaddr: ").replace("netmask:", "netmask: "))
    return without_none({"ip": said.get("ipaddr"), "mask": said.get("netmask")})


def read_link(text: str) -> Dict[str, Any]:
    """Return what ``hccn_tool -i N -link_stat -g`` says: the state, and how often it came up."""
    found: Dict[str, Any] = {}
    for line in lines(text):
        change = re.search(r"LINK (UP|DOWN)\s*\Z", line)
        if change:
            found.setdefault("link", change.group(1))
        elif "link up count" in line:
            found["ups"] = whole(line.rpartition(":")[2])
    return without_none(found)


def sections(text: str) -> Dict[str, str]:
    """Return what each command of a collected log printed, by its command line."""
    found: Dict[str, List[str]] = {}
    name = ""
    for line in lines(text):
        if re.match(r"/\S*(?:npu-smi|hccn_tool)\b", line):
            name = line.strip().rpartition("/")[2]
            found.setdefault(name, [])
        elif name:
            found[name].append(line)
    return {key: "\n".join(said) for key, said in found.items()}


def read_install_info(text: str) -> str:
    """Return the version of ``version.info`` and its kin: ``Version=24.1.rc3``."""
    for _, key, value in outline(text.replace("=", " = ")):
        if key.casefold() in ("version", "package_version") and value:
            return value
    return ""
