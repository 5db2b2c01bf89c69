"""Words of sources for precisions, recomputation and attention: closed vocabularies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..catalogue import LatentAttention
from ..errors import PlanError
from ..planner.workload import PRECISIONS
from .fields import NO, YES, count, folded

KNOWN = (
    ("nvfp4", re.compile(r"nvfp4|(?<!mx)(?:fp|float)4|(?<!mx)e2m1")),
    ("mxfp8", re.compile(r"mx(?:fp8|float8|e4m3|e5m2|8)|(?:fp8|float8)(?:mx(?!fp4)|microscal)")),
    ("fp8", re.compile(r"fp8|float8|e4m3|e5m2")),
    ("bf16", re.compile(r"bf16|bfloat|bfp16")),
    ("fp16", re.compile(r"(?<![bl])fp16|(?<!b)float16|half|^16mixed")),
)
"""Precisions and how they are written, without signs; the first found is that of the products."""

UNPLANNED = re.compile(r"fp32|float32|tf32|single|fp64|float64|double|int[48]|w8a8|mxfp[46]|fp6")
SIXTEEN = ("mixed", "mixedprecision", "amp", "16bit", "16bits", "amp16", "automatic")

MODULES = {
    "layernorm": ("layernorm", "norm", "norms", "rmsnorm", "ln", "layernorms"),
    "moe_act": ("moeact", "act", "activation", "activations", "swiglu", "gelu", "actfn"),
    "moe": ("moe", "expert", "experts", "moelayer", "moemlp", "expertmlp", "routedexperts"),
    "core_attn": (
        *("coreattn", "attentioncore", "coreattention", "attncore", "softmax", "sdpa"),
        "scores",
    ),
    "attention": ("attention", "attn", "selfattention", "selfattn"),
    "mlp": ("mlp", "ffn", "feedforward", "densemlp"),
    "mla_up_proj": ("mlaupproj", "mlaup", "upproj"),
    "shared_experts": ("sharedexperts", "sharedexpert"),
}
"""Parts of a layer that may be recomputed, by Megatron-Core's name, and how sources call them."""

FULL = (
    *("full", "fully", "all", "everything", "activation", "activations", "gradient", "checkpoint"),
    *("checkpointing", "checkpoints", "recompute", "recomputation", "ac", "layers", "layer", "of"),
    *("each", "per", "stage", "method", "granularity", "uniform", "block", "num", "in", "every"),
    *("yes", "true", "on", "enabled", "with"),
)
"""Words of full recomputation; none of them alone but the first, or with checkpointing."""

FILLERS = ("", "op", "ac", "opac", "activationcheckpointing", "recompute", "modules", "only")

DEEPSEEK = {"q_lora": 1536, "kv_lora": 512, "qk_nope": 128, "rope": 64, "v": 128}
"""Ranks of latent attention where a run says no more than MLA (DeepSeek-V3, Kimi K2)."""

_MLA = re.compile(r"(q_lora|kv_lora|qk_nope|rope|v)=(\d+)")
_WINDOW = re.compile(r"(?:sliding[\s_-]*windows?|windows?|swa)\D{0,20}?(\d+)(k?)\b")
_RATIO = re.compile(r"(\d+)\s*:\s*(\d+)")
_BLOCK = re.compile(r"block\D*(\d+)|(\d+) layers (?:per|of each|in each|of every) \w*\s*stage")
_SOME = re.compile(r"(\d+)\s+(?:of\s+(?:the\s+)?\d+\s+)?layers")

PLAIN = (
    *("mla", "gqa", "mha", "mqa", "full", "causal", "flash", "flashattention", "fused", "sdpa"),
    *("attention", "self", "multi", "multihead", "head", "query", "grouped", "group", "latent"),
    *("softmax", "standard", "dense", "global", "local", "sliding", "window", "windows", "swa"),
    *("alternating", "alternate", "interleaved", "every", "other", "second", "half", "in", "all"),
    *("layers", "layer", "of", "with", "and", "the", "tokens", "size", "ratio", "each", "k", "fa"),
    *("rope", "none", "no", "on", "a", "to"),
)
"""Words of attention that the equations know."""


@dataclass(frozen=True, slots=True)
class Recompute:
    """What a run computed again; ``kind`` is a word of the planner."""

    kind: str = "none"
    layers: int = 0
    """Of each virtual stage, if not all."""
    share: float | None = None
    """Of all layers, where the source counts them by stage."""
    modules: tuple[str, ...] = ()
    assumed: str = ""


@dataclass(frozen=True, slots=True)
class Attention:
    """What words say of attention."""

    latent: LatentAttention | None = None
    window: int = 0
    window_layers: int = 0
    one_key: bool = False
    assumed: str = ""


def precision_of(value: object) -> tuple[str, str]:
    """Return the precision that a source's words mean, and what was assumed if they do not tell.

    Raises ``PlanError`` for one that the planner does not have.
    """
    if value is None or str(value) == "":
        return "bf16", "precision bf16: not printed"
    text = folded(value)
    found = [name for name, pattern in KNOWN if pattern.search(text)]
    if "bf16" in found and not re.search(r"(?<!b)(?<!bf)(?:fp16|float16)|half", text):
        found = [name for name in found if name != "fp16"]
    either = re.search(r"\bor\b", str(value).casefold())
    if found and either and (len(found) > 1 or UNPLANNED.search(text)):
        return "bf16", f"precision bf16: the source says {value!r:.60}"
    if found:
        return found[0], ""
    if text in SIXTEEN:
        return "bf16", f"precision bf16: the source says {value!r:.60}"
    known = ", ".join(PRECISIONS)
    if UNPLANNED.search(text):
        raise PlanError(f"parallel.precision {value!r:.60} is not planned; planned are {known}")
    raise PlanError(f"parallel.precision {value!r:.60} is not understood; use one of {known}")


