"""Which partitions a user may use, and why not the others: pure rules over what Slurm shows."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from .. import units
from .model import Associations, LivePartition, Reservation


@dataclass(frozen=True, slots=True)
class User:
    """Who submits."""

    name: str
    """Empty where this machine has no name for the account."""
    groups: frozenset[str]
    is_root: bool = False


@dataclass(frozen=True, slots=True)
class Charge:
    """What a job is charged to; empty where it is not known, and then refuses nothing."""

    account: str = ""
    qos: str = ""
    reservation: str = ""


def current_user() -> User:
    """Return who runs this, with all groups; a group without a name is left out."""
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
        name, ids = entry.pw_name, os.getgrouplist(entry.pw_name, entry.pw_gid)
    except KeyError:
        name, ids = "", [os.getegid(), *os.getgroups()]
    names = {group.gr_gid: group.gr_name for group in grp.getgrall()}
    return User(name, frozenset(names[gid] for gid in ids if gid in names), uid == 0)


def usable_partitions(
    partitions: Iterable[LivePartition], user: User, charge: Charge = Charge()
) -> dict[str, str]:
    """Return each partition's name with why this user may not use it, empty if he may.

    A default account or QOS that is not known refuses nothing: Slurm decides then.
    """
    return {part.name: _objection(part, user, charge) for part in partitions}


def size_objection(partition: LivePartition, nodes: int | None, minutes: float | None) -> str:
    """Return why a job of this size would not run in a partition, empty if it may."""
    if nodes is not None and nodes < partition.min_nodes:
        return f"MinNodes is {partition.min_nodes}"
    most = partition.max_nodes
    if nodes is not None and most.isdigit() and nodes > int(most):
        return f"MaxNodes is {most}"
    if minutes is not None and minutes > units.minutes(partition.max_time):
        return f"MaxTime is {partition.max_time}"
    return ""


def reservation_objection(reservation: Reservation, user: User, account: str = "") -> str:
    """Return why this user may not use a reservation, empty if he may.

    A job for one that is yet to begin is taken, and waits: see ``reservation_note``. Root
    may use all on 24.11 and 26.05; 22.05 refuses it like anybody, and says so itself.
    """
    if user.is_root:
        return ""
    for kind, names, mine in (
        ("Users", reservation.users, {user.name}),
        ("Groups", reservation.groups, user.groups),
        ("Accounts", reservation.accounts, {account} if account else set()),
    ):
        refused = {name[1:] for name in names if name.startswith("-")}
        allowed = set(names) - {f"-{name}" for name in refused}
        known = kind != "Accounts" or account
        if known and (refused & mine or (allowed and not allowed & mine)):
            return f"{kind}={','.join(names)}"
    return ""


def reservation_note(reservation: Reservation) -> str:
    """Return what to know of a job for a reservation that is yet to begin, else empty."""
    if reservation.is_active:
        return ""
    begins = datetime.fromtimestamp(reservation.start).isoformat(" ", "minutes")
    return f"reservation {reservation.name} begins at {begins}: the job waits until then"


def association_objection(
    associations: Associations, account: str, partition: str, qos: str
) -> str:
    """Return why accounting refuses a job of this user, empty if it may run.

    An empty account is the user's default one, an empty QOS the association's. Where
    nothing is enforced, or known, nothing is refused.
    """
    account = account or associations.default_account
    if not account or not associations.allowed:
        return ""
    mine = [row for row in associations.allowed if row.account == account]
    if not mine:
        names = list(dict.fromkeys(row.account for row in associations.allowed))
        return f"you have no account {account}, only {_listed(names)}"
    here = [row for row in mine if row.partition in ("", partition)]
    if not here:
        names = [row.partition for row in mine]
        return f"your account {account} is for {_listed(names)} only"
    # The association of the partition goes before the one of all.
    allowed = max(here, key=lambda row: row.partition).qos
    if qos and allowed and qos not in allowed:
        return f"your account {account} has QOS {_listed(allowed)}, not {qos}"
    return ""


def _objection(part: LivePartition, user: User, charge: Charge) -> str:
    if part.state != "UP":
        return f"State is {part.state}"
    if part.needs_reservation and not charge.reservation:
        return "ReqResv is YES: it takes jobs of a reservation only"
    if not user.is_root:
        if part.is_root_only:
            return "RootOnly is YES"
        if part.allow_groups and not user.groups.intersection(part.allow_groups):
            return f"AllowGroups is {_listed(part.allow_groups)}, and you are in none of them"
    return _listing("Accounts", charge.account, part.allow_accounts, part.deny_accounts) or (
        _listing("Qos", charge.qos, part.allow_qos, part.deny_qos)
    )


def _listing(kind: str, name: str, allowed: Sequence[str], denied: Sequence[str]) -> str:
    """Slurm reads the list of those denied only where none of those allowed is given."""
    if name and allowed and name not in allowed:
        return f"Allow{kind} is {_listed(allowed)}, not {name}"
    if name and not allowed and name in denied:
        return f"Deny{kind} holds {name}"
    return ""


def _listed(names: Sequence[str]) -> str:
    return ",".join(names[:6]) + (",..." if len(names) > 6 else "")
