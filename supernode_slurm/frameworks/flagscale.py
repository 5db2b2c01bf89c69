"""A plan as FlagScale's configuration: across meshes, or as the Megatron-LM inside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any

from ..catalogue import platform
from ..errors import PlanError
from ..plan import Pipeline, Plan
from . import megatron
from .single import has_experts, model_of

_FULL = "  recompute_granularity: full\n  recompute_method: uniform\n  recompute_num_layers: 1\n"


def layout(plan: Plan) -> str:
    """Return the ``system`` and ``model`` parts of FlagScale's YAML for this plan.

    The rules that FlagScale checks are checked here first; ``PlanError`` names the broken
    one. Written from its source (FlagOpen/FlagScale da4935e). Not run against it: the
    choice of ``distributed_backend``, left out under ``hetero_use_cpu_communication``, and
    ``recompute_modules``. The runner, or the launcher in its place, sets
    ``hetero_current_device_type`` on each node.
    """
    if _is_uniform(plan):
        return _uniform(plan)
    pipeline = _checked(plan)
    meshes, types = pipeline.meshes, [plan.groups[mesh.group].name for mesh in pipeline.meshes]
    sizes = ", ".join(f"{mesh.tp}, {mesh.cp}, {mesh.ep}, {mesh.dp}, {mesh.pp}" for mesh in meshes)
    split = ", ".join(str(stage.layers) for stage in pipeline.stages)
    cpu = _needs_cpu(plan)
    backend = "" if cpu else f"  distributed_backend: {_backend(plan)}\n"
    return (
        "system:\n"
        f"  tensor_model_parallel_size: {meshes[0].tp}\n"
        f"  pipeline_model_parallel_size: {len(pipeline.stages)}\n"
        f"  sequence_parallel: {_yaml(any(mesh.sequence_parallel for mesh in meshes))}\n"
        f"  use_distributed_optimizer: {_yaml(any(mesh.zero == 1 for mesh in meshes))}\n"
        f"{backend}"
        f"  precision:\n    {plan.precision}: true\n"
        f"{_recompute(plan)}"
        "  hetero:\n"
        "    enable_hetero: true\n"
        f"    hetero_device_types: [{', '.join(types)}]\n"
        f"    hetero_current_device_type: {types[0]}\n"
        f"    hetero_process_meshes: [{sizes}]\n"
        f"    hetero_pipeline_layer_split: [{split}]\n"
        f"    hetero_use_cpu_communication: {_yaml(cpu)}\n"
        f"{_model(plan)}"
    )


def _recompute(plan: Plan) -> str:
    """Return what is computed again: by mesh, as full with a switch for the micro-batches."""
    pipeline = plan.pipelines[0]
    meshes, kinds = pipeline.meshes, {mesh.recompute for mesh in pipeline.meshes}
    if kinds == {"none"}:
        return ""
    if kinds == {"full"}:
        return _FULL
    if kinds == {"selective"}:
        modules = ", ".join(megatron.recomputed_modules(plan))
        return f"  recompute_granularity: selective\n  recompute_modules: [{modules}]\n"
    count = plan.global_batch // (meshes[0].dp * meshes[0].micro_batch)
    rows = [f'"[{mesh.pp},{count},{int(mesh.recompute == "full")}]"' for mesh in meshes]
    return f"{_FULL}  recompute_granularity_per_stage_micro_batch: [{', '.join(rows)}]\n"


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what a person should know about the file and the words."""
    if _is_uniform(plan):
        return megatron.notes(plan)
    return (
        *megatron.notes(plan),
        "each node says its own --hetero-current-device-type, the name of its group of devices",
    )


def arguments(plan: Plan) -> list[str]:
    """Return the same as words for its training program, past the runner that starts over ssh.

    The runner writes its YAML into words like these. What differs by node is left to the
    command: ``--hetero-current-device-type``. FlagScale 0.8.0's parser was given them.
    """
    import yaml

    parts = yaml.load(layout(plan), Loader=yaml.CSafeLoader)
    return _words({**parts["system"], **parts["model"]})


def _words(settings: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in settings.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, dict):
            found += _words(value)
        elif value is True:
            found.append(option)
        elif value is not False and name != "hetero_current_device_type":
            found += [option, *map(str, value if isinstance(value, list) else [value])]
    return found


def _is_uniform(plan: Plan) -> bool:
    return len(plan.pipelines) == 1 and len(plan.pipelines[0].meshes) == 1


def _uniform(plan: Plan) -> str:
    """Return the YAML of a plan on one mesh: Megatron's arguments by their names."""
    lines = [
        f"  {name}: {value}\n"
        for name, value in _settings(megatron.arguments(plan))
        if name not in ("micro_batch_size", "global_batch_size")
    ]
    backend = f"  distributed_backend: {_backend(plan)}\n"
    return f"system:\n{''.join(lines)}{backend}{_model(plan)}"


