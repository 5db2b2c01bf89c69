"""A plan for lost cooling as a script of sh, and what undoes it; texts that call nothing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

from .. import hostlist
from .commands import cap_command, no_command, restore_commands
from .model import Cap, DeratePlan, Kind

REASON = "sn power: cooling of {}"
"""Of a node that a plan drains; only such nodes are ever undrained."""

_HEAD = """\
#!/bin/sh
# {title}
# Without --run it only says what it would do. Commands reach the nodes as root.
#   SN_CARRY  by what: clush, pdsh, ssh, or a program that takes NODES COMMAND [first at hand]
"""

_START = """\
set -eu
run=no
failed=0
for word in "$@"; do
    case $word in
    --run) run=yes ;;
    *)
        echo "usage: $0 [--run]" >&2
        exit 2
        ;;
    esac
done
"""

_ON = """
carry=${SN_CARRY:-}
if [ -z "$carry" ]; then
    for program in clush pdsh ssh; do
        if command -v "$program" >/dev/null 2>&1; then
            carry=$program
            break
        fi
    done
fi

on() { # NODES COMMAND
    if [ "$run" = no ]; then
        printf 'on %s: %s\\n' "$1" "$2"
        return
    fi
    case $carry in
    clush) clush -b -S -w "$1" -- "$2" || failed=1 ;;
    pdsh) pdsh -S -w "$1" "$2" || failed=1 ;;
    ssh)
        for node in $(scontrol show hostnames "$1"); do
            ssh -n -o BatchMode=yes -o ConnectTimeout=5 "$node" "$2" || failed=1
        done
        ;;
    '')
        echo 'no way to reach the nodes: set SN_CARRY' >&2
        failed=1
        ;;
    *) "$carry" "$1" "$2" || failed=1 ;;
    esac
}
"""

_BY_HAND = """
by_hand() { # NODES WORDS
    if [ "$run" = no ]; then
        printf 'by hand, on %s: %s\\n' "$1" "$2"
        return
    fi
    printf 'by hand, on %s: %s\\n' "$1" "$2" >&2
    failed=1
}
"""

_JOBS = """\
#   SN_JOBS   what becomes of the jobs on drained nodes: leave, requeue or cancel [leave]
"""

_DRAIN = """
jobs=${SN_JOBS:-leave}
case $jobs in
leave | requeue | cancel) ;;
*)
    echo "SN_JOBS=$jobs: leave, requeue or cancel" >&2
    exit 2
    ;;
esac

