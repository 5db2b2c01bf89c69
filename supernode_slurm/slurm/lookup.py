"""What squeue, sacct and sacctmgr are asked about a user, and what their answers mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import UsageError
from . import options, parse
from .model import Association, Associations, JobId

FIELDS = ("JobArrayID", "Comment")
"""Of ``squeue -O``, as ``tagged`` reads them."""
_SINCE = "now-1hours"


def tagged(text: str, mark: str, tag: str) -> frozenset[JobId]:
    """Return the jobs of squeue's rows whose comment holds the tag as a word."""
    rows = parse.rows(text, mark, len(FIELDS))
    return frozenset(
        JobId(JobId.parse(cells[0]).number, cluster=cluster)
        for cells, cluster in rows
        if tag in cells[1].split()
    )


def has_accounting(config: Mapping[str, str]) -> bool:
    """Whether a slurmdbd answers for this cluster."""
    return config.get("AccountingStorageType", "").endswith("slurmdbd")


def keeps_comments(config: Mapping[str, str]) -> bool:
    """Whether sacct can tell a job's comment."""
    flags = config.get("AccountingStoreFlags", "").split(",")
    return has_accounting(config) and "job_comment" in flags


def sacct_argv() -> list[str]:
    """Return the question for this user's jobs of the last hour."""
    return ["sacct", "-n", "-X", "-P", f"--starttime={_SINCE}", "--format=JobIDRaw,Comment"]


def recorded(text: str, tag: str) -> frozenset[JobId]:
    """Return the jobs of sacct's lines whose comment holds the tag."""
    lines = (line.split("|", 1) for line in text.splitlines())
    return frozenset(
        JobId(int(cells[0]))
        for cells in lines
        if len(cells) == 2 and cells[0].isdigit() and tag in cells[1].split()
    )


def association_argvs(user: str, config: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the two questions about a user: the default account, the associations."""
    cluster = [f"cluster={config['ClusterName']}"] if "ClusterName" in config else []
    plain = ["sacctmgr", "-n", "-P", "show"]
    return (
        [*plain, "user", user, "format=DefaultAccount"],
        [*plain, "association", f"user={user}", *cluster, "format=Account,Partition,QOS"],
    )


def associations(default: str, listed: str, config: Mapping[str, str]) -> Associations:
    """Return the answers of sacctmgr as types; lines of another shape say nothing.

    Where the site does not enforce associations, or QOS, there are none to keep to.
    """
    enforced = re.split("[, ]+", config.get("AccountingStorageEnforce", "").lower())
    rows = [line.split("|") for line in listed.splitlines()]
    return Associations(
        default_account=default.strip().partition("\n")[0],
        allowed=tuple(
            Association(
                row[0], row[1], tuple(filter(None, row[2].split(","))) if "qos" in enforced else ()
            )
            for row in rows
            if len(row) == 3 and enforced != ["none"] and any(enforced)
        ),
    )


def clusters_of(arguments: Sequence[str], script: str | None, env: Mapping[str, str]) -> str:
    """Return the clusters to which sbatch sends a job, empty for the default one.

    As sbatch reads them: the command line, then SLURM_CLUSTERS before SBATCH_CLUSTERS, then
    ``#SBATCH`` lines; of components the first that names one. What cannot be read here
    names none; sbatch will say what is wrong.
    """
    try:
        line = options.split(arguments)
        return _chosen(line.components, _script(line, script), env)
    except UsageError:
        return ""


def one_cluster(components: Sequence[Sequence[str]], script: str, env: Mapping[str, str]) -> str:
    """Return the cluster for which a job is planned, empty for the default one.

    Raises ``UsageError`` where sbatch could choose between several.
    """
    named = _chosen(components, script, env)
    if "," in named or named == "all":
        raise UsageError(
            f"--clusters={named}: a plan is for the nodes of one cluster; name one, with "
            "--clusters=NAME on the command line"
        )
    return named


def _chosen(components: Sequence[Sequence[str]], script: str, env: Mapping[str, str]) -> str:
    given = [
        *_named(components),
        env.get("SLURM_CLUSTERS"),
        env.get("SBATCH_CLUSTERS"),
        *_named(options.components(options.directives(script))),
    ]
    return next(filter(None, given), "")


def _named(components: Iterable[Sequence[str]]) -> list[str | None]:
    return [options.values(words).get("clusters") for words in components]


def _script(line: options.Split, script: str | None) -> str:
    if script is not None or line.script is None:
        return script or ""
    try:
        return Path(line.script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
