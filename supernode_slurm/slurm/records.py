"""Take apart what ``scontrol -o`` prints: a record per line, as ``Key=value`` pairs.

Values may hold spaces, so a value ends where the next key begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Record = dict[str, str]

NOTHING = frozenset({"", "(null)", "N/A", "None", "none", "Unknown"})
_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z_]*(?:[:/][A-Za-z_]+)*)=")
_JOB_NAME = re.compile(
    r" JobName=(?P<JobName>.*?)"
    r"(?= (?:SLUID=\S+ )?(?:HetJobIdSet=\S+ )?UserId=\S* GroupId=\S* MCS_label=)",
    re.DOTALL,
)
_REASON = re.compile(r" Reason=(?P<Reason>.*?) \[[^\s@\]]+@[0-9T:-]+\](?=\s|\Z)")
_FREE = {"NodeName": _REASON, "JobId": _JOB_NAME}
_NEXT_COMPONENT = re.compile(r"\n(?=JobId=[0-9]+ (?:HetJobId|ArrayJobId)=)")


def records(text: str, first: str) -> Iterator[Record]:
    """Yield the records whose first key is ``first``."""
    for line in text.splitlines():
        if line.startswith(f"{first}="):
            yield _record(line, _FREE.get(first))


def job_records(text: str) -> Iterator[tuple[Record, str]]:
    """Yield the records of one job, each with its text; names and comments may hold newlines."""
    several = re.match(r"JobId=[0-9]+ (?:HetJobId|ArrayJobId)=", text)
    for part in _NEXT_COMPONENT.split(text) if several else [text]:
        if part.startswith("JobId="):
            record = _record(part, _JOB_NAME)
            yield record, _JOB_NAME.sub("", part, 1)


def fields(text: str, first: str) -> tuple[dict[str, str], ...]:
    """Return all fields of the records of ``scontrol -o show``, of which ``first`` is the name.

    Fields that are not set are left out.
    """
    return tuple(
        {key: value for key, value in record.items() if value not in NOTHING}
        for record in records(text, first)
    )


def _record(text: str, free: re.Pattern[str] | None) -> Record:
    """Return the pairs of a record; the first of equal keys counts.

    A user may write ``x JobState=FAILED`` into a job's name or comment, an admin into
    a node's reason: ``free`` cuts such a value out by what surrounds it, and comments
    come after all that is read here.
    """
    pairs: Record = {}
    found = free.search(text) if free else None
    if found:
        pairs.update(found.groupdict())
        text = text[: found.start()] + text[found.end() :]
    keys = list(_KEY.finditer(text))
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        end = following.start() if following else len(text)
        pairs.setdefault(key[1], text[key.end() : end].strip())
    return pairs
