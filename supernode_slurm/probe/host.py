"""The machine itself: processors, memory, board, system, and what Slurm makes of it.

Python 3.6, standard library only.
"""

import re
from typing import Any, Dict, List

from .source import Source
from .text import known, pairs, whole, without_none, words_of

DMI = "/sys/class/dmi/id/"
_BOARD = {
    "sys_vendor": "vendor",
    "product_name": "product",
    "board_name": "board",
    "bios_version": "bios",
}
_SERIALS = {"product_serial": "serial", "chassis_serial": "chassis_serial"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")


def read_slurmd(text: str) -> Dict[str, Any]:
    """Return what ``slurmd -C`` says of the node: cores are per socket, memory in MiB."""
    said: Dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith("NodeName="):
            said = {key.casefold(): value for key, value in words_of(line).items()}
    number = {key: whole(value) for key, value in said.items()}
    sockets, boards = number.get("socketsperboard"), number.get("boards") or 1
    return without_none(
        {
            "name": said.get("nodename") if _NAME.match(said.get("nodename", "")) else None,
            "sockets": number.get("sockets") or (sockets * boards if sockets else None),
            "cores": number.get("corespersocket"),
            "threads": number.get("threadspercore"),
            "memory_mib": number.get("realmemory"),
            "gres": said.get("gres"),
        }
    )


def read_lscpu(text: str) -> Dict[str, Any]:
    """Return what lscpu says, in the words of ``read_slurmd``."""
    said = pairs(text)
    return without_none(
        {
            "sockets": whole(said.get("socket(s)")),
            "cores": whole(said.get("core(s) per socket"))
            or whole(said.get("core(s) per cluster")),
            "threads": whole(said.get("thread(s) per core")),
            "numa_nodes": whole(said.get("numa node(s)")),
            "model": said.get("model name"),
            "architecture": said.get("architecture"),
        }
    )


def read_meminfo(text: str) -> Dict[str, Any]:
    """Return the memory in MiB that /proc/meminfo names, rounded down as slurmd does."""
    kib = re.search(r"(?m)^MemTotal:\s*([0-9]{1,15}) kB", text)
    return {"memory_mib": int(kib.group(1)) >> 10} if kib else {}


def read_release(text: str) -> str:
    """Return the name of the system of /etc/os-release."""
    found = re.search(r"(?m)^PRETTY_NAME=\"?([^\"\n]{1,100})", text)
    return known(found.group(1)) if found else ""


def read_board(source: Source, serials: bool) -> Dict[str, Any]:
    """Return what the firmware says of the board; serial numbers are for root, and on request."""
    names = {**_BOARD, **(_SERIALS if serials else {})}
    return without_none({to: known(source.read(DMI + name)) for name, to in names.items()})


def read_node(source: Source) -> Dict[str, Any]:
    """Return sockets, cores, threads and memory: slurmd's, else lscpu's and the kernel's."""
    cpu = read_lscpu(source.run(["lscpu"]))
    own = read_slurmd(source.run(["slurmd", "-C"]))
    memory = read_meminfo(source.read("/proc/meminfo"))
    shape = ("sockets", "cores", "threads")
    whose = own if all(key in own for key in shape) else cpu
    found: Dict[str, Any] = {key: whose.get(key) for key in shape}
    found["memory_mib"] = own.get("memory_mib") or memory.get("memory_mib")
    found["by"] = "slurmd -C" if whose is own else "lscpu"
    for key in ("model", "architecture", "numa_nodes"):
        found[key] = cpu.get(key)
    found["gres"] = own.get("gres")
    return without_none({**found, "name": own.get("name")})


def read_system(source: Source) -> Dict[str, Any]:
    """Return kernel and system."""
    return without_none(
        {
            "kernel": known(source.read("/proc/sys/kernel/osrelease")),
            "os": read_release(source.read("/etc/os-release")),
        }
    )


def read_name(source: Source) -> str:
    """Return the short name of the node by its kernel."""
    name = known(source.read("/proc/sys/kernel/hostname")).partition(".")[0]
    return name if _NAME.match(name) else ""


_FILES = {
    "/dev": re.compile(
        r"(?:nvidia|davinci|cambricon_dev|mtgpu\.?|iluvatar|xpu|gcu)[0-9]{1,4}\Z"
        r"|(?:nvidiactl|nvidia-uvm|davinci_manager|devmm_svm|hisi_hdc|cambricon_ctl|kfd|mkfd)\Z"
        r"|(?:mxcd|xpuctrl|gcuctl|biren-m|gdrdrv)\Z"
    ),
    "/dev/dri": re.compile(r"renderD[0-9]{1,4}\Z"),
    "/dev/biren": re.compile(r"card_[0-9]{1,4}\Z"),
    "/dev/nvidia-caps-imex-channels": re.compile(r"channel[0-9]{1,4}\Z"),
    "/dev/infiniband": re.compile(r"(?:uverbs|umad)[0-9]{1,4}\Z"),
}


def read_device_files(source: Source) -> List[str]:
    """Return the device files of accelerators and networks."""
    return [
        folder + "/" + name
        for folder, pattern in _FILES.items()
        for name in source.names(folder)
        if pattern.match(name)
    ][:512]


VENDORS = {
    "0x10de": "nvidia",
    "0x1002": "amd",
    "0x19e5": "huawei",
    "0xcabc": "cambricon",
    "0x1d94": "hygon",
    "0x1ed5": "mthreads",
    "0x9999": "metax",
    "0x1e3e": "iluvatar",
    "0x1d22": "kunlunxin",
    "0x1ee0": "biren",
    "0x1e36": "enflame",
}
"""By the number that a PCI device gives."""
_CLASSES = ("0x0302", "0x0380", "0x1200", "0x0b40")
"""3D controller, other display, accelerator and co-processor."""
_DISPLAY = "0x0300"
_WITH_DISPLAYS = ("nvidia", "mthreads")
"""Vendors whose accelerators may be displays; those of others are of a board's own console."""


def read_bus(source: Source) -> Dict[str, Dict[str, int]]:
    """Return the cards on the PCI bus: by vendor, how many there are of each device number.

    A card that has fallen off its driver still stands here.
    """
    found: Dict[str, Dict[str, int]] = {}
    place = "/sys/bus/pci/devices"
    for name in source.names(place):
        kind = source.read(place + "/" + name + "/class").strip()
        if kind[:6] not in _CLASSES and kind[:6] != _DISPLAY:
            continue
        vendor = VENDORS.get(source.read(place + "/" + name + "/vendor").strip())
        if kind[:6] == _DISPLAY and vendor not in _WITH_DISPLAYS:
            continue
        device = known(source.read(place + "/" + name + "/device"))[:12]
        if vendor and device:
            of_vendor = found.setdefault(vendor, {})
            of_vendor[device] = of_vendor.get(device, 0) + 1
    return found
