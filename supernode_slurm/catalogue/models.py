"""The models that people train, by name or from their own files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from .config import model_of_config
from .dimensions import is_dimensions, model_from_dimensions
from .family import FAMILIES, counted
from .model import LatentAttention, Mixture, Model
from .names import UnknownName, fold, packaged


@cache
def models() -> tuple[Model, ...]:
    """Return all models of the catalogue."""
    return tuple(map(_model, packaged("models.yaml")["models"]))


def find_model(text: str) -> Model:
    """Return a model by its name, its dimensions, or from its ``config.json`` or its directory.

    A name is whole (``meta-llama/Meta-Llama-3-70B``) or short (``llama-3-70b``), with or
    without the ending of a tuned variant. Raises ``UnknownName`` with the nearest names,
    ``ConfigError`` for a file that is no model, ``UsageError`` for wrong dimensions.
    """
    if is_dimensions(text):
        return model_from_dimensions(text)
    path = Path(text)
    if text.endswith(".json"):
        return model_of_config(path)
    if (path / "config.json").is_file():
        return model_of_config(path / "config.json")
    found = _by_name().get(_short(text))
    if found is None:
        short = [item.name.split("/")[1].removeprefix("Meta-") for item in models()]
        raise UnknownName("model", text, short)
    return found


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
    family = FAMILIES[raw["type"]]
    heads, dim = raw["heads"], raw.get("head_dim", family.head_dim or raw["hidden"] // raw["heads"])
    latent = LatentAttention(**raw["latent"]) if "latent" in raw else None
    model = Model(
        name=raw["name"],
        layers=raw["layers"],
        hidden=raw["hidden"],
        heads=heads,
        kv_heads=raw.get("kv_heads", heads),
        head_dim=latent.plain_dim + latent.rotary_dim if latent else dim,
        ffn=raw["ffn"],
        vocab=raw["vocab"],
        gated=family.gated,
        tied=raw.get("tied", family.tied),
        params=0,
        latent=latent,
        mixture=_mixture(raw["mixture"]) if "mixture" in raw else None,
        mtp=raw.get("mtp", 0),
        window=raw.get("window", 0),
        window_layers=raw.get("window_layers", 0),
    )
    return counted(model, family, raw.get("positions", 0))


def _mixture(raw: dict[str, Any]) -> Mixture:
    return Mixture(**{**raw, "dense_layers": tuple(raw.get("dense_layers", ()))})
