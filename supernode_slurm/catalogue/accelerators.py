"""The accelerators that sites own, and what a process needs to reach them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from .names import UnknownName, fold, packaged

UNMEASURED_MATMUL = 0.7
"""Achievable share of the dense peak where no card was measured.

Huawei's own device profiles use 0.7 (Ascend/msmodeling tensor_cast/device.py); measured
cards lie between 0.51 (MI300X) and 0.92 (A800).
"""


CONFIDENCE = ("verified", "secondary", "community", "unchecked")
"""How sure a figure is, the surest first; the head of accelerators.yaml says what each means."""

FIGURES = ("tflops", "nvfp4", "matmul", "memory", "memory_bw", "link", "tdp", "cards", "domain")
"""What an accelerator's confidence may speak of."""

_REMARK = re.compile(r"\s*\([^()]*\)\s*\Z")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An accelerator: fields are per card, methods and properties per device.

    Units: TFLOPS dense, GiB, GB/s in one direction, W. None means that nobody has said, a
    rate of 0 that the card has no units for that precision.
    """

    id: str
    vendor: str
    aliases: tuple[str, ...]
    card_bf16_tflops: float | None
    card_fp16_tflops: float | None
    card_fp8_tflops: float | None
    card_nvfp4_tflops: float | None
    block_scaled: bool | None
    """Its fp8 units take blocks with a scale of their own (MX), at the rate of fp8."""
    card_matmul_bf16_tflops: float | None
    """Highest rate that anyone measured."""
    card_matmul_fp8_tflops: float | None
    card_memory_gib: float | None
    card_memory_gbs: float | None
    card_scale_up_gbs: float | None
    card_p2p_gbs: float | None
    """To a single neighbour, if that is less than the whole."""
    link: str
    cards_per_node: int
    devices_per_card: int
    domain_cards: int
    """Most that share one scale-up fabric, as sold."""
    card_tdp_w: float | None
    confidence: tuple[tuple[str, str], ...]
    """By figure, or ``all``; what is not named is unchecked."""
    note: str
    sources: tuple[str, ...]
    card_least_w: float | None = None
    """Lowest power limit that it takes."""

    @property
    def gres_type(self) -> str:
        """Return the short name: the id up to its first part with a digit, without dashes."""
        parts = self.id.split("-")
        return next(
            (text for text in accumulate(parts) if any(map(str.isdigit, text))), "".join(parts)
        )

    @property
    def devices_per_node(self) -> int:
        """Return the number of devices in the vendor's usual node."""
        return self.cards_per_node * self.devices_per_card

    @property
    def memory_gib(self) -> float | None:
        """Return the memory of one device."""
        return self._per_device(self.card_memory_gib)

    @property
    def memory_gbs(self) -> float | None:
        """Return the memory bandwidth of one device."""
        return self._per_device(self.card_memory_gbs)

    @property
    def scale_up_gbs(self) -> float | None:
        """Return the scale-up bandwidth of one device."""
        return self._per_device(self.card_scale_up_gbs)

    @property
    def p2p_gbs(self) -> float | None:
        """Return the bandwidth between two devices; None if that is the whole."""
        return self._per_device(self.card_p2p_gbs)

    def peak_tflops(self, precision: str) -> float | None:
        """Return the dense peak of one device in bf16, fp16, fp8, mxfp8 or nvfp4.

        0 if it has no such units, None if nobody has said.
        """
        peaks = {
            "bf16": self.card_bf16_tflops,
            "fp16": self.card_fp16_tflops,
            "fp8": self.card_fp8_tflops,
            "mxfp8": self._card_mxfp8_tflops,
            "nvfp4": self.card_nvfp4_tflops,
        }
        return self._per_device(peaks[precision])

    def matmul_tflops(self, precision: str) -> float | None:
        """Return the achievable matrix-multiply rate of one device; None without a peak.

        The rate measured in that precision (of mxfp8, in fp8), or in bf16 and scaled by the
        peaks; where no one measured, ``UNMEASURED_MATMUL`` of the peak.
        """
        peak = self.peak_tflops(precision)
        if not peak:
            return None
        if precision in ("fp8", "mxfp8") and self.card_matmul_fp8_tflops is not None:
            return self._per_device(self.card_matmul_fp8_tflops)
        if not self.card_matmul_bf16_tflops or not self.card_bf16_tflops:
            return UNMEASURED_MATMUL * peak
        return peak * self.card_matmul_bf16_tflops / self.card_bf16_tflops

    def confidence_in(self, figure: str) -> str:
        """Return how sure one of ``FIGURES`` is, in a word of ``CONFIDENCE``."""
        said = dict(self.confidence)
        return said.get(figure, said.get("all", CONFIDENCE[-1]))

    @property
    def _card_mxfp8_tflops(self) -> float | None:
        scaled, fp8 = self.block_scaled, self.card_fp8_tflops
        if scaled is None or fp8 is None:
            return None
        return fp8 if scaled else 0

    def _per_device(self, value: float | None) -> float | None:
        return None if value is None else value / self.devices_per_card


