"""What a plan takes besides time: card-hours, energy, money."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..catalogue import Accelerator
from ..errors import UsageError
from ..hostlist import expand
from ..inventory import Inventory, Price
from ..plan import DeviceGroup, Plan
from .question import predicted_of

_TOKENS = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMBGT]?)\Z", re.IGNORECASE)
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one step, or of many."""

    seconds: float
    cards: float
    """Whole cards, not devices."""
    card_hours: float
    energy_kwh: float | None
    """The cards' rated power over the time; None where nobody has said it."""
    price: Price | None
    """None where the site has said no price, or its cards have several currencies."""

    def times(self, count: float) -> Cost:
        """Return the cost of so many steps."""
        return Cost(
            seconds=self.seconds * count,
            cards=self.cards,
            card_hours=self.card_hours * count,
            energy_kwh=None if self.energy_kwh is None else self.energy_kwh * count,
            price=self.price and Price(self.price.amount * count, self.price.currency),
        )


def cost_of(inventory: Inventory, plan: Plan) -> Cost:
    """Return what one step of a plan costs."""
    seconds = predicted_of(plan).step_time_s
    hours = seconds / 3600
    held = [(_card(inventory, group), group.devices) for group in plan.groups]
    counts = [(card, devices / card.devices_per_card) for card, devices in held]
    powers = [card.card_tdp_w and card.card_tdp_w * count for card, count in counts]
    known = [watts for watts in powers if watts]
    prices = [(inventory.policy.price(card.id), count) for card, count in counts]
    said = [(price, count) for price, count in prices if price]
    total = sum(count for _, count in counts)
    money = None
    if len(said) == len(prices) and len({price.currency for price, _ in said}) == 1:
        amount = sum(price.amount * count for price, count in said) * hours
        money = Price(amount, said[0][0].currency)
    return Cost(
        seconds=seconds,
        cards=total,
        card_hours=total * hours,
        energy_kwh=sum(known) * hours / 1000 if len(known) == len(powers) else None,
        price=money,
    )


def _card(inventory: Inventory, group: DeviceGroup) -> Accelerator:
    """Return a group's kind of card, under the power cap of where it runs."""
    first = next(iter(expand(group.hosts)), "")
    domain = next((item.name for item in inventory.domains if first in item.hosts), "")
    return inventory.card_in(domain, group.accelerator)


def parse_tokens(text: str) -> float:
    """Return a number of tokens like ``300B`` or ``1T``; raises ``UsageError``."""
    found = _TOKENS.match(text.strip())
    tokens = float(found[1]) * _SCALE[found[2].upper()] if found else 0.0
    if tokens < 1:
        raise UsageError(f"--tokens: expected a number like 300B or 1.5T, got {text!r:.40}")
    return tokens


def training(cost: Cost, plan: Plan, tokens: float) -> Cost:
    """Return the cost of a whole training of so many tokens from that of a step."""
    return cost.times(tokens / (plan.global_batch * plan.sequence))
