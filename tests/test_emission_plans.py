"""What the search proposes is what frameworks can be told: no plan is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities, emit, names
from supernode_slurm.planner import Offer, Workload, plan_uniform
from tests.test_planner import offer, workload

MODELS = ("llama-3-8b", "llama-3-70b", "mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3")
"""Dense, mixtures, latent attention, MTP."""
OFFERS = (
    offer("a100-sxm-80g", 8),
    offer("h100-sxm", 12),
    offer("gb200", 18, 4, 18),
    replace(offer("ascend910c", 24, 16, 24), interconnect="clos"),
)
RECIPES = ((4100, 576, "bf16"), (32768, 288, "fp8"))
"""Sequence, global batch and precision."""
LOOKED_AT = 10


def emitted(asked: Workload, given: Offer) -> int:
    """Return how many of the first plans were emitted, none where nothing fits."""
    able = capabilities(asked.framework)
    if asked.precision not in able.precisions:
        return 0
    try:
        found = plan_uniform(asked, given, able)[:LOOKED_AT]
    except PlanError:
        return 0
    for plan in found:
        emit(plan)
    return len(found)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("framework", names())
def test_every_plan_that_the_search_proposes_is_emitted(framework: str, model: str) -> None:
    count = sum(
        emitted(replace(workload(model, batch, sequence), framework=framework, precision=low), on)
        for on in OFFERS
        for sequence, batch, low in RECIPES
    )
    cuts = capabilities(framework).tensor
    assert count >= LOOKED_AT or not cuts
