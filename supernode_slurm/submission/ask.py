"""What the user asks, from words: one meaning for sn-submit, #SN lines and sn plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..catalogue import Model, UnknownName, find_model
from ..errors import UsageError, nearest
from ..frameworks import assumed, capabilities, known_on
from ..frameworks import names as framework_names
from ..inventory import Inventory
from ..placement import STRATEGIES, Ask, Limits
from ..planner import LOSSY, PRECISIONS, REDUCTIONS, SPARE, Capabilities, Fixed
from .bounds import limits_of
from .cards import Group, asked_groups
from .settings import Settings, of_component
from .site import Site

DEFAULT = "default"
"""The origin of what nobody said."""
TRAINING = ("full", "lora")
COUNTED = ("nodes", "ntasks", "gpus", "nodelist", "nodefile")
"""Options of sbatch that hold for all groups of a job: with them no group is left out."""
_RECIPE = {"sequence": 4096, "global-batch": 1024, "lora-rank": 16}
"""What is taken where nobody says otherwise."""
FIXED = {
    **{"tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "etp": "etp", "zero": "zero"},
    **{"virtual-stages": "virtual_stages", "micro-batch": "micro_batch"},
}
"""Planning values, read in the script itself, that settle a part of the layout."""


def ask_at(site: Site, said: Settings, parts: Sequence[Settings]) -> Ask:
    """Return what is asked for, each group within the bounds of its component's options.

    Raises ``UsageError`` that names the option with its origin.
    """
    groups = asked_groups(site.inventory, said, parts)
    alone = len(parts) == len(groups)
    limits = [
        limits_of(site, of_component(parts, index), group, alone)
        for index, group in enumerate(groups)
    ]
    ask = make_ask(site.inventory, said, groups, limits)
    counted = any(name in given.values for given in parts for name in COUNTED)
    return replace(ask, whole=counted or len(parts) > 1)


def make_ask(
    inventory: Inventory, said: Settings, groups: Sequence[Group], limits: Sequence[Limits]
) -> Ask:
    """Return what the planning options ask for, with groups and bounds known.

    Raises ``UsageError`` that names the option with its origin.
    """
    cards = tuple((group.kind, group.devices) for group in groups)
    model = _model(said)
    devices = sum(group.devices for group in groups)
    able, others, by_maker = _frameworks(inventory, said, [kind for kind, _ in cards])
    reduction, lossy = _reduction(said)
    able = _summing(able, reduction, lossy)
    others = tuple(_summing(item, reduction, lossy) for item in others)
    by_maker = {maker: _summing(item, reduction, lossy) for maker, item in by_maker.items()}
    unplanned = _unplanned(said, (able, *others))
    training = _training(said)
    return Ask(
        cards=cards,
        able=able,
        others=others,
        by_maker=by_maker,
        known={maker: known_on(maker) for maker in _makers(inventory, [None])},
        open_cards=any(group.cards for group in groups),
        model=None if unplanned else model,
        sequence=_positive(said, "sequence"),
        global_batch=_global_batch(said, able, devices),
        precision=_precision(said),
        exact="precision" in said.values,
        training=training,
        lora_rank=_positive(said, "lora-rank") if training == "lora" else 1,
        fixed=_fixed(said),
        data_s=_seconds(said, "data-time"),
        reduction=reduction,
        spare=_spare(said),
        limits=tuple(limits),
        least_gain=inventory.policy.supernode_gain,
        prefer=_prefer(inventory, said, cards),
        strategy=_strategy(said),
        notes=(
            *said.notes,
            *_strategy_notes(said, cards),
            *(unplanned if model else ()),
            *(group.note for group in groups if group.note),
        ),
    )


def _frameworks(
    inventory: Inventory, said: Settings, kinds: Sequence[str | None]
) -> tuple[Capabilities, tuple[Capabilities, ...], dict[str, Capabilities]]:
    """Return the framework, what is tried besides, and that of each maker's cards alone.

    The latter two are empty where the user, or the kind of cards, leaves but one.
    """
    makers = _makers(inventory, kinds)
    if "framework" in said.values or not makers:
        said.add("framework", "torch", DEFAULT)
        return capabilities(_framework(said)), (), {}
    by_maker = {maker: assumed([maker], mixed=False)[0] for maker in makers}
    if kinds == [None]:
        first, *others = by_maker.values()
    else:
        first, *others = assumed(makers, mixed=len(kinds) > 1)
    said.add("framework", first.name, DEFAULT)
    if kinds == [None]:
        return first, (), by_maker
    return first, tuple(others), by_maker if len(kinds) > 1 else {}


def _makers(inventory: Inventory, kinds: Sequence[str | None]) -> list[str]:
    """Return the makers of some kinds of cards, or of all."""
    found = [
        inventory.accelerator(devices.accelerator).vendor
        for nodes in inventory.node_classes
        for devices in nodes.devices
        if kinds == [None] or devices.type in kinds
    ]
    return list(dict.fromkeys(found))


def _model(said: Settings) -> Model | None:
    text = said.values.get("model")
    if text is None:
        return None
    try:
        return find_model(text)
    except UnknownName as error:
        hint = "'sn show models' lists the names; else give the path of a config.json"
        raise UsageError(f"--model ({said.origins['model']}): {error}; {hint}") from error


def _framework(said: Settings) -> str:
    name = said.values["framework"]
    if name not in framework_names():
        hint = nearest(name, framework_names())
        raise UsageError(f"--framework ({said.origins['framework']}): no '{name}'; {hint}")
    return name


def _training(said: Settings) -> str:
    text = said.values.get("train", TRAINING[0])
    if text not in TRAINING:
        raise UsageError(f"{said.said('train')}: expected full or lora")
    return text


def _strategy(said: Settings) -> str:
    text = said.values.get("strategy", STRATEGIES[0])
    if text not in STRATEGIES:
        raise UsageError(f"{said.said('strategy')}: no such strategy; {nearest(text, STRATEGIES)}")
    return text


def _strategy_notes(said: Settings, cards: Sequence[tuple[str | None, int]]) -> list[str]:
    if len(cards) > 1 or said.origins.get("strategy") != "command line":
        return []
    return [f"{said.said('strategy')} counts with several kinds of --cards only"]


def _precision(said: Settings) -> str:
    text = said.values.get("precision", PRECISIONS[0])
    if text not in PRECISIONS:
        raise UsageError(f"{said.said('precision')}: {', '.join(PRECISIONS)} are planned")
    return text


def _fixed(said: Settings) -> Fixed:
    """Return the sizes that the script's own arguments fix."""
    sizes = {
        key: int(said.values[name])
        for name, key in FIXED.items()
        if said.values.get(name, "").isdecimal()
    }
    return Fixed(
        tp=sizes.get("tp"),
        pp=sizes.get("pp"),
        micro_batch=sizes.get("micro_batch"),
        zero=sizes.get("zero"),
        cp=sizes.get("cp"),
        ep=sizes.get("ep"),
        etp=sizes.get("etp"),
        virtual_stages=sizes.get("virtual_stages"),
    )


