"""Stands in for FlagScale's training script on meshes of unlike devices."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from math import prod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import megatron
from standin import finish, need, number, rank, same

FLAGS = "--enable-hetero --hetero-use-cpu-communication"
VALUES = "--hetero-current-device-type --distributed-backend"
LISTS = "--hetero-device-types --hetero-process-meshes --hetero-pipeline-layer-split"


def main() -> int:
    """Check this rank; return the exit code."""
    home = Path(__file__).resolve().parents[2]
    # megatron lies there, and is imported by its name.
    paths = [Path(path).resolve() for path in os.environ.get("PYTHONPATH", "").split(":")]
    need(
        {home, home / "third_party" / "Megatron-LM"} <= set(paths),
        "PYTHONPATH lacks FlagScale, or its third_party/Megatron-LM",
    )
    me = rank()
    plan, pipeline = me.planned()
    same("framework", "flagscale", plan.framework)
    given = megatron.options(FLAGS, VALUES, LISTS)
    need(given.enable_hetero, "no --enable-hetero")
    flat = [number(text, "--hetero-process-meshes") for text in given.hetero_process_meshes]
    same("sizes of the meshes, in fives, leave", 0, len(flat) % 5)
    meshes = [flat[start : start + 5] for start in range(0, len(flat), 5)]
    types = given.hetero_device_types
    same("device types", len(meshes), len(types))
    need(
        given.hetero_current_device_type in types,
        f"{given.hetero_current_device_type!r} of {types}",
    )
    same("this node's device type", me.group and me.group.name, given.hetero_current_device_type)
    split = [number(text, "layers") for text in given.hetero_pipeline_layer_split]
    _check_meshes(given, meshes, split, me.world)
    tp, _, _, dp, _ = meshes[0]
    megatron.check_model(given, max(tp, *(mesh[0] for mesh in meshes)))
    sizes = megatron.check_batch(given, me, dp)
    for mesh in meshes[1:]:
        same(
            "dp x micro-batch over another mesh's dp leaves", 0, dp * sizes["micro_batch"] % mesh[3]
        )
    same(
        "meshes",
        [[mesh.tp, mesh.cp, mesh.ep, mesh.dp, mesh.pp] for mesh in pipeline.meshes],
        meshes,
    )
    same("device types", [plan.groups[mesh.group].name for mesh in pipeline.meshes], types)
    same("layers of each stage", [stage.layers for stage in pipeline.stages], split)
    _check_place(me.number, meshes, types, given.hetero_current_device_type)
    return finish(me, "flagscale", sizes=sizes, layers=split)


def _check_meshes(given: Namespace, meshes: list[list[int]], split: list[int], world: int) -> None:
    stages = sum(pp for *_, pp in meshes)
    same("stages", stages, megatron.size(given, "pipeline_model_parallel_size"))
    same("stages of the split", stages, len(split))
    same("layers of all stages", number(given.num_layers, "layers"), sum(split))
    same("TP of the first mesh", meshes[0][0], megatron.size(given, "tensor_model_parallel_size"))
    devices = [prod((tp, cp, dp, pp)) for tp, cp, _, dp, pp in meshes]
    same("WORLD_SIZE", sum(devices), world)
    for (tp, cp, ep, _, pp), count in zip(meshes, devices, strict=True):
        same("context parallelism", 1, cp)
        same("devices of a mesh over etp x ep x pp leave", 0, count % (tp * ep * pp))
    need(
        len({ep == 1 for _, _, ep, _, _ in meshes}) == 1, "experts in parallel on some meshes only"
    )


def _check_place(mine: int, meshes: list[list[int]], types: list[str], own: str) -> None:
    """Meshes take ranks in the order of their types, so each must hold its own devices'."""
    start = 0
    for (tp, cp, _, dp, pp), kind in zip(meshes, types, strict=True):
        count = prod((tp, cp, dp, pp))
        if start <= mine < start + count:
            same("kind of the mesh that holds this rank", kind, own)
        start += count


if __name__ == "__main__":
    sys.exit(main())
