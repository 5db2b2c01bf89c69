"""Have a controller read its files, and tell from what it runs whether it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import SlurmDown, SlurmError
from ..slurm import Controller, SlurmClient
from ..slurmconf.release import Release
from .change import RESTART
from .prove import Intent, Observed, differences, observe, worsened


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a proof may take."""

    settle_s: float = 20.0
    """Until slurmctld runs what is meant, after a reconfigure."""
    start_s: float = 90.0
    """The same after a restart."""
    dead_s: float = 5.0
    """Without an answer after a reconfigure, until slurmctld counts as dead."""
    watch_s: float = 10.0
    """For which it must hold then: slurmds report what they have."""
    poll_s: float = 0.5
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def await_none(
        self, look: Callable[[], list[str]], settle_s: float, dead_s: float
    ) -> list[str]:
        """Return what is wrong at last: nothing once nothing was wrong for as long as we watch."""
        begun = answered = self.clock()
        good_since: float | None = None
        while True:
            is_down = False
            try:
                wrong = look()
            except SlurmDown as error:
                wrong, is_down = [str(error)], True
            except SlurmError as error:
                wrong = [str(error)]
            now = self.clock()
            answered = answered if is_down else now
            if not wrong:
                good_since = now if good_since is None else good_since
                if now - good_since >= self.watch_s:
                    return []
            elif is_down:
                if now - answered >= dead_s:
                    return wrong
            elif good_since is not None or now - begun >= settle_s:
                return wrong
            self.sleep(self.poll_s)


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads configurations into one controller."""

    client: Callable[[], SlurmClient]
    """A client that remembers nothing."""
    controller: Controller
    restart: Sequence[str] = ()
    """The site's command that restarts slurmctld; empty where the admin does it."""
    patience: Patience = field(default_factory=Patience)

    def look(self, topologies: Iterable[str]) -> Observed:
        """Return what the controller runs now; ``SlurmDown`` where none answers."""
        if not self.controller.is_up():
            raise SlurmDown("slurmctld does not answer")
        return observe(self.client(), topologies)

    def load(
        self, needs: str, meant: Intent, release: Release, before: Observed | None
    ) -> list[str]:
        """Have the files read; return what is wrong then, nothing for a proof.

        ``before`` is what the controller ran, where it ran.
        """
        if needs == RESTART:
            said = self.controller.restart(self.restart)
        else:
            self._await_another_second(before)
            said = self.controller.reconfigure()
        if said and self.controller.is_up():
            return [said]
        is_fresh = needs == RESTART or release.reconfigure_survives
        wrong = self.prove(meant, before, is_fresh, needs == RESTART)
        return list(dict.fromkeys([*([said] if said and wrong else []), *wrong]))

    def prove(
        self, meant: Intent, before: Observed | None, is_fresh: bool, is_start: bool = False
    ) -> list[str]:
        """Return what is wrong with what the controller runs; it must have started anew if asked.

        A reconfigure that an old process answers before it reads the files proves nothing:
        the time of its start tells the two apart.
        """

        def wrong() -> list[str]:
            seen = self.look(meant.topologies)
            if is_fresh and before and seen.booted <= before.booted:
                return ["slurmctld has not read the files: it runs since before"]
            worse = worsened(before, seen) if before else ()
            return [*differences(meant, seen), *worse]

        patience = self.patience
        settle_s = patience.start_s if is_start else patience.settle_s
        return patience.await_none(wrong, settle_s, settle_s if is_start else patience.dead_s)

    def _await_another_second(self, before: Observed | None) -> None:
        """Wait until a new start is seen: Slurm tells it in whole seconds."""
        if before and abs(since := time.time() - before.booted) < 2:
            self.patience.sleep(max(1.05 - since, 0.0))
