"""Software stacks: which constants stand for what a training framework hides, fuses and adds."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Stack:
    """One software stack: names of constants, and what its kernels do."""

    name: str
    family: str = "megatron"
    """Programs that are alike: what is known of one says something of the others."""
    tensor: str = "tensor_plain"
    """Share of tensor-parallel traffic left exposed."""
    tensor_experts: str = "tensor_plain"
    """The same in models with experts."""
    passes: str = "passes"
    gap: str = "gap_s"
    launch: str = ""
    """Least time of a layer that the host can start; empty: never a limit."""
    release: str = ""
    """Routing and permutation of experts, over the releases of 2026-02."""
    network: str = "network"
    hopper: str = "attention_hopper"
    """Attention kernel on Hopper."""
    flash: bool = True
    """Attention is fused."""
    overlap: bool = True
    """Gradients travel under the computation."""
    gradient_bytes: int = 4
    """Per parameter, kept."""
    wire_bytes: int = 0
    """Per parameter, on the wire; 0: as kept."""
    logit_bytes: int = 8
    """Memory per logit: 16-bit logits (2), 32-bit softmax (4), gradient in place (2)."""
    whole_transfers: bool = False
    """Each tensor-parallel rank sends all activations to the next stage, not its part."""
    copies_each: bool = False
    """The copies of a hybrid are summed with each micro-batch, not once a step."""
    adapter_passes: int = 2
    """Of LoRA: over an adapted map's output, to scale and to add; PEFT's layers take five."""
    saves: str = ""
    """How selective recomputation works: ``products`` saves every second product."""


_MEGATRON = Stack("megatron", hopper="attention_cudnn", tensor="tensor_plain")
_BRIDGE = replace(
    _MEGATRON, name="megatron-bridge-26.02", tensor="tensor_overlap", gap="gap_graph_s"
)
_TORCH = Stack("torch", family="torch", gradient_bytes=4, logit_bytes=12, adapter_passes=5)
_MEGATRON_2021 = Stack("megatron-2021", flash=False, overlap=False, gradient_bytes=2)

STACKS = {
    stack.name: stack
    for stack in (
        _MEGATRON,
        _MEGATRON_2021,
        Stack("megatron-2023", flash=False),
        Stack("megascale", tensor="tensor_megascale", tensor_experts="tensor_megascale"),
        replace(_MEGATRON, name="megatron-2024", tensor="tensor_overlap", release="release_2025"),
        replace(_BRIDGE, name="megatron-bridge-25.09", release="release_2025"),
        _BRIDGE,
        replace(_BRIDGE, name="megatron-bridge-26.04", release="release_2604"),
        replace(_BRIDGE, name="megatron-bridge-26.06", release="release_2606"),
        Stack(
            "mindspeed",
            family="mindspeed",
            tensor="tensor_mc2",
            tensor_experts="tensor_mc2",
            release="release_2025",
        ),
        Stack("flagscale", overlap=False, release="release_2025"),
        Stack("megatron-deepspeed", release="release_2025"),
        _TORCH,
        replace(
            _TORCH,
            name="torchtitan",
            tensor="tensor_torchtitan",
            saves="products",
            passes="passes_eager",
        ),
        replace(_TORCH, name="torchtitan-compiled", tensor="tensor_torchtitan", saves="products"),
        replace(_TORCH, name="torchtitan-async", tensor="tensor_async", saves="products"),
        Stack("llm-foundry", family="torch", hopper="attention_triton", logit_bytes=4),
        Stack(
            "llm-foundry-pure",
            family="torch",
            hopper="attention_triton",
            logit_bytes=4,
            gradient_bytes=2,
        ),
        # communication_data_type is that of the weights: frameworks/deepspeed.py.
        replace(_TORCH, name="deepspeed", wire_bytes=2),
        # Its sums are in the weights' precision, and due with each micro-batch: frameworks/fsdp.py.
        replace(_TORCH, name="hf-fsdp", wire_bytes=2, copies_each=True),
        replace(
            _MEGATRON_2021,
            name="deepspeed-2021",
            family="deepspeed",
            overlap=True,
            network="network_2021",
        ),
        replace(
            _MEGATRON_2021,
            name="deepspeed-pipeline-2022",
            family="deepspeed",
            network="network_tcp",
        ),
        replace(
            _TORCH,
            name="eager-2025",
            family="eager",
            flash=False,
            overlap=False,
            passes="passes_eager",
            whole_transfers=True,
            launch="launch_eager_s",
        ),
    )
}

OF_FRAMEWORK = {
    "megatron": "megatron",
    "mindspeed": "mindspeed",
    "flagscale": "megatron",
    "torchtitan": "torchtitan-compiled",
    "deepspeed": "deepspeed",
    "hf": "deepspeed",
    "llamafactory": "deepspeed",
    "swift": "deepspeed",
    "hf-fsdp": "hf-fsdp",
    "torch": "torch",
}
"""What the planner takes for each framework: the newest release that published runs show,
without options that a user must switch on."""

UNKNOWN = "megatron"
"""For a framework that is not named above."""


def stack_of(framework: str) -> Stack:
    """Return the stack of a framework, or of a stack's own name."""
    return STACKS[framework if framework in STACKS else OF_FRAMEWORK.get(framework, UNKNOWN)]
