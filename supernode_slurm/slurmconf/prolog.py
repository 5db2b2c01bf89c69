"""The task prolog: sets the vendor's variable where Slurm itself does not.

Slurm runs it before each task and sets what it prints. For GRES named gpu,
SLURM_STEP_GPUS holds the task's own devices, also in a heterogeneous step. For other
names a task is told nothing: the script asks slurmctld what the job holds on this node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..catalogue import platform_of
from ..inventory import Inventory, NodeClass
from .gres import cloud_vendors

TASK_PROLOG = "supernode-task-prolog.sh"

_SET_BY_SLURM = {
    "nvidia_gpu_env": ("CUDA_VISIBLE_DEVICES",),
    "amd_gpu_env": ("ROCR_VISIBLE_DEVICES",),
    "no_gpu_env": (),
}
# What Slurm sets without any Flags=, intel's and OpenCL's variable among them.
_SET_BY_DEFAULT = (
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)

_HEAD = """\
# What this prints, Slurm sets for the task (TaskProlog in slurm.conf(5)). Devices are
# numbered as Slurm does: those of one GRES name in a node, from 0, without gaps.

say() { # say DEVICES VARIABLE...
    devices=$1
    shift
    case $devices in
    '' | *[!0-9,]*) return 0 ;; # none, or not Slurm's own words
    esac
    for name; do printf 'export %s=%s\\n' "$name" "$devices"; done
}

gpu=${SLURM_STEP_GPUS-}
case "${SLURM_STEP_ID-}" in # of a batch script: none, or below 0, or as high when unsigned
'' | -* | 42949*) gpu=${gpu:-${SLURM_JOB_GPUS-}} ;;
esac
"""

_ASK = """
# Slurm tells a task nothing of a GRES that is not named gpu. slurmctld knows what the job
# holds on this node, and nobody which of these a step has that asked for fewer.
held() ( # held GRES
    list=''
    while read -r nodes rest; do # like Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=npu:x:3(IDX:0-1,4)
        case "$nodes $rest" in
        Nodes=?*" GRES="*) ;;
        *) continue ;;
        esac
        scontrol show hostnames "${nodes#Nodes=}" | grep -qxF "$SLURMD_NODENAME" || continue
        IFS=')'
        for part in ${rest##*GRES=}; do
            part=${part#,}
            [ "${part#"$1":}" != "$part" ] || continue
            IFS=,
            for range in ${part##*IDX:}; do
                case $range in
                '' | *[!0-9-]* | -* | *- | *-*-*) continue ;;
                esac
                index=${range%-*}
                while [ "$index" -le "${range#*-}" ]; do
                    list=$list,$index
                    index=$((index + 1))
                done
            done
        done
        unset IFS
    done <<EOF
$(scontrol --details show job "$SLURM_JOB_ID")
EOF
    echo "${list#,}"
)
"""


@dataclass(frozen=True, slots=True, order=True)
class _Deed:
    """What is done for one GRES of a node."""

    gres: str
    exported: tuple[str, ...]
    cleared: tuple[str, ...] = ()


def task_prolog(inventory: Inventory) -> str | None:
    """Return the script without its first line, None where Slurm sets every variable itself.

    It is a POSIX sh script and must be executable on the nodes. A GRES that is not
    named gpu costs a request to slurmctld per task.
    """
    torn = bool(cloud_vendors(inventory))
    hosts: dict[tuple[_Deed, ...], list[str]] = {}
    for nodes in inventory.node_classes:
        hosts.setdefault(_deeds(nodes, torn and nodes.cloud), []).extend(nodes.hosts)
    if not any(hosts):
        return None
    asks = any(deed.gres != "gpu" for deeds in hosts for deed in deeds)
    text = f"{_HEAD}{_ASK if asks else ''}\n"
    if len(hosts) == 1:
        (deeds,) = hosts
        return text + _commands(deeds, "")
    others = {
        deeds: {_shape(host) for key, names in hosts.items() if key != deeds for host in names}
        for deeds in hosts
    }
    cases = "".join(
        f"{_patterns(names, others[deeds])})\n{_commands(deeds, '    ')}    ;;\n"
        for deeds, names in hosts.items()
        if deeds
    )
    return f'{text}case "${{SLURMD_NODENAME-}}" in\n{cases}esac\n'


def _deeds(nodes: NodeClass, torn: bool) -> tuple[_Deed, ...]:
    found = set()
    for item in nodes.devices:
        vendor = platform_of(item.accelerator)
        ours: tuple[str, ...] = ()
        if item.gres == "gpu":
            ours = _SET_BY_DEFAULT if torn else _SET_BY_SLURM[vendor.slurm_env_flag]
        wanted = vendor.visible_env
        exported = tuple(name for name in wanted if name not in ours)
        cleared = tuple(name for name in ours if name not in wanted)
        if exported or cleared:
            found.add(_Deed(item.gres, exported, cleared))
    return tuple(sorted(found))


def _commands(deeds: Iterable[_Deed], margin: str) -> str:
    lines = []
    for deed in deeds:
        lines += [f"echo 'unset {name}'" for name in deed.cleared]
        source = "$gpu" if deed.gres == "gpu" else f"$(held {deed.gres})"
        if deed.exported:
            lines.append(f'say "{source}" {" ".join(deed.exported)}')
    return "".join(f"{margin}{line}\n" for line in lines)


def _patterns(hosts: Iterable[str], others: set[str]) -> str:
    """Return a pattern of sh for these hosts; by name where another's would match."""
    found = (_shape(host) if _shape(host) not in others else host for host in hosts)
    return " | ".join(dict.fromkeys(found))


def _shape(host: str) -> str:
    """Return the pattern of a name with any digits, like ``sn[0-9]-[0-9][0-9]``."""
    return re.sub("[0-9]", "[0-9]", host)
