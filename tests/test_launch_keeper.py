"""sn-launch beside a rank: what passes, what is reported, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.runtime import record
from supernode_slurm.runtime.layout import Layout, Place

LAUNCHER = Path(record.__file__).with_name("launch.py")
MARK = "0123abcd"


def start(*command: str, mark: str = MARK, **more: str) -> subprocess.Popen[bytes]:
    """Start the rank side as the batch side would, one rank on one node."""
    env = {
        **os.environ, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1",
        "SLURMD_NODENAME": "n1", "SLURM_LOCALID": "1", "SN_MARK": mark,
        "SN_LAYOUT": Layout((Place("n1", -1, 0, 2),), "n1", 20007).dumps(), **more,
    }  # fmt: skip
    argv = [sys.executable, "-I", "-S", str(LAUNCHER), "--rank", "--", *command]
    return subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(*command: str, **more: str) -> tuple[int, bytes, bytes, list[dict[str, object]]]:
    """Return exit code, stdout, stderr without records, and the records."""
    process = start(*command, **more)
    out, err = process.communicate(timeout=60)
    passed, records = record.Sieve(MARK).feed(err)
    return process.returncode, out, passed, records


def python(program: str, **more: str) -> tuple[int, bytes, bytes, list[dict[str, object]]]:
    return run(sys.executable, "-c", program, **more)


def test_a_good_end_leaves_no_trace_in_what_passes() -> None:
    program = "import os, sys; sys.stdout.buffer.write(b'\\x1eout\\xff'); os.write(2, b'err\\xff')"
    code, out, passed, records = python(program)
    assert (code, out, passed) == (0, b"\x1eout\xff", b"err\xff")
    assert [(item["kind"], item["code"], item["signal"]) for item in records] == [("end", 0, 0)]


def test_what_would_steer_a_terminal_is_shown_escaped() -> None:
    raw = "\x1b]0;t\x07 \u202e 好\u3000é\tx"
    records = python(f"import sys; sys.stderr.write({raw!r}); sys.exit(1)")[3]
    assert records[0]["text"] == "\\x1b]0;t\\x07 \\u202e 好\u3000é\tx"


def test_a_bad_end_is_reported_with_its_last_lines() -> None:
    program = (
        "import os, sys\n"
        "for n in range(30): print('line', n, file=sys.stderr)\n"
        "print('10%\\r20%', file=sys.stderr); print('last é', end='', file=sys.stderr)\n"
        "sys.exit(7)"
    )
    code, _, passed, records = python(program)
    assert code == 7
    assert passed.endswith("10%\r20%\nlast é\n".encode())
    assert [item["text"] for item in records[:-1]] == [
        *(f"line {n}" for n in range(12, 30)), "20%", "last é",
    ]  # fmt: skip
    end = records[-1]
    assert (end["kind"], end["rank"], end["code"], end["signal"], end["told"]) == (
        "end", 1, 7, 0, False,
    )  # fmt: skip
    assert end["text"] == "rank 1 on n1"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_killed_program_kills_the_rank_in_the_same_way(number: signal.Signals) -> None:
    code, _, _, records = python(f"import os; os.kill(os.getpid(), {int(number)})")
    assert code == -number
    assert records[-1]["signal"] == number


@pytest.mark.parametrize(
    ("command", "code"), [("/nonsuch", 127), ("nonsuch", 127), ("/etc/passwd", 126)]
)
def test_a_program_that_cannot_start_is_named(command: str, code: int) -> None:
    found, _, passed, records = run(command)
    assert found == code
    assert f"sn-launch: error: cannot start {command}: ".encode() in passed
    assert records[-1]["code"] == code


def test_signals_to_the_step_reach_the_program_and_not_the_rank_alone() -> None:
    program = (
        "import os, signal, sys, time\n"
        "def told(number, frame):\n"
        "    os.write(1, b'got %d\\n' % number)\n"
        "    if number == 15: sys.exit(1)\n"
        "for number in (10, 15): signal.signal(number, told)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    process = start(sys.executable, "-c", program)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for number, said in ((signal.SIGUSR1, b"got 10\n"), (signal.SIGTERM, b"got 15\n")):
        for pid in (process.pid, *map(int, children)):  # as Slurm does
            os.kill(pid, number)
        assert process.stdout.readline() == said
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    records = record.Sieve(MARK).feed(err)[1]
    assert [item["told"] for item in records] == [True]


def test_signals_have_their_usual_meaning_for_the_program() -> None:
    program = (
        "import signal\n"
        "print(*(signal.getsignal(n) == signal.SIG_IGN for n in (10, 12, 15, 14, 1)),"
        " signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    )
    assert python(program)[1] == b"False False False False False set()\n"
    # Python itself ignores SIGPIPE: ask another program.
    assert run("sh", "-c", "kill -PIPE $$; echo alive")[0] == -signal.SIGPIPE
    assert run("sh", "-c", "kill -PIPE $$; echo alive", SN_WATCH="0")[0] == -signal.SIGPIPE


def test_stderr_passes_at_once() -> None:
    process = start("sh", "-c", "printf half >&2; read line", mark="")
    assert process.stderr is not None
    assert os.read(process.stderr.fileno(), 100) == b"half"
    process.kill()
    process.communicate(timeout=60)


def test_what_a_program_leaves_running_holds_nobody_up() -> None:
    process = start("sh", "-c", "sleep 100 & echo $!; exit 3")
    assert process.stdout is not None
    orphan = int(process.stdout.readline())
    try:
        assert process.wait(timeout=60) == 3
    finally:
        os.kill(orphan, signal.SIGKILL)
        process.communicate(timeout=60)


def test_without_a_watch_the_program_takes_our_place() -> None:
    process = start("sh", "-c", "echo $$; exit 3", SN_WATCH="0")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, int(out), err) == (3, process.pid, b"")


STOPS = (
    "import os, sys\n"
    f"sys.path.insert(0, {str(LAUNCHER.parents[2])!r})\n"
    "from supernode_slurm.runtime.heartbeat import Heart, begin\n"
    "begin(os.environ)\n"
    "print(os.environ['SN_HEARTBEAT'], end='', flush=True)\n"
    "os.write(2, b'50%')\n"
    "with Heart().waiting(): sys.stdin.read()"
)


def read_until(process: subprocess.Popen[bytes], words: bytes) -> bytes:
    assert process.stderr is not None
    said = b""
    while words not in said:
        data = os.read(process.stderr.fileno(), 4096)
        assert data, said
        said += data
    return said


def test_a_rank_that_stands_still_is_told_meanwhile(tmp_path: Path) -> None:
    process = start(sys.executable, "-c", STOPS, mark=MARK, SN_PATIENCE="0.3", TMPDIR=str(tmp_path))
    said = read_until(process, b'"kind":"still"')
    out, rest = process.communicate(timeout=60)
    passed, records = record.Sieve(MARK).feed(said + rest)
    assert passed.split(b"\n")[0] == b"50%"
    assert [item["kind"] for item in records][:2] == ["begun", "still"]
    assert records[-1]["kind"] == "end"
    assert (records[1]["rank"], records[1]["entered"], records[1]["left"]) == (1, 1, 0)
    assert not Path(out.decode()).exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("env", [{"SN_PATIENCE": "0"}, {"SN_WATCH": "0"}])
def test_nothing_is_told_where_nobody_asks(env: dict[str, str]) -> None:
    code, out, _, _ = python("import os; print(os.environ.get('SN_HEARTBEAT'))", **env)
    assert (code, out) == (0, b"None\n")


def test_a_step_by_hand_reports_for_itself() -> None:
    env = {
        **os.environ, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3", "SLURM_PROCID": "0",
        "SLURMD_NODENAME": "localhost", "SLURM_LOCALID": "0", "SLURM_JOB_NODELIST": "localhost",
        "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "1", "SN_REPLAN": "0",
    }  # fmt: skip
    argv = [sys.executable, str(LAUNCHER), "sh", "-c", "echo why >&2; exit 4"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4
    assert done.stderr == (
        "why\nsn-launch: error: rank 0 on localhost ended with exit code 4\n    why\n"
    )


def test_between_the_two_sides_alone_is_not_for_the_program() -> None:
    found = json.loads(python("import json, os; print(json.dumps(dict(os.environ)))")[1])
    assert not {"SN_MARK", "SN_LAYOUT"} & set(found)
    assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == ("1", "2", "1")


texts = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from([b"\x1e", b"\x1esn-launch ", b"\x1esn-launch 0123", b"\n", b"3: "]),
    ),
    max_size=12,
).map(b"".join)


@given(st.lists(st.tuples(texts, st.text(max_size=2000)), max_size=4), st.data())
def test_records_come_out_and_all_else_passes_unchanged(
    parts: list[tuple[bytes, str]], data: st.DataObject
) -> None:
    stream, others = b"", b""
    for raw, text in parts:
        before = raw.replace(record.prefix_of(MARK), b"") + b"\n"
        line = record.encode(MARK, {"kind": "line", "rank": 1}, text)
        assert len(line) <= 1000
        assert line.count(b"\n") == 1
        stream, others = stream + before + line, others + before
    sieve, passed = record.Sieve(MARK), b""
    records: list[dict[str, object]] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        some, found = sieve.feed(stream[:size])
        passed, records, stream = passed + some, records + found, stream[size:]
    assert passed + sieve.rest() == others
    assert len(records) == len(parts)
    assert all(
        text.startswith(str(item["text"])) for (_, text), item in zip(parts, records, strict=True)
    )


def test_labels_of_srun_go_with_the_record() -> None:
    line = record.encode(MARK, {"kind": "step", "step": "0"})
    passed, records = record.Sieve(MARK).feed(b"0: hello\n 1: " + line + b"2: bye\n")
    assert passed == b"0: hello\n2: bye\n"
    assert len(records) == 1


def test_another_launchers_marks_and_broken_records_pass() -> None:
    other = record.encode("ffff", {"kind": "step"}, "x")
    broken = record.prefix_of(MARK) + b"{]\n"
    endless = record.prefix_of(MARK) + b"x" * 2000
    for text in (other, broken, endless):
        sieve = record.Sieve(MARK)
        passed, records = sieve.feed(text)
        assert (passed + sieve.rest(), records) == (text, [])