drain() { # NODE; one that is drained already keeps its reason
    if [ "$run" = no ]; then
        printf "scontrol update NodeName=%s State=DRAIN Reason='%s'\\n" "$1" "$reason"
        if [ "$jobs" != leave ]; then
            printf '%s the jobs of %s\\n' "$jobs" "$1"
        fi
        return
    fi
    case $(sinfo -h -N -n "$1" -o %T | head -n 1) in
    drained* | draining*) ;;
    *) scontrol update "NodeName=$1" State=DRAIN "Reason=$reason" || failed=1 ;;
    esac
    if [ "$jobs" = leave ]; then
        return
    fi
    for job in $(squeue -h -w "$1" -t RUNNING,SUSPENDED -o %i); do
        case $jobs in
        requeue) scontrol requeue "$job" || failed=1 ;;
        cancel) scancel "$job" || failed=1 ;;
        esac
    done
}
"""

_UNDRAIN = """
undrain() { # NODE; only one that was drained for this reason
    if [ "$run" = no ]; then
        printf "scontrol update NodeName=%s State=UNDRAIN, if drained for '%s'\\n" "$1" "$reason"
    elif [ "$(sinfo -h -N -n "$1" -o %E | head -n 1)" = "$reason" ]; then
        scontrol update "NodeName=$1" State=UNDRAIN || failed=1
    fi
}
"""

_END = """
exit "$failed"
"""


def apply_script(plan: DeratePlan) -> str:
    """Return the script that caps cards and drains nodes; a second run changes nothing more.

    Cards of drained nodes get their lowest caps: jobs may still run on them.
    """
    steps = [_capping(cap) for cap in (*plan.caps, *_lowest(plan))]
    title = f"Caps and drained nodes for {plan.target} without its liquid."
    if not steps and not plan.drained:
        return f"#!/bin/sh\n# {title}\nset -eu\necho 'nothing to do'\n"
    parts = [_HEAD.format(title=title)]
    draining = []
    if plan.drained:
        parts.append(_JOBS)
        draining = [_reason(plan), _DRAIN]
        steps += _each("drain", [node.host for node in plan.drained])
    return _script([*parts, _START, *draining], steps)


def undo_script(plan: DeratePlan) -> str:
    """Return the script that undoes any plan for this target, whatever ran at the time."""
    hosts: dict[tuple[str, str | None], list[str]] = {}
    for node in (node for rack in plan.racks for node in rack.nodes):
        for vendor, command in restore_commands(node.kinds).items():
            hosts.setdefault((vendor, command), []).append(node.host)
    steps = [
        _step(names, command, f"undo the caps; {no_command(vendor)}")
        for (vendor, command), names in hosts.items()
    ]
    nodes = [node.host for rack in plan.racks for node in rack.nodes]
    steps += _each("undrain", nodes)
    title = f"Back to full power for {plan.target}: its liquid flows again."
    return _script([_HEAD.format(title=title), _START, _reason(plan), _UNDRAIN], steps)


def drain_line(plan: DeratePlan) -> str:
    """Return the command that drains the nodes of a plan, for a person to read."""
    names = hostlist.fold(node.host for node in plan.drained)
    reason = REASON.format(plan.target)
    return shlex.join(
        ["scontrol", "update", f"NodeName={names}", "State=DRAIN", f"Reason={reason}"]
    )


def _script(parts: Iterable[str], steps: Sequence[str]) -> str:
    helpers = [
        text
        for name, text in (("on ", _ON), ("by_hand ", _BY_HAND))
        if any(step.splitlines()[-1].startswith(name) for step in steps)
    ]
    return "".join([*parts, *helpers, "\n", "\n".join(steps), "\n", _END])


def _reason(plan: DeratePlan) -> str:
    return f"reason={shlex.quote(REASON.format(plan.target))}\n"


def _capping(cap: Cap) -> str:
    why = f"cap {cap.kind.accelerator} at {cap.watts} W; {no_command(cap.kind.vendor)}"
    return _step(cap.hosts, cap_command(cap), why)


def _step(hosts: Sequence[str], command: str | None, by_hand: str) -> str:
    nodes = shlex.quote(hostlist.fold(hosts))
    if command is None:
        return f"by_hand {nodes} {shlex.quote(by_hand)}"
    # shellcheck takes what the node's shell expands for a slip.
    remark = "# shellcheck disable=SC2016\n" if "$" in command else ""
    return f"{remark}on {nodes} {shlex.quote(command)}"


def _each(function: str, hosts: Sequence[str]) -> list[str]:
    """Return the lines that call a function for each host, five to a line."""
    names = [shlex.quote(host) for host in hosts]
    lines = [" ".join(names[start : start + 5]) for start in range(0, len(names), 5)]
    listed = " \\\n    ".join(lines)
    return [f'for node in {listed}; do\n    {function} "$node"\ndone']


def _lowest(plan: DeratePlan) -> list[Cap]:
    """Return the lowest caps of the nodes to drain."""
    hosts: dict[tuple[Kind, bool], list[str]] = {}
    for node in plan.drained:
        for kind in node.kinds:
            alone = sum(item.vendor == kind.vendor for item in node.kinds) == 1
            if kind.least_w < kind.most_w:
                hosts.setdefault((kind, alone), []).append(node.host)
    return [
        Cap(kind, tuple(names), math.ceil(kind.least_w), alone)
        for (kind, alone), names in hosts.items()
    ]
