"""How llamafactory-cli and swift start torchrun: by variables of the environment."""

from __future__ import annotations

import os
import subprocess

from standin import need

NAMES = ("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT")


def torchrun(script: str, arguments: list[str]) -> int:
    """Run a script under torchrun; return its exit code."""
    for name in NAMES:
        need(bool(os.environ.get(name)), f"no {name}: every node would train alone")
    options = [word for name in NAMES for word in (f"--{name.lower()}", os.environ[name])]
    return subprocess.call(["torchrun", *options, script, *arguments], stdin=subprocess.DEVNULL)
