"""Recorded runs: their format, their predictions, and the fit to them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from supernode_slurm.calibration.document import read_runs
from supernode_slurm.calibration.fit import TIMES, fit, folds, times
from supernode_slurm.calibration.judge import judge, order
from supernode_slurm.calibration.mixed import predict_mixed
from supernode_slurm.calibration.predictor import Predictor
from supernode_slurm.calibration.runs import Run, run_of, runs_of
from supernode_slurm.calibration.site import fit_site, text_of
from supernode_slurm.calibration.stacks import SOURCES, VARIANTS
from supernode_slurm.errors import ConfigError, PlanError
from supernode_slurm.inventory.calibration import load_calibration
from supernode_slurm.planner import Offer, predict
from supernode_slurm.planner.constants import DEFAULT, SITE, Constants, checked
from supernode_slurm.planner.stacks import OF_FRAMEWORK, STACKS, UNKNOWN, stack_of
from supernode_slurm.planner.table import TABLE
from tests.test_cli import run

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "benchmarks/published.yaml"

RUN: dict[str, Any] = {
    "id": "ours",
    "source": {"ref": "our cluster"},
    "model": {
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "kv_heads": 8,
        "ffn_hidden": 14336,
        "gated_mlp": True,
        "vocab": 128256,
        "seq": 4096,
    },
    "hardware": {"accelerator": "H100-SXM5-80GB", "count": 16, "cards_per_node": 8},
    "parallel": {
        "tp": 2,
        "pp": 2,
        "dp": 4,
        "micro_batch": 1,
        "global_batch": 64,
        "recompute": "none",
        "sequence_parallel": True,
        "precision": "bf16",
    },
    "measured": {"step_time_s": 4.0},
}


def a_run(**changes: Any) -> Run:
    raw = copy.deepcopy(RUN)
    for name, value in changes.items():
        part, _, key = name.partition("__")
        if key:
            raw[part][key] = value
        else:
            raw[part] = value
    return run_of(raw)


@pytest.fixture(scope="module")
def published() -> list[Run]:
    return runs_of(read_runs(PUBLISHED))[0]


def test_a_run_is_predicted_as_the_planner_predicts_its_layout() -> None:
    run = a_run(stack="megatron")
    (judged,) = judge([run])
    alone = predict(run.workload, run.offers[0], run.layout)
    assert judged.step_time_s == pytest.approx(alone.step_time_s)
    assert sum(judged.breakdown.values()) == pytest.approx(judged.step_time_s)
    assert judged.off == pytest.approx(judged.step_time_s / 4.0 - 1)
    assert judged.memory_gib >= alone.memory_gib[0]
    assert judged.fits


def test_runs_predicted_together_are_predicted_as_alone(published: list[Run]) -> None:
    some = [run for run in published if not run.mixed][::23]
    together = judge(some)
    for one, found in zip(some, together, strict=True):
        (alone,) = judge([one])
        assert found.step_time_s == pytest.approx(alone.step_time_s), one.id
        assert found.memory_gib == pytest.approx(alone.memory_gib), one.id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model__layers": None}, "does not print layers"),
        ({"parallel__tp": None}, "does not print tp"),
        ({"parallel__tp": 0}, "parallel.tp must be a number from 1 on, got 0"),
        ({"parallel__dp": "four"}, "parallel.dp must be a number from 1 on, got 'four'"),
        ({"model__hidden": -4096}, "model.hidden must be"),
        ({"model__seq": 1.5}, "model.seq must be"),
        ({"hardware__count": 10**12}, "hardware.count must be"),
        ({"parallel__pp": True}, "parallel.pp must be"),
        ({"hardware__accelerator": "A100-SXM4-80GB", "parallel__precision": "FP8"}, "no units for"),
        ({"hardware__accelerator": "NoSuchCard 9000"}, "'NoSuchCard 9000' is not in the catalogue"),
    ],
)
def test_a_run_that_says_too_little_is_left_out_with_the_reason(
    change: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError, match=said.replace(".", r"\.").replace("'", ".")):
        a_run(**change)


@pytest.mark.parametrize(
    "raw", [None, 7, "run", [], {"id": "x"}, {"model": 3}, {"id": 1, "model": {}}]
)
def test_what_is_no_run_is_left_out_and_the_others_are_predicted(raw: object) -> None:
    runs, skipped = runs_of({"measurements": [raw, RUN]})
    assert [run.id for run in runs] == ["ours"]
    assert len(skipped) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a: [", "not valid YAML"),
        ("measurements: []", "holds no runs"),
        ("measurements: {a: 1}", "must be a list"),
        ("- 1", "holds no runs"),
        ("measurements: [1]\nmeasurements: [2]", "twice"),
    ],
)
def test_a_file_without_runs_is_told_with_its_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "läufe '; x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_runs(path)
    assert said in str(caught.value)
    assert path.name in str(caught.value)


def test_unprinted_sizes_are_the_fastest_and_the_least_that_fit() -> None:
    run = a_run(parallel__micro_batch=None, parallel__recompute=None, parallel__tp=1,
                parallel__pp=1, parallel__dp=16)  # fmt: skip
    (judged,) = judge([run])
    assert judged.fits
    tight = a_run(model__seq=16384, parallel__recompute=None, parallel__tp=1, parallel__pp=1,
                  parallel__dp=16)  # fmt: skip
    (again,) = judge([tight])
    assert again.fits
    assert 0 < again.recompute < 1
    # The run that printed no recomputation was taken to need just enough of it.
    none = a_run(model__seq=16384, parallel__tp=1, parallel__pp=1, parallel__dp=16)
    assert not judge([none])[0].fits


def test_a_failed_run_is_not_taken_to_have_recomputed() -> None:
    run = a_run(model__seq=65536, parallel__recompute=None, parallel__tp=1, parallel__pp=1,
                parallel__dp=16, measured={"oom": True})  # fmt: skip
    (judged,) = judge([run])
    assert judged.run.failed == "oom"
    assert judged.recompute == 0
    assert not judged.fits


def test_dimensions_that_are_not_printed_are_those_of_the_only_model_of_that_size() -> None:
    gemma = {"layers": 42, "hidden": 3584, "heads": 16, "kv_heads": 8, "ffn_hidden": 14336,
             "vocab": 256000, "seq": 8192}  # fmt: skip
    known = a_run(model=gemma).workload.model
    assert (known.head_dim, known.window, known.gated) == (256, 4096, True)
    other = a_run(model={**gemma, "vocab": 255999}).workload.model
    assert (other.head_dim, other.window, other.gated) == (224, 0, False)


def test_words_of_attention_are_read() -> None:
    text = "MLA q_lora=1024 kv_lora=256 qk_nope=96 rope=32 v=96"
    latent = a_run(model__attention=text).workload.model.latent
    assert latent is not None
    assert (latent.query_rank, latent.kv_rank, latent.plain_dim) == (1024, 256, 96)
    windowed = a_run(model__attention="alternating sliding window 128").workload.model
    assert (windowed.window, windowed.window_layers) == (128, 16)


def test_stages_of_a_mix_go_by_the_order_of_its_devices() -> None:
    hardware = {
        "mix": {"V100-16GB (p3.8xlarge)": 12, "T4 (g4dn.12xlarge)": 4},
        "count": 16,
        "cards_per_node": 4,
        "inter": "10 Gb/s (3 P3 nodes) / 50 Gb/s (1 G4dn node)",
        "intra": "170 Gb/s (P3 NVLink) / 50 Gb/s (G4dn PCIe)",
    }
    run = a_run(hardware=hardware, parallel__pp=4, parallel__tp=1, stack="deepspeed-pipeline-2022")
    assert run.stages == ((0,), (0,), (0,), (1,))
    assert [offer.network_gbs for offer in run.offers] == [1.25, 6.25]
    assert run.offers[0].scale_up_gbs == 21.25
    found = predict_mixed(run)
    assert found.time_s == pytest.approx(sum(found.breakdown_s.values()))
    faster = predict_mixed(run, {"network_tcp": 1.0, "tcp_gbs": 10.0})
    assert faster.time_s < found.time_s


def test_every_stack_names_constants_and_every_source_a_stack() -> None:
    constants = Constants()
    for stack in STACKS.values():
        for name in (stack.tensor, stack.tensor_experts, stack.passes, stack.gap, stack.network):
            constants.named(name)
        for name in (stack.hopper, stack.launch, stack.release):
            assert not name or constants.named(name) > 0
    assert {stack for _, stack in SOURCES} | {variant for *_, variant in VARIANTS} <= set(STACKS)
    assert set(OF_FRAMEWORK.values()) | {UNKNOWN} <= set(STACKS)
    assert stack_of("no such framework").name == UNKNOWN
    assert set(SITE) < {item.name for item in TABLE}


def test_the_order_of_layouts_is_judged_within_one_job(published: list[Run]) -> None:
    runs = [run for run in published if run.source.startswith("AMP") and not run.mixed]
    measured = [run.measured_s or 0.0 for run in runs]
    best = order(runs, measured)
    assert (best.groups, best.regret, best.right) == (1, 0, 1)
    worst = order(runs, [-seconds for seconds in measured])
    assert worst.right == 0
    assert worst.regret > 1


def a100_run(published: list[Run]) -> dict[str, Any]:
    names = {run.id for run in published if "foundry_a100" in run.id}
    raws = yaml.load(PUBLISHED.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return next(raw for raw in raws["measurements"] if raw["id"] in names)


def a_site(published: list[Run], slower: float) -> list[dict[str, Any]]:
    """Return H100 runs of a site whose cards are slower than the model has them."""
    names = {run.id for run in published if "foundry_h100" in run.id}
    raws = yaml.load(PUBLISHED.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    found = [raw for raw in raws["measurements"] if raw["id"] in names][::2]
    for raw in found:
        raw["measured"]["step_time_s"] *= slower
        raw["source"], raw["stack"] = {"ref": "ours"}, "llm-foundry"
    return found


def test_a_site_of_slower_cards_gets_slower_constants(published: list[Run], tmp_path: Path) -> None:
    runs, _ = runs_of({"measurements": a_site(published, 1.2)})
    fitted = fit_site(runs)
    assert fitted.helps
    assert fitted.error_after < fitted.error_before / 2
    assert fitted.constants["matmul_hopper"] < DEFAULT.matmul_hopper
    assert "matmul_ampere" not in fitted.constants
    (tmp_path / "calibration.yaml").write_text(text_of(fitted, "ours.yaml"), encoding="utf-8")
    read = load_calibration(tmp_path / "inventory.yaml")
    assert dict(read.constants) == pytest.approx(fitted.constants, rel=1e-4)
    assert (read.runs, read.error) == (fitted.runs, pytest.approx(fitted.error_after, abs=1e-4))
    checked(read.constants, read.source)
    slow: Offer = runs[0].offers[0]
    own = Offer(**{
        name: getattr(slow, name) for name in Offer.__slots__ if name != "calibration"
    }, calibration=read.constants)  # fmt: skip
    run = runs[0]
    assert (
        predict(run.workload, own, run.layout).step_time_s
        > predict(run.workload, slow, run.layout).step_time_s
    )


def test_too_few_runs_are_not_fitted(published: list[Run]) -> None:
    few = [run for run in published if "foundry_h100" in run.id][:3]
    with pytest.raises(PlanError, match="3 different timed runs on one kind of device: too few"):
        fit_site(few)


def test_repeats_of_a_configuration_stay_together(published: list[Run]) -> None:
    runs = [run for run in published if not run.mixed and run.measured_s]
    predictor = Predictor(runs)
    parts = folds(predictor.runs)
    of: dict[tuple[object, ...], set[int]] = {}
    for one, part in zip(predictor.runs, parts.tolist(), strict=True):
        of.setdefault(one.configuration, set()).add(part)
    assert all(len(found) == 1 for found in of.values())
    assert len(of) < len(runs)
    assert set(parts.tolist()) == set(range(5))


def test_the_table_holds_what_the_fit_to_the_published_runs_gives() -> None:
    from benchmarks.scored import RUNS, fair, given

    runs = given(read_runs(RUNS))
    predictor = Predictor([run for run in runs if fair(run) and not run.mixed])
    names = ("matmul_hopper", "network", "tensor_plain")
    now = {item.name: item.value for item in TABLE}
    values = fit(predictor, names, now)
    for name in names:
        assert values[name] == pytest.approx(now[name], rel=0.01), name
    assert len(TIMES) + 5 == len(TABLE)
    measured = np.array([run.measured_s for run in predictor.runs], float)
    assert np.abs(times(predictor, {}) / measured - 1).mean() < 0.06


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("constants: {no_such: 1.0}", "no constant 'no_such'"),
        ("constants: {network: 99}", "network is 99, which lies outside"),
        ("constants: {network: fast}", "network must be a positive number"),
        ("constants: {}", "holds no constants"),
        ("runs: 3", "holds no constants"),
        ("constants: [", "not valid YAML"),
        ("constants: {network: 0.8}\ncompared: [{model: dense}]", "expected model: dense or"),
        ("constants: {network: 0.8}\ncompared: dense", "expected model: dense or"),
    ],
)
def test_a_broken_calibration_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "calibration.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        found = load_calibration(tmp_path / "inventory.yaml")
        checked(found.constants, found.source)
    assert said in str(caught.value)
    assert "calibration.yaml" in str(caught.value)


def test_without_a_calibration_the_table_holds(tmp_path: Path) -> None:
    assert load_calibration(tmp_path / "inventory.yaml").constants == ()


def write_runs(path: Path, raws: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"measurements": raws}), encoding="utf-8")
    return path


def test_the_command_prints_predictions_as_json(tmp_path: Path) -> None:
    path = write_runs(
        tmp_path / "runs.json", [RUN, {**RUN, "id": "open", "measured": {}}, {"id": 3}]
    )
    done = run("calibrate", str(path), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["version"] == 1
    assert [run["id"] for run in found["runs"]] == ["ours", "open"]
    first = found["runs"][0]
    assert first["step_time_s"] > 0
    assert first["memory_gib"] > 0
    assert sum(first["breakdown"].values()) == pytest.approx(first["step_time_s"])
    assert found["runs"][1]["error"] is None
    assert found["skipped"][0]["id"] == "3"


def test_the_command_fits_writes_and_uses_a_calibration(
    tmp_path: Path, published: list[Run]
) -> None:
    inventory = tmp_path / "mixed.yaml"
    inventory.write_bytes((ROOT / "topology_conf/inventories/mixed.yaml").read_bytes())
    path = write_runs(tmp_path / "ours.json", a_site(published, 1.2))
    plan = ("plan", "-i", str(inventory), "--model", "Llama-3.1-8B", "--cards", "h100:16", "--json")
    before = json.loads(run(*plan).stdout)
    done = run("calibrate", str(path), "--fit", "--yes", "-i", str(inventory))
    assert done.returncode == 0, done.stderr
    assert "calibration.yaml is written" in done.stderr
    after = json.loads(run(*plan).stdout)
    assert after["plans"][0]["cost"]["seconds"] > before["plans"][0]["cost"]["seconds"] * 1.05
    assert after["expected"]["own"]
    assert after["expected"]["runs"] == len(a_site(published, 1.2))
    assert after["expected"]["share"] < 0.1
    assert any("predicted with the constants of" in text for text in after["remarks"])
    shown = " ".join(run(*plan[:-1]).stdout.split())
    assert f"{after['expected']['runs']} runs of this site: dense models on h100-sxm" in shown
    for more in (("h100:8:32",), ("h100:64", "--from", "tp=8"), ("h100:64", "--interconnect=ring")):
        found = json.loads(run(*plan[:-2], *more, "--json").stdout)
        assert any("predicted with the constants of" in text for text in found["remarks"])
        assert found["expected"] == after["expected"]
    experts = ("--model", "mixtral-8x7b", "--cards", "h100:64", "--json")
    unknown = json.loads(run(*plan[:3], *experts).stdout)["expected"]
    assert (unknown["runs"], unknown["own"]) == (0, False)
    assert "with constants that this site fitted to other runs" in unknown["kind"]
    again = run("calibrate", str(path), "-i", str(inventory))
    assert "runs are predicted with the constants of" in again.stderr


def test_a_calibration_concerns_the_cards_that_it_was_fitted_on(
    tmp_path: Path, published: list[Run]
) -> None:
    inventory = tmp_path / "mixed.yaml"
    inventory.write_bytes((ROOT / "topology_conf/inventories/mixed.yaml").read_bytes())
    others = write_runs(tmp_path / "others.json", [a100_run(published)])
    plan = ("plan", "-i", str(inventory), "--model", "Llama-3.1-8B", "--cards", "a100:16", "--json")
    before = [run(*plan).stdout, run("calibrate", str(others), "--json").stdout]
    text = text_of(fit_site(runs_of({"measurements": a_site(published, 1.2)})[0]), "ours.yaml")
    (tmp_path / "calibration.yaml").write_text(text, encoding="utf-8")
    told = run("calibrate", str(others), "--json", "-i", str(inventory))
    assert [run(*plan).stdout, told.stdout] == before
    assert told.stderr == ""
    everywhere = text[: text.index("compared:")] + text[text.index("constants:") :]
    (tmp_path / "calibration.yaml").write_text(everywhere, encoding="utf-8")
    assert run(*plan).stdout != before[0]


def test_a_broken_calibration_stops_a_plan(tmp_path: Path) -> None:
    inventory = tmp_path / "mixed.yaml"
    inventory.write_bytes((ROOT / "topology_conf/inventories/mixed.yaml").read_bytes())
    plan = ("plan", "-i", str(inventory), "--model", "Llama-3.1-8B", "--cards", "h100:16")
    (tmp_path / "calibration.yaml").write_text("constants: {nosuch: 1}\n", encoding="utf-8")
    broken = run(*plan)
    assert broken.returncode == 4
    assert "no constant 'nosuch'" in broken.stderr


def test_a_fit_that_does_not_help_is_not_written(tmp_path: Path, published: list[Run]) -> None:
    inventory = tmp_path / "mixed.yaml"
    inventory.write_bytes((ROOT / "topology_conf/inventories/mixed.yaml").read_bytes())
    raws = a_site(published, 1.0)
    # Every run is off by a third, and nothing but chance says in which direction.
    for place, (raw, found) in enumerate(zip(raws, judge(list(map(run_of, raws))), strict=True)):
        raw["measured"]["step_time_s"] = found.step_time_s * (1.3 if place % 2 else 1 / 1.3)
    done = run(
        "calibrate",
        str(write_runs(tmp_path / "noise.json", raws)),
        "--fit",
        "--yes",
        "-i",
        str(inventory),
    )
    assert done.returncode == 5
    assert not (tmp_path / "calibration.yaml").exists()
