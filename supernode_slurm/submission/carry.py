"""The lines that bring the plan, and the launcher where it must travel, into a batch script."""

from __future__ import annotations

import base64
import shlex
import textwrap

from .. import __version__
from ..runtime.archive import archive


def plan_lines(plan: str) -> list[str]:
    """Return the lines of shell that export a plan."""
    return [
        f"# sn-submit {__version__}: the plan of this job, read by sn-launch",
        f"export SN_PLAN={shlex.quote(plan)}",
    ]


def launcher_lines() -> list[str]:
    """Return the lines of shell that unpack ``sn-launch`` on the first node and find it there.

    ``sn-launch`` itself sends its file on to the other nodes.
    """
    text = base64.b64encode(archive()).decode("ascii")
    return [
        'SN_CARRIED=$(mktemp -d "${TMPDIR:-/tmp}/sn-launch.XXXXXXXX") || exit 1',
        "base64 -d > \"$SN_CARRIED/sn-launch\" <<'SN_LAUNCH_END' || exit 1",
        *textwrap.wrap(text, 100),
        "SN_LAUNCH_END",
        'chmod 700 "$SN_CARRIED/sn-launch" || exit 1',
        "trap 'rm -rf \"$SN_CARRIED\"' EXIT",
        # With exec the launcher takes the script's place, and its trap: it removes it then.
        'export SN_CARRIED SN_CARRIED_BY=$$ PATH="$SN_CARRIED:$PATH"',
    ]
