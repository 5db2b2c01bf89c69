"""A plan completed with the words and files of its framework."""

from __future__ import annotations

from dataclasses import replace

from ..errors import PlanError
from ..frameworks import emit
from ..placement import Choice


def told(choice: Choice) -> tuple[Choice, tuple[str, ...]]:
    """Return the choice with what its framework is told, and what the user should know."""
    if not choice.plan.pipelines:
        return choice, ()
    try:
        emitted = emit(choice.plan)
    except PlanError as error:
        return choice, (f"{{plan}} stays empty: {error}",)
    plan = replace(choice.plan, arguments=emitted.arguments, files=dict(emitted.files))
    return replace(choice, plan=plan), emitted.notes
