"""Files: where the data that ships with the package lies, and how files are written."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
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


def write_atomically(texts: Mapping[Path, str], mode: int = 0o644) -> None:
    """Write files so that a reader of each sees all of the old text or all of the new one.

    All texts are on the disk before the first file changes. A file that exists keeps its
    mode, owner and group; a new script may be executed.
    """
    staged: dict[str, Path] = {}
    try:
        for path, text in texts.items():
            staged[_stage(path, text, mode)] = path
        for name, path in staged.items():
            os.replace(name, path)
    finally:
        for name in staged:
            Path(name).unlink(missing_ok=True)


def _stage(path: Path, text: str, mode: int) -> str:
    """Write a text beside its file and return the name it has there."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            shutil.copymode(path, name)
            if os.geteuid() == 0:
                os.chown(name, path.stat().st_uid, path.stat().st_gid)
        else:
            os.chmod(name, mode | 0o111 if text.startswith("#!") else mode)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return name
