"""Nodes for tests of the probe: what tools printed on real ones, and stand-ins of the same form."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supernode_slurm.probe.source import file_name

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT.parent / "shared/realdata/logs"
ZERO = "00000000-0000-0000-0000-000000000000"


def real(name: str) -> str:
    """Return what a tool printed on a real node."""
    if not LOGS.is_dir():
        pytest.skip("the collected files are not beside the repository")
    return (LOGS / name).read_text(encoding="utf-8")


def shape(host: str, sockets: int, cores: int, threads: int, memory: int) -> str:
    """Return what ``slurmd -C`` prints."""
    return (
        f"NodeName={host} CPUs={sockets * cores * threads} Boards=1 SocketsPerBoard={sockets}"
        f" CoresPerSocket={cores} ThreadsPerCore={threads} RealMemory={memory}\n"
        "UpTime=1-00:00:00\n"
    )


def gpus(
    name: str, count: int, mib: int, fabric: tuple[str, str, str] = ("N/A", "N/A", "N/A")
) -> str:
    """Return a log of ``nvidia-smi -q -x``; ``fabric`` is state, ClusterUUID and CliqueId."""
    state, cluster, clique = fabric
    cards = "".join(
        f'<gpu id="00000000:{number + 16:02X}:00.0"><product_name>{name}</product_name>'
        f"<uuid>GPU-{number:08d}</uuid><minor_number>{number}</minor_number>"
        "<vbios_version>96.00.74.00.10</vbios_version>"
        f"<fb_memory_usage><total>{mib} MiB</total></fb_memory_usage>"
        f"<fabric><state>{state}</state><cliqueId>{clique}</cliqueId>"
        f"<clusterUuid>{cluster}</clusterUuid></fabric></gpu>"
        for number in range(count)
    )
    head = "<driver_version>550.54.15</driver_version><cuda_version>12.4</cuda_version>"
    tail = f"<attached_gpus>{count}</attached_gpus>{cards}</nvidia_smi_log>\n"
    return f'<?xml version="1.0" ?>\n<nvidia_smi_log>{head}{tail}'


H100 = gpus("NVIDIA H100 80GB HBM3", 8, 81559, ("Completed", ZERO, "0"))


def save(folder: Path, programs: Mapping[str, str], files: Mapping[str, str] | None = None) -> Path:
    """Write a directory for ``sn-probe --from``: by command line, and by path on the node."""
    folder.mkdir(parents=True)
    for command, text in programs.items():
        (folder / f"{file_name(command)}.txt").write_text(text, encoding="utf-8")
    for path, text in (files or {}).items():
        place = folder / "root" / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


def run(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run sn-probe."""
    argv = [sys.executable, "-m", "supernode_slurm.probe.main", *words]
    return subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=env
    )


def line(folder: Path, programs: Mapping[str, str], files: Mapping[str, str] | None = None) -> str:
    """Return the line of a node with these outputs."""
    done = run("--from", str(save(folder, programs, files)))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def record(
    folder: Path, programs: Mapping[str, str], files: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the record of a node with these outputs."""
    found: dict[str, Any] = json.loads(line(folder, programs, files))
    return found
