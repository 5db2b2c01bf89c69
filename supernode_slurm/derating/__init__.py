"""Lost cooling: which caps and which drained nodes let the air take what is left."""

from .commands import cap_command, no_command
from .derate import derate
from .model import Cap, DeratePlan, Flops, JobShare, Node, RackPlan
from .nodes import Usage, usage_of
from .script import apply_script, drain_line, undo_script

__all__ = [
    "Cap",
    "DeratePlan",
    "Flops",
    "JobShare",
    "Node",
    "RackPlan",
    "Usage",
    "apply_script",
    "cap_command",
    "derate",
    "drain_line",
    "no_command",
    "undo_script",
    "usage_of",
]
