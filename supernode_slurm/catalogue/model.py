"""The dimensions of a decoder model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values in low rank."""

    query_rank: int
    """0: queries are not compressed."""
    kv_rank: int
    plain_dim: int
    """Of a head's query and key, the part without rotary position."""
    rotary_dim: int
    """The part with it, of which all heads share one key."""
    value_dim: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """Experts in place of the MLP, in all layers but the dense ones."""

    experts: int
    """Those that the router picks from."""
    per_token: int
    """Those that it picks."""
    ffn: int
    """Width of one expert."""
    shared_ffn: int = 0
    """Width of the experts that each token passes, together."""
    dense_layers: tuple[int, ...] = ()
    """Indexes of the layers with an MLP of the model's own width."""


@dataclass(frozen=True, slots=True)
class Model:
    """The dimensions of a decoder model."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    """Of a query and of a key."""
    ffn: int
    """Of a dense layer."""
    vocab: int
    gated: bool
    """The MLP has three matrices, not two."""
    tied: bool
    """The output head is the embedding's table."""
    params: int
    """Exact; tied tables once, the modules of multi-token prediction left out."""
    latent: LatentAttention | None = None
    mixture: Mixture | None = None

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

    @property
    def mixture_layers(self) -> int:
        """Return the number of layers with experts."""
        return 0 if self.mixture is None else self.layers - len(self.mixture.dense_layers)

    @property
    def params_active(self) -> int:
        """Return the parameters that one token meets: all but the experts not picked."""
        if self.mixture is None:
            return self.params
        idle = (self.mixture.experts - self.mixture.per_token) * self.expert_params
        return self.params - self.mixture_layers * idle

    @property
    def expert_params(self) -> int:
        """Return the parameters of one expert, 0 for a dense model."""
        return 0 if self.mixture is None else 3 * self.hidden * self.mixture.ffn

    @property
    def attention(self) -> str:
        """Return how heads share keys and values: MHA, GQA, MQA or MLA."""
        if self.latent is not None:
            return "MLA"
        if self.kv_heads == self.heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"
