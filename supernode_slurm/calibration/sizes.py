"""The model of a recorded run, from the sizes that its source prints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..catalogue import Mixture, Model, models
from ..errors import PlanError
from .words import attention_of

VOCAB = 64_000
"""Where a run does not print its vocabulary: between Llama-2's 32,000 and Llama-3's 128,256."""


def model_of(raw: dict[str, Any]) -> tuple[Model, list[str]]:
    """Return the model of a run, and what was assumed of it."""
    heads, hidden, layers = raw["heads"], raw["hidden"], raw["layers"]
    attention = attention_of(raw.get("attention"), layers)
    latent, gated = attention.latent, bool(raw.get("gated_mlp"))
    if not latent and not raw.get("head_dim") and hidden % heads:
        raise PlanError(f"model.heads {heads} does not divide model.hidden {hidden}: give head_dim")
    ffn = raw.get("ffn_hidden") or 4 * hidden
    tied = raw.get("tied")
    model = Model(
        name=str(raw.get("name") or "model"),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=raw.get("kv_heads") or (1 if attention.one_key else heads),
        head_dim=latent.plain_dim + latent.rotary_dim
        if latent
        else raw.get("head_dim") or hidden // heads,
        ffn=ffn,
        vocab=raw.get("vocab") or VOCAB,
        gated=gated,
        tied=not gated if tied is None else tied,
        params=0,
        latent=latent,
        mixture=_mixture(raw, ffn),
        mtp=raw.get("mtp") or 0,
        window=attention.window,
        window_layers=attention.window_layers,
    )
    if heads % model.kv_heads:
        raise PlanError(f"model.kv_heads {model.kv_heads} does not divide model.heads {heads}")
    known = None if attention.latent or attention.window else _known(model, raw)
    if known is None:
        notes = [*_open(raw, model), attention.assumed]
    else:
        notes = _differing(model, known)
        model = replace(
            known,
            name=model.name,
            mtp=model.mtp,
            tied=known.tied if tied is None else tied,
        )
    return replace(model, params=model.parts_params), [note for note in notes if note]


def _open(raw: dict[str, Any], model: Model) -> list[str]:
    """Return the sizes that are not printed, and what they are taken for."""
    taken = {
        "kv_heads": model.kv_heads,
        "ffn_hidden": model.ffn,
        "vocab": model.vocab,
        "gated_mlp": "no",
    }
    notes = [
        f"{name} {value}: not printed" for name, value in taken.items() if raw.get(name) is None
    ]
    if model.mixture and not raw.get("moe_ffn_hidden"):
        notes.append(f"moe_ffn_hidden {model.mixture.ffn}: not printed")
    if model.mixture and not raw.get("topk"):
        notes.append("topk 1: not printed")
    return notes


def _differing(model: Model, known: Model) -> list[str]:
    """Return a note if the catalogue's model says more than the row."""
    names = ("window", "latent", "mixture", "gated", "tied", "head_dim")
    more = [name for name in names if getattr(model, name) != getattr(known, name)]
    return [f"{' and '.join(more)} of {known.name}, the only model of these sizes"] if more else []


def _known(model: Model, raw: dict[str, Any]) -> Model | None:
    """Return the catalogue's model where exactly one kind has all printed sizes.

    Its facts were checked against its number of parameters; a row of a table rarely prints
    windows, shared experts or the size of a head.
    """
    found = [item for item in models() if _size(item) == _size(model)]
    kinds = {
        (item.window, item.latent, item.mixture, item.gated, item.tied, item.head_dim)
        for item in found
    }
    return found[0] if len(kinds) == 1 and raw.get("vocab") else None


def _size(model: Model) -> tuple[int, ...]:
    experts = model.mixture.experts if model.mixture else 0
    sizes = (model.layers, model.hidden, model.heads, model.kv_heads, model.ffn, model.vocab)
    return (*sizes, experts)


def _mixture(raw: dict[str, Any], ffn: int) -> Mixture | None:
    experts, chosen = raw.get("experts"), raw.get("topk") or 1
    if not experts:
        return None
    if chosen > experts:
        raise PlanError(f"model.topk {chosen} is more than model.experts {experts}")
    dense = raw.get("dense_first_layers") or 0
    if dense >= raw["layers"]:
        raise PlanError(f"model.dense_first_layers {dense} leaves none of {raw['layers']} layers")
    width = raw.get("moe_ffn_hidden") or ffn
    return Mixture(
        experts=experts,
        per_token=chosen,
        ffn=width,
        shared_ffn=(raw.get("shared_experts") or 0) * width,
        dense_layers=tuple(range(dense)),
    )
