"""What the models of one type share, and the exact number of parameters that follows."""

from __future__ import annotations

from dataclasses import dataclass

from .model import LatentAttention, Mixture, Model


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
    """A correction per expert balances their load (DeepSeek-V3, arXiv 2412.19437)."""


_DEEPSEEK = Family(asks_bias=True, latent=True, mixture="deepseek")
_DEEPSEEK_V3 = Family(asks_bias=True, latent=True, mixture="deepseek", router_bias=True)

FAMILIES = {
    "llama": Family(asks_bias=True),
    "mistral": Family(),
    "mixtral": Family(mixture="mixtral"),
    "qwen2": Family(qkv_bias=True),
    "qwen2_moe": Family(qkv_bias=True, mixture="qwen", shared_gate=True),
    "qwen3": Family(asks_bias=True, qk_norm=True, head_dim=128),
    "qwen3_moe": Family(asks_bias=True, qk_norm=True, mixture="qwen"),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "gemma": Family(asks_bias=True, tied=True, head_dim=256),
    "gemma2": Family(asks_bias=True, tied=True, head_dim=256, norms=4),
    "gpt2": Family(
        gated=False, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True
    ),
    "gpt_neox": Family(
        gated=False, qkv_bias=True, out_bias=True, asks_bias=True, mlp_bias=True, norm_bias=True
    ),
}
"""Decoder models whose parameters ``count_params`` counts exactly."""


def count_params(model: Model, family: Family, positions: int = 0) -> int:
    """Return the exact number of parameters; ``positions`` have a table if they are learned."""
    hidden = model.hidden
    norm = hidden * (2 if family.norm_bias else 1)
    attention = _plain_attention(model, family)
    if model.latent is not None:
        attention = _latent_attention(model, model.latent, family)
    attention += hidden if family.out_bias else 0
    inputs = 2 if model.gated else 1
    mlp = (inputs + 1) * hidden * model.ffn
    mlp += inputs * model.ffn + hidden if family.mlp_bias else 0
    mixture = _mixture(model, model.mixture, family) if model.mixture else 0
    tables = model.table_params * (1 if model.tied else 2) + positions * hidden
    return (
        model.layers * (attention + family.norms * norm)
        + (model.layers - model.mixture_layers) * mlp
        + model.mixture_layers * mixture
        + norm
        + tables
    )


def _plain_attention(model: Model, family: Family) -> int:
    count = 2 * model.hidden * (model.attention_width + model.kv_width)
    if family.qkv_bias:
        count += model.attention_width + 2 * model.kv_width
    if family.qk_norm:
        count += 2 * model.head_dim
    return count


def _latent_attention(model: Model, latent: LatentAttention, family: Family) -> int:
    """Count matrices, the norms of both ranks, and biases, which only the way down has."""
    down = latent.kv_rank + latent.rotary_dim
    query = model.hidden * model.attention_width
    if latent.query_rank:
        query = latent.query_rank * (model.hidden + 1 + model.attention_width)
    key_value = model.hidden * down + latent.kv_rank
    key_value += latent.kv_rank * model.heads * (latent.plain_dim + latent.value_dim)
    out = model.heads * latent.value_dim * model.hidden
    return query + key_value + out + (latent.query_rank + down if family.qkv_bias else 0)


def _mixture(model: Model, mixture: Mixture, family: Family) -> int:
    count = mixture.experts * (model.expert_params + model.hidden)
    count += 3 * model.hidden * mixture.shared_ffn
    count += mixture.experts if family.router_bias else 0
    return count + (model.hidden if family.shared_gate else 0)
