"""Run the generated job_submit.lua in a plain Lua, on job descriptions made up in Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

INTERPRETERS = ("lua5.1", "lua5.4")
NO_VAL, NO_VAL16 = 4294967294, 65534
UNSET = {
    **dict.fromkeys(("min_nodes", "max_nodes", "num_tasks", "het_job_offset"), NO_VAL),
    **dict.fromkeys(("time_limit", "time_min"), NO_VAL),
    **dict.fromkeys(("ntasks_per_node", "cpus_per_task", "sockets_per_node", "shared"), NO_VAL16),
    **dict.fromkeys(("ntasks_per_core", "ntasks_per_socket", "ntasks_per_tres"), NO_VAL16),
    "pn_min_memory": 2.0**64,
}
"""What slurmctld shows of a job that asks for nothing; texts are nil."""

_HARNESS = """
local said, failed = {}, {}
local function into(list)
    return function(format, ...)
        for index = 1, select("#", ...) do
            assert(select(index, ...) ~= nil, "Slurm's log dies of nil")
        end
        list[#list + 1] = string.format(format, ...)
    end
end
slurm = {SUCCESS = 0, ERROR = -1, log_user = into(said), log_error = into(failed)}
for _, name in ipairs({"io", "os", "require", "package", "debug", "loadstring"}) do
    _G[name] = nil
end
assert(dofile(arg[1]) == slurm.SUCCESS)
assert(slurm_job_modify({}, {}, {}, 0) == slurm.SUCCESS)
function try(values, parts, reserved)
    slurm.reservations = reserved
    while #said > 0 do table.remove(said) end
    while #failed > 0 do table.remove(failed) end
    local set = {}
    local job = values
    if type(values) == "table" then
        if type(values.environment) == "table" then
            values.environment = setmetatable({}, {
                __index = values.environment,
                __newindex = function(_, key, value) set[#set + 1] = {key, value} end,
            })
        end
        job = setmetatable({}, {
            __index = function(_, key)
                if values.dies == key then error("no such field: " .. key) end
                return values[key]
            end,
            __newindex = function(_, key, value) set[#set + 1] = {key, value} end,
        })
    end
    local code = slurm_job_submit(job, parts, 1000)
    print("code\\t" .. string.format("%d", code))
    for _, text in ipairs(said) do print("said\\t" .. text) end
    for _, text in ipairs(failed) do print("failed\\t" .. text) end
    for _, item in ipairs(set) do
        local value = item[2]
        if type(value) == "number" then value = string.format("%d", value) end
        print("set\\t" .. item[1] .. "\\t" .. value)
    end
    print("\\30")
end
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the plugin did with a job."""

    code: int
    said: tuple[str, ...]
    failed: tuple[str, ...]
    set: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Room:
    """What slurmctld shows a plugin beside the job."""

    parts: Mapping[str, object] | None = None
    """The partitions that the user may use; None for all of the plugin's, up and unlimited."""
    reservations: Mapping[str, object] | None = None


ROOM = Room()


def find(name: str) -> str:
    """Return the path of an interpreter, or skip the test."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} on this machine: apt-get install {name}")
    return path


def literal(value: object) -> str:
    """Return a value as Lua writes it."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"inf": "(1/0)", "-inf": "(-1/0)", "nan": "(0/0)"}.get(str(value), repr(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
    if isinstance(value, Mapping):
        pairs = ", ".join(f"[{literal(key)}] = {literal(item)}" for key, item in value.items())
        return f"{{{pairs}}}"
    raise TypeError(f"no Lua for {value!r}")


def run(
    interpreter: str,
    plugin: str,
    jobs: Sequence[object],
    folder: Path,
    room: Room = ROOM,
) -> list[Answer]:
    """Return what the plugin did with each job, in one run of an interpreter.

    A job is a mapping of fields, or a value that is none. Numbers are floats, as Slurm's are.
    """
    names = re.findall(r'^    \["([^"]+)"\] = \{$', plugin, re.MULTILINE)
    parts = {name: {"state_up": 3.0} for name in names} if room.parts is None else room.parts
    known = f"{literal(parts)}, {literal(room.reservations)}"
    (folder / "job_submit.lua").write_text(plugin, encoding="utf-8")
    calls = "".join(f"try({literal(_floats(job))}, {known})\n" for job in jobs)
    (folder / "harness.lua").write_text(_HARNESS + calls, encoding="utf-8")
    done = subprocess.run(
        [find(interpreter), str(folder / "harness.lua"), str(folder / "job_submit.lua")],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return list(_answers(done.stdout.decode("utf-8", "replace")))


def _floats(job: object) -> object:
    if not isinstance(job, Mapping):
        return job
    return {
        key: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for key, value in job.items()
    }


def _answers(text: str) -> list[Answer]:
    found = []
    for part in text.split("\x1e\n")[:-1]:
        lines = [line.split("\t") for line in part.splitlines()]
        found.append(
            Answer(
                int(lines[0][1]),
                tuple(line[1] for line in lines if line[0] == "said"),
                tuple(line[1] for line in lines if line[0] == "failed"),
                {line[1]: line[2] for line in lines if line[0] == "set"},
            )
        )
    return found
