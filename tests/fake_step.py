#!/usr/bin/env python3
"""Stands in for srun in tests: starts every task of a step on this machine.

Understands what sn-launch passes; FAKE_NODES names the nodes of each component, like
``h1,h2;a1``. Writes its own arguments, one JSON list per call, to the file FAKE_LOG.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys


def parts(words: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            found.append([])
        else:
            found[-1].append(word)
    return found


def split(words: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    for index, word in enumerate(words):
        if not word.startswith("-"):
            return options, words[index:]
        name, _, value = word.partition("=")
        options[name] = value
    return options, []


def tasks_of(options: dict[str, str], nodes: list[str]) -> list[str]:
    if "--nodes" in options and "--nodelist" in options:
        return [options["--nodelist"]]
    if "--nodelist" in options:
        with open(options["--nodelist"], encoding="utf-8") as stream:
            return stream.read().split()
    return [node for node in nodes for _ in range(int(options["--ntasks-per-node"]))]


def main() -> int:
    words = sys.argv[1:]
    with open(os.environ["FAKE_LOG"], "a+", encoding="utf-8") as stream:
        stream.write(json.dumps(words) + "\n")
        stream.seek(0)
        step = len(stream.readlines()) - 1
    nodes = [group.split(",") for group in os.environ["FAKE_NODES"].split(";")]
    started: list[subprocess.Popen[bytes]] = []
    for index, part in enumerate(parts(words)):
        options, command = split(part)
        group = int(options.get("--het-group", index))
        local: dict[str, int] = {}
        for node in tasks_of(options, nodes[group]):
            env = {
                **os.environ,
                "SLURM_STEP_ID": str(step),
                "SLURM_PROCID": str(len(started)),
                "SLURM_LOCALID": str(local.get(node, 0)),
                "SLURMD_NODENAME": node,
            }
            local[node] = local.get(node, 0) + 1
            started.append(subprocess.Popen(command, env=env))
    codes = [process.wait() for process in started]
    return max(code if code >= 0 else 128 - code for code in codes)


if __name__ == "__main__":
    sys.exit(main())
