"""What the models of one type share, and the exact number of parameters that follows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from .model import Extras, LatentAttention, Model


@dataclass(frozen=True, slots=True)
class Family:
    """What the models of one ``model_type`` share, where their configuration says no more.

    As in the classes of Hugging Face's transformers.
    """

    gated: bool = True
    tied: bool = False
    head_dim: int = 0
    """0: the width divided by the heads."""
    qkv_bias: bool = False
    out_bias: bool = False
    """Of the attention's output."""
    asks_bias: bool = False
    """``attention_bias`` of the configuration decides on both."""
    mlp_bias: bool = False
    norm_bias: bool = False
    qk_norm: bool = False
    norms: int = 2
    """Norms per layer."""
    latent: bool = False
    mixture: str = ""
    """How the configuration names the experts: mixtral, qwen or deepseek."""
    shared_gate: bool = False
    """A gate weighs the shared experts."""
    router_bias: bool = False
    """One per expert, also where it only balances their load (DeepSeek-V3, arXiv 2412.19437)."""
    expert_bias: bool = False
    sinks: bool = False
    """Each head learns the weight of attending to nothing (gpt-oss, arXiv 2508.10925)."""
    window: str = ""
    """Layers of sliding windows where ``layer_types`` is not said: every, late (from
    ``max_window_layers`` on), early (every other one before it), or pattern (all but the last
    of each ``window_pattern``). Other types ignore ``sliding_window``."""
    window_pattern: int = 2


_DEEPSEEK = Family(asks_bias=True, latent=True, mixture="deepseek")
_DEEPSEEK_V3 = Family(asks_bias=True, latent=True, mixture="deepseek", router_bias=True)

FAMILIES = {
    "llama": Family(asks_bias=True),
    "mistral": Family(window="every"),
    "mixtral": Family(mixture="mixtral", window="every"),
    "qwen2": Family(qkv_bias=True, window="late"),
    "qwen2_moe": Family(qkv_bias=True, mixture="qwen", shared_gate=True, window="early"),
    "qwen3": Family(asks_bias=True, qk_norm=True, head_dim=128, window="late"),
    "qwen3_moe": Family(asks_bias=True, qk_norm=True, mixture="qwen", window="every"),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "gemma": Family(asks_bias=True, tied=True, head_dim=256),
    "gemma2": Family(asks_bias=True, tied=True, head_dim=256, norms=4, window="pattern"),
    "gemma3_text": Family(
        asks_bias=True,
        tied=True,
        head_dim=256,
        norms=4,
        qk_norm=True,
        window="pattern",
        window_pattern=6,
    ),
    "gpt_oss": Family(
        head_dim=64,
        qkv_bias=True,
        out_bias=True,
        asks_bias=True,
        mixture="mixtral",
        router_bias=True,
        expert_bias=True,
        sinks=True,
        window="pattern",
    ),
    "gpt2": Family(
        gated=False, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True
    ),
    "gpt_neox": Family(
        gated=False, qkv_bias=True, out_bias=True, asks_bias=True, mlp_bias=True, norm_bias=True
    ),
}
"""Decoder models whose parameters ``counted`` counts exactly."""


def counted(model: Model, family: Family, positions: int = 0) -> Model:
    """Return the model with its exact parameters; ``positions`` have a table if learned."""
    hidden = model.hidden
    extras = Extras(
        attention=_attention_extras(model, family),
        mlp=(2 if model.gated else 1) * model.ffn + hidden if family.mlp_bias else 0,
        expert=2 * model.mixture.ffn + hidden if model.mixture and family.expert_bias else 0,
        router=model.mixture.experts if model.mixture and family.router_bias else 0,
        shared=hidden if model.mixture and family.shared_gate else 0,
        outside=positions * hidden + (hidden if family.norm_bias else 0),
    )
    model = dataclasses.replace(model, extras=extras)
    return dataclasses.replace(model, params=model.parts_params)


def _attention_extras(model: Model, family: Family) -> int:
    norms = family.norms * (2 if family.norm_bias else 1) - 2
    count = norms * model.hidden + (model.hidden if family.out_bias else 0)
    count += model.heads if family.sinks else 0
    if model.latent is not None:
        return count + _latent_extras(model.latent, family)
    if family.qkv_bias:
        count += model.attention_width + 2 * model.kv_width
    return count + (2 * model.head_dim if family.qk_norm else 0)


def _latent_extras(latent: LatentAttention, family: Family) -> int:
    """Count the norms of both ranks, and biases, which only the way down has."""
    norms = latent.query_rank + latent.kv_rank
    down = latent.query_rank + latent.kv_rank + latent.rotary_dim
    return norms + (down if family.qkv_bias else 0)
