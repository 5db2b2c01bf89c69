"""The constants of the cost model that a site fitted to its own runs.

``calibration.yaml`` stands beside the inventory; ``sn calibrate --fit`` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, Problem
from . import yamltree

FILE = "calibration.yaml"

_MOST = 1e12


@dataclass(frozen=True, slots=True)
class Compared:
    """Runs of one kind of model and card, and how far their predictions were off."""

    model: str
    """``dense`` or ``experts``."""
    accelerator: str
    bits: str
    """``16 bit`` or ``8 bit``."""
    runs: int
    error: float
    """Mean of |predicted / measured - 1|, each run unseen by its fit."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants by name, and what is known of them."""

    constants: tuple[tuple[str, float], ...] = ()
    runs: int = 0
    """Runs that they were fitted to."""
    error: float = 0.0
    """Mean of |predicted / measured - 1| of those runs, each unseen by its fit."""
    compared: tuple[Compared, ...] = ()
    """Its runs by kind."""
    source: str = ""

    @property
    def errors(self) -> dict[tuple[str, str, str], tuple[int, float]]:
        """Return the number of runs and the error of each kind of model, card and precision."""
        return {
            (item.model, item.accelerator, item.bits): (item.runs, item.error)
            for item in self.compared
        }

    def concerns(self, accelerator: str) -> bool:
        """Tell whether the constants were fitted to runs on such cards, or nobody says on which."""
        return not self.compared or any(item.accelerator == accelerator for item in self.compared)


def load_calibration(inventory: Path) -> Calibration:
    """Return what stands beside an inventory; nothing where there is no such file.

    Raises ``ConfigError`` with the place of what is wrong in it.
    """
    path = inventory.parent / FILE
    try:
        with path.open("rb") as stream:
            text = stream.read(yamltree.MAX_BYTES + 1).decode("utf-8")
    except FileNotFoundError:
        return Calibration()
    except (OSError, UnicodeDecodeError) as error:
        todo = "make it readable, or remove it to plan with the catalogue's constants"
        raise ConfigError.one(str(path), f"cannot read the calibration: {error}", todo) from error
    tree, problems = yamltree.parse(text, str(path))
    fields = tree.value if isinstance(tree.value, dict) else {}
    node = fields.get("constants")
    named = node.value if node is not None and isinstance(node.value, dict) else {}
    if not named:
        problems = [*problems, Problem(tree.where, "holds no constants", "run sn calibrate --fit")]
    constants = []
    for name, item in named.items():
        value = item.value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _MOST:
            shown = yamltree.shown(value)
            problems = [
                *problems,
                Problem(item.where, f"{name} must be a positive number, {shown}"),
            ]
        else:
            constants.append((name, float(value)))
    compared, wrong = _compared(fields.get("compared"))
    if problems or wrong:
        raise ConfigError([*problems, *wrong])
    return Calibration(
        constants=tuple(constants),
        runs=int(_number(fields.get("runs"))),
        error=_number(fields.get("error")),
        compared=compared,
        source=str(path),
    )


def _compared(node: yamltree.Node | None) -> tuple[tuple[Compared, ...], list[Problem]]:
    """Return the runs by kind, and the places of what is none."""
    items = [] if node is None else node.value if isinstance(node.value, list) else [node]
    found, problems = [], []
    for item in items:
        fields = item.value if isinstance(item.value, dict) else {}
        keys = ("model", "accelerator", "bits")
        model, accelerator, bits = (getattr(fields.get(key), "value", None) for key in keys)
        known = model in ("dense", "experts") and bits in ("16 bit", "8 bit")
        if not known or not isinstance(accelerator, str):
            said = (
                "expected model: dense or experts, accelerator: NAME, bits: 16 bit or 8 bit, "
                "runs: N, error: SHARE"
            )
            problems.append(Problem(item.where, said))
            continue
        numbers = [_number(fields.get(key)) for key in ("runs", "error")]
        found.append(Compared(str(model), accelerator, str(bits), int(numbers[0]), numbers[1]))
    return tuple(found), problems


def _number(node: yamltree.Node | None) -> float:
    value = node.value if node is not None else 0
    return float(value) if isinstance(value, (int, float)) and 0 <= value < _MOST else 0.0
