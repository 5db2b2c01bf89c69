"""The cards of a node one by one: as device files, and as what Slurm counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count

from .. import hostlist
from ..catalogue import platform_of
from .model import Devices

DEVICE_LIMIT = 1024
"""Most devices with files of one GRES name in a node (MAX_GRES_BITMAP of Slurm's gres.h)."""
LAST_INSTANCE = 14
"""Highest id of a GPU instance."""

# Minors of /dev/nvidia-caps: 1 and 2 are for configuration, then 15 GPU instances for each
# card, each followed by its up to eight compute instances. Read off public listings of
# /proc/driver/nvidia-caps/mig-minors: gpu0/gi1 12, gpu0/gi7 66, gpu4/gi7 606, and of
# 'slurmd -G' with NVML: gpu2/gi2 291, gpu3/gi13 525.
_FIRST_CAP, _CAPS_PER_CARD, _CAPS_PER_INSTANCE = 3, 135, 9


@dataclass(frozen=True, slots=True)
class GresDevice:
    """What Slurm counts as one: a device, or a MIG instance of it."""

    accelerator: str
    gres: str
    type: str
    files: tuple[str, ...]
    cores: str = ""
    """Near cores, empty for any."""
    links: str = ""
    shards: int = 0
    slices: int = 0
    """Sevenths of the card that a MIG instance computes with, 0 for a whole device."""


def expand_files(text: str) -> tuple[str, ...]:
    """Return the files of ``/dev/nvidia[0-7]``."""
    folder, slash, names = text.rpartition("/")
    return tuple(f"{folder}{slash}{name}" for name in hostlist.expand(names))


def device_files(devices: Sequence[Devices]) -> list[tuple[str, ...]]:
    """Return the device files of each kind of card in one node.

    Kinds that share a pattern of names are numbered through. Where a device has two
    files (``renderD128`` and ``card0``), only the first counts: the number of the other
    moves with every display adapter.
    """
    missing: dict[str, set[int]] = {}
    for item in devices:
        missing.setdefault(_pattern(item), set()).update(item.missing)
    left = {
        pattern: (index for index in count() if index not in gone)
        for pattern, gone in missing.items()
    }
    return [
        item.files or tuple(_usual(item, next(left[_pattern(item)])) for _ in range(item.count))
        for item in devices
    ]


def gres_devices(devices: Sequence[Devices]) -> tuple[GresDevice, ...]:
    """Return what Slurm counts in one node, in the order of its indexes."""
    return _gres_devices(tuple(devices))


@lru_cache(maxsize=256)  # thousands of supernodes hold the same cards
def _gres_devices(devices: tuple[Devices, ...]) -> tuple[GresDevice, ...]:
    return tuple(
        device
        for item, files in zip(devices, device_files(devices), strict=True)
        for card in _cards(item, files)
        for device in (_instances(card, item) if item.mig else (card,))
    )


def mig_type(kind: str, profile: str) -> str:
    """Return the GRES type of a MIG instance, like ``h100_1g.10gb``.

    Slurm 22.05 reads a bare ``gpu:1g.10gb`` as a number; the ``+`` of ``1g.10gb+me``
    becomes a dot, as GRES types of an inventory have plain letters.
    """
    return f"{kind}_{profile.replace('+', '.').replace('-', '.')}"


def mig_instance(files: Sequence[str]) -> int | None:
    """Return the id of the GPU instance with these files, None if they are of none."""
    caps = [file for file in files if file.startswith("/dev/nvidia-caps/nvidia-cap")]
    card, cap = (hostlist.digit_tail(names[0]) if names else "" for names in (files, caps))
    if not card or not cap:
        return None
    offset = int(cap) - _FIRST_CAP - _CAPS_PER_CARD * int(card)
    instance, rest = divmod(offset, _CAPS_PER_INSTANCE)
    return instance if 0 <= instance <= LAST_INSTANCE and not rest else None


def _cards(item: Devices, files: tuple[str, ...]) -> Iterator[GresDevice]:
    for index, file in enumerate(files):
        yield GresDevice(
            accelerator=item.accelerator,
            gres=item.gres,
            type=item.type,
            files=(file,),
            cores=item.cores[index * len(item.cores) // item.count] if item.cores else "",
            links=item.links[index] if item.links else "",
            shards=item.shards,
        )


def _instances(card: GresDevice, item: Devices) -> Iterable[GresDevice]:
    number = int(hostlist.digit_tail(card.files[0]))
    for profile, ids in item.mig:
        for instance in sorted(ids):
            cap = _FIRST_CAP + _CAPS_PER_CARD * number + _CAPS_PER_INSTANCE * instance
            caps = tuple(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in (cap, cap + 1))
            yield replace(
                card,
                type=mig_type(item.type, profile),
                files=(*card.files, *caps),
                slices=int(profile[0]),
            )


def _pattern(item: Devices) -> str:
    return platform_of(item.accelerator).device_files[0]


def _usual(item: Devices, index: int) -> str:
    return platform_of(item.accelerator).files(index)[0]
