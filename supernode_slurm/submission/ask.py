"""What the user asks, from words: one meaning for sn-submit, #SN lines and sn plan."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..catalogue import Model, UnknownName, find_accelerator, find_model
from ..errors import UsageError, nearest
from ..frameworks import capabilities
from ..frameworks import names as framework_names
from ..inventory import Inventory
from ..placement import Ask, Limits
from ..planner import PRECISIONS, Capabilities, Fixed
from .bounds import limits_of
from .cards import Group, asked_groups
from .settings import Settings, of_component
from .site import Site

DEFAULT = "default"
"""The origin of what nobody said."""
TRAINING = ("full", "lora")
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
    return make_ask(site.inventory, said, groups, limits)


def make_ask(
    inventory: Inventory, said: Settings, groups: Sequence[Group], limits: Sequence[Limits]
) -> Ask:
    """Return what the planning options ask for, with groups and bounds known.

    Raises ``UsageError`` that names the option with its origin.
    """
    cards = tuple((group.kind, group.devices) for group in groups)
    model = _model(said)
    devices = sum(group.devices for group in groups)
    said.add("framework", default_framework(inventory, [kind for kind, _ in cards]), DEFAULT)
    able = capabilities(_framework(said))
    unplanned = _unplanned(said, able)
    training = _training(said)
    return Ask(
        cards=cards,
        able=able,
        open_cards=any(group.cards for group in groups),
        model=None if unplanned else model,
        sequence=_positive(said, "sequence"),
        global_batch=_global_batch(said, able, devices),
        precision=_precision(said),
        training=training,
        lora_rank=_positive(said, "lora-rank") if training == "lora" else 1,
        fixed=_fixed(said),
        limits=tuple(limits),
        least_gain=inventory.policy.supernode_gain,
        prefer=_prefer(inventory, said, cards),
        notes=(
            *said.notes,
            *(unplanned if model else ()),
            *(group.note for group in groups if group.note),
        ),
    )


def default_framework(inventory: Inventory, kinds: Sequence[str | None]) -> str:
    """Return the framework that can run such a job: several kinds need one that can mix."""
    if len(kinds) == 1:
        return "megatron"
    vendors = {
        find_accelerator(devices.accelerator).vendor
        for nodes in inventory.node_classes
        for devices in nodes.devices
        if devices.type in kinds
    }
    return "torch" if len(vendors) == 1 else "flagscale"


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


def _unplanned(said: Settings, able: Capabilities) -> list[str]:
    """Return why what a script itself settles is beyond its framework, if it is."""
    found = []
    precision = said.values.get("precision", "bf16")
    if precision not in able.precisions and "precision" in said.read:
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


def _positive(said: Settings, name: str) -> int:
    said.add(name, str(_RECIPE.get(name, "")), DEFAULT)
    text = said.values[name]
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise UsageError(
            f"--{name} ({said.origins[name]}): expected a positive whole number, got {text!r:.80}"
        )
    return int(text)
