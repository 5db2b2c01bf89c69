"""The one place where errors become messages and exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from ..errors import SupernodeError, printable

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def tell(kind: str, message: str) -> None:
    """Write a message for the user to standard error: ``sn: warning: ...``."""
    for line in message.splitlines():
        print(f"sn: {kind}: {printable(line)}", file=sys.stderr)


def guarded(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; nothing but an exit code ever leaves.

    SIGTERM and SIGHUP end the command as ^C does, so that what it started is stopped.
    """
    for number in _ENDS:
        signal.signal(number, _interrupt)
    try:
        if sys.stdout is None:
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        elif isinstance(sys.stdout, io.TextIOWrapper):
            # A script or a name need not be text of this locale; it is shown all the same.
            sys.stdout.reconfigure(errors="backslashreplace")
        code = command()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except _of_click() as error:
        return _told_by_click(error)
    except SupernodeError as error:
        tell("error", str(error) or f"{type(error).__name__} without a word: please report it")
        return error.exit_code
    except BrokenPipeError:
        # The reader went away; say nothing, and keep the interpreter from saying it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        tell("error", f"{place}{error.strerror or error}")
        return 1


def _of_click() -> tuple[type[Exception], ...]:
    """Return what click raises, nothing where no command of it is running."""
    if "click" not in sys.modules:
        return ()
    import click

    return (click.ClickException, click.Abort)


def _told_by_click(error: Exception) -> int:
    import click

    if not isinstance(error, click.ClickException):
        return 130
    if isinstance(error, click.UsageError) and error.ctx is not None:
        print(error.ctx.get_usage(), file=sys.stderr)
    tell("error", error.format_message())
    return error.exit_code


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # Once is enough: a second one must not cut the cleaning up short.
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
