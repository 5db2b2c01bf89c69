"""sbatch's options by release, as data.

Read off the programs themselves: 22.05.8, 24.11.5 and 26.05.5 were asked for each name, with
a value and without one: names from their help, their man pages, and every word in their
libslurmfull.so. Their help alone is no source: that of 24.11 lists --power, which its sbatch
refuses, and that of 26.05 keeps --resources to itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Arity(Enum):
    """Whether an option takes a value."""

    NONE = "none"
    REQUIRED = "required"
    OPTIONAL = "optional"
    """Only as ``--name=value``, or glued to its letter."""


@dataclass(frozen=True, slots=True)
class Spec:
    """An option of sbatch."""

    long: str
    letter: str
    """Empty for none."""
    arity: Arity


_LETTERS = {
    "account": "A",
    "array": "a",
    "begin": "b",
    "chdir": "D",
    "clusters": "M",
    "constraint": "C",
    "core-spec": "S",
    "cpus-per-task": "c",
    "dependency": "d",
    "distribution": "m",
    "error": "e",
    "exclude": "x",
    "extra-node-info": "B",
    "gpus": "G",
    "help": "h",
    "hold": "H",
    "input": "i",
    "job-name": "J",
    "licenses": "L",
    "no-kill": "k",
    "nodefile": "F",
    "nodelist": "w",
    "nodes": "N",
    "ntasks": "n",
    "output": "o",
    "overcommit": "O",
    "oversubscribe": "s",
    "partition": "p",
    "qos": "q",
    "quiet": "Q",
    "time": "t",
    "verbose": "v",
    "version": "V",
    "wait": "W",
}
_NONE = """
    contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot
    spread-job test-only usage use-min-nodes verbose version wait
"""
_OPTIONAL = "exclusive nice no-kill propagate"
_REQUIRED = """
    account acctg-freq array batch bb bbf begin chdir cluster cluster-constraint clusters comment
    constraint container context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task
    deadline delay-boot dependency distribution error exclude export export-file extra-node-info
    gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint
    input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind
    mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes ntasks ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition
    prefer priority profile qos reservation signal sockets-per-node switches tasks-per-node
    thread-spec threads-per-core time time-min tmp uid wait-all-nodes wckey wrap
"""


def _specs(none: str = "", required: str = "", optional: str = "") -> dict[str, Spec]:
    kinds = ((Arity.NONE, none), (Arity.REQUIRED, required), (Arity.OPTIONAL, optional))
    return {
        name: Spec(name, _LETTERS.get(name, ""), arity)
        for arity, names in kinds
        for name in names.split()
    }


_COMMON = _specs(_NONE, _REQUIRED, _OPTIONAL)
_SINCE_24_11 = _specs(
    none="stepmgr",
    required="autocomplete container-id extra segment tres-bind tres-per-task",
    optional="oom-kill-step resv-ports",
)
_UNTIL_24_11 = _specs(none="requeue", optional="get-user-env")
TABLES: dict[str, dict[str, Spec]] = {
    "22.05": {**_COMMON, **_UNTIL_24_11, **_specs(required="power")},
    "24.11": {**_COMMON, **_UNTIL_24_11, **_SINCE_24_11},
    "26.05": {
        **_COMMON,
        **_SINCE_24_11,
        **_specs(
            none="consolidate-segments external get-user-env spread-segments",
            required="container-type mem-update resources",
            optional="requeue",
        ),
    },
}
"""Long name to option, by release that was asked, oldest first."""

ALIASES = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
"""Another spelling to the name under which values are returned."""

PRINTING = frozenset({"autocomplete", "help", "usage", "version"})
"""Options with which sbatch prints something and leaves; only on its command line."""

# INPUT ENVIRONMENT VARIABLES of sbatch(1), where the name is not SBATCH_ and the long name.
_ODD_VARIABLES = {
    "array": "SBATCH_ARRAY_INX",
    "bb": "SBATCH_BURST_BUFFER",
    "cpu-freq": "SBATCH_CPU_FREQ_REQ",
    "mem": "SBATCH_MEM_PER_NODE",
    "segment": "SBATCH_SEGMENT_SIZE",
    "switches": "SBATCH_REQ_SWITCH",
    "time": "SBATCH_TIMELIMIT",
    "verbose": "SBATCH_DEBUG",
}
_VARIABLES = """
    account acctg-freq array batch bb cluster-constraint clusters consolidate-segments constraint
    container container-id container-type core-spec cpu-freq cpus-per-gpu delay-boot distribution
    error exclusive export get-user-env gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket
    gpus-per-task gres gres-flags hint ignore-pbs input job-name mem mem-bind mem-per-cpu
    mem-per-gpu network no-kill no-requeue open-mode output overcommit partition power profile
    qos requeue reservation segment signal spread-job spread-segments switches thread-spec
    threads-per-core time tres-bind tres-per-task use-min-nodes verbose wait wait-all-nodes wckey
"""
VARIABLES = {
    name: _ODD_VARIABLES.get(name, f"SBATCH_{name.upper().replace('-', '_')}")
    for name in _VARIABLES.split()
}
"""Long name to the environment variable that sets it."""
