"""The models that people train, with exact parameter counts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .names import UnknownName, fold, packaged


@dataclass(frozen=True, slots=True)
class Family:
    """What the models of one ``model_type`` share."""

    gated: bool = True
    tied: bool = False
    qkv_bias: bool = False
    biases: bool = False
    """Every linear layer and norm has a bias."""
    qk_norm: bool = False
    norms: int = 2
    """Norms per layer."""


FAMILIES = {
    "llama": Family(),
    "mistral": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, norms=4),
    "gpt2": Family(gated=False, tied=True, qkv_bias=True, biases=True),
    "gpt_neox": Family(gated=False, qkv_bias=True, biases=True),
}
"""Dense decoder models whose parameters the formula below counts exactly."""

MOE_FAMILIES = ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3")


@dataclass(frozen=True, slots=True)
class Model:
    """The dimensions of a decoder model."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool
    """The MLP has three matrices, not two."""
    tied: bool
    """The output head is the embedding's table."""
    attention_bias: bool
    params: int
    """Exact; tied tables once."""
    experts: int = 0
    """Experts of a mixture, 0 for a dense model."""

    @property
    def attention_width(self) -> int:
        """Return the width of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Return the width of all key heads, which is that of the value heads."""
        return self.kv_heads * self.head_dim

    @property
    def table_params(self) -> int:
        """Return the parameters of the embedding, which is the size of the head too."""
        return self.vocab * self.hidden

    @property
    def layer_params(self) -> float:
        """Return the mean parameters of one layer; the final norm is spread over them."""
        tables = self.table_params * (1 if self.tied else 2)
        return (self.params - tables) / self.layers


@cache
def models() -> tuple[Model, ...]:
    """Return all models of the catalogue."""
    return tuple(map(_model, packaged("models.yaml")["models"]))


def find_model(name_or_path: str) -> Model:
    """Return a model by its name, or from its ``config.json`` or the directory of it.

    A name is whole (``meta-llama/Meta-Llama-3-70B``) or short (``llama-3-70b``), with or
    without the ending of a tuned variant. Raises ``UnknownName`` with the nearest names,
    ``ConfigError`` for a file that is no model.
    """
    path = Path(name_or_path)
    if name_or_path.endswith(".json"):
        return _of_config(path)
    if (path / "config.json").is_file():
        return _of_config(path / "config.json")
    found = _by_name().get(_short(name_or_path))
    if found is None:
        short = [item.name.split("/")[1].removeprefix("Meta-") for item in models()]
        raise UnknownName("model", name_or_path, short)
    return found


def count_params(model: Model, family: Family, positions: int = 0) -> int:
    """Return the exact number of parameters of a dense model."""
    hidden, width, kv_width = model.hidden, model.attention_width, model.kv_width
    attention = 2 * hidden * (width + kv_width)
    if model.attention_bias:
        attention += width + 2 * kv_width
    if family.biases:
        attention += hidden
    if family.qk_norm:
        attention += 2 * model.head_dim
    matrices = 3 if model.gated else 2
    mlp = matrices * hidden * model.ffn + (model.ffn + hidden if family.biases else 0)
    norm = hidden * (2 if family.biases else 1)
    tables = model.table_params * (1 if model.tied else 2) + positions * hidden
    return model.layers * (attention + mlp + family.norms * norm) + norm + tables


def _of_config(path: Path) -> Model:
    from .config import model_of_config

    return model_of_config(path)


@cache
def _by_name() -> dict[str, Model]:
    found = {}
    for raw, model in zip(packaged("models.yaml")["models"], models(), strict=True):
        for name in (model.name, *raw.get("aliases", ())):
            found[_short(name)] = model
    return found


def _short(name: str) -> str:
    """Return a name without its owner and without the endings of tuned variants."""
    text = name.rsplit("/", 1)[-1].casefold().removeprefix("meta-")
    return fold(re.sub(r"(-(hf|instruct|base|chat|it))+$", "", text))


def _model(raw: dict[str, Any]) -> Model:
    family = FAMILIES.get(raw["type"], Family())
    heads = raw["heads"]
    return Model(
        name=raw["name"],
        layers=raw["layers"],
        hidden=raw["hidden"],
        heads=heads,
        kv_heads=raw.get("kv_heads", heads),
        head_dim=raw.get("head_dim", raw["hidden"] // heads),
        ffn=raw["ffn"],
        vocab=raw["vocab"],
        gated=family.gated,
        tied=raw.get("tied", family.tied),
        attention_bias=family.qkv_bias,
        params=raw["params"],
        experts=raw.get("experts", 0),
    )
