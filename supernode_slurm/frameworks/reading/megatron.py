"""Arguments of Megatron-LM and its kin: MindSpeed-LLM, FlagScale, Megatron-DeepSpeed, ms-swift.

What they leave out has Megatron-LM's defaults (NVIDIA/Megatron-LM d98e8a6,
megatron/training/arguments.py); MindSpeed-LLM's own words are read beside.
"""

from __future__ import annotations

import ast
import re

from ...catalogue import model_from_dimensions
from ...errors import UsageError
from . import models
from .found import Job, Reading

LAYOUT = {
    "tp": ("tensor_model_parallel_size",),
    "pp": ("pipeline_model_parallel_size",),
    "cp": ("context_parallel_size",),
    "ep": ("expert_model_parallel_size",),
    "micro-batch": ("micro_batch_size",),
}
OWN = ("num_layers", "hidden_size", "num_attention_heads", "seq_length", "micro_batch_size")
"""Options that together say that a command is Megatron's."""
SURE = ("tensor_model_parallel_size", "pipeline_model_parallel_size")
"""Options that no other framework has."""
_MINDSPEED = (
    "num_layer_list",
    "noop_layers",
    "multi_head_latent_attention",
    "context_parallel_algo",
    "first_k_dense_replace",
    "moe_intermediate_size",
    "n_shared_experts",
    "shape_order",
    "reuse_fp32_param",
    "use_fused_rmsnorm",
    "prompt_type",
    "schedules_method",
)
MINDSPEED_SETTINGS = ("NPUS_PER_NODE", "ASCEND_RT_VISIBLE_DEVICES", "HCCL_CONNECT_TIMEOUT")
"""Variables that scripts for MindSpeed-LLM set."""
_MAX_PATTERN = 4096
_BRACKETS = re.compile(r"\(([^()]{0,400})\)\*(\d{1,3})")
"""A part of a layout that repeats."""


def read(reading: Reading, job: Job) -> None:
    """Take what Megatron's arguments say of the workload."""
    reading.keep("sequence", "seq_length", "encoder_seq_length")
    reading.keep("global-batch", "global_batch_size")
    if reading.has("rampup_batch_size"):
        reading.notes.append(
            f"{reading.origin('rampup_batch_size')}: the batch grows while training; planned is "
            "its last size"
        )
    for planning, names in LAYOUT.items():
        reading.keep(planning, *names)
    if reading.has("num_experts"):
        reading.keep("etp", "expert_tensor_parallel_size")
    _virtual(reading)
    _precision(reading)
    _training(reading)
    if not reading.has("num_layers"):
        return
    text = _dimensions(reading, job)
    if text:
        try:
            reading.put("model", model_from_dimensions(text).name, reading.origin("num_layers"))
        except UsageError as error:
            place = reading.origin("num_layers")
            reading.notes += [f"{place}: {line}" for line in str(error).splitlines()]


def _precision(reading: Reading) -> None:
    """Take the precision of matrices; FlagScale has the same words below ``precision``."""
    for prefix in ("", "precision."):
        eight, recipe = reading.get(f"{prefix}fp8_format"), reading.get(f"{prefix}fp8_recipe")
        four = reading.get(f"{prefix}fp4_format")
        if four is not None:
            reading.put("precision", "nvfp4", four.origin)
            return
        if eight is not None:
            scaled = recipe is not None and recipe.text.startswith("mxfp8")
            reading.put("precision", "mxfp8" if scaled else "fp8", eight.origin)
            return
    reading.precision(
        *(("bf16", "bf16"), ("fp16", "fp16")),
        *(("precision.bf16", "bf16"), ("precision.fp16", "fp16")),
    )