@dataclass(frozen=True, slots=True)
class Platform:
    """What a vendor's accelerators look like to the system, to Slurm and to PyTorch."""

    vendor: str
    device_files: tuple[str, ...]
    """Patterns: ``{i}`` is the index of the device, ``{128+i}`` that plus 128."""
    control_files: tuple[str, ...]
    visible_env: tuple[str, ...]
    torch_device: str
    dist_backend: str
    ccl: str
    slurm_env_flag: str
    """``Flags=`` of gres.conf."""
    tools: tuple[str, ...]
    """Programs that show the devices of a node."""
    tested: str
    """``real``: facts were compared with real output of these tools; ``none``: no output was."""
    seen: tuple[str, ...]
    """Real output that was at hand."""
    confidence: tuple[tuple[str, str], ...]
    """In the device files and the variable."""
    sources: tuple[str, ...]

    def files(self, index: int) -> tuple[str, ...]:
        """Return the device files of the device with this index."""
        return tuple(
            pattern.replace("{i}", str(index)).replace("{128+i}", str(128 + index))
            for pattern in self.device_files
        )


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """Return all accelerators of the catalogue."""
    return tuple(map(_accelerator, packaged("accelerators.yaml")["accelerators"]))


def find_accelerator(name: str) -> Accelerator:
    """Return the accelerator with this id, alias or GRES type, a remark in brackets left out.

    Raises ``UnknownName`` with the nearest names.
    """
    known = _by_name()
    found = known.get(fold(name)) or known.get(fold(_REMARK.sub("", name)))
    if found is None:
        raise UnknownName("accelerator", name, (item.id for item in accelerators()))
    return found


@cache
def platform(vendor: str) -> Platform:
    """Return the platform of a vendor; raises ``UnknownName``."""
    known = packaged("accelerators.yaml")["platforms"]
    if vendor not in known:
        raise UnknownName("vendor", vendor, known)
    raw = known[vendor]
    return Platform(
        vendor=vendor,
        device_files=tuple(raw["device_files"]),
        control_files=tuple(raw["control_files"]),
        visible_env=tuple(raw["visible_env"]),
        torch_device=raw["torch"]["device"],
        dist_backend=raw["torch"]["backend"],
        ccl=raw["torch"]["ccl"],
        slurm_env_flag=raw["env_flag"],
        tools=tuple(raw["tools"]),
        tested=raw["tested"],
        seen=tuple(raw.get("seen", ())),
        confidence=tuple(raw["confidence"].items()),
        sources=tuple(raw["sources"]),
    )


def platform_of(accelerator: str) -> Platform:
    """Return the platform of an accelerator, by the accelerator's id or another of its names."""
    return platform(find_accelerator(accelerator).vendor)


@cache
def _by_name() -> dict[str, Accelerator]:
    found: dict[str, Accelerator] = {}
    # An id wins over an alias, an alias over a GRES type that several kinds share.
    for item in accelerators():
        found[fold(item.id)] = item
    for item in accelerators():
        for alias in item.aliases:
            found.setdefault(fold(alias), item)
    for item in accelerators():
        found.setdefault(item.gres_type, item)
    return found


def _accelerator(raw: dict[str, Any]) -> Accelerator:
    tflops, matmul = raw["tflops"], raw.get("matmul", {})
    link, node = raw["scale_up"], raw["node"]
    return Accelerator(
        id=raw["id"],
        vendor=raw["vendor"],
        aliases=tuple(raw["aliases"]),
        card_bf16_tflops=tflops["bf16"],
        card_fp16_tflops=tflops["fp16"],
        card_fp8_tflops=tflops["fp8"],
        card_nvfp4_tflops=tflops.get("nvfp4", 0),
        block_scaled=tflops.get("mx", False),
        card_matmul_bf16_tflops=matmul.get("bf16"),
        card_matmul_fp8_tflops=matmul.get("fp8"),
        card_memory_gib=raw["memory"],
        card_memory_gbs=raw["memory_bw"],
        card_scale_up_gbs=link["gbs"],
        card_p2p_gbs=link.get("p2p"),
        link=link["link"],
        cards_per_node=node["cards"],
        devices_per_card=node["devices_per_card"],
        domain_cards=node["domain"],
        card_tdp_w=raw["tdp"],
        confidence=tuple(raw["confidence"].items()),
        note=raw.get("note", ""),
        sources=tuple(raw["sources"]),
        card_least_w=raw.get("least_power"),
    )
