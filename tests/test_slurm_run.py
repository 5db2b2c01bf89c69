"""Programs are run to their end, whatever they do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from supernode_slurm.errors import SlurmNotFound, SlurmRejected, SlurmTimeout
from supernode_slurm.slurm.run import check, run


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_both_streams_and_the_exit_code_are_returned() -> None:
    result = run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=30)
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "err\n")


def test_the_program_reads_the_text_it_is_given_and_else_nothing() -> None:
    assert run(["cat"], timeout_s=30, stdin_text="ü\n").stdout == "ü\n"
    assert run(["cat"], timeout_s=30).stdout == ""


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert run(["printf", r"a\377b"], timeout_s=30).stdout == "a\ufffdb"


def test_the_given_environment_is_the_whole_environment() -> None:
    path = os.environ["PATH"]
    assert run(["env"], timeout_s=30, env={"PATH": path, "A": "1"}).stdout.split() == [
        f"PATH={path}",
        "A=1",
    ]


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "pid"
    script = f'sleep 600 & echo $! > "{child}"; echo asking >&2; wait'
    with pytest.raises(SlurmTimeout, match=r"(?s)no answer in 1 s from: sh -c .*asking"):
        run(["sh", "-c", script], timeout_s=1)
    deadline = time.monotonic() + 30
    while is_running(int(child.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(int(child.read_text()))


def test_a_daemon_that_keeps_the_pipe_does_not_keep_us(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > \"{pid}\"; exec sleep 600' & sleep 600"
    try:
        with pytest.raises(SlurmTimeout):
            run(["sh", "-c", script], timeout_s=1)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_missing_program_is_named() -> None:
    with pytest.raises(SlurmNotFound, match="sbatchh: not found on PATH"):
        run(["sbatchh"], timeout_s=30)


def test_a_program_that_may_not_be_run_is_told_so(tmp_path: Path) -> None:
    program = tmp_path / "sbatch"
    program.write_text("#!/nowhere/sh\n")
    program.chmod(0o755)
    with pytest.raises(SlurmNotFound, match="sbatch: cannot be run: No such file"):
        run(["sbatch"], timeout_s=30, env={"PATH": str(tmp_path)})


def test_a_missing_directory_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere"):
        run(["true"], timeout_s=30, cwd=tmp_path / "nowhere")


def test_check_raises_with_what_the_program_said() -> None:
    with pytest.raises(SlurmRejected, match="sh refused: no such partition") as caught:
        check(["sh", "-c", "echo no such partition >&2; exit 1"], timeout_s=30)
    assert caught.value.returncode == 1
