"""Guards against a model that fits its table instead of physics: constants, sources, limits."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supernode_slurm import planner
from supernode_slurm.catalogue import accelerators, find_model, models
from supernode_slurm.planner import Layout, Workload, predict
from supernode_slurm.planner.constants import SITE, constants_of
from supernode_slurm.planner.stacks import OF_FRAMEWORK, STACKS, UNKNOWN
from supernode_slurm.planner.table import OWN_ROWS, TABLE, Constant
from tests.test_planner import offer

MODULES = sorted(Path(planner.__file__).parent.glob("*.py"))
EVIDENCE = re.compile(r"\b20\d\d\b|@[0-9a-f]{7}|\w#\d+|assumed|a fit of the rows of")
"""A year, a revision, an issue; or that there is none, or none but judged runs."""

UNITS = {"bytes", "1", "s", "passes", "tokens", "GiB", "GB/s"}


def test_the_cost_model_has_few_constants() -> None:
    assert len(TABLE) <= 60
    assert len({item.name for item in TABLE}) == len(TABLE)


@pytest.mark.parametrize("constant", TABLE, ids=lambda item: item.name)
def test_each_constant_says_what_was_known_before(constant: Constant) -> None:
    low, high = constant.bounds
    assert constant.unit in UNITS
    what, _, evidence = constant.source.partition("; ")
    assert len(what) > 3
    assert EVIDENCE.search(evidence.partition("; neutral: ")[0])
    assert 0 < low <= constant.value <= high
    assert low <= constant.prior <= high
    assert low < high
    assert 0 < constant.spread <= 1
    # Nothing was fitted so far from its prior that the prior says nothing.
    assert 1 / 8 < constant.value / constant.prior < 8


def test_priors_that_stand_on_judged_runs_have_a_neutral_one() -> None:
    assert {item.name for item in TABLE if "the rows of" in item.source} == OWN_ROWS
    assert {item.name for item in TABLE if "; neutral: " in item.source} == OWN_ROWS
    for item in TABLE:
        low, high = item.bounds
        assert item.neutral is None or low <= item.neutral <= high, item.name


def test_a_value_far_from_its_prior_says_what_it_absorbs() -> None:
    for item in TABLE:
        far = abs(math.log(item.value / item.prior)) > 2 * item.spread
        if far or item.value in item.bounds:
            assert "absorbs" in item.source.lower(), item.name


def words_of(module: Path) -> str:
    return module.read_text(encoding="utf-8")


def test_each_constant_is_read_somewhere() -> None:
    """By its name, or by a name that is put together of a kind and a family of cards."""
    text = "\n".join(words_of(module) for module in MODULES if module.stem != "table")
    whole = set(re.findall(r"\w+", text))
    families = re.findall(r'named\(f"(\w+_)\{', text)
    for item in TABLE:
        built = any(
            item.name.startswith(start) and item.name[len(start) :] in whole for start in families
        )
        assert item.name in whole or built, item.name


def test_what_a_site_fits_and_what_a_stack_names_is_in_the_table() -> None:
    known = {item.name for item in TABLE}
    assert set(SITE) < known
    for stack in STACKS.values():
        named = (stack.tensor, stack.tensor_experts, stack.passes, stack.gap, stack.hopper)
        assert {*named, stack.network} <= known
        assert {stack.launch, stack.release} <= {*known, ""}
    assert {*OF_FRAMEWORK.values(), UNKNOWN} <= set(STACKS)


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module that are no documentation."""
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in documentation:
            yield text


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_nothing_in_the_planner_knows_a_model(module: Path) -> None:
    named = {part.lower() for model in models() for part in model.name.split("/")}
    families = {re.split(r"[-_\d.]", name)[0] for name in named} - {""}
    cards = {item.gres_type for item in accelerators()} | {item.id for item in accelerators()}
    for text in texts(ast.parse(words_of(module))):
        words = set(re.findall(r"[a-z]+", text.lower()))
        assert text.lower() not in named
        # Sources are told in prose; a name alone would be a switch.
        assert " " in text or not words & families or text in cards | {*STACKS, *OF_FRAMEWORK}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_dates_stand_only_in_the_table_of_stacks(module: Path) -> None:
    if module.stem in ("stacks", "table"):
        return
    for text in texts(ast.parse(words_of(module))):
        assert text in {item.name for item in TABLE} or not re.search(
            r"\b20[12]\d\b|_20[12]\d", text
        )


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_models_name_is_written_but_not_read(module: Path) -> None:
    tree = ast.parse(words_of(module))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Compare, ast.Subscript, ast.Match)):
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute) and part.attr == "name":
                    assert not ast.unparse(part.value).endswith("model")


def test_a_model_by_another_name_costs_the_same() -> None:
    for name in ("llama-3-8b", "mixtral-8x7b", "deepseek-v3"):
        model = find_model(name)
        layout = Layout(4, 4, 1, (model.layers,), ep=4)
        costs = [
            predict(Workload(item, 4096, 16), offer("h100", 2), layout)
            for item in (model, replace(model, name="other"))
        ]
        assert costs[0] == costs[1]


def test_a_sites_constants_replace_those_of_the_table() -> None:
    given_ = replace(offer("h100", 2), calibration=(("step_s", 0.5), ("network", 0.1)))
    constants = constants_of(given_)
    assert (constants.step_s, constants.network) == (0.5, 0.1)
    assert constants.scale_up == constants_of(offer("h100", 2)).scale_up
    with pytest.raises(AttributeError, match="no_constant"):
        constants.no_constant  # noqa: B018 - the access is what is tested
    asked, layout = Workload(find_model("llama-3-8b"), 4096, 64), Layout(8, 2, 1, (32,))
    known = predict(asked, offer("h100", 2), layout).breakdown_s
    changed = predict(asked, given_, layout).breakdown_s
    fitted = {item.name: item.value for item in TABLE}
    more = 0.5 - fitted["step_s"]
    assert changed["optimizer"] == pytest.approx(known["optimizer"] + more)
    assert changed["dp"] > known["dp"]
    assert changed["compute"] == known["compute"]
