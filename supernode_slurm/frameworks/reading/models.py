"""Which model a name, a directory or a tokenizer in a job means."""

from __future__ import annotations

import json
from pathlib import Path

from ...catalogue import Model, UnknownName, find_model, model_of_config
from ...errors import ConfigError
from .files import Unread
from .found import Job, Reading
from .options import Value


def put_named(reading: Reading, job: Job, *names: str) -> None:
    """Keep the model that the first of some options names.

    A directory here with a ``config.json`` goes before a name, as with Hugging Face; a name
    is one of the hub that the catalogue knows.
    """
    value = reading.get(*names)
    if value is None or not value.text:
        return
    try:
        found = _named(value, job)
    except (ConfigError, UnknownName, Unread) as error:
        reading.notes.append(f"{value.origin}: the model is not known: {error}")
    else:
        reading.put("model", found[0], value.origin)


def vocabulary(reading: Reading, job: Job, *names: str) -> int | None:
    """Return the vocabulary that belongs to a tokenizer, by its directory, name or word list."""
    value = reading.get(*names)
    if value is None or not value.text:
        return None
    try:
        if value.text.endswith(".json"):
            path = job.path(value.text)
            words = json.loads(job.files.read(path, value.text)) if path else None
            return len(words) if isinstance(words, dict) else None
        return _named(value, job)[1].vocab
    except (ConfigError, UnknownName, Unread, ValueError, RecursionError):
        return None


def _named(value: Value, job: Job) -> tuple[str, Model]:
    """Return what ``--model`` should say, and the model."""
    path = job.path(value.text)
    config = _config(path) if path is not None else None
    if config is not None:
        return str(config), model_of_config(config)
    looks_like_path = value.text.startswith(("/", ".", "~")) or value.text.count("/") > 1
    try:
        # The catalogue looks at the last part of a name, which in a path may be anything.
        model = find_model(value.text.rstrip("/")) if "=" not in value.text else None
    except UnknownName:
        model = None
    if model is not None and not looks_like_path:
        return model.name, model
    hint = f"; if it is {model.name}, say '#SN --model={model.name}'" if model else ""
    if looks_like_path:
        raise Unread(f"no config.json can be read in {value.text}{hint}")
    raise Unread(f"the catalogue has no {value.text!r:.80}, and there is no such directory")


def _config(path: Path) -> Path | None:
    """Return the ``config.json`` of a directory, absolute, if there is one."""
    try:
        config = path / "config.json"
        return config.absolute() if config.is_file() else None
    except (OSError, ValueError):
        return None