def recompute_of(value: object, stages: int, total: int) -> Recompute:
    """Return what a source's words mean for a model of ``total`` layers in ``stages``."""
    if isinstance(value, list):
        if value and all(not isinstance(item, str) or item.strip().isdigit() for item in value):
            return _by_stage(value, stages, total)
        return _selective(",".join(map(str, value)), value)
    text = str(value).strip().casefold()
    if text in (*NO, "null", "without", "no recompute", "no recomputation"):
        return Recompute()
    if text in YES and not text.isdigit():
        return Recompute("full")
    if re.match(r"\[|.*\b(?:by|per) stage\b", text) and not text.startswith("full"):
        return _by_stage(re.findall(r"\d+", text), stages, total)
    if text.startswith("selective"):
        rest = text.removeprefix("selective")
        return _every_nth(rest) or _selective(rest, value)
    words = re.findall(r"[a-z]+", text)
    if words and set(words) <= set(FULL) and not set(words) <= {"activation", "activations"}:
        some = _BLOCK.search(text)
        layers = count(some[1] or some[2], "parallel.recompute's layers") if some else 0
        return Recompute("full", layers)
    return _selective(text, value)


def recompute_in(found: Recompute, mixture: bool) -> Recompute:
    """Return the planner's kind that covers the modules which a run names."""
    modules = set(found.modules)
    whole = {"attention", "moe"} if mixture else {"attention", "mlp"}
    if not (mixture and "moe" in modules) and not whole <= modules:
        return found
    named = ", ".join(found.modules)
    note = "" if whole <= modules else f"recompute: all of a layer, which covers its {named}"
    return Recompute("full", modules=found.modules, assumed=note)


def attention_of(value: object, layers: int) -> Attention:
    """Return what words say of attention; raises ``PlanError`` for kinds that are not planned."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    text = text.casefold()
    said = dict(_MLA.findall(text))
    for word in re.findall(r"[a-z]+", _MLA.sub("", text)):
        if word not in PLAIN:
            raise PlanError(f"model.attention {text!r:.60} is not understood: {word!r}")
    latent, note = None, ""
    if re.search(r"\bmla\b|\blatent\b", text):
        ranks = DEEPSEEK | {key: int(number) for key, number in said.items()}
        latent = LatentAttention(*(ranks[name] for name in DEEPSEEK))
        if len(said) < len(DEEPSEEK):
            note = "attention: ranks of DeepSeek-V3, since they are not printed"
    window = _WINDOW.search(text)
    if window is None and re.search(r"window|\bswa\b", text):
        raise PlanError(f"model.attention {text!r:.60} does not print the window's size")
    return Attention(
        latent=latent,
        window=int(window[1]) * (1024 if window[2] else 1) if window else 0,
        window_layers=_windowed(text, layers) if window else 0,
        one_key=bool(re.search(r"\bmqa\b|multi[\s-]query", text)),
        assumed=note,
    )


def _windowed(text: str, layers: int) -> int:
    """Return how many layers have the window: all, unless the words say otherwise."""
    ratio, some = _RATIO.search(text), _SOME.search(text)
    if ratio and int(ratio[1]) + int(ratio[2]):
        return layers * int(ratio[1]) // (int(ratio[1]) + int(ratio[2]))
    if some and 0 < int(some[1]) <= layers:
        return int(some[1])
    halved = re.search(r"alternat|interleav|every (?:other|second)|half", text)
    return layers // 2 if halved else layers


def _by_stage(values: list[object] | list[str], stages: int, total: int) -> Recompute:
    counts = [count(value, "parallel.recompute's layers", 0) for value in values]
    if len(counts) != stages:
        raise PlanError(
            f"parallel.recompute {counts} must have a number for each of {stages} stages"
        )
    if sum(counts) > total:
        raise PlanError(f"parallel.recompute {counts} is more than the {total} layers")
    if not any(counts):
        return Recompute()
    note = f"recompute: {sum(counts)} of {total} layers, the mean over the stages"
    return Recompute("full", share=sum(counts) / total, assumed=note)


def _every_nth(text: str) -> Recompute | None:
    """Return the recomputation of every second, third, ... layer, None if the words say another."""
    nth = re.fullmatch(r"\W*([1-9]\d{0,2})\W*", text)
    if nth is None:
        return None
    note = f"recompute: all of every layer number {nth[1]}, as torchtitan counts"
    return Recompute("full", share=1 / int(nth[1]), assumed=note)


def _selective(text: str, value: object) -> Recompute:
    """Return selective recomputation of the modules that are named."""
    modules = []
    for phrase in re.split(r"[,;/+&:()\[\]]|\band\b", text):
        word = folded(phrase)
        if word in FILLERS:
            continue
        name = next((name for name, words in MODULES.items() if word in words), "")
        if not name:
            known = ", ".join(MODULES)
            raise PlanError(
                f"parallel.recompute {value!r:.60} is not understood; use none, full, full (block, "
                f"N), or selective with some of {known}"
            )
        modules.append(name)
    return Recompute("selective", modules=tuple(modules))
