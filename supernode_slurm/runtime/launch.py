#!/usr/bin/env python3
"""sn-launch: start the ranks of a job, each with its environment and its share.

    sn-launch COMMAND [ARGS...]          in the batch script: one srun over the whole job
    srun ... sn-launch COMMAND [ARGS...]  in a step: one process per task

In the batch script the rank map is computed once and handed down; in a step that
was started by hand each process computes it. The plan comes in SN_PLAN (or a file
named by SN_PLAN_FILE); without one the ranks are placed, not planned.

This file travels alone: Python 3.8, standard library only.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from typing import Any, Mapping, Sequence

Environ = Mapping[str, str]
Layout = Any
"""The rank map: {nodes: {name: [group, first rank, tasks]}, master, port, world}."""

RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?\Z")

FIRST_COMPONENTS = (
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_NNODES",
)
"""What the batch script of a heterogeneous job knows of its first component, and srun would
take for every one: 24.11 then starts the first one's number of tasks in each, or refuses."""


class LaunchError(Exception):
    """What keeps the job from starting, for the user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the launcher; return the exit code where no program could be started."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    in_step = arguments[:1] == ["--rank"] or "SLURM_STEP_NODELIST" in os.environ
    if arguments[:1] == ["--rank"]:
        del arguments[0]
    if arguments[:1] == ["--"]:
        del arguments[0]
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        return 0 if arguments else 2
    try:
        command, environ = prepare(dict(os.environ), arguments, in_step)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        print(f"sn-launch: error: the job's environment is broken: {error!r}", file=sys.stderr)
        return 3
    except LaunchError as error:
        print(f"sn-launch: error: {error}", file=sys.stderr)
        return 3
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        print(f"sn-launch: error: cannot start {command[0]}: {error}", file=sys.stderr)
    return 127


def prepare(
    environ: dict[str, str], arguments: list[str], in_step: bool
) -> tuple[list[str], dict[str, str]]:
    """Return the program to become, and its environment."""
    if not in_step:
        layout = json.dumps(make_layout(environ), separators=(",", ":"))
        handed_down = {**environ, "SN_LAYOUT": layout}
        if environ.get("SLURM_HET_SIZE"):
            groups = (read_plan(environ) or {}).get("groups", ())
            lists = [name for group in groups for name in group["visible_env"]]
            for name in (*FIRST_COMPONENTS, *lists):
                handed_down.pop(name, None)
        return srun_command(environ, arguments), handed_down
    layout = json.loads(environ["SN_LAYOUT"]) if "SN_LAYOUT" in environ else make_layout(environ)
    return arguments, {**environ, **rank_environment(environ, layout)}


def srun_command(environ: Environ, command: list[str]) -> list[str]:
    """Return the one srun that starts every rank of the job, over all its components."""
    size = int(environ.get("SLURM_HET_SIZE", "0") or 0)
    rank = [sys.executable, os.path.abspath(__file__), "--rank", "--", *command]
    if size < 2:
        return ["srun", *_srun_options(environ.get("SLURM_CPUS_PER_TASK")), *rank]
    if ":" in command:
        raise LaunchError("in a heterogeneous job srun takes a lone ':' for its own: avoid it")
    argv = ["srun"]
    for index in range(size):
        cpus = environ.get(f"SLURM_CPUS_PER_TASK_HET_GROUP_{index}")
        argv += [":"] if index else []
        argv += [f"--het-group={index}", *_srun_options(cpus), *rank]
    return argv


def _srun_options(cpus: str | None) -> list[str]:
    # srun ignores SLURM_CPUS_PER_TASK in 22.05 to 23.02.
    # --export: sbatch's --export=NONE would keep the plan from the ranks.
    options = ["--kill-on-bad-exit=1", "--export=ALL"]
    return options + ([f"--cpus-per-task={cpus}"] if cpus else [])


def read_plan(environ: Environ) -> dict[str, Any] | None:
    """Return the plan as a dictionary, None if the job carries none."""
    text = environ.get("SN_PLAN", "")
    if not text and environ.get("SN_PLAN_FILE"):
        try:
            with open(environ["SN_PLAN_FILE"], encoding="utf-8") as stream:
                text = stream.read()
        except OSError as error:
            raise LaunchError(f"cannot read the plan: {error}") from error
    if not text:
        return None
    try:
        plan = json.loads(text)
    except ValueError as error:
        raise LaunchError(f"SN_PLAN is not JSON: {error}") from error
    if not isinstance(plan, dict) or plan.get("version", 1) != 1 or not plan.get("groups"):
        raise LaunchError("SN_PLAN is not a plan of this version of sn-launch")
    return plan


def job_components(environ: Environ) -> list[dict[str, int]]:
    """Return the nodes of each component of the job with the tasks that Slurm gave them.

    An ordinary job is one component. In a step of a heterogeneous job Slurm's own lists
    cover all components.
    """
    size = int(environ.get("SLURM_HET_SIZE", "0") or 0)
    ends = [f"_HET_GROUP_{index}" for index in range(size)]
    found = [
        _tasks(environ["SLURM_JOB_NODELIST" + end], environ.get("SLURM_TASKS_PER_NODE" + end, ""))
        for end in ends
        if environ.get("SLURM_JOB_NODELIST" + end)
    ]
    if len(found) == size > 0:
        return found
    whole = _tasks(environ.get("SLURM_JOB_NODELIST", ""), environ.get("SLURM_TASKS_PER_NODE", ""))
    if not whole:
        raise LaunchError("not inside a Slurm job: SLURM_JOB_NODELIST is empty")
    return [whole]


def _tasks(nodes: str, tasks: str) -> dict[str, int]:
    """Return the tasks of each node from Slurm's two lists, ``n[1-3]`` and ``3(x2),2``.

    Where Slurm does not say, 0.
    """
    counts: list[int] = []
    for part in tasks.split(",") if tasks else []:
        found = re.match(r"([0-9]+)(?:\(x([0-9]+)\))?\Z", part)
        if found is None:
            raise LaunchError(f"cannot read the tasks per node {tasks!r}")
        counts += [int(found.group(1))] * int(found.group(2) or 1)
    hosts = expand(nodes)
    if counts and len(counts) != len(hosts):
        raise LaunchError(f"{len(hosts)} nodes ({nodes}), but tasks for {len(counts)} ({tasks})")
    return dict(zip(hosts, counts or [0] * len(hosts)))


def make_layout(environ: Environ) -> Layout:
    """Return the rank map: nodes in topology order, with their group and first rank."""
    plan = read_plan(environ)
    components = job_components(environ)
    if plan is None:
        placed = [(node, -1, n or 1) for part in components for node, n in part.items()]
    else:
        placed = _place(plan["groups"], components)
    ranks: dict[str, list[int]] = {}
    world = 0
    for node, group, count in placed:
        ranks[node] = [group, world, count]
        world += count
    master = _address(placed[0][0])
    return {"nodes": ranks, "master": master, "port": _port(environ), "world": world}


def _place(
    groups: list[dict[str, Any]], components: list[dict[str, int]]
) -> list[tuple[str, int, int]]:
    """Return (node, group, tasks) in rank order; groups in the plan's order.

    Component i of a heterogeneous job is group i; in an ordinary job the hosts of a group
    tell its nodes.
    """
    placed: list[tuple[str, int, int]] = []
    whole = {node: tasks for part in components for node, tasks in part.items()}
    left = set(whole)
    for index, group in enumerate(groups):
        mine = components[index] if len(components) == len(groups) else whole
        hosts = [host for host in expand(group["hosts"]) if host in mine and host in left]
        left.difference_update(hosts)
        if len(hosts) != group["nodes"]:
            raise LaunchError(
                f"the plan wants {group['nodes']} nodes for {group['name']}, the job got "
                f"{len(hosts)} ({','.join(hosts) or 'none'}); submit it again"
            )
        _check_domains(group, hosts)
        _check_tasks(group, [mine[host] for host in hosts])
        placed += [(host, index, group["devices_per_node"]) for host in hosts]
    if left:
        raise LaunchError(f"the plan does not know {','.join(sorted(left))}")
    return placed


def _check_tasks(group: dict[str, Any], tasks: list[int]) -> None:
    """Refuse a job whose number of ranks is not the plan's: it would wait for the missing."""
    wanted = group["devices_per_node"]
    if any(count not in (0, wanted) for count in tasks):
        found = ", ".join(map(str, sorted(set(tasks))))
        raise LaunchError(
            f"the plan wants {wanted} tasks on each {group['name']} node, Slurm starts {found}; "
            "leave --ntasks and its like to sn-submit"
        )


