"""The constants of the cost model, in one table: unit, prior, bounds and source of each.

They are shares, rates and times of machines and software stacks. None knows a model, a layout or
a run. Values were fitted to published runs, each drawn to its prior (``calibration``;
docs/accuracy.md), ``SITE`` again to a site's own runs by ``sn calibrate --fit``. What a kernel
must read or write is counted where the equation stands, not here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant: its value, and what was known before any run was seen."""

    name: str
    value: float
    unit: str
    """``1`` is a share or a factor."""
    prior: float
    spread: float
    """Of the prior: standard deviation of the logarithm."""
    bounds: tuple[float, float]
    source: str
    """What it is; the evidence for its prior, and what its value absorbs besides; what ``neutral``
    stands on. A fit is an earlier one, with other equations."""
    neutral: float | None = None
    """What physics and other sources would say, where a prior stands on runs that the model is
    judged on, or was set when only those were known."""


# fmt: off
TABLE = (
    # Products of matrices.
    Constant("matmul_ampere", 0.9562, "1", 0.95, 0.08, (0.237, 1.2),
        "share of the card's best measured product that models' shapes reach, A100; one fixed "
        "shape over the best: 259.2 (FlagOpen/FlagPerf@1b5a030) of 271.2 TFLOP/s "
        "(stas00/ml-engineering@744d01e)"),
    Constant("matmul_hopper", 0.856, "1", 0.93, 0.08, (0.233, 1.2),
        "the same on Hopper; a fit of the rows of llm-foundry, torchtitan and Megatron-Bridge, "
        "lowered; neutral: mean of the other families' fits", neutral=0.86),
    Constant("matmul_blackwell", 0.7848, "1", 0.9, 0.1, (0.225, 1.2),
        "the same on Blackwell; a fit of the rows of Megatron-Bridge, lowered; neutral: as on "
        "Hopper", neutral=0.86),
    Constant("matmul_gb300", 1.273, "1", 1.05, 0.08, (0.35, 3.15),
        "GB300's over that; assumed with the rows of Megatron-Bridge in view: its own product was "
        "not measured. Presumably absorbs what a clock by the cube root of power (rates.py) says "
        "too little of; neutral: the rule of power holds", neutral=1.0),
    Constant("matmul_ascend", 0.9205, "1", 0.95, 0.08, (0.237, 1.2),
        "share of 304.3 TFLOP/s (FlagOpen/FlagPerf@1b5a030) on Ascend 910B; a fit of the rows of "
        "ModelLink, lowered; neutral: as on Hopper", neutral=0.86),
    Constant("matmul_turing", 0.5142, "1", 0.8, 0.15, (0.2, 1.2),
        "share of 0.7 of the peak, Turing and Volta; assumed, only the rows of AMP show it. "
        "Presumably absorbs T4's throttling at 70 W (described by Jia et al. 2019, arXiv "
        "1903.07486) and the software of 2022; neutral: as on Hopper", neutral=0.86),
    Constant("fp8", 0.9472, "1", 0.85, 0.06, (0.2, 1.2),
        "FP8's reached share of its peak over that of 16 bit; a fit of the rows of "
        "Megatron-Bridge and torchtitan; neutral: H100's best products, 1402.6 and 794.5 TFLOP/s "
        "(stas00/ml-engineering@744d01e)", neutral=0.88),
    Constant("mxfp8", 0.9277, "1", 0.9, 0.06, (0.2, 1.2),
        "the same of MXFP8; a fit of the rows of Megatron-Bridge; neutral: B200's best FP8 and "
        "16-bit products, 3432.5 and 1745 TFLOP/s (stas00/ml-engineering@744d01e)", neutral=0.98),
    Constant("nvfp4", 0.7824, "1", 0.75, 0.1, (0.2, 1.2),
        "the same of NVFP4, its peak taken as twice FP8's; a fit of the rows of Megatron-Bridge; "
        "neutral: assumed, as FP8", neutral=0.9),
    Constant("quantise", 0.2111, "1", 0.4, 0.4, (0.05, 2),
        "traffic of casting an operand over the counted one (rates.py); assumed with the rows of "
        "Megatron-Bridge in view: other kernels take over a part; neutral: nothing is fused",
        neutral=1.0),
    Constant("grouped", 0.5388, "1", 0.4, 0.4, (0.05, 2),
        "time that many experts' products lose, over that of 16-bit arithmetic; assumed with the "
        "rows of Megatron-Bridge and the MoE Model Zoo in view; neutral: assumed, a tenth",
        neutral=0.1),
    Constant("grouped_cast", 15.6, "bytes", 8, 0.5, (1, 60),
        "more per element of their 8-bit operands on Hopper, padded and turned; assumed with the "
        "rows of Megatron-Bridge in view; neutral: each is one read and one write of a byte",
        neutral=4.0),
    Constant("grouped_tokens", 438.8, "tokens", 300, 0.5, (60, 1.5e03),
        "tokens of one expert at which half of that rate is reached; assumed with the rows of the "
        "MoE Model Zoo in view; neutral: the last tile of 128 is half empty", neutral=64.0),
    # Fused attention, share of the 16-bit peak.
    Constant("attention_ampere", 0.3196, "1", 0.38, 0.15, (0.1, 0.85),
        "forward and backward, on Ampere; a fit of the rows of llm-foundry; neutral: between "
        "FlashAttention (0.25 to 0.40) and FlashAttention-2 (0.50 to 0.73; Dao 2023)",
        neutral=0.45),
    Constant("attention_hopper", 0.2419, "1", 0.36, 0.15, (0.1, 0.85),
        "FlashAttention-2 and PyTorch's own on Hopper; 0.35 (Shah et al. 2024, FlashAttention-3), "
        "PyTorch's 0.29 to 0.31 forward (pytorch/benchmark PR 2296, 2024). Presumably absorbs the "
        "slower backward pass and short heads"),
    Constant("attention_cudnn", 0.6354, "1", 0.6, 0.15, (0.1, 0.85),
        "Transformer Engine (cuDNN) on Hopper; FlashAttention-3 reaches 0.75 at most, forward "
        "(Shah et al. 2024); backward and cuDNN assumed lower"),
    Constant("attention_triton", 0.1818, "1", 0.28, 0.25, (0.07, 1.12),
        "the Triton kernel of 2023 on Hopper; a fit of the rows of llm-foundry, raised; neutral: "
        "a later Triton kernel forward, 0.36 to 0.42 (pytorch/benchmark PR 2296, 2024)",
        neutral=0.36),
    Constant("attention_blackwell", 0.8, "1", 0.6, 0.15, (0.1, 0.8),
        "cuDNN on Blackwell; FlashAttention-4 reaches 0.71, up to 1.3 times cuDNN 9.13 (arXiv "
        "abstract, 2026). Presumably absorbs what else is charged too much on Blackwell: no "
        "printed kernel is as fast as its bound"),
    Constant("attention_ascend", 0.3677, "1", 0.47, 0.2, (0.1, 0.85),
        "CANN on 910B, long sequences; a fit of the rows of ModelLink; neutral: "
        "FlashAttention-2's on Ampere, as first fitted", neutral=0.38),
    Constant("attention_ascend_ramp", 5692, "tokens", 4e03, 0.5, (800, 2e04),
        "tokens at which 910B reaches half of it; a fit of the rows of ModelLink, lowered; "
        "neutral: its lower bound, close to none", neutral=800.0),
    # Element-wise kernels and the host.
    Constant("elementwise", 0.7015, "1", 0.8, 0.1, (0.2, 1.2),
        "of memory's rate; MetaX C550 measured 1390.5 of 1800 GB/s (FlagOpen/FlagPerf@1b5a030)"),
    Constant("passes", 1.305, "1", 1.1, 0.2, (0.4, 3),
        "traffic over the counted, where kernels are fused; assumed, no source found"),
    Constant("passes_eager", 3.015, "1", 2.2, 0.3, (0.8, 6),
        "the same in plain PyTorch; assumed, only the rows of Sailor and torchtitan show it; "
        "neutral: as fused", neutral=1.1),
    Constant("gap_s", 0.0004183, "s", 3e-4, 0.3, (1e-4, 1e-3),
        "between a layer's kernels, both ways; assumed: about 75 kernels at 4 us, no source found"),
    Constant("gap_graph_s", 0.000168, "s", 0.0002, 0.5, (4e-05, 0.001),
        "the same in Megatron-Bridge, which replays CUDA graphs; assumed, only the rows of "
        "Megatron-Bridge show it; neutral: as elsewhere", neutral=3e-4),
    Constant("launch_eager_s", 0.003303, "s", 0.003, 0.3, (0.0006, 0.015),
        "least time of a layer under a slow host; assumed, only the rows of Sailor show it; "
        "neutral: 100 operators at 10 us", neutral=0.001),
    Constant("expert_host_s", 0.0007416, "s", 0.0009, 0.3, (0.00018, 0.0045),
        "routing and its synchronisation; a fit of the rows of Megatron-Bridge; neutral: as many "
        "kernels as a dense layer", neutral=3e-4),
    Constant("expert_each_s", 2.725e-05, "s", 4e-05, 0.5, (8e-06, 0.0002),
        "per local expert; assumed: nine products at 4 to 5 us, no source found"),
    Constant("expert_passes", 7.718, "1", 8.0, 0.3, (1.6, 40),
        "permutation and weights, both ways, reads and writes of a routed token; a fit of the "
        "rows of Megatron-Bridge; neutral: there and back, read and written, forward and "
        "backward: 8 too", neutral=8.0),
    Constant("release_2025", 1.152, "1", 1.26, 0.15, (0.42, 3.78),
        "routing until 2025, over 26.02; a fit of the rows of Megatron-Bridge 25.09; neutral: no "
        "gain", neutral=1.0),
    Constant("release_2604", 0.8499, "1", 0.7, 0.15, (0.233, 2.1),
        "the same in 26.04; a fit of the rows of Megatron-Bridge 26.04; neutral: no gain",
        neutral=1.0),
    Constant("release_2606", 0.2255, "1", 0.43, 0.25, (0.143, 1.29),
        "the same in 26.06; a fit of the rows of Megatron-Bridge 26.06. Absorbs every gain of "
        "that release in mixtures, not of routing alone (docs/accuracy.md); neutral: no gain",
        neutral=1.0),
    Constant("step_s", 0.02229, "s", 0.02, 0.7, (0.004, 0.1),
        "once a step: loss, norms of gradients, logging; assumed, no source found"),
    # Links: reached share of the vendor's rate, and starts.
    Constant("scale_up", 0.8108, "1", 0.81, 0.1, (0.203, 1.2),
        "NVLink, xGMI and the like, of the vendor's rate; rings on H100 reach 365 to 370 of 450 "
        "GB/s (NVIDIA/nccl#1455)"),
    Constant("scale_up_hccs", 0.4413, "1", 0.48, 0.2, (0.12, 1.2),
        "HCCS over all links at once; a fit of the rows of ModelLink; neutral: as NVLink",
        neutral=0.81),
    Constant("scale_up_pcie", 0.1985, "1", 0.35, 0.3, (0.087, 1.2),
        "PCIe through host memory, which a node's cards share; assumed, no source found"),
    Constant("network", 0.6197, "1", 0.69, 0.15, (0.172, 1.2),
        "RDMA cards, large collectives; a fit of the rows of every source; neutral: rings reach "
        "46 to 48 of 50 GB/s (NVIDIA/nccl#290)", neutral=0.92),
    Constant("network_experts", 0.8497, "1", 0.92, 0.07, (0.23, 1.2),
        "the same in all-to-all of experts; 43 to 47 of 50 GB/s (deepseek-ai/DeepEP README, 2025)"),
    Constant("peerless_gbs", 0.7256, "GB/s", 2.0, 0.7, (0.3, 10),
        "between GeForce cards, that reach no peer's memory; assumed, no source found"),
    Constant("tcp_gbs", 1.837, "GB/s", 2.0, 0.4, (0.4, 10),
        "most that TCP moves for one node; assumed: one flow has 0.6 to 1.25 GB/s (AWS EC2 user "
        "guide, 2026), NCCL opens several"),
    Constant("network_tcp", 0.4151, "1", 0.4, 0.3, (0.1, 1.2),
        "TCP in clouds; assumed: in a placement group one flow has 10 of 25 Gb/s (AWS EC2 user "
        "guide, 2026)"),
    Constant("network_2021", 0.07962, "1", 0.15, 0.4, (0.037, 0.6),
        "DeepSpeed ZeRO-3 of 2021; assumed, only the rows of SC21 table 2 show it. Presumably "
        "absorbs that each tensor was gathered alone; neutral: its upper bound, towards other "
        "collectives", neutral=0.6),
    Constant("collective_s", 2.421e-05, "s", 2.5e-05, 0.4, (5e-06, 0.000125),
        "start of one collective; NCCL's model: 10 us and seven steps of 1.9 us on NVLink "
        "(NVIDIA/nccl@01afd20, tuning.cc, LL128); an earlier fit gave the same"),
    Constant("collective_pcie_s", 0.000608, "s", 0.0004, 0.5, (8e-05, 0.002),
        "the same through host memory; assumed, only the rows of AMP and Sailor show it; neutral: "
        "its lower bound, above NCCL's 48 us (tuning.cc)", neutral=8e-5),
    Constant("hop_s", 4.372e-06, "s", 5e-06, 0.5, (1e-06, 2.5e-05),
        "one rank of a ring over the network; NCCL's model: 2.7, 4.0, 9.6 us by protocol "
        "(NVIDIA/nccl@01afd20, tuning.cc)"),
    Constant("transfer_s", 0.0003069, "s", 0.0004, 0.6, (8e-05, 0.002),
        "a transfer between stages that the schedule waits for; assumed, no source found"),
    # Share that computation does not hide.
    Constant("tensor_plain", 0.9312, "1", 0.86, 0.1, (0.215, 1.2),
        "share exposed of tensor-parallel traffic, Megatron without overlap; a fit of the rows of "
        "SC21 and Korthikanti; neutral: nothing is hidden", neutral=1.0),
    Constant("tensor_megascale", 0.2809, "1", 0.29, 0.2, (0.072, 1.16),
        "the same in MegaScale; a fit of the rows of MegaScale; neutral: as first fitted to "
        "Megatron without overlap", neutral=0.86),
    Constant("tensor_overlap", 0.3748, "1", 0.35, 0.2, (0.087, 1.2),
        "the same with Transformer Engine's overlap; a fit of the rows of Megatron-Bridge, "
        "raised; neutral: as for MegaScale", neutral=0.86),
    Constant("tensor_torchtitan", 0.699, "1", 0.67, 0.2, (0.168, 1.2),
        "the same in torchtitan; a fit of the rows of torchtitan; neutral: as for MegaScale",
        neutral=0.86),
    Constant("tensor_async", 0.52, "1", 0.52, 0.2, (0.13, 1.2),
        "the same with asynchronous tensor parallelism; a fit of the rows of torchtitan; neutral: "
        "as for MegaScale", neutral=0.86),
    Constant("tensor_mc2", 0.6187, "1", 0.59, 0.25, (0.147, 1.2),
        "the same with MindSpeed's mc2; a fit of the rows of ModelLink; neutral: as for MegaScale",
        neutral=0.86),
    Constant("experts_exposed", 1.44, "1", 1.1, 0.2, (0.3, 2),
        "share exposed of all-to-all of experts; a fit of the rows of Megatron-Bridge and the MoE "
        "Model Zoo, raised. Presumably absorbs, above 1, uneven routing: tokens are counted as "
        "spread evenly; neutral: nothing is hidden", neutral=1.0),
    Constant("experts_interleaved", 0.5059, "1", 0.45, 0.3, (0.113, 1.2),
        "the same in an interleaved pipeline; assumed, only the rows of Megatron-Bridge show it; "
        "neutral: nothing is hidden", neutral=1.0),
    Constant("context_exposed", 0.5312, "1", 0.5, 0.4, (0.125, 1.2),
        "share exposed of a ring of keys and values, attention long enough; assumed, no source "
        "found"),
    Constant("transfer_interleaved", 0.3368, "1", 0.3, 0.5, (0.075, 1.2),
        "share exposed of transfers between interleaved stages; assumed, no source found"),
    Constant("data_hidden", 0.6616, "1", 0.8, 0.1, (0.3, 1),
        "share of gradients' and weights' traffic that may hide; a fit of the rows of "
        "llm-foundry; neutral: all but the first and last of 32 layers", neutral=0.94),
    # Memory.
    Constant("context_gib", 2, "GiB", 2, 0.3, (0.4, 10),
        "driver, libraries, communicators; assumed, no source found"),
    Constant("usable", 0.97, "1", 0.97, 0.02, (0.242, 1.2),
        "of a card's memory; 60.32 of 64 GiB on Atlas 800T A2, 63.66 of 64 on BI150 "
        "(FlagOpen/FlagPerf@1b5a030)"),
    Constant("reading", 1.1, "1", 1.1, 0.1, (0.367, 3.3),
        "what the allocator holds over what is used; assumed, no source found"),
)
# fmt: on

OWN_ROWS = frozenset(item.name for item in TABLE if item.neutral is not None)
"""Constants whose priors cannot be shown to be independent of the judged runs."""
