"""All of Slurm's files for an inventory: pure, deterministic, byte for byte."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..data import write_atomically
from ..errors import ConfigError
from ..inventory import Inventory
from .facts import SHELL, as_lua, head_comment, is_ours, policy_comment
from .gres import gres_conf
from .nodes import accounting_line, gres_types, nodes_conf, partitions_conf
from .plugin import PLUGIN, job_submit
from .prolog import TASK_PROLOG, task_prolog
from .release import Release
from .topology import Layout, choose

NODES, PARTITIONS, ROOT = (
    "supernode-nodes.conf",
    "supernode-partitions.conf",
    "supernode.conf",
)


@dataclass(frozen=True, slots=True)
class Generated:
    """Slurm's files, by name, and what the admin should know about them."""

    release: str
    topology: str
    """Kind of the topology that holds where a partition is not bound to another."""
    kinds: Mapping[str, str]
    """Kind of topology that places the jobs of each partition."""
    files: dict[str, str]
    notes: tuple[str, ...]


def generate(inventory: Inventory, release: Release) -> Generated:
    """Return Slurm's files for an inventory and a release.

    Raises ``ConfigError`` if there is nothing to write a configuration for.
    """
    if not inventory.node_classes:
        raise ConfigError.one(inventory.source, "no supernodes and no pools: nothing to generate")
    if not inventory.partitions:
        todo = "slurmctld refuses a configuration without one; add it under 'partitions'"
        raise ConfigError.one(inventory.source, "no partitions", todo)
    layout = choose(inventory, release)
    gres, notes = gres_conf(inventory)
    prolog = task_prolog(inventory) if inventory.slurm.task_prolog else None
    if inventory.slurm.task_prolog and not prolog:
        notes.append("slurm.task_prolog: none is needed, Slurm sets every card's variable itself")
    plugin = job_submit(inventory, release, layout.kinds) if inventory.slurm.job_submit else None
    if inventory.slurm.job_submit and not plugin:
        notes.append("slurm.job_submit: none is written, no node has cards to place jobs on")
    head = (
        f"{head_comment(inventory.cluster, release.name)}\n"
        "# Do not edit: change the inventory and generate again.\n"
    )
    bodies = {
        ROOT: _root(inventory, layout, release, _programs(inventory, prolog, plugin)),
        NODES: nodes_conf(inventory, layout.places),
        PARTITIONS: partitions_conf(inventory, layout.bound),
        "gres.conf": gres,
        layout.file: layout.text,
    }
    files = {name: head + body for name, body in bodies.items()}
    if prolog:
        files[TASK_PROLOG] = f"{SHELL}{head}{prolog}"
    if plugin:
        files[PLUGIN] = as_lua(head) + plugin
    if not release.lone_4096 and len(files[layout.file].encode()) % 4096 == 0:
        files[layout.file] += "\n"
    return Generated(release.name, layout.plugin, layout.kinds, files, (*layout.notes, *notes))


def _programs(inventory: Inventory, prolog: str | None, plugin: str | None) -> list[str]:
    """Return the lines that have Slurm run what was written for it."""
    lines = [f"TaskProlog={inventory.slurm.task_prolog}"] if prolog else []
    if plugin:
        lines += [policy_comment(inventory.policy), "JobSubmitPlugins=lua"]
    return lines


def _root(inventory: Inventory, layout: Layout, release: Release, programs: list[str]) -> str:
    lines = ["# In slurm.conf: Include supernode.conf"]
    if not release.proven:
        lines.append(f"# Slurm {release.name}: from its documentation and source, not tried.")
    lines += [f"# {note}" for note in layout.notes]
    types = gres_types(inventory)
    if types:
        lines.append(f"GresTypes={','.join(types)}")
    tracked = accounting_line(inventory)
    if tracked:
        lines.append(tracked)
    lines += programs
    if not release.yaml:
        lines.append(f"TopologyPlugin=topology/{layout.plugin}")
    lines += [f"Include {NODES}", f"Include {PARTITIONS}"]
    return "\n".join(lines) + "\n"


def write(generated: Generated, directory: Path) -> list[str]:
    """Write the files that differ and return their names.

    Raises ``ConfigError``, before anything is written, where a file of that name was
    written by a person.
    """
    if directory.exists() and not directory.is_dir():
        raise ConfigError.one(str(directory), "is not a directory", "name the one for the files")
    directory.mkdir(parents=True, exist_ok=True)
    old = {name: _read(directory / name) for name in generated.files}
    for name, text in old.items():
        if (directory / name).is_symlink():
            todo = "generate into the directory that it points to"
            raise ConfigError.one(str(directory / name), "is a symbolic link", todo)
        if text is not None and not is_ours(text):
            raise ConfigError.one(
                str(directory / name),
                "exists and was not written by 'sn generate'",
                "move it away, or choose another directory",
            )
    changed = [name for name, text in generated.files.items() if old[name] != text]
    write_atomically({directory / name: generated.files[name] for name in changed})
    return changed


def difference(generated: Generated, directory: Path) -> str:
    """Return the unified diff from the installed files to the generated ones."""
    parts: list[str] = []
    for name, text in generated.files.items():
        installed = _read(directory / name)
        before, after = (installed or "").splitlines(True), text.splitlines(True)
        source = str(directory / name) if installed is not None else "/dev/null"
        parts += difflib.unified_diff(before, after, source, f"generated/{name}")
    return "".join(parts)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
