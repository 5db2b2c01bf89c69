"""Where the probe gets its texts: the node it runs on, or a directory of saved ones.

Every program has a time of its own, no input, no shell, and is killed with its children; one
that cannot be killed is left behind. Python 3.6, standard library only.
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from typing import IO, Dict, List, Optional, Sequence, Set, Tuple

MOST_BYTES = 8 * 1024 * 1024
"""Most that is kept of what a program prints or a file holds."""
_SAID = 200
_PLACES = (
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),
    *("/opt/rocm/bin", "/opt/hyhal/bin", "/opt/dtk/bin", "/usr/local/Ascend/driver/tools"),
    *("/usr/local/neuware/bin", "/usr/local/corex/bin", "/opt/mxdriver/bin", "/opt/maca/bin"),
    *("/usr/local/musa/bin", "/usr/local/xpu/bin", "/usr/local/birensupa/bin"),
    *("/opt/tops/bin", "/opt/slurm/sbin", "/usr/local/slurm/sbin"),
)
"""Where programs lie that the short PATH of a remote shell does not name."""
_SERIAL = re.compile(
    r"(?im)^([^\n]*\bserial[ _]?(?:number|num|no)?\b[^:>\n]*[:>][ \t]*)[^<\s\n][^<\n]*"
)
_PROCESSES = re.compile(r"(?is)<processes>.*?</processes>")


class Source:
    """Texts of programs and files, with what each program answered.

    ``saved`` is a directory to read from in place of the node, ``raw`` one to write to.
    """

    def __init__(
        self, deadline: float, saved: str = "", raw: str = "", each_s: float = 20.0
    ) -> None:
        self.answers: Dict[str, Dict[str, object]] = {}
        self._deadline = deadline
        self._saved = saved
        self._raw = raw
        self._each_s = each_s
        self._hung: Set[str] = set()

    def run(self, argv: Sequence[str], verified: bool = True) -> str:
        """Return what a program prints, also where it fails; empty if it says nothing."""
        name = " ".join(argv)
        if self._saved:
            answer, text = self._from_saved(name)
        else:
            answer, text = self._really(argv)
        if self._raw and answer != "missing":
            self._save(file_name(name) + (".txt" if answer == "ok" else ".failed"), text)
        found: Dict[str, object] = {"answer": answer}
        if not verified:
            found["verified"] = False
        self.answers[name] = found
        return text

    def told(self, argv: Sequence[str], what: str) -> None:
        """Keep that a program answered, and that nobody here could read it."""
        answer = self.answers.get(" ".join(argv))
        if answer is not None and answer["answer"] == "ok":
            answer["answer"] = "unread: " + what[:_SAID]

    def read(self, path: str) -> str:
        """Return the text of a file, empty if it cannot be read."""
        place = self._place(path)
        try:
            number = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except (OSError, ValueError):
            return ""
        raw = b""
        try:
            while len(raw) < MOST_BYTES:
                chunk = os.read(number, 65536)
                if not chunk:
                    break
                raw += chunk
        except OSError:
            pass
        finally:
            os.close(number)
        text = raw.decode("utf-8", "replace")
        if self._raw:
            self._save("root" + path, text)
        return text

    def names(self, path: str) -> List[str]:
        """Return the names in a directory, sorted; none if it cannot be read."""
        try:
            return sorted(os.listdir(self._place(path)))[:4096]
        except (OSError, ValueError):
            return []

    def target(self, path: str) -> str:
        """Return where a link leads to in the end, empty if it is none."""
        if self._saved:
            for line in self.read("/links").splitlines():
                name, arrow, target = line.partition(" -> ")
                if arrow and name == path:
                    return target
            return ""
        found = os.path.realpath(path)
        if self._raw and found != path:
            self._save("root/links", path + " -> " + found + "\n", "a")
        return found if found != path else ""

    def _place(self, path: str) -> str:
        return os.path.join(self._saved, "root", path.lstrip("/")) if self._saved else path

    def _from_saved(self, name: str) -> Tuple[str, str]:
        for end, answer in ((".txt", "ok"), (".failed", "failed: as it was saved")):
            path = os.path.join(self._saved, file_name(name) + end)
            if os.path.isfile(path):
                with open(path, "rb") as stream:
                    return answer, stream.read(MOST_BYTES).decode("utf-8", "replace")
        return "missing", ""

    def _really(self, argv: Sequence[str]) -> Tuple[str, str]:
        path = find_program(argv[0])
        if not path:
            return "missing", ""
        left = self._deadline - time.monotonic()
        if left <= 0.1:
            return "timeout: no time was left for it", ""
        if argv[0] in self._hung:
            return "timeout: not asked again", ""
        answer, text = run_program([path, *argv[1:]], min(self._each_s, left))
        if answer.startswith("timeout"):
            self._hung.add(argv[0])
        return answer, text

    def _save(self, name: str, text: str, mode: str = "w") -> None:
        path = os.path.join(self._raw, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, mode, encoding="utf-8", errors="replace") as stream:
            stream.write(without_secrets(text))


def without_secrets(text: str) -> str:
    """Return what a tool said without serial numbers and other people's processes."""
    return _SERIAL.sub(r"\1(removed)", _PROCESSES.sub("<processes/>", text))


def file_name(name: str) -> str:
    """Return the name of the file that keeps what a program printed."""
    return re.sub(r"[^A-Za-z0-9._=,-]+", "_", name)[:120]


def find_program(name: str) -> str:
    """Return the path of a program, empty if there is none."""
    if os.path.isabs(name):
        return name if os.access(name, os.X_OK) else ""
    for folder in (*os.environ.get("PATH", os.defpath).split(os.pathsep), *_PLACES):
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def run_program(argv: Sequence[str], seconds: float) -> Tuple[str, str]:
    """Return how a program ended, in words, and what it printed."""
    environ = {**os.environ, "LC_ALL": "C", "LANG": "C", "TERM": "dumb"}
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return "failed: " + str(getattr(error, "strerror", None) or error), ""
    out, err = bytearray(), bytearray()
    in_time = _drain(process, {process.stdout: out, process.stderr: err}, seconds)
    code = process.poll()
    if not in_time or code is None:
        code = _end(process)
    text = bytes(out).decode("utf-8", "replace")
    if not in_time:
        return f"timeout: no answer in {max(seconds, 1):.0f} s", text
    if len(out) >= MOST_BYTES:
        return f"failed: printed more than {MOST_BYTES >> 20} MiB", text
    if code == 0:
        return "ok", text
    said = (bytes(err).decode("utf-8", "replace").strip() or text.strip()).splitlines()
    words = " ".join(said[-1].split())[:_SAID] if said else "no message"
    return f"failed: exit code {code}: {words}", text


def _drain(
    process: "subprocess.Popen[bytes]", pipes: Dict[Optional[IO[bytes]], bytearray], seconds: float
) -> bool:
    """Read both pipes to their end; return whether that was in time."""
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as waiting:
        for pipe, kept in pipes.items():
            if pipe is not None:
                waiting.register(pipe, selectors.EVENT_READ, kept)
        while waiting.get_map():
            left = end - time.monotonic()
            if left <= 0:
                return False
            for key, _ in waiting.select(left):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    waiting.unregister(key.fileobj)
                key.data.extend(chunk)
                if len(key.data) >= MOST_BYTES:
                    return True
    try:
        process.wait(max(end - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: "subprocess.Popen[bytes]") -> Optional[int]:
    """Kill a program and its children; one that hangs in the kernel is left there."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None
