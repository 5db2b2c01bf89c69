"""Which release is asked for nodes in JSON, and why everything else is asked for in text.

JSON keeps an admin's free text apart from what Slurm says. ``scontrol`` has it since 23.02, in
versions that come and go: v0.0.42 is the one that 24.11 to 26.05 share, and it is pinned.
Partitions stay text: v0.0.42 tells neither Default nor RootOnly nor ReqResv. Jobs stay text:
JSON lists each core of each node, 10 MB for a job on 1,000 nodes of 192 cores. (Seen on 24.11.5
and 26.05.5.)

pyslurm is not asked: 25.11.2, the only release of it that is packaged, has no GresUsed. It counts
GRES of TRES, which are tracked with slurmdbd only, so that busy devices would look free. Its
import loads the slurm.conf of this process, whatever the environment of a client says.
"""

from __future__ import annotations

_JSON = "v0.0.42"
_NODES_IN_JSON = frozenset({"24.11", "25.05", "25.11", "26.05"})


def node_json(release: str) -> str:
    """Return the version of JSON in which a release is asked for nodes, empty for text."""
    return _JSON if release in _NODES_IN_JSON else ""
