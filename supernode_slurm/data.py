"""Files: where the data that ships with the package lies, and how files are written."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from importlib.resources.abc import Traversable
    else:
        from importlib.abc import Traversable


def data_dir(name: str) -> Traversable:
    """Return the ``job_templates`` or ``topology_conf`` directory.

    An installed wheel carries them inside the package; a checkout or an
    editable install keeps them at the top of the repository.
    """
    packaged = files(__package__) / name
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[1] / name


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a reader sees all of the old text or all of the new one.

    An existing file keeps its mode.
    """
    if path.exists():
        mode = path.stat().st_mode & 0o7777
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
