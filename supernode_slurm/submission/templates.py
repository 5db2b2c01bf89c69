"""The job templates: batch scripts to copy and edit."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ..data import data_dir
from ..errors import UsageError, nearest


@dataclass(frozen=True, slots=True)
class Template:
    """A batch script that the package brings."""

    name: str
    framework: str | None
    """What it is planned for; None where its ``#SN`` line leaves that open."""
    trains: str
    """What it does, in a sentence."""
    asks: str
    """Its first ``#SN`` line."""
    path: str
    text: str


def templates() -> tuple[Template, ...]:
    """Return all templates by name."""
    folder = data_dir("job_templates")
    scripts = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sh"))
    return tuple(
        _template(name, str(folder / name), (folder / name).read_text(encoding="utf-8"))
        for name in scripts
    )


def template(name: str) -> Template:
    """Return one template, with or without its ``.sh``; raises ``UsageError``."""
    found = {item.name: item for item in templates()}
    wanted = name.removesuffix(".sh")
    if wanted not in found:
        raise UsageError(f"no template '{name}'; {nearest(wanted, found)}")
    return found[wanted]


def _template(name: str, path: str, text: str) -> Template:
    lines = text.splitlines()
    asks = next((line for line in lines if line.startswith("#SN ")), "")
    words = shlex.split(asks, comments=False)
    framework = words[words.index("--framework") + 1] if "--framework" in words else None
    trains = next((line[2:] for line in lines if line.startswith("# ")), "")
    return Template(name.removesuffix(".sh"), framework, trains, asks, path, text)
