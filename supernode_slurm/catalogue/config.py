"""A model from the ``config.json`` that is published with it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from ..errors import ConfigError, Problem, Where
from .family import FAMILIES, Family, counted
from .model import LatentAttention, Mixture, Model

_MAX_BYTES = 1 << 20
_MAX_DIMENSION = 1 << 24
_MAX_LAYERS = 1 << 12
_UNSAID: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": 4096},
    "qwen2": {"use_sliding_window": False},
    "qwen2_moe": {"use_sliding_window": False},
    "qwen3": {"use_sliding_window": False},
    "qwen3_moe": {"use_sliding_window": False},
    "gemma2": {"sliding_window": 4096},
    # Published configurations of this type leave out what is as in the class.
    "gemma3_text": {
        "sliding_window": 4096,
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
    "gpt_oss": {"sliding_window": 128},
}
"""Defaults of transformers' classes that are not those of the others, by ``model_type``."""


def model_of_config(path: Path) -> Model:
    """Return the model that a ``config.json`` describes, named after its directory.

    Raises ``ConfigError`` with all that is wrong.
    """
    raw = _text_part(_read(path))
    kind = str(raw.get("model_type"))
    if kind not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ConfigError.one(
            str(path), f"model_type {kind[:40]!r} is not known", f"known: {known}"
        )
    reader = _Reader(path, {**_UNSAID.get(kind, {}), **raw})
    family = _family(reader, kind)
    model = _gpt2(reader) if kind == "gpt2" else _common(reader, family)
    positions = reader.integer("n_positions") if kind == "gpt2" else 0
    if reader.problems:
        raise ConfigError(reader.problems)
    return counted(model, family, positions)


