"""Where the launcher's file lies on the nodes: on a shared path, or sent there by sbcast.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import Iterator, Mapping, Sequence

from . import private
from .archive import archive
from .job import Component
from .problem import LaunchError
from .program import run
from .srun import beside, handed_down

_SEND_S = 300.0
_REMOVE_S = 60.0
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(frozen=True)
class Carried:
    """The launcher as the ranks start it."""

    path: str
    visible: str
    """What a container must see of it: an archive, or the package's directory."""
    is_sent: bool = False


@contextlib.contextmanager
def carry(environ: Mapping[str, str], parts: Sequence[Component]) -> Iterator[Carried]:
    """Yield the launcher's file; with SN_CARRIED one that lies on every node meanwhile."""
    if not environ.get("SN_CARRIED"):
        yield _where_we_are()
        return
    # Nobody can guess the name, and /tmp lets nobody replace what is not his.
    target = f"/tmp/sn-launch.{os.urandom(16).hex()}.pyz"
    with private.temporary(environ) as folder:
        source = _own_archive(folder)
        for part in parts:
            argv = ["sbcast", "--force", f"--jobid={part.job}", source, target]
            code, _, said = run(argv, _SEND_S, environ)
            if code:
                raise LaunchError(f"sbcast cannot bring sn-launch to the nodes: {said.strip()}")
    try:
        yield Carried(target, target, is_sent=True)
    finally:
        for index, part in enumerate(parts):
            child = handed_down(environ, (), len(parts) > 1)
            argv = [*beside(parts, index, len(part.tasks)), "rm", "-f", target]
            run(argv, _REMOVE_S, child)


def remove_if_last(environ: Mapping[str, str]) -> None:
    """Remove what the batch script unpacked, where ``exec`` has put us in its place."""
    if environ.get("SN_CARRIED_BY") == str(os.getpid()):
        shutil.rmtree(environ["SN_CARRIED"], ignore_errors=True)


def search_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the PYTHONPATH by which a program imports ``supernode_slurm.runtime``.

    Only where this launcher is an archive: elsewhere it may lie beside packages that are not
    the program's.
    """
    if not os.path.isfile(_ROOT):
        return {}
    paths = filter(None, [environ.get("PYTHONPATH"), _ROOT])
    return {"PYTHONPATH": os.pathsep.join(paths)}


def _where_we_are() -> Carried:
    if os.path.isfile(_ROOT):
        return Carried(_ROOT, _ROOT)
    package = os.path.join(_ROOT, __name__.split(".", 1)[0])
    return Carried(os.path.join(package, "runtime", "launch.py"), package)


def _own_archive(folder: str) -> str:
    """Return the path of an archive: the one that we run from, or one made now."""
    if os.path.isfile(_ROOT):
        return _ROOT
    path = os.path.join(folder, "sn-launch.pyz")
    with open(path, "wb") as stream:
        stream.write(archive())
    return path
