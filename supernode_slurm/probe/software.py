"""Versions of drivers, firmware and libraries.

Python 3.6, standard library only.
"""

import json
import re
from typing import Any, Dict, List

from .ascend import read_install_info
from .others import first_version
from .source import Source
from .text import known, lines, plain

_LIBRARIES = {
    "libnccl.so": "nccl",
    "librccl.so": "rccl",
    "libmccl.so": "mccl",
    "libcncl.so": "cncl",
    "libibverbs.so": "ibverbs",
    "libnccl-net.so": "nccl-net",
    "libmpi.so": "mpi",
}
_LISTED = re.compile(r"\s*(\S{1,100}\.so)(?:\.\S{1,40})? \(.{0,80}\) => (/\S{1,300})\s*\Z")
_TAIL = re.compile(r"\.so\.([0-9][0-9A-Za-z._-]{0,40})\Z")
_FILES = {
    "driver": ("/sys/module/nvidia/version", "/sys/module/amdgpu/version"),
    "mlx5": ("/sys/module/mlx5_core/version",),
    "rocm": ("/opt/rocm/.info/version",),
    "dtk": ("/opt/dtk/.info/version",),
    "neuware": ("/usr/local/neuware/version.txt",),
    "maca": ("/opt/maca/Version.txt",),
}
_ASCEND = {
    "driver": ("/usr/local/Ascend/driver/version.info",),
    "npu-firmware": ("/usr/local/Ascend/firmware/version.info",),
    "cann": (
        "/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info",
        "/usr/local/Ascend/ascend-toolkit/latest/x86_64-linux/ascend_toolkit_install.info",
        "/usr/local/Ascend/ascend-toolkit/latest/version.cfg",
        "/usr/local/Ascend/nnae/latest/ascend_nnae_install.info",
    ),
}
_TOOLKITS = {"cuda-toolkit": "/usr/local/cuda/version.json", "musa": "/usr/local/musa/version.json"}
_PROGRAMS = {
    "ofed": ["ofed_info", "-s"],
    "fabric-manager": ["nv-fabricmanager", "--version"],
    "imex": ["nvidia-imex", "--version"],
    "slurm": ["slurmd", "-V"],
}
MODULES = ("nvidia_peermem", "nv_peer_mem", "gdrdrv", "knem", "xpmem")
"""Modules of the kernel that collective libraries look for."""


def read_ldconfig(text: str) -> Dict[str, str]:
    """Return the paths of the known libraries that ``ldconfig -p`` lists, the first of each."""
    found: Dict[str, str] = {}
    for line in lines(text):
        item = _LISTED.match(line)
        if item and item.group(1) in _LIBRARIES:
            found.setdefault(_LIBRARIES[item.group(1)], item.group(2))
    return found


def read_toolkit(text: str) -> str:
    """Return the version of a ``version.json`` as CUDA and MUSA have it."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for key in ("cuda", "musa_toolkits", "musa"):
        item = tree.get(key) if isinstance(tree, dict) else None
        if isinstance(item, dict) and isinstance(item.get("version"), str):
            return known(item["version"])
    return ""


def read_ofed(text: str) -> str:
    """Return the version of ``ofed_info -s``: ``MLNX_OFED_LINUX-5.8-2.0.3.0:``."""
    line = known(plain(text).strip().partition("\n")[0]).rstrip(":")
    found = re.search(r"-([0-9][0-9A-Za-z.-]{0,40})\Z", line)
    return found.group(1) if found else ""


def read_versions(source: Source) -> Dict[str, str]:
    """Return the versions of all that is known here and found on the node."""
    found: Dict[str, str] = {}
    for component, argv in _PROGRAMS.items():
        text = source.run(argv)
        found[component] = read_ofed(text) if component == "ofed" else first_version(text)
    for component, path in read_ldconfig(source.run(["ldconfig", "-p"])).items():
        tail = _TAIL.search(source.target(path) or path)
        found[component] = tail.group(1) if tail and "." in tail.group(1) else ""
    for component, paths in _FILES.items():
        texts = (known(source.read(path)) for path in paths)
        found.setdefault(component, next(filter(None, texts), ""))
    for component, paths in _ASCEND.items():
        texts = (read_install_info(source.read(path)) for path in paths)
        found[component] = found.get(component) or next(filter(None, texts), "")
    for component, path in _TOOLKITS.items():
        found[component] = read_toolkit(source.read(path))
    return {key: value for key, value in found.items() if value}


def read_modules(source: Source) -> List[str]:
    """Return which of the modules are loaded."""
    loaded = set(source.names("/sys/module"))
    return [name for name in MODULES if name in loaded]


def of_devices(devices: List[Dict[str, Any]], cards: List[Dict[str, Any]]) -> Dict[str, str]:
    """Return the versions that cards carry themselves; several of a node are all named."""
    found: Dict[str, List[str]] = {}
    for device in devices:
        for key, component in (("vbios", "vbios"), ("gsp", "gsp"), ("firmware", "npu-firmware")):
            if device.get(key):
                found.setdefault(component, []).append(str(device[key]))
    for card in cards:
        if card.get("firmware") and card.get("type"):
            name = "firmware-" + re.sub("[^A-Za-z0-9_.-]+", "-", str(card["type"]))[:40]
            found.setdefault(name, []).append(str(card["firmware"]))
    return {name: " + ".join(sorted(set(values))) for name, values in found.items()}
