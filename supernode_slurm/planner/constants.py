"""The values of the constants: the table's, or those that a site's calibration gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import ConfigError, nearest
from .table import TABLE
from .workload import Offer

SITE = (
    "scale_up",
    "scale_up_hccs",
    "scale_up_pcie",
    "network",
    "network_experts",
    "network_tcp",
    "collective_s",
    "elementwise",
    "matmul_ampere",
    "matmul_hopper",
    "matmul_blackwell",
    "matmul_ascend",
    "step_s",
)
"""What a site may fit to its own runs: its links, and how fast its cards are."""


class Constants:
    """The values by name, as attributes; those given replace the table's."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, float] | None = None) -> None:
        self._values = {item.name: item.value for item in TABLE} | dict(values or {})

    def __getattr__(self, name: str) -> float:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def named(self, name: str) -> float:
        """Return the value of this name."""
        return self._values[name]


DEFAULT = Constants()


def checked(values: Iterable[tuple[str, float]], source: str) -> tuple[tuple[str, float], ...]:
    """Return a site's own constants; raises ``ConfigError`` for one that there is not."""
    found, bounds = tuple(values), {item.name: item.bounds for item in TABLE}
    for name, value in found:
        if name not in bounds:
            what = f"no constant {name!r:.60} in the cost model"
            raise ConfigError.one(source, what, nearest(name, bounds))
        low, high = bounds[name]
        if not low <= value <= high:
            what = f"{name} is {value:g}, which lies outside {low:g} to {high:g}"
            raise ConfigError.one(source, what, "fit it again with sn calibrate --fit")
    return found


def constants_of(offer: Offer) -> Constants:
    """Return the constants for these devices: the table's, or those that the site fitted."""
    return Constants(dict(offer.calibration)) if offer.calibration else DEFAULT
