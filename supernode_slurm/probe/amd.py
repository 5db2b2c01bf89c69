"""What rocm-smi and its kin hy-smi print.

Python 3.6, standard library only.
"""

import json
import re
from typing import Any, Dict, List

from .text import decimal, known, lines, without_none

_CARD = re.compile(r"card([0-9]{1,4})\Z")
_ROW = re.compile(r"([0-9]{1,4})\s{2,}(\S.*)\Z")
_IN_BRACKETS = re.compile(r"\[([^\[\]]{1,80})\]\s*\Z")
_PCIE = re.compile(r"\(?([0-9]+(?:\.[0-9]+)?)GT/s x([0-9]+)")
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}

Device = Dict[str, Any]


def read_json(text: str) -> Dict[str, Any]:
    """Return what ``rocm-smi ... --json`` says, or ``hy-smi``; warnings may stand before it."""
    start, end = text.find("{"), text.rfind("}")
    try:
        tree = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(tree, dict):
        return {}
    found: Dict[str, Any] = {"devices": []}
    for key, value in tree.items():
        card = _CARD.match(key)
        if not isinstance(value, dict):
            continue
        said = {str(name).casefold(): str(item) for name, item in value.items()}
        if card:
            found["devices"].append(_card(int(card.group(1)), said))
        elif key == "system":
            found["driver"] = known(said.get("driver version"))
    found["devices"].sort(key=lambda device: device["index"])
    return without_none(found)


def _card(index: int, said: Dict[str, str]) -> Device:
    series = known(said.get("card series")) or known(said.get("device name"))
    bracketed = _IN_BRACKETS.search(series)
    name = bracketed.group(1) if bracketed else series
    pcie = _PCIE.search(said.get("pcie clock level", ""))
    power = said.get("max graphics package power (w)") or said.get("power cap (w)")
    return without_none(
        {
            "index": index,
            "name": name,
            "memory_mib": _bytes(said.get("vram total memory (b)", "")),
            "uuid": known(said.get("unique id")),
            "bus": known(said.get("pci bus")),
            "serial": known(said.get("serial number")),
            "vbios": known(said.get("vbios version")),
            "power_w": decimal(power),
            "pcie": without_none(
                {"gen": _GENERATIONS.get(pcie.group(1)), "width": int(pcie.group(2)[:3])}
            )
            if pcie
            else None,
            "chip": known(said.get("gfx version")),
            "partition": known(said.get("compute partition")),
        }
    )


def _bytes(text: str) -> Any:
    return int(text) >> 20 if re.match(r"[0-9]{7,16}\Z", text) else None


def read_table(text: str) -> List[Device]:
    """Return the cards of the table that ``rocm-smi`` prints: a name stands below its row."""
    found: List[Device] = []
    for line in lines(text):
        row = _ROW.match(line)
        if row and re.search("[0-9]W", line) is not None:
            watts = re.findall(r"([0-9]{1,5}(?:\.[0-9])?)W", line)
            limit = decimal(watts[-1]) if len(watts) > 1 else None
            found.append(without_none({"index": int(row.group(1)), "power_w": limit}))
        elif found and line.startswith("        ") and "name" not in found[-1]:
            name = known(line)
            if name and not name.startswith(("Name", "(", "=")):
                found[-1]["name"] = name
    return found


def read_hy_table(text: str) -> List[Device]:
    """Return the cards of the table that ``hy-smi`` prints, which names no kind of card."""
    found: List[Device] = []
    head: List[str] = []
    for line in lines(text):
        cells = line.split()
        if cells[:1] in (["HCU"], ["DCU"]):
            head = cells
        elif head and len(cells) == len(head) and cells[0].isdecimal() and len(cells[0]) < 5:
            said = dict(zip(head, cells))
            limit = decimal(known(said.get("PwrCap")))
            found.append(without_none({"index": int(cells[0]), "power_w": limit}))
    return found
