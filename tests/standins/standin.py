"""What stands in for a training framework: it trains nothing and checks what it is given.

A stand-in reads its arguments, files and environment as the framework would, compares them
with the plan, meets the other ranks at MASTER_ADDR, and writes what it saw as one line of
JSON into the folder STANDINS. Whatever does not hold ends it with exit code 3 and a reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from supernode_slurm.plan import DeviceGroup, Pipeline, Plan, loads

MEET_S = 60.0


def fail(reason: str) -> NoReturn:
    """End this stand-in with exit code 3 and say why."""
    print(f"stand-in {Path(sys.argv[0]).name}: {reason}", file=sys.stderr, flush=True)
    sys.exit(3)


def need(holds: bool, reason: str) -> None:
    """End this stand-in if a rule does not hold."""
    if not holds:
        fail(reason)


def same(what: str, planned: object, given: object) -> None:
    """End this stand-in if the plan says something else than it was given."""
    need(planned == given, f"{what}: planned {planned!r}, given {given!r}")


class Options(argparse.ArgumentParser):
    """Reads options as the framework does: what it does not know is an error."""

    def __init__(self, flags: str = "", values: str = "", lists: str = "") -> None:
        super().__init__(allow_abbrev=False, add_help=False)
        for name in flags.split():
            self.add_argument(name, action="store_true")
        for name in values.split():
            self.add_argument(name)
        for name in lists.split():
            self.add_argument(name, nargs="+")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the options."""
        fail(message)


def number(text: str | None, what: str, least: int = 1) -> int:
    """Return a whole number; end this stand-in if it is none, or too small."""
    need(text is not None and re.fullmatch(r"\d+", text) is not None, f"{what}: no number {text!r}")
    need(int(text or 0) >= least, f"{what}: {text} is less than {least}")
    return int(text or 0)


@dataclass(frozen=True)
class Rank:
    """This process, and the plan of its job."""

    number: int
    world: int
    local: int
    plan: Plan | None
    group: DeviceGroup | None

    def planned(self) -> tuple[Plan, Pipeline]:
        """Return the plan and its only pipeline; end this stand-in if there is none."""
        if self.plan is None or len(self.plan.pipelines) != 1:
            fail("the job has no plan of one pipeline")
        return self.plan, self.plan.pipelines[0]


def rank() -> Rank:
    """Return who this process is, once its environment holds together."""
    env = os.environ
    world = number(env.get("WORLD_SIZE"), "WORLD_SIZE")
    mine = number(env.get("RANK"), "RANK", 0)
    local = number(env.get("LOCAL_RANK"), "LOCAL_RANK", 0)
    need(mine < world, f"RANK {mine} of WORLD_SIZE {world}")
    need(bool(env.get("MASTER_ADDR")), "no MASTER_ADDR")
    port = number(env.get("MASTER_PORT"), "MASTER_PORT", 1024)
    need(port < 65536, f"MASTER_PORT {port}")
    text = env.get("SN_PLAN")
    plan = loads(text) if text else None
    if plan is None:
        return Rank(mine, world, local, None, None)
    same("WORLD_SIZE", plan.devices, world)
    group = next((item for item in plan.groups if item.name == env.get("SN_GROUP")), None)
    if group is None:
        fail(f"SN_GROUP {env.get('SN_GROUP')!r} is no group of the plan")
    _check_devices(group, local)
    return Rank(mine, world, local, plan, group)


def _check_devices(group: DeviceGroup, local: int) -> None:
    """Check what this process sees of its node: the devices and the network."""
    for name in group.visible_env:
        seen = os.environ.get(name, "").split(",")
        same(f"devices in {name}", group.devices_per_node, len(set(seen) - {""}))
        need(local < len(seen), f"LOCAL_RANK {local} of {len(seen)} devices in {name}")
    for name, text in group.environment.items():
        same(name, text, os.environ.get(name))


def meet(me: Rank) -> None:
    """Meet all ranks at MASTER_ADDR and MASTER_PORT; rank 0 counts who came."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if me.number:
        _join(me, address)
        return
    try:
        server = socket.create_server(address, backlog=me.world)
    except OSError as error:
        fail(f"rank 0 cannot listen at {address}: {error}")
    with server:
        server.settimeout(MEET_S)
        peers = []
        try:
            for _ in range(me.world - 1):
                peers.append(server.accept()[0])
        except TimeoutError:
            fail(f"{len(peers) + 1} of {me.world} ranks came in {MEET_S:g} s")
        ranks = sorted(int.from_bytes(peer.recv(4), "big") for peer in peers)
        for peer in peers:
            peer.sendall(b"k")
            peer.close()
    same("ranks that came", list(range(1, me.world)), ranks)


def _join(me: Rank, address: tuple[str, int]) -> None:
    deadline = time.monotonic() + MEET_S
    while True:
        try:
            with socket.create_connection(address, timeout=MEET_S) as peer:
                peer.sendall(me.number.to_bytes(4, "big"))
                need(peer.recv(1) == b"k", "rank 0 went away")
                return
        except OSError as error:
            if time.monotonic() > deadline:
                fail(f"cannot reach rank 0 at {address}: {error}")
            time.sleep(0.1)


def finish(me: Rank, framework: str, **facts: object) -> int:
    """Meet the others and write what this rank saw; return the exit code."""
    meet(me)
    seen = {
        "framework": framework,
        "rank": me.number,
        "world": me.world,
        "local": me.local,
        "master": f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        "node": os.environ.get("SLURMD_NODENAME"),
        "group": me.group.name if me.group else None,
        **facts,
    }
    path = Path(os.environ["STANDINS"], f"{me.number}.{os.getpid()}.json")
    path.write_text(json.dumps(seen) + "\n", encoding="utf-8")
    return 0
