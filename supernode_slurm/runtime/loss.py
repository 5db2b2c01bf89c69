"""The weight of a rank's loss where ranks compute unequal numbers of tokens.

Python 3.8, standard library only.
"""

from __future__ import annotations

import math

from .exchange import SumOverRanks


def loss_scale(local_tokens: float, sum_over_ranks: SumOverRanks, averages: bool = True) -> float:
    """Return what the sum of the losses of this rank's tokens is multiplied by.

    Then the gradient after the framework's reduction is that of the mean loss over all tokens
    of the global batch. ``local_tokens`` are those that count in the loss, of all micro-steps
    of one optimizer step; the exchange runs over the ranks whose gradients are reduced.
    A framework that averages over D ranks (DDP, FSDP2 and DeepSpeed by default) returns
    1/D sum_r g_r, so the scale is D / all tokens; one that sums (FSDP2 after
    ``set_gradient_divide_factor(1)``, DeepSpeed with ``gradient_allreduce_op: sum``,
    ``averages=False``) needs 1 / all tokens. Zero where no rank has a token: the sum of no
    losses is zero. Raises ``ValueError`` for a count that is none.
    """
    tokens = float(local_tokens)
    if not math.isfinite(tokens) or tokens < 0:
        raise ValueError(f"local_tokens is {local_tokens}; give the number of tokens in the loss")
    total, ranks = sum_over_ranks([tokens, 1.0])
    if not total:
        return 0.0
    return (ranks if averages else 1.0) / total
