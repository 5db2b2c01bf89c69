"""``sn-probe``: read what is on this node, and print one line of JSON.

Python 3.6, standard library only.
"""

import argparse
import json
import os
import select
import signal
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .collect import collect
from .host import read_name
from .pack import write_pack
from .source import Source

SCHEMA = 1
"""Grows where a reader of an older one would misread a line."""
_MOST_S = 3600.0
_RESERVE_S = 2.0
"""Kept of the time, for what cannot be killed and for printing."""


def main(argv: Optional[List[str]] = None) -> int:
    """Print the record; 0 also where only a part of it could be read, 2 for a wrong command."""
    options = _options(argv)
    if options.pack:
        try:
            write_pack(options.pack)
        except OSError as error:
            print(f"sn-probe: error: {options.pack}: {error.strerror}", file=sys.stderr)
            return 1
        return 0
    if options.raw and _prepare(options.raw):
        return 1
    if options.saved and not os.path.isdir(options.saved):
        print(f"sn-probe: error: {options.saved}: no such directory", file=sys.stderr)
        return 2
    record = probe(options.timeout, options.saved, options.raw, options.serials)
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=True, sort_keys=False)
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def probe(
    timeout_s: float, saved: str = "", raw: str = "", serials: bool = False
) -> Dict[str, Any]:
    """Return the record of this node, or of a saved one, within that time.

    Another process reads: what hangs in the kernel hangs there, and what was read until then
    is returned with a word on what was not.
    """
    started = time.monotonic()
    record: Dict[str, Any] = {
        "sn_probe": SCHEMA,
        "host": "",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    child_s = max(timeout_s - _RESERVE_S, timeout_s / 2)
    source = Source(started + child_s, saved, raw, max(min(20.0, child_s / 2), 0.2))
    record["host"] = read_name(source)
    reading = ""
    for name, value in _parts(source, serials, started + timeout_s - _RESERVE_S / 4):
        if name == "reading":
            reading = value
        else:
            record[name] = value
            reading = "" if name == "end" else reading
    if record.pop("end", None) is None:
        record["stopped"] = "while reading {}, after {:.0f} s".format(
            reading or "nothing yet", time.monotonic() - started
        )
    record["host"] = record.get("node", {}).pop("name", "") or record["host"]
    tools = record.get("tools", {})
    tools = {name: said for name, said in tools.items() if said["answer"] != "missing"}
    record["missing"] = sorted(
        {n.split()[0] for n, s in record.pop("tools", {}).items() if s["answer"] == "missing"}
    )
    record["tools"] = tools
    record["unverified"] = sorted(
        {name.split()[0] for name, said in tools.items() if said.get("verified") is False}
    )
    record["seconds"] = round(time.monotonic() - started, 2)
    return {key: value for key, value in record.items() if value not in ([], {}, None)}


def _parts(source: Source, serials: bool, end: float) -> Iterator[Tuple[str, Any]]:
    """Yield what another process reads, until it ends or the time is over."""
    incoming, outgoing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(incoming)
        _read_all(source, serials, outgoing)
    os.close(outgoing)
    waiting = b""
    try:
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([incoming], [], [], left)[0]:
                break
            chunk = os.read(incoming, 65536)
            if not chunk:
                break
            *lines, waiting = (waiting + chunk).split(b"\n")
            for line in lines:
                name, value = json.loads(line.decode("ascii"))
                yield name, value
    finally:
        os.close(incoming)
        _leave(child)


def _read_all(source: Source, serials: bool, outgoing: int) -> None:
    """Send all parts, one on a line, and end this process."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        with os.fdopen(outgoing, "wb") as stream:
            for part in collect(source, serials):
                stream.write(json.dumps(part).encode("ascii") + b"\n")
                stream.flush()
            stream.write(b'["end",true]\n')
        code = 0
    finally:
        os._exit(code)


def _leave(child: int) -> None:
    """End the reading process, and wait no longer than a second for it."""
    try:
        os.kill(child, signal.SIGKILL)
        for _ in range(20):
            if os.waitpid(child, os.WNOHANG)[0]:
                return
            time.sleep(0.05)
    except OSError:
        return


def _prepare(raw: str) -> bool:
    """Make the directory for raw outputs; return whether that failed."""
    try:
        os.makedirs(raw, mode=0o700)
    except OSError as error:
        print(f"sn-probe: error: {raw}: {error.strerror}", file=sys.stderr)
        return True
    print("sn-probe: note: serial numbers are cut out of " + raw + "; names and addresses are not",
          file=sys.stderr)  # fmt: skip
    return False


def _seconds(text: str) -> float:
    value = float(text)
    if not 1.0 <= value <= _MOST_S:
        raise ValueError(text)
    return value


_seconds.__name__ = "number of seconds from 1 to 3600"


def _options(argv: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sn-probe",
        description="Read what is on this node and print one line of JSON. "
        "'clush -w @all sn-probe | sn import -' makes an inventory of such lines.",
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="S",
        help="seconds after which it ends with what it has [default: 60]",
    )  # fmt: skip
    parser.add_argument("--serials", action="store_true", help="print serial numbers as well")
    parser.add_argument(
        "--raw", default="", metavar="DIR", help="keep what each tool printed in this new directory"
    )
    parser.add_argument(
        "--from", dest="saved", default="", metavar="DIR",
        help="read such a directory in place of this node",
    )  # fmt: skip
    parser.add_argument(
        "--pack", default="", metavar="FILE", help="write sn-probe as one file, to copy to nodes"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
