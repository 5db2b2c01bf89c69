"""What must be passed into containers.

pyxis: the image hides variables that it sets itself, and all files that are not mounted.
Its options and PYXIS_* variables are taken from its source (args.c): mounts and variable
names add up over several options, and an option sets the variable aside. Not run against
a real pyxis.

Python 3.8, standard library only.
"""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from .problem import LaunchError

_IMAGE = ("--container-image", "--container-name")


def is_contained(options: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Say whether srun will start the ranks in a container of pyxis."""
    named = any(option.split("=", 1)[0] in _IMAGE for option in options)
    return named or any(environ.get(f"PYXIS_CONTAINER_{name}") for name in ("IMAGE", "NAME"))


def pyxis_options(
    names: Iterable[str], paths: Iterable[str], environ: Mapping[str, str]
) -> list[str]:
    """Return the options that bring variables and files into the container."""
    mounts = []
    for path in paths:
        if any(letter in path for letter in ",:"):
            raise LaunchError(f"{path} cannot be mounted in a container: its name holds ',' or ':'")
        mounts.append(f"{path}:{path}:ro")
    mounts += filter(None, [environ.get("PYXIS_CONTAINER_MOUNTS")])
    every = [*names, *filter(None, [environ.get("PYXIS_CONTAINER_ENV")])]
    return [f"--container-env={','.join(every)}", f"--container-mounts={','.join(mounts)}"]