def _check_domains(group: dict[str, Any], hosts: list[str]) -> None:
    """Refuse nodes that were promised to share a supernode and do not."""
    domains = [set(expand(text)) for text in group.get("domains") or []]
    size = group.get("together") or len(hosts)
    for start in range(0, len(hosts) if domains else 0, size):
        part = hosts[start : start + size]
        if not any(domain.issuperset(part) for domain in domains):
            raise LaunchError(
                f"promised one supernode for {group['name']}, but {','.join(part)} lie in several"
            )


def rank_environment(environ: Environ, layout: Layout) -> dict[str, str]:
    """Return the variables of one rank: torch's, the vendor's, and its share."""
    node = environ.get("SLURMD_NODENAME", "")
    if node not in layout["nodes"]:
        raise LaunchError(f"node {node!r} is not in the rank map")
    group, first, count = layout["nodes"][node]
    local = int(environ["SLURM_LOCALID"])
    if local >= count:
        raise LaunchError(f"node {node} runs more tasks than the {count} of its plan")
    found: dict[str, Any] = {
        "RANK": first + local,
        "LOCAL_RANK": local,
        "WORLD_SIZE": layout["world"],
        "LOCAL_WORLD_SIZE": count,
        "NODE_RANK": list(layout["nodes"]).index(node),
        "MASTER_ADDR": layout["master"],
        "MASTER_PORT": layout["port"],
    }
    plan = read_plan(environ)
    if plan is not None:
        kind = plan["groups"][group]
        found["SN_GROUP"] = kind["name"]
        found["SN_ACCELERATOR"] = kind["accelerator"]
        found.update(visible_devices(environ, kind))
        found.update(share(plan, first + local))
    return {name: str(value) for name, value in found.items()}


