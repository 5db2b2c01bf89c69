"""Read what Slurm's programs print: text in, types out, nothing else.

``scontrol -o`` exists on every release and prints a record per line as ``Key=value``
pairs; values may hold spaces, so a value ends where the next key begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .. import hostlist
from ..errors import SlurmError
from .model import Gres, JobId, LiveJob, LiveNode, LivePartition

_RELEASE = re.compile(r"slurm(?:-wlm)? ([0-9]{2}\.[0-9]{2})(?:\.|\b)")
_SUBMITTED = re.compile(r"[0-9]+(?:;\S+)?")
_Record = dict[str, str]
_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z_]*(?:[:/][A-Za-z_]+)*)=")
_JOB_NAME = re.compile(
    r" JobName=(?P<JobName>.*?)(?= (?:HetJobIdSet=\S+ )?UserId=\S* GroupId=\S* MCS_label=)"
)
_REASON = re.compile(r" Reason=(?P<Reason>.*? \[[^\s@\]]+@[0-9T:-]+\])(?=\s|\Z)")
_NOTHING = frozenset({"", "(null)", "N/A", "None", "none", "Unknown"})
_SCALE = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_GRES_WORD = re.compile(r"[A-Za-z0-9_.-]+\Z")
_COUNT = re.compile(r"([0-9]+)([KMG]?)\Z")
_MOST_DIGITS = 15
_FLAG_MARKS = re.compile(r"[*~#!%$@^+-]+\Z")
_MARK_STATES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
}


def release(text: str) -> str:
    """Return ``24.11`` from ``slurm 24.11.5`` or ``slurm-wlm 24.11.5``."""
    found = _RELEASE.search(text)
    if found is None:
        raise SlurmError(f"cannot read a release of Slurm from {text.strip()[:80]!r}")
    return found[1]


def submitted(stdout: str) -> JobId | None:
    """Return the job of ``sbatch --parsable``: the last line that is an id, banners aside."""
    lines = [line.strip() for line in stdout.splitlines()]
    found = [line for line in lines if _SUBMITTED.fullmatch(line)]
    return JobId.parse(found[-1]) if found else None


def nodes(text: str) -> tuple[LiveNode, ...]:
    """Return the nodes of ``scontrol -a -d -o show node``."""
    return tuple(_node(record) for record in _records(text, "NodeName", _REASON))


def partitions(text: str) -> tuple[LivePartition, ...]:
    """Return the partitions of ``scontrol -a -o show partition``."""
    return tuple(_partition(record) for record in _records(text, "PartitionName"))


def job(text: str, asked: JobId) -> LiveJob:
    """Return the job of ``scontrol -o show job``; ``SlurmError`` if it holds none.

    Several records are the components of a heterogeneous job, in order, or those
    of an array: the first one answers then, and carries them all.
    """
    records = [_job(record, asked.cluster) for record in _records(text, "JobId", _JOB_NAME)]
    if not records:
        raise SlurmError(f"no job {asked} in the answer of scontrol: {text.strip()[:200]!r}")
    if len(records) == 1:
        return records[0]
    ordered = sorted(records, key=lambda item: item.id.offset or 0)
    return replace(ordered[0], components=tuple(ordered))


def config(text: str) -> dict[str, str]:
    """Return the parameters of ``scontrol show config``, without those that are not set."""
    pairs = (line.partition("=") for line in text.splitlines())
    found = {key.strip(): value.strip() for key, equals, value in pairs if equals}
    return {key: value for key, value in found.items() if value not in _NOTHING}


def fields(text: str, first: str) -> tuple[dict[str, str], ...]:
    """Return all fields of the records of ``scontrol -o show``, of which ``first`` is the name.

    Fields that are not set are left out.
    """
    records = _records(text, first, _REASON if first == "NodeName" else None)
    return tuple(
        {key: value for key, value in record.items() if value not in _NOTHING} for record in records
    )


def gres(text: str) -> tuple[Gres, ...]:
    """Return the GRES of ``gpu:h100:8(S:0-1),npu:2`` or ``gres/gpu:h100=8``.

    A count that is left out is 1, as in Slurm; ``(null)`` is empty.
    """
    if text in _NOTHING:
        return ()
    plain = re.sub(r"\([^)]*\)|:no_consume(?=[:,]|\Z)", "", text)
    return tuple(_gres_item(item) for item in plain.split(","))


def states(text: str) -> frozenset[str]:
    """Return the states of ``IDLE+CLOUD+POWERED_DOWN`` or ``DOWN*``."""
    found: set[str] = set()
    for part in re.split("[+,]", text):
        marks = _FLAG_MARKS.search(part)
        found.add(_FLAG_MARKS.sub("", part))
        found.update(
            _MARK_STATES[mark] for mark in (marks[0] if marks else "") if mark in _MARK_STATES
        )
    return frozenset(found - {""})


def _gres_item(text: str) -> Gres:
    words = re.split("[:=]", re.sub(r"\Agres[:/]", "", text.strip()))
    counted = _COUNT.match(words[-1]) if len(words) > 1 else None
    name, *types = words[:-1] if counted else words
    readable = len(types) < 2 and all(map(_GRES_WORD.match, [name, *types]))
    if not readable or (counted and len(counted[1]) > _MOST_DIGITS):
        raise SlurmError(f"cannot read GRES {text[:80]!r}")
    count = int(counted[1]) * _SCALE[counted[2]] if counted else 1
    return Gres(name, "".join(types), count)


def _records(text: str, first: str, free: re.Pattern[str] | None = None) -> Iterator[_Record]:
    for line in text.splitlines():
        if line.startswith(f"{first}="):
            yield _fields(line, free)


def _fields(line: str, free: re.Pattern[str] | None) -> _Record:
    """Return the pairs of a line; the first of equal keys counts.

    A user may write ``x JobState=FAILED`` into a job's name or comment, an admin into
    a node's reason: ``free`` cuts such a value out by what surrounds it, and comments
    come after all that is read here.
    """
    fields: _Record = {}
    found = free.search(line) if free else None
    if found:
        fields.update(found.groupdict())
        line = line[: found.start()] + line[found.end() :]
    keys = list(_KEY.finditer(line))
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        end = following.start() if following else len(line)
        fields.setdefault(key[1], line[key.end() : end].strip())
    return fields


def _node(record: _Record) -> LiveNode:
    return LiveNode(
        name=record["NodeName"],
        states=states(record.get("State", "")),
        reason=_text(record.get("Reason")),
        gres=gres(record.get("Gres", "")),
        gres_used=gres(record.get("GresUsed", "")),
        features=_list(record.get("ActiveFeatures")),
        partitions=_list(record.get("Partitions")),
        cpus=_number(record.get("CPUTot")),
        cpus_allocated=_number(record.get("CPUAlloc")),
        memory_mib=_number(record.get("RealMemory")),
        address=_text(record.get("NodeAddr")),
    )


def _partition(record: _Record) -> LivePartition:
    nodes_text = _text(record.get("Nodes"))
    return LivePartition(
        name=record["PartitionName"],
        state=record.get("State", ""),
        is_default=record.get("Default") == "YES",
        nodes=nodes_text,
        hosts=tuple(hostlist.expand(nodes_text)) if nodes_text else (),
        max_time=record.get("MaxTime", "UNLIMITED"),
        max_nodes=record.get("MaxNodes", "UNLIMITED"),
        allow_accounts=_unless_all(record.get("AllowAccounts")),
        allow_qos=_unless_all(record.get("AllowQos")),
        allow_groups=_unless_all(record.get("AllowGroups")),
    )


def _job(record: _Record, cluster: str) -> LiveJob:
    nodes_text = _text(record.get("NodeList"))
    return LiveJob(
        id=_job_id(record, cluster),
        name=record.get("JobName", ""),
        states=states(record.get("JobState", "")),
        reason=_text(record.get("Reason")),
        partition=_text(record.get("Partition")),
        nodes=nodes_text,
        hosts=tuple(hostlist.expand(nodes_text)) if nodes_text else (),
        features=_text(record.get("Features")),
        gres=gres(record.get("TresPerNode", "")),
        exit_code=_exit_code(record.get("ExitCode", "0:0")),
    )


def _job_id(record: _Record, cluster: str) -> JobId:
    if "HetJobId" in record:
        return JobId(int(record["HetJobId"]), int(record["HetJobOffset"]), cluster=cluster)
    if "ArrayJobId" in record:
        task = record.get("ArrayTaskId", "")
        text = f"[{task}]" if re.search(r"[,%:-]", task) else task
        return JobId(int(record["ArrayJobId"]), task=text, cluster=cluster)
    return JobId(int(record["JobId"]), cluster=cluster)


def _exit_code(text: str) -> int:
    code, _, signal = text.partition(":")
    return 128 + int(signal) if signal not in ("", "0") else _number(code)


def _text(value: str | None) -> str:
    return "" if value is None or value in _NOTHING else value


def _list(value: str | None) -> tuple[str, ...]:
    return tuple(filter(None, _text(value).split(",")))


def _unless_all(value: str | None) -> tuple[str, ...]:
    return () if value == "ALL" else _list(value)


def _number(value: str | None) -> int:
    return int(value) if value and value.isdigit() else 0
