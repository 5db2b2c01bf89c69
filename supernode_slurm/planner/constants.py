"""The constants of the cost model: unit, meaning and source of each.

None of them depends on a model, a framework's release or a single measurement. Figures
without another source come from published training runs (Narayanan et al. 2021, Korthikanti
et al. 2022, MegaScale 2024, the Megatron-Bridge, torchtitan and llm-foundry tables).
"""

from __future__ import annotations

MATMUL_REACHED = 0.9
"""Share of the best measured matrix-multiply rate that the shapes of a model reach.

The best rate is that of the one best shape. Set once from the common bias of all A100 runs
of the published measurements (-11 % without it), never from a single row.
"""

NETWORK_SHARE = 0.69
"""Reached share of a network card's rate in large collectives (runs of 2023 to 2026)."""

SCALE_UP_SHARE = 0.81
"""Reached share of the vendor's scale-up rate (NVLink, xGMI ...)."""

HCCS_SHARE = 0.48
"""The same on Ascend's HCCS, where the vendor adds links that one ring cannot all use.

A single link of HCCS is taken at ``SCALE_UP_SHARE``.
"""

COLLECTIVE_S = 25e-6
"""Start of one collective or transfer, seconds."""

STAGED_GBS = 1.0
"""Per device, between vendors whose libraries do not meet: through host memory and TCP.

An order of magnitude, not measured: gloo copies to the host, sends over one socket and
copies back, and a socket carries one to a few GB/s.
"""

TENSOR_EXPOSED = 0.8
"""Share of tensor-parallel traffic that computation does not hide.

Without a framework's special overlap 0.86 (Megatron 2021) and 0.67 (torchtitan) were found.
"""

OVERLAP = 0.8
"""Share of data-parallel traffic that can run under computation (FSDP runs: 0.80)."""

MEMORY_SHARE = 0.8
"""Reached share of memory bandwidth in element-wise kernels (FlagPerf C550: 0.77)."""

ATTENTION_SHARE = {
    "a100": 0.36,
    "a800": 0.36,
    "h100": 0.6,
    "h200": 0.6,
    "h800": 0.6,
    "gh200": 0.6,
    "b200": 0.49,
    "gb200": 0.49,
    "b300": 0.49,
    "gb300": 0.49,
}
"""Fused causal attention, forward and backward, as a share of the dense bf16 peak."""

ATTENTION_SHARE_ELSEWHERE = 0.3
"""The same where no run shows it: Ascend 910B reaches 0.47 only on long sequences."""

LAUNCH_S = 0.4e-3
"""Least time of a layer, forward and backward, which the host needs to start its kernels.

A count, not measured: about 25 kernels forward and 50 backward at 5 us each.
"""

SCORE_BYTES = 13
"""Memory traffic per element of unfused attention scores, forward: two products, scaling
and mask, softmax, dropout, in 16 bit."""

LOGIT_TRAFFIC_BYTES = 16
"""Memory traffic per logit of a fused cross entropy in 32 bit, forward and backward.

The least that a kernel can do: 16-bit logits are read for the sum and for the softmax
(2 + 2), the softmax is written (4), read (4) and turned into the gradient (4).
"""

LOGIT_BYTES = 8
"""Memory per logit: 16-bit logits (2), 32-bit softmax (4), 16-bit gradient (2).

Megatron's copy in 32 bit becomes the softmax and then the gradient in place
(vocab_parallel_cross_entropy). PyTorch's own cross entropy keeps softmax and gradient apart,
12 bytes by the same count: plans for torch, torchtitan and deepspeed are optimistic here.
"""

OPTIMIZER_TRAFFIC_BYTES = 34
"""Memory traffic per parameter of an Adam step with 32-bit master weights."""

WEIGHT_BYTES, GRADIENT_BYTES, ADAM_BYTES = 2, 4, 12
"""Memory per parameter: 16-bit weight, 32-bit gradient, master weight and two moments.

In fp16 the gradient takes 2 bytes and the optimiser 4 more: 20 and 4 + 16 / dp instead of
18 and 6 + 12 / dp (Megatron-LM docs/user-guide/features/dist_optimizer.md).
"""

USABLE_MEMORY = 60.32 / 64
"""Share of a card's memory that a training process gets: 60.32 GiB of 64 on Atlas 800T A2
(FlagOpen/FlagPerf@1b5a030); the rest is the driver's, the context's and the libraries'."""

PUBLISHED_ERROR = {
    "a100-sxm-40g": (57, 0.060),
    "a100-sxm-80g": (58, 0.101),
    "a800-sxm-80g": (4, 0.124),
    "ascend-910b2": (15, 0.133),
    "h100-sxm": (35, 0.261),
    "h100-sxm-96g": (3, 0.238),
}
"""By card: dense published runs that ``benchmarks/accuracy.py`` scores, and the mean of
|predicted / measured - 1| of their step time. The constants above were set with these runs in
sight; a card that is not here was compared with no run.
"""