def _unplanned(said: Settings, ables: Sequence[Capabilities]) -> list[str]:
    """Return why what a script itself settles is beyond its framework, if it is."""
    found = []
    precision = said.values.get("precision", "bf16")
    if "precision" in said.read and all(precision not in able.precisions for able in ables):
        able = ables[0]
        found.append(
            f"placed, not planned: {able.name} is planned in {', '.join(able.precisions)}, not in "
            f"{precision} ({said.origins['precision']})"
        )
    return found


def _global_batch(said: Settings, able: Capabilities, devices: int) -> int:
    """Return the samples of a step, where need be from those of each replica.

    Every device is a replica where the framework cuts no model.
    """
    each = [name for name in ("micro-batch", "accumulation") if name in said.values]
    if "global-batch" in said.values or len(each) < 2 or able.tensor or able.pipeline:
        return _positive(said, "global-batch")
    return devices * _positive(said, "micro-batch") * _positive(said, "accumulation")


def _prefer(
    inventory: Inventory, said: Settings, cards: Sequence[tuple[str | None, int]]
) -> str | None:
    """Return the partition that the site's policy gives small jobs whose kind is open."""
    policy = inventory.policy
    small = policy.whole_supernode_from is None or cards[0][1] < policy.whole_supernode_from
    is_open = cards[0][0] is None or said.values.get("cards", "").isdecimal()
    return policy.small_jobs_to if small and is_open else None


def _seconds(said: Settings, name: str) -> float:
    text = said.values.get(name, "0")
    if not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", text):
        raise UsageError(f"{said.said(name)}: expected seconds, like 0.5")
    return float(text)


def _reduction(said: Settings) -> tuple[str, bool]:
    """Return what gradients are summed in, empty where it is open, and whether a loss may be."""
    name, lossy = said.values.get("reduce-gradients", ""), said.values.get("allow-lossy", "no")
    if name and name not in REDUCTIONS:
        raise UsageError(f"{said.said('reduce-gradients')}: {nearest(name, REDUCTIONS)}")
    if lossy not in ("yes", "no"):
        raise UsageError(f"{said.said('allow-lossy')}: expected yes or no")
    if name in LOSSY and lossy == "no":
        raise UsageError(
            f"{said.said('reduce-gradients')}: it changes what is learnt; add --allow-lossy yes"
        )
    return name, lossy == "yes"


def _summing(able: Capabilities, reduction: str, lossy: bool) -> Capabilities:
    """Return what a framework can run that sums gradients so, with a loss or without."""
    names = tuple(name for name in able.reductions if lossy or name not in LOSSY)
    # ZeRO++ quantises the gradients of ZeRO-3.
    zero = (3,) if reduction in LOSSY else able.zero
    return replace(able, reductions=names, zero=zero)


def _spare(said: Settings) -> float:
    text = said.values.get("spare-memory")
    if text is None:
        return SPARE
    if not re.fullmatch(r"[0-9]{1,2}(?:\.[0-9]{1,9})?%?", text):
        raise UsageError(f"{said.said('spare-memory')}: expected a percentage below 100, like 10")
    return float(text.rstrip("%")) / 100


def _positive(said: Settings, name: str) -> int:
    said.add(name, str(_RECIPE.get(name, "")), DEFAULT)
    text = said.values[name]
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise UsageError(
            f"--{name} ({said.origins[name]}): expected a positive whole number, got {text!r:.80}"
        )
    return int(text)
