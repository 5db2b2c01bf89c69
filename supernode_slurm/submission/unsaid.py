"""What a plan says and the script's command does not."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..plan import Plan
from .script import Script

_TELLS = re.compile(r"SN_PLAN|supernode_slurm\.runtime|(?<!\$)\{(?:plan|[\w-]+\.(?:json|ya?ml))\}")
"""What brings a plan into a command, or into the program that it starts."""
_ELSEWHERE = re.compile(r"\S\.(?:sh|bash)\b")
_FIRST = re.compile("lay(?:er|out)|deepspeed|fsdp")
_THEN = re.compile("parallel|batch|accumulation")
"""Options that decide more than others how fast a step is."""
_SHOWN = 4
"""More options than these are not named."""


def unsaid(script: Script, arguments: Sequence[str], plan: Plan) -> list[str]:
    """Return that the command does not tell the framework what the plan says, if so.

    ``arguments`` are the script's own. A loop that reads its variables has no use for ``{plan}``;
    a command in another script is not known.
    """
    text = "\n".join([script.text, *arguments])
    if not plan.arguments or not script.is_shell or _TELLS.search(text):
        return []
    if "sn-launch" not in text and _ELSEWHERE.search(text):
        return []
    words = re.split(r"[\s=\"']+", text)
    missing = [name for name, values in _options(plan.arguments) if not _says(words, name, values)]
    if not missing:
        return []
    name = plan.framework
    missing.sort(key=lambda item: (not _FIRST.search(item), not _THEN.search(item)))
    return [
        f"{script.origin} has no {{plan}}: {name} does what the script's own words say. The "
        f"prediction holds only if they say what the plan does (sn plan --emit {name}), as "
        f"{', '.join(missing[:_SHOWN])}; or write {{plan}} into the command of sn-launch"
    ]


def _says(words: Sequence[str], name: str, values: Sequence[str]) -> bool:
    """Tell whether a command has an option with these values, or with a size of the plan."""
    starts = [at + 1 for at, word in enumerate(words) if word == name]
    return any(
        list(words[at : at + len(values)]) == list(values)
        or "".join(words[at : at + 1]).startswith("{")
        for at in starts
    )


def _options(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the options of a framework, each with its values."""
    found: list[tuple[str, list[str]]] = []
    for word in arguments:
        name, equals, value = word.partition("=")
        if not found or name.startswith("-") or equals:
            found.append((name, [value] if equals else []))
        else:
            found[-1][1].append(word)
    return found
