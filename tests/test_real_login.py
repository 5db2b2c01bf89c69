"""Login nodes as they are: no inventory, an old one, users without rights; on a real controller."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from supernode_slurm.inventory import Inventory, load
from supernode_slurm.slurm import JobId
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests.test_real_slurm_door import open_to_others
from tests.test_real_submission import MIXED, await_job

pytestmark = pytest.mark.slurm

# Another account may not read this interpreter: all is loaded before root becomes it.
AS_ANOTHER = """
import contextlib, io, os, pwd
from supernode_slurm.cli import submit
with contextlib.redirect_stdout(io.StringIO()):
    words = ["--inventory", {room!r}, "--dry-run", "--cards", "h100:8", "--wrap", "true"]
    submit.run(words)
user = pwd.getpwnam({account!r})
os.initgroups(user.pw_name, user.pw_gid)
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
"""
PLACED = {"CONFIGURING", "RUNNING"}


@pytest.fixture(scope="module")
def room() -> Inventory:
    return load(MIXED)


@pytest.fixture(scope="module")
def twin(room: Inventory) -> Iterator[Twin]:
    partitions = tuple(
        replace(part, options=(("AllowGroups", "root"),)) if part.name == "ascend" else part
        for part in room.partitions
    )
    files = generate(replace(room, partitions=partitions), find_release(installed_release())).files
    with Twin(TwinSpec(files=files)) as found:
        yield found


def sn_submit(
    twin: Twin, *words: str, env: Mapping[str, str] | None = None, account: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the program as a user would."""
    lines = ["from supernode_slurm.cli.submit import main"]
    if account:
        lines = [AS_ANOTHER.format(account=account, room=str(MIXED)), *lines]
    program = [sys.executable, "-c", "\n".join([*lines, "main()"])]
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("SN_", "XDG_"))}
    return subprocess.run(
        [*program, *words], env={**twin.environment(outer), "HOME": "/", **(env or {})},
        capture_output=True, text=True, timeout=120, check=False, cwd="/",
    )  # fmt: skip


def test_without_an_inventory_the_room_is_what_slurm_shows(twin: Twin, room: Inventory) -> None:
    done = sn_submit(twin, "--cards", "h100:64", "--parsable", "--wrap", "true")
    assert done.returncode == 0, done.stderr
    assert "no inventory; the room is as Slurm shows it" in done.stderr
    job = await_job(twin, JobId.parse(done.stdout), PLACED)
    assert set(job.hosts) in [set(supernode.hosts) for supernode in room.supernodes]
    twin.client().cancel(job.id)
    refused = sn_submit(twin, "--dry-run", "--cards", "h100:64", "--wrap", "true")
    assert refused.returncode == 4
    assert "/etc/supernode/inventory.yaml" in refused.stderr


def test_where_an_inventory_is_old_the_cluster_is_right(twin: Twin, tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    # It knows of twelve nodes where there are eight, and of a partition that is gone.
    text = MIXED.read_text().replace('"h{n}-[01-08]"', '"h{n}-[01-12]"')
    old.write_text(text.replace("\npolicy:", "  gone: {supernodes: [sn1]}\n\npolicy:"))
    env = {"SN_INVENTORY": str(old)}
    done = sn_submit(twin, "--cards", "h100:64", "--parsable", "--wrap", "true", env=env)
    assert done.returncode == 0, done.stderr
    assert "8 nodes of the inventory are unknown to Slurm (h1-09" in done.stderr
    twin.client().cancel(JobId.parse(done.stdout))
    wide = sn_submit(twin, "--cards", "h100:96", "--wrap", "true", "-C", "sn1", env=env)
    assert wide.returncode == 2
    assert "12 nodes wanted, 8 usable" in wide.stderr
    gone = sn_submit(twin, "--cards", "h100:8", "-p", "gone", "--wrap", "true", env=env)
    assert "partition gone: Slurm does not know it" in gone.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_user_gets_what_he_may_use_and_is_told_what_not(twin: Twin, tmp_path: Path) -> None:
    open_to_others(twin)
    readable = tmp_path / "inventory.yaml"
    readable.write_text(MIXED.read_text())
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    env = {"SN_INVENTORY": str(readable)}
    done = sn_submit(
        twin, "--cards", "h100:8", "--parsable", "--wrap", "true", env=env, account="nobody"
    )
    assert done.returncode == 0, done.stderr
    twin.client().cancel(JobId.parse(done.stdout))
    closed = sn_submit(twin, "--cards", "910c:8", "--wrap", "true", env=env, account="nobody")
    assert closed.returncode == 3
    assert "partition ascend: AllowGroups is root, and you are in none of them" in closed.stderr
    readable.chmod(0o600)
    hidden = sn_submit(twin, "--cards", "h100:8", "--wrap", "true", env=env, account="nobody")
    assert hidden.returncode == 4
    assert f"{readable}" in hidden.stderr
    assert "Permission denied" in hidden.stderr


def test_a_machine_without_slurm_is_told_so(twin: Twin) -> None:
    env = {"SN_INVENTORY": str(MIXED), "PATH": "/nonexistent"}
    done = sn_submit(twin, "--cards", "h100:8", "--wrap", "true", env=env)
    assert done.returncode == 1
    assert "scontrol: not found on PATH; install Slurm's client programs" in done.stderr
    assert "Traceback" not in done.stderr
