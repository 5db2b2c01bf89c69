"""The global order is the same whatever the ranks, the shares, and the restarts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.runtime import Share, ShareSampler, equal_share
from supernode_slurm.runtime.order import Order
from tests.in_threads import SumOverRanks, run


def shares_of(samples: Sequence[int], micro_batches: Sequence[int] = ()) -> list[Share]:
    """Return the share of each rank, where each is a replica."""
    sizes = tuple(micro_batches or [2] * len(samples))
    return [
        Share(
            rank, len(samples), "h100", "h100-sxm", samples[rank], sum(samples[:rank]),
            sum(samples), rank, sizes[rank], tuple(samples), sizes,
        )
        for rank in range(len(samples))
    ]  # fmt: skip


def cut(total: int, marks: Sequence[int]) -> list[int]:
    """Return parts of at least one that sum to the total, cut at these marks."""
    edges = [0, *sorted({mark % (total - 1) + 1 for mark in marks}), total] if total > 1 else [0, 1]
    return [last - first for first, last in pairwise(edges)]


class Loader:
    """Stands in for torch's DataLoader: asks for batches ahead of the loop."""

    def __init__(self, sampler: ShareSampler, ahead: int) -> None:
        self._sampler, self._ahead = sampler, ahead

    def __iter__(self) -> Iterator[list[int]]:
        source = iter(self._sampler)
        ready = list(islice(source, self._ahead))
        while ready:
            yield ready.pop(0)
            ready += islice(source, 1)


def train(sampler: ShareSampler, steps: int, ahead: int = 0) -> list[list[int]]:
    """Return this rank's samples of each of the next steps, over the ends of epochs."""
    found: list[list[int]] = []
    while len(found) < steps:
        for micros in sampler.steps(Loader(sampler, ahead + 1)):
            found.append([sample for micro in micros for sample in micro or []])
            sampler.finish_step()
            if len(found) == steps:
                break
    return found


def together(ranks: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    """Return each step's samples in the order of the ranks."""
    return [[sample for part in step for sample in part] for step in zip(*ranks, strict=True)]


def test_an_order_holds_every_sample_once() -> None:
    for length in (*range(1, 130), 1000, 1023, 1024, 1025):
        order = Order(length, 7, 0)
        assert sorted(order[place] for place in range(length)) == list(range(length))
    with pytest.raises(IndexError):
        Order(5, 7, 0)[5]


def test_orders_of_epochs_and_seeds_look_like_chance() -> None:
    length, places = 24, 5
    # Where sample 0 stands, and who follows it: each of 24 (23) is equally likely.
    where: Counter[int] = Counter()
    after: Counter[int] = Counter()
    for epoch in range(2400):
        order = [Order(length, epoch % places, epoch)[place] for place in range(length)]
        where[order.index(0)] += 1
        after[order[(order.index(0) + 1) % length]] += 1
    for counts, kinds in ((where, length), (after, length - 1)):
        expected = 2400 / kinds
        chi = sum((count - expected) ** 2 / expected for count in counts.values())
        assert len(counts) == kinds
        assert chi < 60, "the 0.01 % quantile of 23 degrees of freedom is 55"
    assert len({tuple(Order(9, seed, 0)[place] for place in range(9)) for seed in range(99)}) > 95


@given(
    length=st.integers(4, 90),
    batch=st.integers(4, 12),
    marks=st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=3, max_size=3),
    stops=st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6)),
    options=st.tuples(st.booleans(), st.sampled_from(["drop", "pad"]), st.booleans()),
    ahead=st.integers(0, 9),
)
def test_each_steps_samples_are_the_same_for_every_split(
    length: int,
    batch: int,
    marks: list[list[int]],
    stops: tuple[int, int, int],
    options: tuple[bool, str, bool],
    ahead: int,
) -> None:
    shuffle, last, equal_steps = options
    if last == "drop" and length < batch:
        return

    def sampler(share: Share) -> ShareSampler:
        return ShareSampler(length, share, 3, shuffle, last, equal_steps)

    (alone,) = shares_of([batch], [batch])
    whole = train(sampler(alone), sum(stops))
    found: list[list[int]] = []
    state = ""
    # Three runs with other ranks and shares; each goes on where the one before it stopped.
    for split, stop in zip(marks, stops, strict=True):
        samplers = [sampler(share) for share in shares_of(cut(batch, split))]
        if state:
            for each in samplers:
                each.load_state_dict(json.loads(state))
        found += together([train(each, stop, ahead) for each in samplers])
        states = {json.dumps(each.state_dict()) for each in samplers}
        assert len(states) == 1
        state = states.pop()
    assert found == whole


