"""The dimensions of a decoder model, and its exact number of parameters."""

from __future__ import annotations

from dataclasses import dataclass


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
