"""InfiniBand and RoCE cards, by what ibstat prints or /sys/class/infiniband holds.

Python 3.6, standard library only.
"""

import re
from typing import Any, Dict, List

from .source import Source
from .text import known, outline, plain, whole, without_none

PLACE = "/sys/class/infiniband"
_OF_CARD = ("hca_type", "fw_ver", "board_id", "node_guid", "sys_image_guid", "node_desc")
_OF_PORT = ("state", "phys_state", "rate", "link_layer", "lid", "gids/0")
_CARD = re.compile(r"CA '([A-Za-z0-9_.-]{1,64})'\Z")
_PORT = re.compile(r"Port ([0-9]{1,3})\Z")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{16})\Z")
_LEAST_BRIDGES = 3
"""A card has one or two ports; so many functions of one card are no two ports."""

Card = Dict[str, Any]


def read_ibstat(text: str) -> List[Card]:
    """Return the cards of ``ibstat``, in the order of their numbers."""
    found: List[Card] = []
    for _, key, value in outline(text):
        card, port = _CARD.match(key), _PORT.match(key)
        name = key.casefold()
        if card:
            found.append({"name": card.group(1), "ports": []})
        elif not found:
            continue
        elif port:
            found[-1]["ports"].append({"port": int(port.group(1))})
        elif name in _IBSTAT_CARD:
            found[-1].setdefault(_IBSTAT_CARD[name], guid(value) if "guid" in name else value)
        elif name in _IBSTAT_PORT and found[-1]["ports"]:
            kept: Any = value
            if name == "port guid":
                kept = guid(value)
            elif name in ("rate", "base lid"):
                kept = whole(value)
            found[-1]["ports"][-1].setdefault(_IBSTAT_PORT[name], kept)
    return _finished(found)


_IBSTAT_CARD = {
    "ca type": "type",
    "firmware version": "firmware",
    "node guid": "guid",
    "system image guid": "image",
}
_IBSTAT_PORT = {
    "state": "state",
    "physical state": "physical",
    "rate": "rate_gbits",
    "base lid": "lid",
    "port guid": "guid",
    "link layer": "layer",
}


def read_flat(text: str) -> List[Card]:
    """Return the cards of lines like ``mlx5_0/ports/1/state: 4: ACTIVE``."""
    pairs = (line.partition(": ") for line in plain(text).split("\n"))
    return of_files({path: value for path, colon, value in pairs if colon})


def read_files(source: Source) -> List[Card]:
    """Return the cards that the files of a node show."""
    found: Dict[str, str] = {}
    for card in source.names(PLACE):
        base = PLACE + "/" + card + "/"
        for name in _OF_CARD:
            found[card + "/" + name] = source.read(base + name)
        found[card + "/vpd"] = source.read(base + "device/vpd")
        found[card + "/numa_node"] = source.read(base + "device/numa_node")
        for port in source.names(base + "ports"):
            for name in _OF_PORT:
                path = "ports/" + port + "/" + name
                found[card + "/" + path] = source.read(base + path)
    return of_files(found)


def of_files(files: Dict[str, str]) -> List[Card]:
    """Return the cards of files below ``/sys/class/infiniband``, by path and what they hold."""
    found: Dict[str, Card] = {}
    for path, text in files.items():
        parts = path.split("/")
        value = known(text)
        if len(parts) < 2 or not value or not _NAME.match(parts[0]):
            continue
        card = found.setdefault(parts[0], {"name": parts[0], "ports": {}})
        if parts[1] == "ports" and len(parts) >= 4 and parts[2].isdecimal() and len(parts[2]) < 4:
            port = card["ports"].setdefault(int(parts[2]), {"port": int(parts[2])})
            _put_port(port, "/".join(parts[3:]), value)
        elif parts[1] == "vpd":
            card["bridge"] = "SW_MNG" in text
        elif parts[1] == "numa_node":
            card["numa"] = whole(value) if not value.startswith("-") else None
        elif parts[1] in _SYSFS_CARD:
            kept = guid(value) if parts[1].endswith("guid") else value
            card[_SYSFS_CARD[parts[1]]] = kept
    cards = list(found.values())
    for card in cards:
        card["ports"] = [card["ports"][number] for number in sorted(card["ports"])]
    return _finished(cards)


_SYSFS_CARD = {
    "hca_type": "type",
    "fw_ver": "firmware",
    "board_id": "board",
    "node_guid": "guid",
    "sys_image_guid": "image",
    "node_desc": "description",
}


def _put_port(port: Dict[str, Any], name: str, value: str) -> None:
    if name == "state":
        port["state"] = value.rpartition(":")[2].strip().capitalize()
    elif name == "phys_state":
        port["physical"] = value.rpartition(":")[2].strip()
    elif name == "rate":
        port["rate_gbits"] = whole(value)
    elif name == "link_layer":
        port["layer"] = value
    elif name == "lid":
        port["lid"] = int(value, 16) if re.match(r"0x[0-9a-fA-F]{1,6}\Z", value) else whole(value)
    elif name == "gids/0":
        port["guid"] = guid("".join(value.split(":")[4:]))


def guid(text: str) -> str:
    """Return a GUID as 16 hexadecimal digits, empty for none or zero."""
    found = _GUID.match(text.replace(":", "").strip())
    digits = found.group(1).lower() if found else ""
    return digits if digits.strip("0") else ""


def _finished(cards: List[Card]) -> List[Card]:
    """Return the cards in the order of their numbers, those that lead to NVSwitches marked.

    Boxes with NVLink 5 show a bridge to their own NVSwitches: functions of one card that
    share one image GUID, at their own subnet manager. Their VPD says SW_MNG, to root only.
    """
    shared: Dict[str, int] = {}
    for card in cards:
        if card.get("image"):
            shared[card["image"]] = shared.get(card["image"], 0) + 1
    for card in cards:
        layers = {port.get("layer") for port in card["ports"]}
        many = shared.get(card.get("image", ""), 0) >= _LEAST_BRIDGES
        if card.pop("bridge", False) or (many and layers == {"InfiniBand"}):
            card["internal"] = True
    found: List[Card] = []
    for card in cards:
        ports = [without_none(dict(port)) for port in card["ports"]]
        found.append(without_none({**card, "ports": ports}))
    return sorted(found, key=lambda card: in_order(card["name"]))


def in_order(name: str) -> List[Any]:
    """Return what names are sorted by, so that ``mlx5_10`` comes after ``mlx5_2``."""
    parts = re.split("([0-9]+)", name)
    return [(int(part[:9]), "") if at % 2 else (0, part) for at, part in enumerate(parts)]