def visible_devices(environ: Environ, group: dict[str, Any]) -> dict[str, str]:
    """Return the vendor's variables, where Slurm did not set them itself.

    SLURM_STEP_GPUS is the step's own; SLURM_JOB_GPUS shows the first component's in a
    heterogeneous job. A GRES that is not called gpu leaves no list: whole nodes then.
    """
    listed = environ.get("SLURM_STEP_GPUS")
    if listed is None and not environ.get("SLURM_HET_SIZE"):
        listed = environ.get("SLURM_JOB_GPUS")
    if listed is None:
        listed = ",".join(map(str, range(group["devices_per_node"])))
    return {name: environ.get(name) or listed for name in group["visible_env"]}


def share(plan: dict[str, Any], rank: int) -> dict[str, int]:
    """Return what a rank computes: its place in the plan and its samples per step."""
    start, offset, replica = 0, 0, 0
    for pipeline in plan.get("pipelines") or []:
        first_stage = 0
        for mesh in pipeline["meshes"]:
            size = mesh["tp"] * mesh.get("cp", 1) * mesh["pp"] * mesh["dp"]
            if rank < start + size:
                index = rank - start
                width = mesh["tp"] * mesh.get("cp", 1)
                mine = index // width % mesh["dp"]
                each, more = divmod(pipeline["samples"], mesh["dp"])
                return {
                    "SN_TP_RANK": index % mesh["tp"],
                    "SN_STAGE": first_stage + index // (width * mesh["dp"]),
                    "SN_REPLICA": replica + mine,
                    "SN_SAMPLES": each + (mine < more),
                    "SN_SAMPLE_OFFSET": offset + mine * each + min(mine, more),
                    "SN_GLOBAL_BATCH": plan["global_batch"],
                    "SN_MICRO_BATCH": mesh["micro_batch"],
                }
            start += size
            first_stage += mesh["pp"]
        offset += pipeline["samples"]
        replica += pipeline["meshes"][0]["dp"]
    return {}


def expand(text: str) -> list[str]:
    """Return the hosts of a list in Slurm's notation."""
    hosts: list[str] = []
    if not re.match(r"(?:[^\[\]]|\[[^\[\]]*\])*\Z", text):
        raise LaunchError(f"cannot read the host list {text!r}")
    for item in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        names = [""]
        pieces = re.split(r"\[([^\]]*)\]", item)
        for index, piece in enumerate(pieces):
            choices = [piece] if index % 2 == 0 else _numbers(piece)
            if index == len(pieces) - 2:
                names = [name + choice for name in names for choice in choices]
            else:  # Slurm runs the last bracket first, then from the left.
                names = [name + choice for choice in choices for name in names]
        hosts += names
    return hosts


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = RANGE.match(part)
        if found is None:
            raise LaunchError(f"cannot read the host range {part!r}")
        low, high = found.group(1), found.group(2) or found.group(1)
        if int(low) > int(high):
            raise LaunchError(f"cannot read the host range {part!r}")
        numbers += ["{:0{}d}".format(n, len(low)) for n in range(int(low), int(high) + 1)]
    return numbers


def _port(environ: Environ) -> int:
    # Below 32768, where Linux begins to give ports to anyone.
    return 20000 + int(environ.get("SLURM_JOB_ID", "0")) % 12000


def _address(node: str) -> str:
    """Return a name of the node that resolves: its own, or the address Slurm knows."""
    try:
        socket.getaddrinfo(node, None)
        return node
    except OSError:
        pass
    try:
        shown = subprocess.run(
            ["scontrol", "show", "node", node, "-o"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return node
    found = re.search(r"\bNodeAddr=(\S+)", shown)
    return found.group(1) if found else node


if __name__ == "__main__":
    sys.exit(main())
