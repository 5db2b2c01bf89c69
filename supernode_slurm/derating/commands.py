"""How each vendor's tool sets a power cap, where its documents or its users show it."""

from __future__ import annotations

from dataclasses import dataclass

from .model import Cap, Kind


@dataclass(frozen=True, slots=True)
class Tool:
    """The commands of a vendor, as a shell on the node runs them; root runs them."""

    cap: str
    """``{w}`` is the watts of a card, ``{some}`` what names some of the cards."""
    reset: str
    """Back to the vendor's own limit, all cards of the node."""
    some: str
    """``{ids}`` are indexes of devices; empty where cards cannot be named."""
    separator: str
    """Between indexes."""
    source: str


TOOLS = {
    "nvidia": Tool(
        cap="nvidia-smi -pm 1 && nvidia-smi{some} -pl {w}",
        # The driver knows the limit that it starts with; -pl knows no word for it.
        reset="nvidia-smi --query-gpu=index,power.default_limit --format=csv,noheader,nounits | "
        'while IFS=\', \' read -r i w; do nvidia-smi -i "$i" -pl "${w%.*}"; done',
        some=" -i {ids}",
        separator=",",
        source="nvidia-smi(1); NVIDIA DGX user guides, power capping",
    ),
    "amd": Tool(
        cap="rocm-smi{some} --setpoweroverdrive {w} --autorespond y",
        reset="rocm-smi --resetpoweroverdrive --autorespond y",
        some=" -d {ids}",
        separator=" ",
        source="RadeonOpenCompute/ROC-smi README",
    ),
}

UNSURE = {
    "huawei": "pages of third parties show 'npu-smi set -t power-limit -i ID -c CHIP -d W', others "
    "other words, Huawei's own none that was found",
    "cambricon": "its manual of MLU290 shows power caps by the baseboard only",
    "metax": "mx-smi is shown to set clocks and modes, no watts",
}
"""What was found of vendors without a known command."""


def cap_command(cap: Cap) -> str | None:
    """Return the command that sets a cap on a node, None where none is known."""
    tool = TOOLS.get(cap.kind.vendor)
    if tool is None:
        return None
    return tool.cap.format(w=cap.watts, some="" if cap.alone else _some(tool, cap.kind))


def restore_commands(kinds: tuple[Kind, ...]) -> dict[str, str | None]:
    """Return by vendor the command that undoes the caps of a node: to what was before.

    That is the vendor's own limit, or the cap that the inventory gives the cards.
    """
    found: dict[str, str | None] = {}
    for kind in kinds:
        tool = TOOLS.get(kind.vendor)
        if tool is None:
            found[kind.vendor] = None
        elif kind.most_w < kind.tdp_w:
            alone = sum(item.vendor == kind.vendor for item in kinds) == 1
            own = tool.cap.format(w=int(kind.most_w), some="" if alone else _some(tool, kind))
            found[kind.vendor] = (
                own if kind.vendor not in found else f"{found[kind.vendor]} && {own}"
            )
        else:
            found.setdefault(kind.vendor, tool.reset)
    return found


def no_command(vendor: str) -> str:
    """Say that no command of a vendor is known, and what was found."""
    found = f" ({UNSURE[vendor]})" if vendor in UNSURE else ""
    return f"no command is known that caps cards of {vendor}{found}"


def _some(tool: Tool, kind: Kind) -> str:
    ids = tool.separator.join(str(kind.first + index) for index in range(kind.devices))
    return tool.some.format(ids=ids)
