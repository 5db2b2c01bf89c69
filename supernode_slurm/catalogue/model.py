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
class Extras:
    """Parameters beside the matrices, as a model's type and configuration have them."""

    attention: int = 0
    """Of one layer: biases, norms of heads and ranks, norms beyond two of the width, sinks."""
    mlp: int = 0
    """Biases of one dense MLP."""
    expert: int = 0
    """Biases of one expert."""
    router: int = 0
    """Biases of one router."""
    shared: int = 0
    """The gate of one layer's shared experts."""
    outside: int = 0
    """Outside the layers: learned positions, the bias of the final norm."""


@dataclass(frozen=True, slots=True)
class Model:
    """The dimensions of a decoder model.

    ``params`` is the sum of ``attention_params`` over all layers, ``dense_mlp_params`` over the
    dense ones, ``router_params``, ``shared_params`` and ``expert_params`` of each expert over
    the others, ``table_params`` (twice unless tied), and ``outside_params``.
    """

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
    extras: Extras = Extras()
    mtp: int = 0
    """Modules of multi-token prediction (DeepSeek-V3, arXiv 2412.19437)."""
    window: int = 0
    """Tokens that sliding-window attention sees, 0 for none."""
    window_layers: int = 0
    """Layers that see no more than the window."""

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
    def attention_params(self) -> int:
        """Return the parameters of one layer's attention and of all norms of that layer."""
        matrices = 2 * self.hidden * (self.attention_width + self.kv_width)
        if self.latent is not None:
            matrices = _latent_matrices(self, self.latent)
        return matrices + 2 * self.hidden + self.extras.attention

    @property
    def dense_mlp_params(self) -> int:
        """Return the parameters of one MLP of the model's own width."""
        return (3 if self.gated else 2) * self.hidden * self.ffn + self.extras.mlp

    @property
    def router_params(self) -> int:
        """Return the parameters of one layer's router, 0 for a dense model."""
        if self.mixture is None:
            return 0
        return self.hidden * self.mixture.experts + self.extras.router

    @property
    def shared_params(self) -> int:
        """Return the parameters of one layer's shared experts and their gate."""
        if self.mixture is None:
            return 0
        return 3 * self.hidden * self.mixture.shared_ffn + self.extras.shared

    @property
    def expert_params(self) -> int:
        """Return the parameters of one expert, 0 for a dense model."""
        if self.mixture is None:
            return 0
        return 3 * self.hidden * self.mixture.ffn + self.extras.expert

    @property
    def outside_params(self) -> int:
        """Return the parameters of the final norm and of learned positions."""
        return self.hidden + self.extras.outside

    @property
    def mtp_params(self) -> int:
        """Return the parameters of one module of multi-token prediction, which it has or not.

        A layer like the model's last, a projection of two widths to one, and three norms; the
        embedding and the head are the model's own.
        """
        last = self.layers - 1
        dense = self.mixture is None or last in self.mixture.dense_layers
        mlp = self.dense_mlp_params if dense else self._mixture_params
        return self.attention_params + mlp + self.hidden * (2 * self.hidden + 3)

    @property
    def parts_params(self) -> int:
        """Return the sum of all parts, which ``params`` is."""
        return (
            self.layers * self.attention_params
            + (self.layers - self.mixture_layers) * self.dense_mlp_params
            + self.mixture_layers * self._mixture_params
            + self.table_params * (1 if self.tied else 2)
            + self.outside_params
        )

    @property
    def _mixture_params(self) -> int:
        experts = 0 if self.mixture is None else self.mixture.experts
        return self.router_params + self.shared_params + experts * self.expert_params

    @property
    def attention(self) -> str:
        """Return how heads share keys and values: MHA, GQA, MQA or MLA."""
        if self.latent is not None:
            return "MLA"
        if self.kv_heads == self.heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"


def _latent_matrices(model: Model, latent: LatentAttention) -> int:
    query = model.hidden * model.attention_width
    if latent.query_rank:
        query = latent.query_rank * (model.hidden + model.attention_width)
    key_value = model.hidden * (latent.kv_rank + latent.rotary_dim)
    key_value += latent.kv_rank * model.heads * (latent.plain_dim + latent.value_dim)
    return query + key_value + model.heads * latent.value_dim * model.hidden
