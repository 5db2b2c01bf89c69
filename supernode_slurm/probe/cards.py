"""The accelerators of a node, by whichever vendors' tools it has.

Python 3.6, standard library only.
"""

from typing import Any, Callable, Dict, Iterator, List, Tuple

from . import amd, ascend, nvidia, others
from .source import Source

Device = Dict[str, Any]
Answer = Dict[str, Any]


def _nvidia(source: Source) -> Answer:
    whole = ["nvidia-smi", "-q", "-x"]
    found = nvidia.read_xml(source.run(whole))
    if not found.get("devices"):
        source.told(whole, "no log of cards")
        asked = ["nvidia-smi", "--query-gpu=" + ",".join(nvidia.QUERY), "--format=csv"]
        found["devices"] = nvidia.read_csv(source.run(asked))
    if not found["devices"]:
        found.update(nvidia.read_query(source.run(["nvidia-smi", "-q"])))
    if not found.get("devices"):
        return {}
    listed = nvidia.read_list(source.run(["nvidia-smi", "-L"]))
    links = nvidia.read_links(source.run(["nvidia-smi", "nvlink", "-s"]))
    found["devices"] = nvidia.joined(found["devices"], listed, links)
    topology = nvidia.read_topology(source.run(["nvidia-smi", "topo", "-m"]))
    if topology:
        rows = topology["links"].items()
        of_cards = {name: " ".join(row) for name, row in rows if name.startswith("GPU")}
        found["topology"] = {**topology, "links": of_cards}
    for device in found["devices"]:
        lanes = device.pop("links", [])
        if lanes:
            up = [lane for lane in lanes if lane]
            device["nvlink"] = {"up": len(up), "down": len(lanes) - len(up), "gbs": max(lanes)}
        profiles, ids = device.pop("profiles", []), device.pop("instances", [])
        if profiles and len(profiles) == len(ids):
            device["mig_instances"] = [list(pair) for pair in zip(profiles, ids)]
        if device.get("driver"):
            found.setdefault("driver", device.pop("driver"))
    return found


def _huawei(source: Source) -> Answer:
    info = ["npu-smi", "info"]
    found = ascend.read_info(source.run(info))
    mapping = ascend.read_mapping(source.run(["npu-smi", "info", "-m"]))
    devices = found.setdefault("devices", [])
    if not devices:
        source.told(info, "no table of NPUs")
        devices += [dict(item, index=number) for number, item in enumerate(mapping)]
    if not devices:
        return found
    first = str(devices[0]["npu"])
    board = ascend.read_board(source.run(["npu-smi", "info", "-t", "board", "-i", first]))
    found["driver"] = board.get("driver") or found.get("driver")
    for device in devices:
        if board.get("firmware"):
            device["firmware"] = board["firmware"]
    if any(device.get("model") == "Ascend910C" or device.get("chip") for device in devices):
        asked = ["npu-smi", "info", "-t", "spod-info", "-i", first, "-c", "0"]
        found["super_pod"] = ascend.read_super_pod(source.run(asked, verified=False))
    for device in devices:
        number = str(device.get("minor", device["index"]))
        net = ascend.read_address(source.run(["hccn_tool", "-i", number, "-ip", "-g"]))
        net.update(ascend.read_link(source.run(["hccn_tool", "-i", number, "-link_stat", "-g"])))
        if net:
            device["net"] = net
    return found


def _amd(source: Source) -> Answer:
    asked = ["rocm-smi", "-a", "--showmeminfo", "vram", "--json"]
    found = amd.read_json(source.run(asked))
    if not found.get("devices"):
        source.told(asked, "no cards in it")
        found["devices"] = amd.read_table(source.run(["rocm-smi"]))
    return found


def _hygon(source: Source) -> Answer:
    table = amd.read_hy_table(source.run(["hy-smi"]))
    asked = ["hy-smi", "--showproductname", "--showmeminfo", "vram", "--showvbios", "--json"]
    found = amd.read_json(source.run(asked, verified=False))
    found["devices"] = nvidia.joined(table, found.get("devices"))
    return found


def _iluvatar(source: Source) -> Answer:
    fields = "index,name,uuid,memory.total,driver_version,power.limit"
    asked = ["ixsmi", "--query-gpu=" + fields, "--format=csv"]
    return {"devices": nvidia.read_csv(source.run(asked, verified=False))}


def _of_outline(*argv: str) -> Callable[[Source], Answer]:
    return lambda source: others.read_outline(source.run(argv, verified=False))


_READERS: Tuple[Tuple[str, str, Callable[[Source], Answer]], ...] = (
    ("nvidia", "nvidia-smi", _nvidia),
    ("huawei", "npu-smi", _huawei),
    ("amd", "rocm-smi", _amd),
    ("hygon", "hy-smi", _hygon),
    ("cambricon", "cnmon", _of_outline("cnmon", "info")),
    ("mthreads", "mthreads-gmi", _of_outline("mthreads-gmi", "-q")),
    ("metax", "mx-smi", lambda source: others.read_metax(source.run(["mx-smi"], verified=False))),
    ("iluvatar", "ixsmi", _iluvatar),
    (
        "kunlunxin",
        "xpu-smi",
        lambda source: others.read_kunlun(source.run(["xpu-smi"], verified=False)),
    ),
    ("biren", "brsmi", _of_outline("brsmi", "gpu", "list")),
    ("enflame", "efsmi", _of_outline("efsmi", "-q")),
)
VERIFIED = ("nvidia", "huawei", "amd")
"""Vendors whose cards were read from real output; hy-smi's table is, but it names no cards."""
_FILES = {
    "nvidia": r"/dev/nvidia([0-9]+)",
    "huawei": r"/dev/davinci([0-9]+)",
    "cambricon": r"/dev/cambricon_dev([0-9]+)",
    "mthreads": r"/dev/mtgpu\.?([0-9]+)",
    "iluvatar": r"/dev/iluvatar([0-9]+)",
    "kunlunxin": r"/dev/xpu([0-9]+)",
    "biren": r"/dev/biren/card_([0-9]+)",
    "enflame": r"/dev/gcu([0-9]+)",
}


def tools() -> Iterator[Tuple[str, str, Callable[[Source], Answer]]]:
    """Yield vendor, program and reader of each tool."""
    yield from _READERS


def finished(vendor: str, tool: str, devices: List[Device], serials: bool) -> List[Device]:
    """Return the cards of a tool as they are printed."""
    found = []
    for device in devices:
        kept = {key: value for key, value in device.items() if serials or key != "serial"}
        kept["vendor"], kept["tool"] = vendor, tool
        if vendor not in VERIFIED:
            kept["verified"] = False
        found.append(kept)
    return found


def of_files(files: List[str], seen: List[Device]) -> List[Device]:
    """Return the cards that only device files show, of vendors whose tool did not answer."""
    told = {device["vendor"] for device in seen}
    return [
        {"vendor": vendor, "tool": "files", "index": number, "minor": number}
        for vendor, pattern in _FILES.items()
        if vendor not in told
        for number in others.count_files(files, pattern)
    ]
