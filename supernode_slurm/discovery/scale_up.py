"""Which scale-up fabric each host says that it is in, put together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from .. import hostlist
from ..errors import Problem, Where
from .room import Room, ScaleUpFacts

PENDING = "state "
"""What begins the words of a device whose fabric is not up."""
NO_CLIQUE = "32766"
"""A CliqueId that stands for none: unrelated racks share it (meta-pytorch/torchcomms#3612)."""
_CUT = re.compile(r"[-_.]*(?:c|n|node|compute|tray|host)?[-_.]*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Membership:
    """What one device of a host says."""

    host: str
    domain: str
    """Empty for none."""
    why: str
    """Why it is in none, in the words of its tool."""
    where: Where

    @property
    def is_pending(self) -> bool:
        """Return whether its fabric exists and has not taken it in."""
        return self.why.startswith(PENDING) and not self.why.casefold().endswith("n/a")


def nvlink_domain(cluster: str, clique: str, state: str = "") -> tuple[str, str]:
    """Return the NVLink domain that a GPU names, else why it names none.

    ClusterUUID and CliqueId together are its key: GPUs of one cluster and two cliques do
    not reach each other. Zeros, N/A and what is not there are no domain, whatever the
    state: so answer GPUs without a fabric between nodes.
    """
    if state and state.casefold() != "completed":
        return "", f"{PENDING}{state}"
    if not cluster.strip("0- ") or cluster.casefold() in ("n/a", "[n/a]"):
        return "", f"ClusterUUID {cluster or 'N/A'}"
    if clique.casefold() in ("n/a", "[n/a]", NO_CLIQUE):
        return "", f"CliqueId {clique}"
    return (f"{cluster}.{clique}" if clique else cluster), ""


def add_memberships(room: Room, found: Iterable[Membership], fabric: str, kind: str) -> None:
    """Put hosts that name the same domain together; tell of those that name none, or two.

    A supernode is called as its hosts are, if no other's name begins so, else as its domain.

    ``fabric`` is what to call a domain, like ``NVLink domain``; ``kind`` is its interconnect.
    """
    of_host: dict[str, list[Membership]] = {}
    for item in found:
        of_host.setdefault(item.host, []).append(item)
    members: dict[str, tuple[list[str], Where]] = {}
    for host, items in of_host.items():
        room.bare.setdefault(host, items[0].where)
        domains = Counter(item.domain for item in items if item.domain)
        lost = Counter(item.why for item in items if not item.domain)
        reasons = ", ".join(f"{why}" for why in lost)
        if len(domains) > 1:
            what = f"cards of {{hosts}} are in {len(domains)} {fabric}s: left out"
            room.of_hosts("fault", Problem(items[0].where, what, "ask again"), [host])
        elif not domains:
            what = f"{{hosts}}: in no {fabric} ({reasons})"
            pending = any(item.is_pending for item in items)
            todo = "look at the chassis: its switches have not let them in" if pending else ""
            told = "fault" if pending else "unsaid"
            room.of_hosts(told, Problem(items[0].where, what, todo or "is it up?"), [host])
        else:
            domain = next(iter(domains))
            members.setdefault(domain, ([], items[0].where))[0].append(host)
            if lost:
                count = f"{lost.total()} of {len(items)} cards"
                what = f"{{hosts}}: {count} in no {fabric} ({reasons})"
                room.of_hosts("fault", Problem(items[0].where, what, "look at them"), [host])
    together = {domain: hosts for domain, (hosts, _) in members.items()}
    names = _by_hosts(together, of_host.keys())
    for domain, (hosts, where) in members.items():
        room.scale_ups.append(ScaleUpFacts(names[domain], tuple(hosts), (), where, kind))


def _by_hosts(domains: Mapping[str, Sequence[str]], known: Set[str]) -> dict[str, str]:
    found = {}
    for name, hosts in domains.items():
        stem = _stem(hosts)
        others = known - set(hosts)
        short = _CUT.sub("", stem)
        shared = len(hosts) > 1 and short and not any(host.startswith(stem) for host in others)
        found[name] = short if shared else name
    return found if len(set(found.values())) == len(found) else {name: name for name in domains}


def _stem(hosts: Iterable[str]) -> str:
    """Return what stands before the last number in all names, empty where that differs."""
    stems = {host.removesuffix(hostlist.digit_tail(host)) for host in hosts}
    return stems.pop() if len(stems) == 1 else ""
