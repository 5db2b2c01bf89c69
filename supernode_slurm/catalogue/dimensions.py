"""A model from its dimensions, written as text: ``layers=32,hidden=4096,heads=32,...``."""

from __future__ import annotations

import dataclasses
import re

from ..errors import UsageError, nearest
from .family import Family, counted
from .model import Extras, LatentAttention, Mixture, Model

KEYS = {
    "layers": "decoder layers",
    "hidden": "width of a layer",
    "heads": "attention heads",
    "kv-heads": "heads of keys and values [default: as many as heads]",
    "head-dim": "width of a head [default: hidden / heads]",
    "ffn": "width of a dense MLP [default: expert-ffn]",
    "vocab": "rows of the embedding",
    "gated": "the MLP has three matrices, yes or no [default: yes]",
    "tied": "the output head is the embedding, yes or no [default: no]",
    "experts": "experts per layer",
    "topk": "experts per token",
    "expert-ffn": "width of one expert",
    "shared-ffn": "width of the experts that each token passes [default: none]",
    "dense": "layers without experts, counted from 0: 0-2+7 [default: none]",
    "kv-rank": "latent attention: rank of keys and values",
    "q-rank": "its rank of queries [default: not compressed]",
    "plain-dim": "its part of a head without rotary position",
    "rotary-dim": "its part with it",
    "value-dim": "its width of a value",
    "mtp": "modules of multi-token prediction, no part of params [default: none]",
    "window": "tokens that sliding-window attention sees [default: no window]",
    "window-layers": "layers that see no more than the window [default: all]",
    "params": "parameters [default: counted, without biases]",
}
"""What a text of dimensions may say."""

_MIXTURE = ("experts", "topk", "expert-ffn", "shared-ffn", "dense")
_LATENT = ("kv-rank", "q-rank", "plain-dim", "rotary-dim", "value-dim")
_WINDOW = ("window", "window-layers")
_MOST = {"layers": 1 << 12, "params": 1 << 47}
_MOST_OTHERS = 1 << 24
_COUNT_OFF = 0.05
"""A count further from the formula's is a mistake: biases and norms make less than 1 %."""
_FLAGS = {"yes": True, "true": True, "no": False, "false": False}
_TEXT = re.compile(r"\s*[A-Za-z_-]+\s*=")


def is_dimensions(text: str) -> bool:
    """Say whether a text is meant as dimensions: ``key=value``, and no path."""
    return bool(_TEXT.match(text))


def model_from_dimensions(text: str) -> Model:
    """Return the model of a text like ``layers=32,hidden=4096,heads=32,ffn=14336,vocab=32000``.

    Its name is the text in its shortest form. Raises ``UsageError`` with all that is wrong,
    each by its key.
    """
    reader = _Reader(text)
    model = _model(reader)
    if reader.problems:
        raise UsageError("\n".join(f"model dimensions: {problem}" for problem in reader.problems))
    return dataclasses.replace(model, name=dimensions_of(model))


def dimensions_of(model: Model) -> str:
    """Return the dimensions of a model as text, what is by default left out."""
    said: list[tuple[str, object]] = [
        ("layers", model.layers),
        ("hidden", model.hidden),
        ("heads", model.heads),
    ]
    if model.kv_heads != model.heads:
        said.append(("kv-heads", model.kv_heads))
    if model.latent is None and model.head_dim * model.heads != model.hidden:
        said.append(("head-dim", model.head_dim))
    said += [("ffn", model.ffn), ("vocab", model.vocab)]
    said += [("gated", "no")] if not model.gated else []
    said += [("tied", "yes")] if model.tied else []
    said += _mixture_of(model.mixture) if model.mixture else []
    said += _latent_of(model.latent) if model.latent else []
    said += [("mtp", model.mtp)] if model.mtp else []
    said += [("window", model.window)] if model.window else []
    if model.window and model.window_layers != model.layers:
        said.append(("window-layers", model.window_layers))
    if model.params != _counted(model).params:
        said.append(("params", model.params))
    return ",".join(f"{key}={value}" for key, value in said)


def _mixture_of(mixture: Mixture) -> list[tuple[str, object]]:
    said: list[tuple[str, object]] = [
        ("experts", mixture.experts),
        ("topk", mixture.per_token),
        ("expert-ffn", mixture.ffn),
    ]
    said += [("shared-ffn", mixture.shared_ffn)] if mixture.shared_ffn else []
    return said + ([("dense", _ranges(mixture.dense_layers))] if mixture.dense_layers else [])


def _latent_of(latent: LatentAttention) -> list[tuple[str, object]]:
    said: list[tuple[str, object]] = [("kv-rank", latent.kv_rank)]
    said += [("q-rank", latent.query_rank)] if latent.query_rank else []
    return [
        *said,
        ("plain-dim", latent.plain_dim),
        ("rotary-dim", latent.rotary_dim),
        ("value-dim", latent.value_dim),
    ]


