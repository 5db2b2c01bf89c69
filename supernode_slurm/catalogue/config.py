"""A model from the ``config.json`` that is published with it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from ..errors import ConfigError, PlanError, Problem, Where
from .model import FAMILIES, MOE_FAMILIES, Model, count_params

_MAX_BYTES = 1 << 20
_MAX_DIMENSION = 1 << 24


def model_of_config(path: Path) -> Model:
    """Return the model that a ``config.json`` describes, named after its directory.

    Raises ``ConfigError`` with all that is wrong, ``PlanError`` for a mixture of experts.
    """
    raw = _read(path)
    kind = str(raw.get("model_type"))
    if kind in MOE_FAMILIES:
        raise PlanError(f"{path}: model_type {kind!r} is a mixture of experts: not planned yet")
    if kind not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ConfigError.one(
            str(path), f"model_type {kind[:40]!r} is not known", f"known: {known}"
        )
    reader = _Reader(path, raw)
    model = _gpt2(reader) if kind == "gpt2" else _common(reader, kind)
    if reader.problems:
        raise ConfigError(reader.problems)
    positions = reader.integer("n_positions") if kind == "gpt2" else 0
    params = count_params(model, FAMILIES[kind], positions)
    return dataclasses.replace(model, params=params)


class _Reader:
    """Reads numbers and collects what is wrong with them."""

    def __init__(self, path: Path, raw: dict[str, Any]) -> None:
        self.path = path
        self.raw = raw
        self.problems: list[Problem] = []

    @property
    def name(self) -> str:
        folder = self.path.resolve().parent.name
        return str(self.raw.get("_name_or_path") or folder or self.path.stem)

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.raw.get(key)
        if value is None and default is not None:
            return default
        if type(value) is int and 0 < value <= _MAX_DIMENSION:
            return value
        what = f"{key} must be a positive integer, got {str(value)[:40]!r}"
        if value is None:
            what = f"{key} is missing"
        self.problems.append(Problem(Where(str(self.path)), what))
        return 1

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw.get(key, default)
        if not isinstance(value, bool):
            what = f"{key} must be true or false, got {str(value)[:40]!r}"
            self.problems.append(Problem(Where(str(self.path)), what))
        return bool(value)


def _common(reader: _Reader, kind: str) -> Model:
    family = FAMILIES[kind]
    hidden, heads = reader.integer("hidden_size"), reader.integer("num_attention_heads")
    return Model(
        name=reader.name,
        layers=reader.integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=reader.integer("num_key_value_heads", heads),
        head_dim=reader.integer("head_dim", max(hidden // heads, 1)),
        ffn=reader.integer("intermediate_size"),
        vocab=reader.integer("vocab_size"),
        gated=family.gated,
        tied=reader.flag("tie_word_embeddings", family.tied),
        attention_bias=reader.flag("attention_bias", family.qkv_bias),
        params=0,
    )


def _gpt2(reader: _Reader) -> Model:
    hidden, heads = reader.integer("n_embd"), reader.integer("n_head")
    return Model(
        name=reader.name,
        layers=reader.integer("n_layer"),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=max(hidden // heads, 1),
        ffn=reader.integer("n_inner", 4 * hidden),
        vocab=reader.integer("vocab_size"),
        gated=False,
        tied=reader.flag("tie_word_embeddings", True),
        attention_bias=True,
        params=0,
    )


def _read(path: Path) -> dict[str, Any]:
    todo = "give the config.json of a model"
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError.one(str(path), error.strerror or str(error), todo) from error
    except UnicodeDecodeError as error:
        raise ConfigError.one(str(path), "not UTF-8 text", todo) from error
    if len(text) > _MAX_BYTES:
        raise ConfigError.one(str(path), "larger than 1 MiB", todo)
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply")
        place = Where(str(path), getattr(error, "lineno", 0), getattr(error, "colno", 0))
        raise ConfigError.one(place, f"not JSON: {reason}", todo) from error
    if not isinstance(raw, dict):
        raise ConfigError.one(str(path), "not a JSON object", todo)
    return raw
