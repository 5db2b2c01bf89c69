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
    """What it is; the evidence for its prior."""
    neutral: float | None = None
    """For a prior that stands on the runs which the model is judged on, or that nothing else backs:
    what physics and other sources would say instead."""


# fmt: off
TABLE = (
    # Products of matrices.
    Constant("matmul_ampere", 0.9491, "1", 0.95, 0.08, (0.237, 1.2),
        "of the best measured product, A100 runs"),
    Constant("matmul_hopper", 0.853, "1", 0.93, 0.08, (0.233, 1.2),
        "the same on Hopper", neutral=0.86),
    Constant("matmul_blackwell", 0.7794, "1", 0.9, 0.1, (0.225, 1.2),
        "the same on Blackwell", neutral=0.86),
    Constant("matmul_gb300", 1.27, "1", 1.05, 0.08, (0.35, 3.15),
        "over that; its own was not measured", neutral=1.0),
    Constant("matmul_ascend", 0.9187, "1", 0.95, 0.08, (0.237, 1.2),
        "the same on Ascend 910B", neutral=0.86),
    Constant("matmul_turing", 0.5051, "1", 0.8, 0.15, (0.2, 1.2),
        "also Volta; of 0.7 of the peak", neutral=0.86),
    Constant("fp8", 0.9462, "1", 0.85, 0.06, (0.2, 1.2),
        "8 bit's share of its peak over 16 bit's", neutral=0.88),
    Constant("mxfp8", 0.9262, "1", 0.9, 0.06, (0.2, 1.2), "the same of MXFP8", neutral=0.98),
    Constant("nvfp4", 0.7863, "1", 0.75, 0.1, (0.2, 1.2),
        "the same; peak taken as twice FP8's", neutral=0.9),
    Constant("quantise", 0.2108, "1", 0.4, 0.4, (0.05, 2),
        "traffic of a cast over its 8-bit size", neutral=1.0),
    Constant("grouped", 0.5338, "1", 0.4, 0.4, (0.05, 2),
        "time that many experts' products lose, over that of 16-bit arithmetic", neutral=0.1),
    Constant("grouped_cast", 15.76, "bytes", 8, 0.5, (1, 60),
        "per element of their 8-bit operands on Hopper: padded, turned", neutral=4.0),
    Constant("grouped_tokens", 433.7, "tokens", 300, 0.5, (60, 1.5e03),
        "tokens of one expert at which half of that is reached", neutral=64.0),
    # Fused attention, share of the 16-bit peak.
    Constant("attention_ampere", 0.3198, "1", 0.38, 0.15, (0.1, 0.85),
        "FlashAttention-2: 0.3 to 0.5", neutral=0.45),
    Constant("attention_hopper", 0.2415, "1", 0.36, 0.15, (0.1, 0.85),
        "the same on Hopper, PyTorch's own"),
    Constant("attention_cudnn", 0.6335, "1", 0.6, 0.15, (0.1, 0.85),
        "Transformer Engine on Hopper"),
    Constant("attention_triton", 0.1816, "1", 0.28, 0.25, (0.07, 1.12),
        "the Triton kernel of 2023 on Hopper", neutral=0.36),
    Constant("attention_blackwell", 0.8, "1", 0.6, 0.15, (0.1, 0.8), "cuDNN on Blackwell"),
    Constant("attention_ascend", 0.3673, "1", 0.47, 0.2, (0.1, 0.85),
        "CANN on 910B, long sequences", neutral=0.38),
    Constant("attention_ascend_ramp", 5638, "tokens", 4e03, 0.5, (800, 2e04),
        "where 910B reaches half of it", neutral=800.0),
    # Element-wise kernels and the host.
    Constant("elementwise", 0.704, "1", 0.8, 0.1, (0.2, 1.2),
        "of memory's rate (FlagPerf C550: 0.77)"),
    Constant("passes", 1.271, "1", 1.1, 0.2, (0.4, 3), "traffic over the counted, fused kernels"),
    Constant("passes_eager", 2.992, "1", 2.2, 0.3, (0.8, 6),
        "the same in plain PyTorch", neutral=1.1),
    Constant("gap_s", 0.0004571, "s", 3e-4, 0.3, (1e-4, 1e-3),
        "between a layer's kernels, both ways"),
    Constant("gap_graph_s", 0.0001678, "s", 0.0002, 0.5, (4e-05, 0.001),
        "the same in Megatron-Bridge", neutral=3e-4),
    Constant("launch_eager_s", 0.003294, "s", 0.003, 0.3, (0.0006, 0.015),
        "least of a layer under a slow host", neutral=0.001),
    Constant("expert_host_s", 0.0007444, "s", 0.0009, 0.3, (0.00018, 0.0045),
        "routing and its synchronisation", neutral=3e-4),
    Constant("expert_each_s", 2.699e-05, "s", 4e-05, 0.5, (8e-06, 0.0002),
        "per local expert: nine products"),
    Constant("expert_passes", 7.73, "1", 8.0, 0.3, (1.6, 40),
        "permutation and weights, both ways", neutral=8.0),
    Constant("release_2025", 1.155, "1", 1.26, 0.15, (0.42, 3.78),
        "routing until 2025, over 26.02", neutral=1.0),
    Constant("release_2604", 0.8494, "1", 0.7, 0.15, (0.233, 2.1),
        "the same in 26.04", neutral=1.0),
    Constant("release_2606", 0.2255, "1", 0.43, 0.25, (0.143, 1.29),
        "the same in 26.06", neutral=1.0),
    Constant("step_s", 0.02299, "s", 0.02, 0.7, (0.004, 0.1), "once: loss, norms, logging"),
    # Links: reached share of the vendor's rate, and starts.
    Constant("scale_up", 0.8092, "1", 0.81, 0.1, (0.203, 1.2), "NVLink, xGMI ..."),
    Constant("scale_up_hccs", 0.4413, "1", 0.48, 0.2, (0.12, 1.2),
        "HCCS over all links at once", neutral=0.81),
    Constant("scale_up_pcie", 0.195, "1", 0.35, 0.3, (0.087, 1.2), "PCIe through host memory"),
    Constant("network", 0.5804, "1", 0.69, 0.15, (0.172, 1.2),
        "RDMA cards, large collectives", neutral=0.92),
    Constant("network_experts", 0.8497, "1", 0.92, 0.07, (0.23, 1.2),
        "DeepEP prints 43 to 47 of 50 GB/s"),
    Constant("peerless_gbs", 0.7161, "GB/s", 2.0, 0.7, (0.3, 10), "GeForce: no peer access"),
    Constant("tcp_gbs", 1.831, "GB/s", 2.0, 0.4, (0.4, 10), "most that TCP moves for one node"),
    Constant("network_tcp", 0.4151, "1", 0.4, 0.3, (0.1, 1.2), "TCP in clouds"),
    Constant("network_2021", 0.07964, "1", 0.15, 0.4, (0.037, 0.6),
        "DeepSpeed ZeRO-3 of 2021", neutral=0.6),
    Constant("collective_s", 2.432e-05, "s", 2.5e-05, 0.4, (5e-06, 0.000125),
        "start of one collective", neutral=1.6e-5),
    Constant("collective_pcie_s", 0.0006041, "s", 0.0004, 0.5, (8e-05, 0.002),
        "the same through host memory"),
    Constant("hop_s", 4.339e-06, "s", 5e-06, 0.5, (1e-06, 2.5e-05),
        "one rank of a ring over the network"),
    Constant("transfer_s", 0.0003037, "s", 0.0004, 0.6, (8e-05, 0.002),
        "a transfer that the schedule waits for"),
    # Share that computation does not hide.
    Constant("tensor_plain", 0.9198, "1", 0.86, 0.1, (0.215, 1.2),
        "Megatron without overlap", neutral=1.0),
    Constant("tensor_megascale", 0.3001, "1", 0.29, 0.2, (0.072, 1.16), "MegaScale", neutral=0.86),
    Constant("tensor_overlap", 0.3692, "1", 0.35, 0.2, (0.087, 1.2),
        "Transformer Engine's overlap", neutral=0.86),
    Constant("tensor_torchtitan", 0.6975, "1", 0.67, 0.2, (0.168, 1.2), "torchtitan", neutral=0.86),
    Constant("tensor_async", 0.52, "1", 0.52, 0.2, (0.13, 1.2),
        "asynchronous tensor parallelism", neutral=0.86),
    Constant("tensor_mc2", 0.6183, "1", 0.59, 0.25, (0.147, 1.2), "MindSpeed's mc2", neutral=0.86),
    Constant("experts_exposed", 1.44, "1", 1.1, 0.2, (0.3, 2),
        "all-to-all of experts", neutral=1.0),
    Constant("experts_interleaved", 0.5063, "1", 0.45, 0.3, (0.113, 1.2),
        "the same, interleaved pipeline", neutral=1.0),
    Constant("context_exposed", 0.5337, "1", 0.5, 0.4, (0.125, 1.2),
        "ring of keys, attention long enough"),
    Constant("transfer_interleaved", 0.3525, "1", 0.3, 0.5, (0.075, 1.2),
        "between interleaved stages"),
    Constant("data_hidden", 0.6764, "1", 0.8, 0.1, (0.3, 1),
        "of gradients (FSDP runs: 0.80)", neutral=0.94),
    # Memory.
    Constant("context_gib", 2, "GiB", 2, 0.3, (0.4, 10), "driver, libraries, communicators"),
    Constant("usable", 0.97, "1", 0.97, 0.02, (0.242, 1.2), "60.3 of 64 GiB on Atlas 800T A2"),
    Constant("reading", 1.1, "1", 1.1, 0.1, (0.367, 3.3), "what the allocator holds over its use"),
)
# fmt: on

OWN_ROWS = frozenset(item.name for item in TABLE if item.neutral is not None)
"""Constants whose priors cannot be shown to be independent of the judged runs."""