@given(
    changes=st.lists(
        st.tuples(st.lists(st.integers(0, 11), min_size=2, max_size=2, unique=True)),
        min_size=1,
        max_size=6,
    ),
    aheads=st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    equal_steps=st.booleans(),
)
def test_shares_change_at_the_same_step_although_loaders_fetch_ahead(
    changes: list[tuple[list[int]]], aheads: tuple[int, int, int], equal_steps: bool
) -> None:
    batch, length, steps = 13, 100, 16
    wanted = [cut(batch, marks) for (marks,) in changes]
    begin = shares_of([5, 4, 4])
    (alone,) = shares_of([batch], [batch])
    whole = train(ShareSampler(length, alone), steps)

    def work(rank: int, sum_over_ranks: SumOverRanks) -> tuple[list[list[int]], list[int]]:
        sampler = ShareSampler(length, begin[rank], equal_steps=equal_steps)
        found: list[list[int]] = []
        counts: list[int] = []
        while len(found) < steps:
            for micros in sampler.steps(Loader(sampler, aheads[rank] + 1)):
                counts.append(len(micros))
                found.append([sample for micro in micros for sample in micro or []])
                assert len(found[-1]) == sampler.shares[rank]
                sampler.finish_step()
                if len(found) % 2 == 1 and len(found) // 2 < len(wanted):
                    new = wanted[len(found) // 2]
                    sampler.set_shares(new, sampler.first_open_step(sum_over_ranks))
                if len(found) == steps:
                    break
        return found, counts

    done = run(3, work)
    assert together([found for found, _ in done]) == whole
    assert not equal_steps or len({tuple(counts) for _, counts in done}) == 1


def test_new_shares_are_used_from_their_step_on_and_not_before() -> None:
    sampler = ShareSampler(100, shares_of([4, 4])[0])
    found = []
    for micros in sampler.steps(Loader(sampler, 5)):
        found.append(sum(len(micro or []) for micro in micros))
        if sampler.step == 0:
            # Two micro-steps to a step: five of them, and the one that replaced the first.
            with pytest.raises(ValueError, match=r"step 2 is handed out; the first open step .* 3"):
                sampler.set_shares([6, 2], 2)
            sampler.set_shares([6, 2], 4)
            sampler.set_shares([7, 1], 8)
            sampler.set_shares([2, 6], 6)
        sampler.finish_step()
    assert found == [4, 4, 4, 4, 6, 6, 2, 2, 2, 2, 2, 2]
    with pytest.raises(ValueError, match="sum to 9"):
        sampler.set_shares([6, 3], 20)


def test_the_length_counts_the_micro_batches_to_come() -> None:
    sampler = ShareSampler(100, shares_of([5, 3])[0])
    assert len(sampler) == 12 * 3
    sampler.set_shares([2, 6], 4)
    sampler.set_shares([7, 1], 8)
    sampler.set_shares([4, 4], 6)
    for done in range(12):
        assert len(sampler) == len(list(sampler))
        micros = next(sampler.steps(sampler))
        assert len(micros) == (3 if done < 4 else 1 if done < 6 else 2)
        sampler.finish_step()
    assert (sampler.epoch, sampler.step, sampler.consumed, len(sampler)) == (1, 12, 0, 12 * 2)
    with pytest.raises(TypeError):
        len(ShareSampler(8, shares_of([5, 3])[0], lengths=[1] * 8))


def test_the_end_of_an_epoch_is_dropped_or_padded() -> None:
    whole: dict[str, list[list[int]]] = {}
    for last, steps in (("drop", 2), ("pad", 3)):
        (share,) = shares_of([4], [4])
        sampler = ShareSampler(10, share, last=last)
        whole[last] = train(sampler, steps)
        assert sampler.epoch == 1
    assert whole["pad"][:2] == whole["drop"]
    samples = list(chain(*whole["pad"]))
    assert sorted(samples[:10]) == list(range(10))
    assert samples[10:] == samples[:2]
    assert len(next(iter(ShareSampler(3, equal_share(8, 8, {}), last="pad")))) == 8
    with pytest.raises(ValueError, match="3 samples make no global batch of 8"):
        ShareSampler(3, equal_share(8, 8, {}))


def test_an_epoch_has_another_order_and_no_shuffle_has_none() -> None:
    (share,) = shares_of([4], [4])
    first, second = (train(ShareSampler(12, share, seed), 6) for seed in (0, 1))
    assert sorted(chain(*first[:3])) == sorted(chain(*first[3:])) == list(range(12))
    assert first[:3] != first[3:]
    assert first != second
    assert train(ShareSampler(12, share, shuffle=False), 3) == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11],
    ]  # fmt: skip


