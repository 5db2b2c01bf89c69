"""Read what Slurm's programs print: text in, types out, nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

from .. import hostlist
from ..errors import SlurmError
from .model import (
    Allocated,
    Block,
    JobId,
    LiveJob,
    LiveNode,
    LivePartition,
    LiveTopology,
    Loop,
    Reservation,
    Switch,
)
from .records import NOTHING, Record, fields, job_records, records
from .words import exit_code, gres, held_gres, number, states

__all__ = ["fields", "gres", "states"]

_RELEASE = re.compile(r"slurm(?:-wlm)? ([0-9]{2}\.[0-9]{2})(?:\.|\b)")
_SUBMITTED = re.compile(
    r"([0-9]+(?:;\S+)?)|Submitted batch job ([0-9]+)(?: on cluster (\S+))?", re.ASCII
)
_HOLDS = re.compile(r"(?<=\s)Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_AFTER_HOLDS = " MinCPUsNode="
JOB_FIELDS = (
    "JobArrayID",
    "State",
    "exit_code",
    "Reason",
    "Partition",
    "NodeList",
    "tres-per-node",
    "Feature",
    "Name",
)
"""Of ``squeue -O``, as ``job_rows`` reads them."""


def release(text: str) -> str:
    """Return ``24.11`` from ``slurm 24.11.5`` or ``slurm-wlm 24.11.5``."""
    found = _RELEASE.search(text)
    if found is None:
        raise SlurmError(f"cannot read a release of Slurm from {text.strip()[:80]!r}")
    return found[1]


def submitted(stdout: str) -> JobId | None:
    """Return the job that sbatch names: the last line that does nothing else, banners aside.

    A site's wrapper may drop ``--parsable`` and print sbatch's sentence.
    """
    for line in reversed(stdout.splitlines()):
        found = _SUBMITTED.fullmatch(line.strip())
        if found:
            return (
                JobId.parse(found[1]) if found[1] else JobId(int(found[2]), cluster=found[3] or "")
            )
    return None


def nodes(text: str) -> tuple[LiveNode, ...]:
    """Return the nodes of ``scontrol -a -d -o show node``."""
    return tuple(_node(record) for record in records(text, "NodeName"))


def partitions(text: str) -> tuple[LivePartition, ...]:
    """Return the partitions of ``scontrol -a -o show partition``."""
    return tuple(_partition(record) for record in records(text, "PartitionName"))


def job(text: str, asked: JobId) -> LiveJob:
    """Return the job of ``scontrol -d -o show job``; ``SlurmError`` if it holds none.

    Several records are the components of a heterogeneous job, in order, or those
    of an array: the first one answers then, and carries them all.
    """
    found = [_job(record, whole, asked.cluster) for record, whole in job_records(text)]
    if not found:
        raise SlurmError(f"no job {asked} in the answer of scontrol: {text.strip()[:200]!r}")
    if len(found) == 1:
        return found[0]
    ordered = sorted(found, key=lambda item: item.id.offset or 0)
    return replace(ordered[0], components=tuple(ordered))


def rows(text: str, mark: str, count: int) -> list[tuple[list[str], str]]:
    """Return rows of ``squeue -O`` whose fields all end with the mark, each with its cluster.

    Raises ``SlurmError`` for rows of another number of fields. Who does not know the mark
    can forge no row, whatever a name or a comment holds.
    """
    cluster = ""
    found = []
    *lines, rest = text.split(f"{mark}\n")
    for line in lines:
        cells = line.split(mark)
        *heads, cells[0] = cells[0].split("\n")
        cluster = _cluster(heads) or cluster
        if len(cells) != count:
            raise SlurmError(f"squeue printed {len(cells)} of {count} fields: {line[:200]!r}")
        found.append((cells, cluster))
    if rest.strip() and not _cluster(rest.split("\n")):
        raise SlurmError(f"the answer of squeue was cut short: it ends with {rest[-80:]!r}")
    return found


def _cluster(lines: list[str]) -> str:
    """Return the cluster of squeue's heading ``CLUSTER: name``, empty without one."""
    names = (line.removeprefix("CLUSTER: ") for line in lines if line.startswith("CLUSTER: "))
    return next(names, "")


def job_rows(text: str, mark: str) -> tuple[LiveJob, ...]:
    """Return the jobs of ``squeue -O`` with ``JOB_FIELDS``: components and tasks one by one."""
    return tuple(_job_row(cells, cluster) for cells, cluster in rows(text, mark, len(JOB_FIELDS)))


def reservations(text: str) -> tuple[Reservation, ...]:
    """Return the reservations of ``scontrol -a -o show reservation``, times in seconds."""
    return tuple(
        Reservation(
            name=record["ReservationName"],
            is_active=record.get("State") == "ACTIVE",
            hosts=_hosts(record.get("Nodes")),
            users=_list(record.get("Users")),
            accounts=_list(record.get("Accounts")),
            groups=_list(record.get("Groups")),
            partition=_text(record.get("PartitionName")),
            flags=frozenset(_list(record.get("Flags"))),
            start=number(record.get("StartTime")),
            end=number(record.get("EndTime")),
        )
        for record in records(text, "ReservationName")
    )


