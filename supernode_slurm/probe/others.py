"""Tools of which no real output was at hand: read by what their documents and users say.

Each is marked ``"verified": false`` in what the probe prints. Python 3.6, standard library only.
"""

import re
from typing import Any, Dict, List, Tuple

from .text import decimal, known, mebibytes, outline, plain, rows, without_none

Device = Dict[str, Any]

_CARD = re.compile(r"(?:GPU|MLU|GCU|Card|Device|DEV ID)\s*#?\s*:?\s*([0-9]{1,3})\b", re.IGNORECASE)
_NAMES = ("product name", "card name", "device name", "name", "gcu name", "board name")
_TOTALS = ("total", "mem size", "memory size", "total size", "physical memory total")
_FIRMWARE = ("mtbios version", "firmware", "firmware version", "vbios version", "mcu")
_DRIVERS = ("driver", "driver version", "kmd version", "driver ver")


def read_outline(text: str) -> Dict[str, Any]:
    """Return what tools say that print ``Key : value`` below a heading for each card.

    ``cnmon info``, ``mthreads-gmi -q``, ``efsmi -q`` and ``brsmi gpu list`` do.
    """
    found: Dict[str, Any] = {"devices": []}
    heading = ""
    for _, key, value in outline(text):
        name = key.casefold()
        card = _CARD.match(key)
        if card and (not value or name.split()[0] in ("gpu", "card", "device", "dev")):
            found["devices"].append({"index": len(found["devices"])})
            heading = ""
        elif not value:
            heading = name
        elif name in _DRIVERS:
            found.setdefault("driver", value)
        elif found["devices"]:
            _put(found["devices"][-1], heading, name, value)
    found["devices"] = [device for device in found["devices"] if len(device) > 1]
    return without_none(found)


def _put(device: Device, heading: str, name: str, value: str) -> None:
    if name in _NAMES:
        device.setdefault("name", value)
    elif name in ("uuid", "gpu uuid"):
        device.setdefault("uuid", value)
    elif name in ("sn", "serial number", "serial"):
        device.setdefault("serial", value)
    elif name in _FIRMWARE:
        device.setdefault("vbios", value)
    elif name in _TOTALS and ("mem" in heading + name or "usage" in heading):
        memory = mebibytes(value)
        if memory:
            device.setdefault("memory_mib", memory)
    elif name in ("power cap", "max power", "power limit", "tdp"):
        watts = decimal(value)
        if watts:
            device.setdefault("power_w", watts)


_METAX = re.compile(r"([0-9]{1,3})\s+(MetaX \S{1,30}|MXC\S{1,20}|C[0-9]{3}\S{0,10})", re.IGNORECASE)
_OF_ALL = re.compile(r"([0-9]{1,7})\s*/\s*([0-9]{1,7})\s*MiB")


def read_metax(text: str) -> Dict[str, Any]:
    """Return what the table of ``mx-smi`` says."""
    found: Dict[str, Any] = {"devices": []}
    for cells in rows(text):
        line = " ".join(cells)
        driver = re.search(r"(?:Kernel Mode Driver|Driver) Version:?\s*(\S{1,30})", line)
        card = _METAX.match(cells[0])
        memory = _OF_ALL.search(line)
        if driver:
            found.setdefault("driver", driver.group(1))
        if card:
            index = len(found["devices"])
            found["devices"].append({"index": index, "name": card.group(2)})
        if memory and found["devices"]:
            found["devices"][-1].setdefault("memory_mib", int(memory.group(2)))
    return without_none(found)


def read_kunlun(text: str) -> Dict[str, Any]:
    """Return what ``xpu-smi`` says: ``| 0  P800 OAM ... |``, memory as ``a / b MiB``."""
    found: Dict[str, Any] = {"devices": []}
    for cells in rows(text):
        line = " ".join(cells)
        driver = re.search(r"Driver Version:?\s*(\S{1,30})", line)
        card = re.match(r"([0-9]{1,3})\s+([PRK][0-9]{3}\S*(?: OAM)?)", cells[0])
        memory = _OF_ALL.search(line)
        if driver:
            found.setdefault("driver", driver.group(1))
        if card:
            index = len(found["devices"])
            found["devices"].append({"index": index, "name": card.group(2)})
        if memory and found["devices"]:
            found["devices"][-1].setdefault("memory_mib", int(memory.group(2)))
    return without_none(found)


def count_files(files: List[str], pattern: str) -> Tuple[int, ...]:
    """Return the numbers of the device files that a pattern with one group names."""
    found = (re.match(pattern + r"\Z", name) for name in files)
    return tuple(sorted(int(item.group(1)) for item in found if item))


def first_version(text: str) -> str:
    """Return the first version number that stands in a text."""
    found = re.search(r"[0-9]{1,4}(?:\.[0-9a-zA-Z_-]{1,20}){1,5}", plain(text)[:20000])
    return known(found.group()) if found else ""