def _ranges(indexes: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return "+".join(f"{low}-{high}" if high > low else str(low) for low, high in runs)


def _counted(model: Model) -> Model:
    return counted(model, Family(gated=model.gated, tied=model.tied))


def _with_params(model: Model, params: int) -> Model:
    """Return a counted model with as many parameters; what is more lies in the attention."""
    each, rest = divmod(params - model.params, model.layers)
    extras = Extras(attention=model.extras.attention + each, outside=rest)
    return dataclasses.replace(model, params=params, extras=extras)


class _Reader:
    """Reads values by key and collects what is wrong with them."""

    def __init__(self, text: str) -> None:
        self.problems: list[str] = []
        self.said: dict[str, str] = {}
        for part in text.split(","):
            key, equals, value = part.strip().partition("=")
            key = key.strip().lower().replace("_", "-")
            if not equals:
                self.problems.append(f"expected key=value, got {part.strip()!r:.60}")
            elif key not in KEYS:
                self.problems.append(f"no key {key!r:.60}; {nearest(key, KEYS)}")
            elif key in self.said:
                self.problems.append(f"{key} stands twice")
            else:
                self.said[key] = value.strip()

    def number(self, key: str, default: int | None = None) -> int:
        """Return a positive whole number; 1 in place of what is missing or wrong."""
        text, most = self.said.get(key), _MOST.get(key, _MOST_OTHERS)
        if text is None and default is not None:
            return default
        if text is None:
            self.problems.append(f"{key} is missing: {KEYS[key].split(' [')[0]}")
        elif re.fullmatch(r"[1-9][0-9]{0,14}", text) and int(text) <= most:
            return int(text)
        else:
            self.problems.append(
                f"{key} must be a whole number from 1 to {most:,}, got {text!r:.60}"
            )
        return 1

    def flag(self, key: str, default: bool) -> bool:
        text = self.said.get(key)
        if text is None:
            return default
        if text.lower() not in _FLAGS:
            self.problems.append(f"{key} must be yes or no, got {text!r:.60}")
        return _FLAGS.get(text.lower(), default)

    def indexes(self, key: str, end: int) -> tuple[int, ...]:
        """Return the layers of a text like ``0-2+7``, in order."""
        found: set[int] = set()
        text = self.said.get(key)
        for part in text.split("+") if text is not None else ():
            match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
            low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
            if not low <= high < end:
                self.problems.append(f"{key} must be layers like 0-2+7 below {end}, got {text!r}")
                break
            found.update(range(low, high + 1))
        return tuple(sorted(found))

    def group(self, keys: tuple[str, ...]) -> bool:
        """Say whether the first key of a group is there; without it, the others may not be."""
        if keys[0] in self.said:
            return True
        self.problems += [f"{key} needs {keys[0]}" for key in keys[1:] if key in self.said]
        return False


def _model(reader: _Reader) -> Model:
    layers, hidden = reader.number("layers"), reader.number("hidden")
    heads = reader.number("heads")
    latent = _latent(reader) if reader.group(_LATENT) else None
    mixture = _mixture(reader, layers) if reader.group(_MIXTURE) else None
    window, window_layers = _window(reader, layers) if reader.group(_WINDOW) else (0, 0)
    model = Model(
        name="",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=reader.number("kv-heads", heads),
        head_dim=_head_dim(reader, hidden, heads, latent),
        ffn=reader.number("ffn", mixture.ffn if mixture else None),
        vocab=reader.number("vocab"),
        gated=reader.flag("gated", True),
        tied=reader.flag("tied", False),
        params=0,
        latent=latent,
        mixture=mixture,
        mtp=reader.number("mtp", 0),
        window=window,
        window_layers=window_layers,
    )
    if heads % model.kv_heads:
        reader.problems.append(f"heads, {heads}, must be a multiple of kv-heads, {model.kv_heads}")
    model = _counted(model)
    params = reader.number("params", model.params)
    if abs(params - model.params) > _COUNT_OFF * model.params and not reader.problems:
        made = f"the other dimensions make {model.params:,}"
        reader.problems.append(f"params is {params:,}, {made}")
    return _with_params(model, params)


def _window(reader: _Reader, layers: int) -> tuple[int, int]:
    count = reader.number("window-layers", layers)
    if count > layers:
        reader.problems.append(f"window-layers is {count}, more than layers, {layers}")
    return reader.number("window"), count


def _head_dim(reader: _Reader, hidden: int, heads: int, latent: LatentAttention | None) -> int:
    if latent is not None:
        usual = latent.plain_dim + latent.rotary_dim
        if reader.number("head-dim", usual) != usual:
            reader.problems.append(f"head-dim must be plain-dim + rotary-dim, {usual}")
        return usual
    if hidden % heads and "head-dim" not in reader.said and not reader.problems:
        reader.problems.append(f"hidden, {hidden}, is no multiple of heads, {heads}: say head-dim")
    return reader.number("head-dim", max(hidden // heads, 1))


def _latent(reader: _Reader) -> LatentAttention:
    return LatentAttention(
        query_rank=reader.number("q-rank", 0),
        kv_rank=reader.number("kv-rank"),
        plain_dim=reader.number("plain-dim"),
        rotary_dim=reader.number("rotary-dim"),
        value_dim=reader.number("value-dim"),
    )


def _mixture(reader: _Reader, layers: int) -> Mixture:
    experts, per_token = reader.number("experts"), reader.number("topk")
    if per_token > experts:
        reader.problems.append(f"topk is {per_token}, more than experts, {experts}")
    return Mixture(
        experts=experts,
        per_token=per_token,
        ffn=reader.number("expert-ffn"),
        shared_ffn=reader.number("shared-ffn", 0),
        dense_layers=reader.indexes("dense", layers),
    )
