"""Jobs of FlagScale: Hydra's YAML, with the file of ``defaults`` below it."""

from __future__ import annotations

import re
from pathlib import Path

from .files import Unread
from .found import Job
from .options import Options, layered, of_file

_SECTION = re.compile(r"(?:train\.)?(?:model|system|data)\.(.*)\Z")
_KEPT = ("precision.", "tokenizer.")


def options(job: Job, main: str, given: Options, notes: list[str]) -> Options:
    """Return what a job's files and the words of its command set, in Megatron's words.

    ``main`` is the file of the experiment; its ``defaults`` name that of the model. Raises
    ``Unread``.
    """
    path = _path(job, main)
    found = of_file(job.files, path, main)
    name = next(
        (found[key] for key in ("defaults.train", "defaults.override_train") if key in found), None
    )
    if name is not None and name.text:
        below = str(Path(main).parent / "train" / f"{name.text.removesuffix('.yaml')}.yaml")
        try:
            found = {**of_file(job.files, _path(job, below), below), **found}
        except Unread as error:
            notes.append(f"{name.origin}: {error}")
    return layered(_flat(found), _flat(given), notes)


def _path(job: Job, text: str) -> Path:
    path = job.path(text)
    if path is None:
        raise Unread(f"{text} is not read: the folder it is in is not known")
    return path


def _flat(found: Options) -> Options:
    """Return the model's, system's and data's options without their sections."""
    flat: Options = {}
    for name, value in found.items():
        section = _SECTION.match(name)
        if section is None:
            continue
        own = section[1] if section[1].startswith(_KEPT) else section[1].rpartition(".")[2]
        flat.setdefault(own, value)
    return flat