def test_an_empty_micro_step_is_none_and_not_handed_to_the_loader() -> None:
    share = shares_of([5, 1])[1]
    sampler = ShareSampler(60, share, equal_steps=True)
    micros = next(sampler.steps(sampler))
    assert [micro and len(micro) for micro in micros] == [1, None, None]
    sampler = ShareSampler(60, share)
    assert [len(micro or []) for micro in next(sampler.steps(sampler))] == [1]


def test_lengths_cut_by_tokens_in_proportion_to_the_shares() -> None:
    lengths = [1 + (sample * sample) % 97 for sample in range(400)]
    (alone,) = shares_of([40], [40])
    whole = train(ShareSampler(400, alone, lengths=lengths), 20)
    ranks = [
        ShareSampler(400, share, equal_steps=True, lengths=lengths) for share in shares_of([25, 15])
    ]
    parts = [train(sampler, 20) for sampler in ranks]
    assert together(parts) == whole
    for strong, weak in zip(*parts, strict=True):
        tokens = [sum(lengths[sample] for sample in part) for part in (strong, weak)]
        # No cut of whole samples is nearer than half of the longest.
        assert tokens[0] == pytest.approx(sum(tokens) * 25 / 40, abs=97)
    counts = [len(next(each.steps(each))) for each in ranks]
    assert counts[0] == counts[1]
    with pytest.raises(ValueError, match="1 lengths for 400 samples"):
        ShareSampler(400, alone, lengths=[1])


def test_a_larger_global_batch_goes_on_in_the_same_order() -> None:
    (small,), (large,) = shares_of([4], [4]), shares_of([6], [6])
    whole = list(chain(*train(ShareSampler(50, small), 12)))
    before = ShareSampler(50, small)
    train(before, 5)
    after = ShareSampler(50, large, seed=99)
    after.load_state_dict(before.state_dict())
    assert list(chain(*train(after, 4))) == whole[20:44]
    # Six are left, then none: the next epoch begins.
    assert (after.epoch, after.steps_left) == (0, 1)
    train(after, 1)
    assert (after.epoch, after.consumed, after.step) == (1, 0, 10)
    with pytest.raises(ValueError, match="a data set of 50 samples, this one has 51"):
        ShareSampler(51, small).load_state_dict(before.state_dict())


def test_a_state_leaves_the_shares_as_they_are() -> None:
    sampler = ShareSampler(100, shares_of([4, 4])[0])
    sampler.set_shares([6, 2], 0)
    other = ShareSampler(100, shares_of([5, 3])[0])
    train(other, 7)
    sampler.load_state_dict(other.state_dict())
    assert sampler.shares == (6, 2)


def test_a_loop_that_was_left_within_a_step_repeats_that_step() -> None:
    (share,) = shares_of([4], [4])
    sampler, other = ShareSampler(50, share), ShareSampler(50, share)
    whole = train(other, 4)
    assert train(sampler, 2, ahead=6) == whole[:2]
    next(sampler.steps(Loader(sampler, 3)))
    assert train(sampler, 2) == whole[2:]


def test_wrong_use_is_told() -> None:
    (share,) = shares_of([4], [2])
    sampler = ShareSampler(50, share)
    with pytest.raises(RuntimeError, match="step 0 was not handed out"):
        sampler.finish_step()
    steps = sampler.steps(sampler)
    next(steps)
    with pytest.raises(RuntimeError, match="step 0 is not finished"):
        next(steps)
    other: list[list[int]] = [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="give it as batch_sampler"):
        next(ShareSampler(50, share).steps(other))
    with pytest.raises(RuntimeError, match="give it as batch_sampler"):
        next(sampler.steps(islice(sampler, 1)))
    with pytest.raises(ValueError, match="last is 'keep'; give one of drop, pad"):
        ShareSampler(50, share, last="keep")
    with pytest.raises(ValueError, match="other replicas are not known"):
        ShareSampler(50, Share(0, 1, "h100", "h100-sxm", 4, 0, 4))