def topology(text: str) -> LiveTopology:
    """Return what ``scontrol -o show topology`` prints of its groups."""
    switches = tuple(
        Switch(
            name=record["SwitchName"],
            level=number(record.get("Level")),
            hosts=_hosts(record.get("Nodes")),
            switches=_hosts(record.get("Switches")),
        )
        for record in records(text, "SwitchName")
    )
    blocks = tuple(
        Block(record["BlockName"], _hosts(record.get("Nodes")), number(record.get("BlockSize")))
        for record in records(text, "BlockName")
    )
    loops = tuple(
        Loop(record[key], _hosts(record.get("Nodes")))
        for key in ("RingName", "TorusName")
        for record in records(text, key)
    )
    return LiveTopology(switches, blocks, loops)


def config(text: str) -> dict[str, str]:
    """Return the parameters of ``scontrol show config``, without those that are not set."""
    pairs = (line.partition("=") for line in text.splitlines())
    found = {key.strip(): value.strip() for key, equals, value in pairs if equals}
    return {key: value for key, value in found.items() if value not in NOTHING}


def _node(record: Record) -> LiveNode:
    return LiveNode(
        name=record["NodeName"],
        states=states(_needed(record, "State", "node")),
        reason=_text(record.get("Reason")),
        gres=gres(record.get("Gres", "")),
        gres_used=gres(record.get("GresUsed", "")),
        features=_list(record.get("ActiveFeatures")),
        partitions=_list(record.get("Partitions")),
        cpus=number(record.get("CPUTot")),
        cpus_allocated=number(record.get("CPUAlloc")),
        memory_mib=number(record.get("RealMemory")),
        address=_text(record.get("NodeAddr")),
    )


def _partition(record: Record) -> LivePartition:
    return LivePartition(
        name=record["PartitionName"],
        state=_needed(record, "State", "partition"),
        is_default=record.get("Default") == "YES",
        nodes=_text(record.get("Nodes")),
        hosts=_hosts(record.get("Nodes")),
        max_time=record.get("MaxTime", "UNLIMITED"),
        min_nodes=number(record.get("MinNodes")),
        max_nodes=record.get("MaxNodes", "UNLIMITED"),
        allow_accounts=_unless_all(record.get("AllowAccounts")),
        allow_qos=_unless_all(record.get("AllowQos")),
        allow_groups=_unless_all(record.get("AllowGroups")),
        deny_accounts=_list(record.get("DenyAccounts")),
        deny_qos=_list(record.get("DenyQos")),
        needs_reservation=record.get("ReqResv") == "YES",
        is_root_only=record.get("RootOnly") == "YES",
        topology=_text(record.get("Topology")),
    )


def _job(record: Record, whole: str, cluster: str) -> LiveJob:
    return LiveJob(
        id=_job_id(record, cluster),
        name=record.get("JobName", ""),
        states=states(_needed(record, "JobState", "job")),
        reason=_text(record.get("Reason")),
        partition=_text(record.get("Partition")),
        nodes=_text(record.get("NodeList")),
        hosts=_hosts(record.get("NodeList")),
        features=_text(record.get("Features")),
        gres=gres(record.get("TresPerNode", "")),
        exit_code=exit_code(record.get("ExitCode", "0:0")),
        allocated=tuple(
            Allocated(_hosts(found[1]), held_gres(found[2]))
            for found in _HOLDS.finditer(whole.partition(_AFTER_HOLDS)[0])
        ),
    )


def _job_row(cells: list[str], cluster: str) -> LiveJob:
    text, state, code, reason, partition, node_list, per_node, features, name = cells
    found = JobId.parse(text)
    return LiveJob(
        id=replace(found, cluster=cluster),
        name=name,
        states=states(state),
        reason=_text(reason),
        partition=partition,
        nodes=_text(node_list),
        hosts=_hosts(node_list),
        features=_text(features),
        gres=gres(per_node),
        exit_code=exit_code(code),
    )


def _job_id(record: Record, cluster: str) -> JobId:
    if "HetJobId" in record:
        return JobId(_whole(record, "HetJobId"), _whole(record, "HetJobOffset"), cluster=cluster)
    if "ArrayJobId" in record:
        task = record.get("ArrayTaskId", "")
        text = f"[{task}]" if re.search(r"[,%:-]", task) else task
        return JobId(_whole(record, "ArrayJobId"), task=text, cluster=cluster)
    return JobId(_whole(record, "JobId"), cluster=cluster)


def _needed(record: Record, key: str, what: str) -> str:
    """Return a field without which an answer means nothing."""
    if not record.get(key):
        name = next(iter(record.items()))
        raise SlurmError(f"scontrol printed a {what} without {key}: {name[0]}={name[1]:.80}")
    return record[key]


def _text(value: str | None) -> str:
    return "" if value is None or value in NOTHING else value


def _hosts(value: str | None) -> tuple[str, ...]:
    try:
        return tuple(hostlist.expand(_text(value))) if _text(value) else ()
    except ValueError as error:
        raise SlurmError(f"cannot read a host list of Slurm's: {error}") from error


def _whole(record: Record, key: str) -> int:
    text = record.get(key, "")
    if not re.fullmatch("[0-9]{1,10}", text):
        raise SlurmError(f"cannot read {key}={text:.40} of a job")
    return int(text)


def _list(value: str | None) -> tuple[str, ...]:
    return tuple(filter(None, _text(value).split(",")))


def _unless_all(value: str | None) -> tuple[str, ...]:
    return () if value == "ALL" else _list(value)