def _text_part(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the decoder's part of a model that sees images too; others as they are."""
    part = raw.get("text_config")
    if raw.get("model_type") != "gemma3" or not isinstance(part, dict):
        return raw
    outside = {key: raw[key] for key in ("_name_or_path", "tie_word_embeddings") if key in raw}
    return {**outside, **part, "model_type": "gemma3_text"}


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

    def integer(self, key: str, default: int | None = None, most: int = _MAX_DIMENSION) -> int:
        """Return a positive integer, or the default in place of what is missing or null."""
        value = self.raw.get(key)
        if value is None and default is not None:
            return default
        if type(value) is int and (0 < value <= most or value == default):
            return value
        what = f"{key} must be a positive integer, got {str(value)[:40]!r}"
        if value is None:
            what = f"{key} is missing"
        self.wrong(what)
        return 1

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw.get(key, default)
        if not isinstance(value, bool):
            self.wrong(f"{key} must be true or false, got {str(value)[:40]!r}")
        return bool(value)

    def indexes(self, key: str) -> frozenset[int]:
        value = self.raw.get(key) or []
        if not isinstance(value, list) or any(type(item) is not int for item in value):
            self.wrong(f"{key} must be a list of integers, got {str(value)[:40]!r}")
            return frozenset()
        return frozenset(value)

    def wrong(self, what: str) -> None:
        self.problems.append(Problem(Where(str(self.path)), what))


def _family(reader: _Reader, kind: str) -> Family:
    """Return the family with what the configuration itself decides."""
    family = FAMILIES[kind]
    if family.asks_bias:
        biased = reader.flag("attention_bias", family.qkv_bias)
        family = dataclasses.replace(family, qkv_bias=biased, out_bias=biased)
    if kind == "llama":
        family = dataclasses.replace(family, mlp_bias=reader.flag("mlp_bias", False))
    if kind == "qwen2_moe":
        family = dataclasses.replace(family, qkv_bias=reader.flag("qkv_bias", True))
    return family


def _common(reader: _Reader, family: Family) -> Model:
    hidden, heads = reader.integer("hidden_size"), reader.integer("num_attention_heads")
    latent = _latent(reader) if family.latent else None
    usual = family.head_dim or max(hidden // heads, 1)
    dim = latent.plain_dim + latent.rotary_dim if latent else reader.integer("head_dim", usual)
    layers = reader.integer("num_hidden_layers", most=_MAX_LAYERS)
    window, window_layers = _window(reader, family, layers)
    return Model(
        name=reader.name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=reader.integer("num_key_value_heads", heads),
        head_dim=dim,
        ffn=reader.integer("intermediate_size"),
        vocab=reader.integer("vocab_size"),
        gated=family.gated,
        tied=reader.flag("tie_word_embeddings", family.tied),
        params=0,
        latent=latent,
        mixture=_mixture(reader, family.mixture, layers),
        mtp=reader.integer("num_nextn_predict_layers", 0),
        window=window,
        window_layers=window_layers,
    )


def _window(reader: _Reader, family: Family, layers: int) -> tuple[int, int]:
    """Return the tokens of a sliding window and the layers that have it."""
    if not family.window or not reader.flag("use_sliding_window", True):
        return 0, 0
    window = reader.integer("sliding_window", 0)
    count = _window_layers(reader, family, layers) if window else 0
    return (window, count) if count else (0, 0)


def _window_layers(reader: _Reader, family: Family, layers: int) -> int:
    kinds = reader.raw.get("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list) or len(kinds) != layers:
            reader.wrong(f"layer_types must be a list of {layers}, one for each layer")
            return 0
        return kinds.count("sliding_attention")
    if family.window == "every":
        return layers
    if family.window == "pattern":
        pattern = reader.integer("sliding_window_pattern", family.window_pattern)
        return layers - layers // reader.integer("_sliding_window_pattern", pattern)
    full = min(reader.integer("max_window_layers", 28), layers)
    return layers - full if family.window == "late" else (full + 1) // 2


def _latent(reader: _Reader) -> LatentAttention:
    # null says that queries are not compressed; a missing rank says nothing.
    compressed = reader.raw.get("q_lora_rank", 0) is not None
    return LatentAttention(
        query_rank=reader.integer("q_lora_rank") if compressed else 0,
        kv_rank=reader.integer("kv_lora_rank"),
        plain_dim=reader.integer("qk_nope_head_dim"),
        rotary_dim=reader.integer("qk_rope_head_dim"),
        value_dim=reader.integer("v_head_dim"),
    )


def _mixture(reader: _Reader, named: str, layers: int) -> Mixture | None:
    """Return the experts; which layers are dense is said in three ways."""
    if not named:
        return None
    key = {"mixtral": "num_local_experts", "qwen": "num_experts", "deepseek": "n_routed_experts"}
    experts, picked = reader.integer(key[named]), reader.integer("num_experts_per_tok")
    if picked > experts:
        reader.wrong(f"num_experts_per_tok is {picked}, more than {key[named]}, {experts}")
    if named == "mixtral":
        return Mixture(experts, picked, reader.integer("intermediate_size"))
    ffn = reader.integer("moe_intermediate_size")
    if named == "qwen":
        shared = reader.integer("shared_expert_intermediate_size", 0)
        step, only = reader.integer("decoder_sparse_step", 1), reader.indexes("mlp_only_layers")
        dense = [index for index in range(layers) if index in only or (index + 1) % step]
    else:
        shared = ffn * reader.integer("n_shared_experts", 0)
        step, first = (
            reader.integer("moe_layer_freq", 1),
            reader.integer("first_k_dense_replace", 0),
        )
        dense = [index for index in range(layers) if index < first or index % step]
    return Mixture(experts, picked, ffn, shared, tuple(dense))


def _gpt2(reader: _Reader) -> Model:
    hidden, heads = reader.integer("n_embd"), reader.integer("n_head")
    return Model(
        name=reader.name,
        layers=reader.integer("n_layer", most=_MAX_LAYERS),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=max(hidden // heads, 1),
        ffn=reader.integer("n_inner", 4 * hidden),
        vocab=reader.integer("vocab_size"),
        gated=False,
        tied=reader.flag("tie_word_embeddings", True),
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
