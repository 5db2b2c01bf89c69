"""The curve over numbers of cards, and what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from supernode_slurm.errors import ConfigError, PlanError, UsageError
from supernode_slurm.inventory import Price, loads
from supernode_slurm.placement import Room, Wanted, find_slots, inventory_view
from supernode_slurm.sizing import Curve, curve, parse_range, parse_tokens, training
from supernode_slurm.sizing.cost import Cost, cost_of
from supernode_slurm.sizing.curve import WORTH, capacity, scaled
from supernode_slurm.sizing.question import predicted_of
from tests.test_inventory import SMALL
from tests.test_sizing import INVENTORIES, ask_of, room_of


def priced(price: str) -> Room:
    text = (INVENTORIES / "mixed.yaml").read_text("utf-8")
    inventory = loads(text.replace("policy: {", f"policy: {{price: {price}, "))
    return Room(inventory, inventory_view(inventory))


def drawn(cards: str, room: Room | None = None, data_s: float = 0.0, **said: object) -> Curve:
    room = room or room_of("mixed")
    numbers = parse_range(cards)
    assert numbers is not None
    told: list[str] = []
    ask = ask_of(room.inventory, **{"model": "llama-3-8b", **said}, cards=numbers.words)
    found = curve(room, replace(ask, data_s=data_s), numbers, told.append)
    assert len(told) == len(found.points)
    return found


def test_a_range_doubles_and_ends_where_it_is_told_to() -> None:
    numbers = parse_range("h100:8:100")
    assert numbers is not None
    assert (numbers.kind, numbers.words) == ("h100", "h100:8")
    assert numbers.counts == [8, 16, 32, 64, 100]
    plain = parse_range("8:1024")
    assert plain is not None
    assert (plain.kind, plain.counts[-1], len(plain.counts)) == (None, 1024, 8)


@pytest.mark.parametrize("text", ["64", "h100:64", "h100:8,a100:8", "8:", "h100:8:a100"])
def test_other_words_are_no_range(text: str) -> None:
    assert parse_range(text) is None


@pytest.mark.parametrize("text", ["8:8", "16:8", "h100:0:8"])
def test_a_range_rises(text: str) -> None:
    with pytest.raises(UsageError, match="a range rises"):
        parse_range(text)


def test_more_cards_are_faster_and_never_bring_more_than_their_worth() -> None:
    found = drawn("h100:8:64")
    times = [point.cost.seconds for point in found.points if point.cost]
    assert times == sorted(times, reverse=True)
    assert found.points[0].brings is None
    assert found.loses is None
    for before, point in zip(found.points, found.points[1:], strict=False):
        assert before.cost
        assert point.cost
        assert point.brings is not None
        speedup = before.cost.seconds / point.cost.seconds
        if speedup <= point.cards / before.cards:
            assert point.brings <= 1 + 1e-9


def test_what_goes_beyond_the_site_is_marked_and_keeps_the_size_of_its_supernodes() -> None:
    found = drawn("h100:64:512", model="llama-3-70b")
    assert found.owned == 128
    assert [point.beyond for point in found.points] == [False, False, True, True]
    room = room_of("mixed")
    (slot,) = find_slots(room, Wanted("h100", 8))
    assert capacity(room, slot) == 128
    for devices in (64, 128, 192, 1024):
        offer = scaled(room, slot, devices)
        assert offer.devices == devices
        assert offer.domain_devices <= 64
        assert offer.group.nodes % offer.domain_nodes == 0


def test_a_pool_beyond_the_site_stays_a_pool() -> None:
    room = room_of("mixed")
    (slot,) = find_slots(room, Wanted("a100", 8))
    assert scaled(room, slot, 256).domain_nodes == 1
    with pytest.raises(PlanError, match="no whole nodes of 8"):
        scaled(room, slot, 36)


def test_the_sweet_spot_is_where_added_cards_stop_bringing_half() -> None:
    bound_s = 4.0
    found = drawn("a100:8:512", data_s=bound_s)
    brings = {point.cards: point.brings for point in found.points}
    assert found.sweet is not None
    assert found.sweet < 512
    for cards, share in brings.items():
        if share is not None and cards <= found.sweet:
            assert share >= WORTH
    following = brings[found.sweet * 2]
    assert following is not None
    assert following < WORTH


@pytest.mark.parametrize("cards", ["h100:8:16", "h100:256:1000"])
def test_a_sweet_spot_that_is_not_reached_has_no_number(cards: str) -> None:
    found = drawn(cards)  # 32 layers and 1024 sequences leave no plan for 1000 cards.
    assert (found.points[-1].plan is None) == (cards == "h100:256:1000")
    assert found.sweet is None


def test_one_number_with_a_plan_says_nothing_of_a_sweet_spot() -> None:
    assert drawn("h100:16:24", model="llama-3-70b").sweet is None


def test_loading_of_data_is_named_where_it_begins_to_limit() -> None:
    free = drawn("a100:8:64")
    assert free.data_bound is None
    last = free.points[-1].cost
    assert last
    found = drawn("a100:8:64", data_s=1.5 * last.seconds)
    assert found.data_bound == 64
    assert drawn("a100:8:64", data_s=1.001 * last.seconds).data_bound == 64


def test_an_open_kind_is_the_fastest_at_the_first_number() -> None:
    assert drawn("128:256").kind == "h100"
    found = drawn("8:16")  # The site's policy sends small jobs to the a100.
    assert found.kind == "h100"
    times = [drawn(f"{kind}:8:16").points[0].cost for kind in ("h100", "a100", "ascend910c")]
    assert found.points[0].cost == min(times, key=lambda cost: cost.seconds if cost else 0)


def test_a_number_without_a_plan_says_why() -> None:
    found = drawn("h100:8:32", model="llama-3-70b")
    assert found.points[0].plan is None
    assert "GiB" in found.points[0].problem
    assert found.points[-1].plan is not None
    with pytest.raises(PlanError, match="GiB"):
        drawn("h100:1:2", model="llama-3-70b")


def test_numbers_are_cards_where_a_card_is_two_devices() -> None:
    found = drawn("ascend910c:8:32", model="llama-3-8b")
    assert [(point.cards, point.devices) for point in found.points] == [(8, 16), (16, 32), (32, 64)]
    assert found.owned == 32
    for point in found.points:
        assert point.cost
        assert point.cost.cards == point.cards


def test_cost_is_time_by_cards_power_and_price() -> None:
    room = priced("{h100-sxm: 20 CNY/h}")
    found = drawn("h100:8:16", room)
    for point in found.points:
        cost = point.cost
        assert cost
        assert point.plan
        assert cost.seconds == predicted_of(point.plan).step_time_s
        assert cost.card_hours == pytest.approx(point.cards * cost.seconds / 3600)
        assert cost.energy_kwh == pytest.approx(cost.card_hours * 0.7)
        assert cost.price
        assert cost.price.amount == pytest.approx(20 * cost.card_hours)
        assert cost.price.currency == "CNY"


def test_a_card_is_paid_once_though_it_is_two_devices() -> None:
    room = priced("{ascend-910c: 10 CNY/h}")
    cost = drawn("ascend910c:16:32", room).points[0].cost
    assert cost
    assert cost.price
    assert cost.price.amount == pytest.approx(10 * 16 * cost.seconds / 3600)


def test_a_whole_training_is_its_steps() -> None:
    point = drawn("h100:8:16").points[0]
    assert point.plan
    assert point.cost
    tokens = 1000.0 * point.plan.global_batch * point.plan.sequence
    whole = training(point.cost, point.plan, tokens)
    assert whole.seconds == pytest.approx(1000 * point.cost.seconds)
    assert whole.card_hours == pytest.approx(1000 * point.cost.card_hours)
    assert whole.cards == point.cost.cards
    assert whole.price is None


@pytest.mark.parametrize(
    ("text", "tokens"), [("300B", 3e11), ("1T", 1e12), ("1.5t", 1.5e12), ("7G", 7e9), ("42", 42)]
)
def test_tokens_are_read(text: str, tokens: float) -> None:
    assert math.isclose(parse_tokens(text), tokens)


@pytest.mark.parametrize("text", ["", "T", "0", "-1T", "1 X", "1e12", "0.1"])
def test_wrong_tokens_are_told(text: str) -> None:
    with pytest.raises(UsageError, match="like 300B"):
        parse_tokens(text)


def test_the_price_of_cards_stands_in_the_inventory() -> None:
    policy = loads(SMALL + "policy: {price: {H100: 3.1 CNY/h}}\n").policy
    assert policy.price("h100-sxm") == Price(3.1, "CNY")
    assert policy.price("a100-sxm-80g") is None


@pytest.mark.parametrize(
    ("price", "why"),
    [
        ("{H100: 3 CNY/h, h100-sxm: 2 USD/h}", "h100-sxm stands twice"),
        ("{h999: 3 CNY/h}", "no accelerator 'h999'"),
        ("{h100: 3}", "a quantity with its unit like '3.1 CNY/h'"),
        ("{h100: 3 yuan/h}", "a price like '3.1 CNY/h'"),
    ],
)
def test_a_wrong_price_is_told_with_its_place(price: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(SMALL + f"policy: {{price: {price}}}\n", "i.yaml")
    assert f"i.yaml:{len(SMALL.splitlines()) + 1}:" in str(caught.value)
    assert why in str(caught.value)


def test_prices_in_two_currencies_do_not_add_up() -> None:
    one = priced("{h100-sxm: 20 CNY/h, a100-sxm-80g: 10 CNY/h}")
    two = priced("{h100-sxm: 20 CNY/h, a100-sxm-80g: 2 USD/h}")
    for room, said in ((one, True), (two, False)):
        from supernode_slurm.placement import choose

        ask = ask_of(room.inventory, model="llama-3-8b", cards="h100:8,a100:8", global_batch=96)
        assert (cost_of(room.inventory, choose(room, ask)[0].plan).price is not None) == said


def test_many_steps_cost_as_many_times() -> None:
    cost = Cost(2.0, 8, 0.5, None, Price(3, "EUR"))
    assert cost.times(4) == Cost(8.0, 8, 2.0, None, Price(12, "EUR"))