def _settings(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option's name, and its values as YAML has them."""
    starts = [place for place, word in enumerate(words) if word.startswith("--")]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        values = words[start + 1 : end] or ["true"]
        text = values[0] if len(values) == 1 else f"[{', '.join(values)}]"
        yield words[start][2:].replace("-", "_"), f'"{text}"' if "*" in text else text


def _model(plan: Plan) -> str:
    pipeline = plan.pipelines[0]
    return (
        "model:\n"
        f"  num_layers: {sum(stage.layers for stage in pipeline.stages)}\n"
        f"  seq_length: {plan.sequence}\n"
        f"  micro_batch_size: {pipeline.meshes[0].micro_batch}\n"
        f"  global_batch_size: {plan.global_batch}\n"
        f"  untie_embeddings_and_output_weights: {_yaml(not plan.tied_embeddings)}\n"
    )


def _checked(plan: Plan) -> Pipeline:
    """Return the plan's pipeline once it keeps FlagScale's rules."""
    if len(plan.pipelines) != 1:
        raise PlanError(f"FlagScale runs one pipeline, the plan has {len(plan.pipelines)}")
    pipeline = plan.pipelines[0]
    broken = [*_broken_sizes(plan, pipeline), *_broken_order(plan, pipeline)]
    if broken:
        raise PlanError("\n".join(f"FlagScale cannot run this plan: {rule}" for rule in broken))
    return pipeline


def _broken_sizes(plan: Plan, pipeline: Pipeline) -> list[str]:
    meshes = pipeline.meshes
    width = meshes[0].dp * meshes[0].micro_batch
    broken = [
        f"mesh {index}: dp x micro-batch must be {width}, got {mesh.dp} x {mesh.micro_batch}"
        for index, mesh in enumerate(meshes)
        if mesh.dp * mesh.micro_batch != width
    ]
    broken += [
        f"mesh {index}: {mesh.devices} devices are no multiple of etp x ep x pp"
        for index, mesh in enumerate(meshes)
        if mesh.devices % (mesh.etp * mesh.ep * mesh.pp)
    ]
    broken += [
        f"mesh {index}: has {mesh.devices} devices, its group {plan.groups[mesh.group].devices}"
        for index, mesh in enumerate(meshes)
        if mesh.devices != plan.groups[mesh.group].devices
    ]
    if plan.global_batch % width:
        broken.append(f"global batch {plan.global_batch} must be a multiple of {width}")
    if any(mesh.cp != 1 for mesh in meshes):
        broken.append("context parallelism must be 1")
    if len({mesh.ep == 1 for mesh in meshes}) != 1:
        broken.append("expert parallelism must be 1 on all meshes or on none")
    kinds = {mesh.recompute for mesh in meshes}
    if len(kinds) != 1 and "selective" in kinds:
        broken.append("all meshes must recompute alike, or in full and not at all")
    if any(mesh.recompute_layers for mesh in meshes):
        broken.append("meshes must recompute all of their layers or none")
    if has_experts(plan, meshes[0]) and any(mesh.etp != mesh.tp for mesh in meshes):
        broken.append("experts are cut as the rest of their mesh: etp must be its tp")
    model = model_of(plan)
    ends = "tied embeddings" if plan.tied_embeddings else "multi-token prediction"
    tied = plan.tied_embeddings or (model is not None and model.mtp > 0)
    if tied and (meshes[0].tp, meshes[0].dp) != (meshes[-1].tp, meshes[-1].dp):
        broken.append(f"{ends} need equal tp and dp on the first and last mesh")
    if any(mesh.zero > 1 for mesh in meshes):
        broken.append("the distributed optimizer is ZeRO-1, no further")
    return broken


def _broken_order(plan: Plan, pipeline: Pipeline) -> list[str]:
    broken = []
    types = [plan.groups[mesh.group].name for mesh in pipeline.meshes]
    if len([name for name, _ in groupby(types)]) != len(set(types)):
        broken.append("meshes of one device type must follow each other")
    runs = [(mesh, len(list(run))) for mesh, run in groupby(item.mesh for item in pipeline.stages)]
    if runs != [(index, mesh.pp) for index, mesh in enumerate(pipeline.meshes)]:
        broken.append("each mesh must hold its pp consecutive stages, in order")
    if pipeline.virtual_stages != 1:
        broken.append("virtual stages must be 1")
    if not all(stage.layers for stage in pipeline.stages):
        broken.append("every stage must hold a layer")
    return broken


def _needs_cpu(plan: Plan) -> bool:
    return by_host({group.vendor for group in plan.groups})


def by_host(vendors: Collection[str]) -> bool:
    """Tell whether Ascend meets another vendor: FlagCX has HCCL only among itself."""
    return len(set(vendors)) > 1 and "huawei" in vendors


def _backend(plan: Plan) -> str:
    vendors = {group.vendor for group in plan.groups}
    return "flagcx" if len(vendors) > 1 else platform(vendors.pop()).dist_backend


def _yaml(value: bool) -> str:
    return "true" if value else "false"
