"""The options of ``sn-submit`` that are ours, as data: cheap to import, for ``--help``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One option of ours; none may ever equal one of sbatch's."""

    name: str
    metavar: str
    """Empty for a flag."""
    help: str


PLANNING = (
    Option(
        "model", "NAME|FILE|DIMS", "A catalogue name, a config.json, or layers=32,hidden=4096,..."
    ),
    Option("cards", "N|KIND:N,...", "How many cards, or so many of each kind: h100:8,a100:8."),
    Option("sequence", "TOKENS", "Length of a sequence [default: 4096]."),
    Option("global-batch", "N", "Sequences per step [default: 1024]."),
    Option("train", "full|lora", "All weights, or adapters on frozen ones [default: full]."),
    Option("lora-rank", "N", "Rank of the adapters [default: 16]."),
    Option("precision", "NAME", "bf16, fp16, fp8, mxfp8 or nvfp4 [default: bf16]."),
    Option("data-time", "SECONDS", "Measured time to load the data of a step [default: 0]."),
    Option("reduce-gradients", "NAME", "fp32, bf16 or int8 [default: as the framework does]."),
    Option("allow-lossy", "yes|no", "Gradients may be sent with a loss: int8 [default: no]."),
    Option("spare-memory", "PERCENT", "Memory of a device that a plan leaves free [default: 5]."),
    Option("strategy", "NAME", "Of several kinds: auto, grouped, mixed, dynamic, hierarchical."),
    Option("framework", "NAME", "megatron, torch, flagscale ... [default: by the cards]."),
)
"""What is planned: for ``sn plan`` and ``sn-submit``, on ``#SN`` lines, in SN_* variables and the
user's own file."""

OWN = (
    *PLANNING,
    Option("inventory", "FILE", "The inventory [default: $SN_INVENTORY, then /etc]."),
    Option("pin", "", "Name the nodes instead of leaving them to Slurm."),
    Option("carry", "", "Send sn-launch along, to nodes that do not have it."),
    Option("keep-slurm-env", "", "Keep the SLURM_* variables of an enclosing job."),
    Option("dry-run", "", "Show what would be submitted; contact nobody."),
    Option("json", "", "Print the result as JSON."),
)

VARIABLES = frozenset(
    f"SN_{name}"
    for names in (
        "INVENTORY CONFIG SBATCH CARRIED CARRIED_BY CARRIED_FILE PLAN PLAN_FILE REPLAN LAYOUT",
        "GROUP ACCELERATOR STAGE REPLICA TP_RANK SAMPLES SAMPLE_OFFSET MICRO_BATCH",
        "MARK WATCH LAUNCH_END REBALANCE SHARD SHARES MICRO_BATCHES PATIENCE END_HUNG HEARTBEAT",
        "CARRY JOBS",
    )
    for name in names.split()
)
"""Variables that are no options: where files are, and what sn-launch tells a job."""


def variable(name: str) -> str:
    """Return the variable of a planning option."""
    return "SN_" + name.upper().replace("-", "_")
