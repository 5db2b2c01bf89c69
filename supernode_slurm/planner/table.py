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


TABLE = (
    # Products of matrices.
    Constant(
        "matmul_ampere",
        0.9507,
        "1",
        0.95,
        0.08,
        (0.237, 1.2),
        "share of the card's best measured product that shapes of models reach; A100 runs",
    ),
    Constant("matmul_hopper", 0.8614, "1", 0.93, 0.08, (0.233, 1.2), "the same on Hopper"),
    Constant("matmul_blackwell", 0.7604, "1", 0.9, 0.1, (0.225, 1.2), "the same on Blackwell"),
    Constant(
        "matmul_gb300",
        1.279,
        "1",
        1.05,
        0.08,
        (0.35, 3.15),
        "what GB300 adds to it; its own best product was not measured",
    ),
    Constant("matmul_ascend", 0.933, "1", 0.95, 0.08, (0.237, 1.2), "the same on Ascend 910B"),
    Constant(
        "matmul_turing",
        0.5063,
        "1",
        0.8,
        0.15,
        (0.2, 1.2),
        "the same on Turing and Volta; no best product was measured, so of 0.7 of the peak",
    ),
    Constant(
        "matmul_other", 0.9, "1", 0.9, 0.1, (0.225, 1.2), "the same on cards that no run shows"
    ),
    Constant(
        "fp8",
        0.9372,
        "1",
        0.85,
        0.06,
        (0.2, 1.2),
        "FP8's reached share of its peak, over that of 16 bit",
    ),
    Constant("mxfp8", 0.9686, "1", 0.9, 0.06, (0.2, 1.2), "the same of MXFP8"),
    Constant(
        "nvfp4",
        0.8077,
        "1",
        0.75,
        0.1,
        (0.2, 1.2),
        "the same of NVFP4, whose peak is taken as twice that of FP8 at most",
    ),
    Constant(
        "quantise",
        0.7067,
        "passes",
        1.286,
        0.4,
        (0.3, 7.5),
        "element-wise traffic of casting an operand over its 8-bit size",
    ),
    Constant(
        "grouped", 0.4822, "1", 0.8, 0.2, (0.2, 1.2), "a product of many experts over one product"
    ),
    Constant(
        "grouped_tokens",
        211.3,
        "tokens",
        300,
        0.5,
        (60, 1.5e03),
        "tokens of one expert at which half of that is reached",
    ),
    # Fused attention, share of the 16-bit peak.
    Constant(
        "attention_ampere",
        0.3191,
        "1",
        0.38,
        0.15,
        (0.1, 0.85),
        "FlashAttention-2 reaches 0.3 to 0.5 with head sizes 64 to 128",
    ),
    Constant(
        "attention_hopper",
        0.2416,
        "1",
        0.36,
        0.15,
        (0.1, 0.85),
        "FlashAttention-2 and PyTorch's own kernel on Hopper",
    ),
    Constant(
        "attention_cudnn",
        0.5969,
        "1",
        0.6,
        0.15,
        (0.1, 0.85),
        "Transformer Engine (cuDNN) on Hopper",
    ),
    Constant(
        "attention_triton",
        0.1805,
        "1",
        0.28,
        0.25,
        (0.07, 1.12),
        "the Triton kernel of 2023 on Hopper",
    ),
    Constant("attention_blackwell", 0.8, "1", 0.6, 0.15, (0.1, 0.8), "cuDNN on Blackwell"),
    Constant(
        "attention_ascend", 0.3653, "1", 0.47, 0.2, (0.1, 0.85), "CANN on 910B, long sequences"
    ),
    Constant(
        "attention_ascend_ramp",
        5603,
        "tokens",
        4e03,
        0.5,
        (800, 2e04),
        "sequence at which 910B reaches half of that",
    ),
    Constant("attention_other", 0.3, "1", 0.3, 0.15, (0.1, 0.85), "where no run shows it"),
    # Element-wise kernels and the host.
    Constant(
        "elementwise",
        0.7244,
        "1",
        0.8,
        0.1,
        (0.2, 1.2),
        "reached share of the memory's rate (FlagPerf C550: 0.77)",
    ),
    Constant(
        "passes",
        1.1,
        "1",
        1.1,
        0.2,
        (0.4, 3),
        "traffic over the counted one in frameworks with fused kernels",
    ),
    Constant(
        "passes_eager",
        3.082,
        "1",
        2.2,
        0.3,
        (0.8, 6),
        "the same in plain PyTorch without compilation",
    ),
    Constant(
        "gap_s",
        0.0004879,
        "s",
        3e-4,
        0.3,
        (1e-4, 1e-3),
        "between the kernels of one layer, both ways: about 75 kernels at 4 us",
    ),
    Constant(
        "gap_graph_s", 0.0001836, "s", 0.0002, 0.5, (4e-05, 0.001), "the same in Megatron-Bridge"
    ),
    Constant(
        "launch_eager_s",
        0.003294,
        "s",
        0.003,
        0.3,
        (0.0006, 0.015),
        "least time of a layer that a slow host can start, both ways",
    ),
    Constant(
        "expert_host_s",
        0.0006675,
        "s",
        0.0009,
        0.3,
        (0.00018, 0.0045),
        "host time of a layer of experts: routing and its synchronisation",
    ),
    Constant(
        "expert_each_s",
        3.054e-05,
        "s",
        4e-05,
        0.5,
        (8e-06, 0.0002),
        "more for each expert that a device holds: about nine products at 5 us",
    ),
    Constant(
        "expert_passes",
        7.724,
        "passes",
        8,
        0.3,
        (1.6, 40),
        "over the routed tokens, both ways: permutation and weighting",
    ),
    Constant(
        "release_2025",
        1.185,
        "1",
        1.26,
        0.15,
        (0.42, 3.78),
        "routing and permutation in releases of 2025 and before, over 26.02",
    ),
    Constant("release_2604", 0.8426, "1", 0.7, 0.15, (0.233, 2.1), "the same in 26.04"),
    Constant("release_2606", 0.2253, "1", 0.43, 0.25, (0.143, 1.29), "the same in 26.06"),
    Constant(
        "step_s",
        0.02574,
        "s",
        0.02,
        0.7,
        (0.004, 0.1),
        "once a step: loss, norms of gradients, logging",
    ),
    # Links: reached share of the vendor's rate, and starts.
    Constant("scale_up", 0.8227, "1", 0.81, 0.1, (0.203, 1.2), "NVLink, xGMI ..."),
    Constant(
        "scale_up_hccs",
        0.4447,
        "1",
        0.48,
        0.2,
        (0.12, 1.2),
        "HCCS over all links; of one link, scale_up",
    ),
    Constant(
        "scale_up_pcie",
        0.2169,
        "1",
        0.35,
        0.3,
        (0.087, 1.2),
        "PCIe through host memory, shared by the node",
    ),
    Constant(
        "network", 0.5817, "1", 0.69, 0.15, (0.172, 1.2), "RDMA network cards, large collectives"
    ),
    Constant(
        "network_experts",
        0.8476,
        "1",
        0.92,
        0.07,
        (0.23, 1.2),
        "the same in all-to-all of experts (DeepEP prints 43 to 47 of 50 GB/s)",
    ),
    Constant("network_tcp", 0.2811, "1", 0.4, 0.3, (0.1, 1.2), "TCP in clouds"),
    Constant(
        "network_2021",
        0.07963,
        "1",
        0.15,
        0.4,
        (0.037, 0.6),
        "DeepSpeed ZeRO-3 of 2021: one tensor at a time",
    ),
    Constant(
        "collective_s", 2.534e-05, "s", 2.5e-05, 0.4, (5e-06, 0.000125), "start of one collective"
    ),
    Constant(
        "collective_pcie_s",
        0.0006553,
        "s",
        0.0004,
        0.5,
        (8e-05, 0.002),
        "the same through host memory",
    ),
    Constant(
        "hop_s", 4.33e-06, "s", 5e-06, 0.5, (1e-06, 2.5e-05), "one rank of a ring over the network"
    ),
    Constant(
        "transfer_s",
        0.0003041,
        "s",
        0.0004,
        0.6,
        (8e-05, 0.002),
        "start of one transfer between stages that the schedule waits for",
    ),
    # Share that computation does not hide.
    Constant(
        "tensor_plain",
        0.8871,
        "1",
        0.86,
        0.1,
        (0.215, 1.2),
        "tensor-parallel traffic, Megatron without overlap",
    ),
    Constant("tensor_megascale", 0.3014, "1", 0.29, 0.2, (0.072, 1.16), "the same in MegaScale"),
    Constant(
        "tensor_overlap",
        0.3629,
        "1",
        0.35,
        0.2,
        (0.087, 1.2),
        "the same with Transformer Engine's overlap (Megatron-Bridge)",
    ),
    Constant("tensor_torchtitan", 0.6976, "1", 0.67, 0.2, (0.168, 1.2), "the same in torchtitan"),
    Constant(
        "tensor_async",
        0.52,
        "1",
        0.52,
        0.2,
        (0.13, 1.2),
        "the same with asynchronous tensor parallelism",
    ),
    Constant("tensor_mc2", 0.6401, "1", 0.59, 0.25, (0.147, 1.2), "the same with MindSpeed's mc2"),
    Constant("experts_exposed", 1.386, "1", 1.1, 0.2, (0.3, 2), "all-to-all of experts"),
    Constant(
        "experts_interleaved",
        0.6232,
        "1",
        0.45,
        0.3,
        (0.113, 1.2),
        "the same under an interleaved pipeline",
    ),
    Constant(
        "context_exposed",
        0.5334,
        "1",
        0.5,
        0.4,
        (0.125, 1.2),
        "ring exchange of keys and values, where attention is long enough",
    ),
    Constant(
        "transfer_interleaved",
        0.3114,
        "1",
        0.3,
        0.5,
        (0.075, 1.2),
        "transfers between stages of an interleaved pipeline",
    ),
    Constant(
        "data_hidden",
        0.6692,
        "1",
        0.8,
        0.1,
        (0.3, 1),
        "of data-parallel traffic, that can run under computation (FSDP runs: 0.80)",
    ),
    # Memory.
    Constant("context_gib", 2, "GiB", 2, 0.3, (0.4, 10), "driver, libraries, communicators"),
    Constant(
        "usable",
        0.97,
        "1",
        0.97,
        0.02,
        (0.242, 1.2),
        "of a card's memory; 60.3 of 64 GiB on Atlas 800T A2, 79.3 of 80 on A100",
    ),
    Constant(
        "reading", 1.1, "1", 1.1, 0.1, (0.367, 3.3), "what the allocator holds, over what is used"
    ),
    Constant("reading_gib", 2, "GiB", 2, 0.5, (0.4, 10), "more in a reading of the whole card"),
)