def _virtual(reading: Reading) -> None:
    """Take the virtual stages of each stage: said, or by their layers, or in a layout."""
    stages = reading.integer("pipeline_model_parallel_size") or 1
    names = ("num_virtual_stages_per_pipeline_rank", "num_layers_per_virtual_pipeline_stage")
    layout = reading.get("pipeline_model_parallel_layout")
    layers, each = reading.integer("num_layers"), reading.integer(names[1])
    reading.keep("virtual-stages", names[0])
    if each and layers and layers % (stages * each) == 0:
        reading.put("virtual-stages", str(layers // (stages * each)), reading.origin(names[1]))
    elif layout is not None:
        parts = _BRACKETS.sub(lambda found: found[1] * int(found[2]), layout.text).count("|") + 1
        if parts % stages == 0:
            reading.put("virtual-stages", str(parts // stages), layout.origin)


def is_mindspeed(reading: Reading, job: Job) -> bool:
    """Say whether the arguments are for MindSpeed-LLM, by its own words and its scripts'."""
    return (
        reading.has(*_MINDSPEED)
        or any(name in job.settings for name in MINDSPEED_SETTINGS)
        or any("mindspeed" in word.lower() for word in (*job.programs, str(job.folder)))
    )


def _training(reading: Reading) -> None:
    """Take whether all weights are trained, or adapters: MindSpeed-LLM's own LoRA."""
    names = ("lora_r", "lora_rank", "lora_target_modules")
    if reading.has(*names):
        reading.put("train", "lora", reading.origin(*names))
        reading.keep("lora-rank", "lora_r", "lora_rank")


def _dimensions(reading: Reading, job: Job) -> str:
    """Return the model as text, empty with a note if it is not wholly known."""
    number = reading.integer
    layers, hidden = number("num_layers"), number("hidden_size")
    heads, vocab = number("num_attention_heads"), _vocab(reading, job)
    place = reading.origin("num_layers")
    needed = {"--hidden-size": hidden, "--num-attention-heads": heads, "--num-layers": layers}
    missing = [name for name, value in needed.items() if value is None]
    if not (layers and hidden and heads):
        reading.notes.append(f"{place}: the model is not known without {', '.join(missing)}")
        return ""
    ffn = number("ffn_hidden_size")
    gated = any(reading.is_set(name) for name in ("swiglu", "geglu", "gated_linear_unit"))
    if ffn is None and not reading.has("ffn_hidden_size"):
        ffn = int((4 * hidden * 2 / 3) / 64) * 64 if reading.is_set("swiglu") else 4 * hidden
    layers -= (
        len((reading.options["noop_layers"].text or "").split(","))
        if (reading.get("noop_layers"))
        else 0
    )
    said: dict[str, object] = {"layers": layers, "hidden": hidden, "heads": heads}
    said |= {"kv-heads": _kv_heads(reading, heads), "ffn": ffn, "vocab": vocab}
    said |= {"gated": "yes" if gated else "no"}
    said |= {"tied": "no" if reading.is_set("untie_embeddings_and_output_weights") else "yes"}
    if _is_latent(reading):
        said |= _latent(reading)
    elif reading.has("kv_channels"):
        said["head-dim"] = number("kv_channels")
    if reading.has("num_experts") and (mixture := _mixture(reading, layers, ffn)) is not None:
        said |= mixture
    if reading.has("mtp_num_layers"):
        said |= {"mtp": count} if (count := number("mtp_num_layers")) else {}
    unknown = [key for key, value in said.items() if value is None]
    if unknown:
        reading.notes.append(f"{place}: the model is not known: {_todo(unknown)}")
        return ""
    return ",".join(f"{key}={value}" for key, value in said.items())


def _todo(unknown: list[str]) -> str:
    if unknown == ["vocab"]:
        return "its vocabulary is not said: add --vocab-size or --padded-vocab-size"
    return f"not said is its {', '.join(unknown)}"


def _vocab(reading: Reading, job: Job) -> int | None:
    """Return the vocabulary, padded where that is said, or that of the tokenizer's model."""
    said = reading.integer("padded_vocab_size", "vocab_size", "tokenizer.vocab_size")
    if said is not None or reading.has("padded_vocab_size", "vocab_size"):
        return said
    names = ("tokenizer_model", "tokenizer_name_or_path", "tokenizer.tokenizer_path", "vocab_file")
    found = (models.vocabulary(reading, job, name) for name in names if reading.has(name))
    return next((count for count in found if count is not None), None)


def _kv_heads(reading: Reading, heads: int) -> int | None:
    if not reading.is_set("group_query_attention"):
        return heads
    return reading.integer("num_query_groups") if reading.has("num_query_groups") else 1


def _is_latent(reading: Reading) -> bool:
    return reading.is_set("multi_latent_attention") or reading.is_set("multi_head_latent_attention")


def _latent(reading: Reading) -> dict[str, object]:
    said: dict[str, object] = {"kv-rank": reading.integer("kv_lora_rank")}
    if reading.has("q_lora_rank") and reading.options["q_lora_rank"].text.lower() != "none":
        said["q-rank"] = reading.integer("q_lora_rank")
    dims = {
        "plain-dim": ("qk_head_dim", "qk_nope_head_dim"),
        "rotary-dim": ("qk_pos_emb_head_dim", "qk_rope_head_dim"),
        "value-dim": ("v_head_dim",),
    }
    defaults = {"plain-dim": 128, "rotary-dim": 64, "value-dim": 128}
    for key, names in dims.items():
        said[key] = reading.integer(*names) if reading.has(*names) else defaults[key]
    return said


def _mixture(reading: Reading, layers: int, ffn: int | None) -> dict[str, object] | None:
    number = reading.integer
    if number("num_experts") == 1:
        return None
    names = ("moe_ffn_hidden_size", "moe_intermediate_size")
    width = number(*names) if reading.has(*names) else ffn
    topk = number("moe_router_topk") if reading.has("moe_router_topk") else 2
    said: dict[str, object] = {
        "experts": number("num_experts"),
        "topk": topk,
        "expert-ffn": width,
    }
    if reading.has("moe_shared_expert_intermediate_size"):
        said["shared-ffn"] = number("moe_shared_expert_intermediate_size")
    elif reading.has("n_shared_experts"):
        count = number("n_shared_experts")
        said["shared-ffn"] = count * width if count and width else None
    dense = _dense(reading, layers)
    if dense is None:
        said["dense"] = None
    elif dense:
        said["dense"] = "+".join(map(str, dense))
    return said


def _dense(reading: Reading, layers: int) -> list[int] | None:
    """Return the layers without experts: every so many, a pattern, or the first ones."""
    value = reading.get("moe_layer_freq")
    first = reading.integer("first_k_dense_replace") or 0
    if value is None:
        return None if reading.has("moe_layer_freq") else list(range(first))
    text = value.text.strip()
    if text.isdecimal() and 0 < int(text[:6]) <= layers:
        step = int(text)
        return [index for index in range(layers) if index < first or index % step]
    pattern = _pattern(text)
    if pattern is None or len(pattern) != layers:
        reading.notes.append(
            f"{value.origin}: moe_layer_freq is no pattern of {layers} layers: {text!r:.60}"
        )
        return None
    return [index for index, mixed in enumerate(pattern) if not mixed]


def _pattern(text: str) -> list[int] | None:
    """Return the list that an expression like ``[0]*3+[1]*58`` makes."""
    try:
        found = _list(ast.parse(text[:400], mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, list) else None


def _list(node: ast.expr) -> list[int] | int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.List):
        items = [_list(item) for item in node.elts]
        return [item for item in items if isinstance(item, int)]
    if isinstance(node, ast.BinOp):
        left, right = _list(node.left), _list(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int):
            return left * min(right, _MAX_PATTERN // max(len(left), 1) + 1)
    raise ValueError("no pattern")
