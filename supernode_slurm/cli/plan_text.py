"""How plans are drawn: bars split by where the time goes, narrow tables, a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LETTERS = {
    "compute": "=",
    "tp": "T",
    "cp": "C",
    "ep": "E",
    "pp": "P",
    "bubble": "B",
    "dp": "D",
    "optimizer": "O",
    "data": "L",
}
"""Work is drawn solid, each loss by its letter: readable without colours, in any locale."""
COLOURS = {"compute": "green", "bubble": "yellow", "data": "red", "optimizer": "cyan"}
"""Of the parts; traffic is magenta."""
LEAST_BAR, MOST_BAR = 8, 40


@dataclass(frozen=True, slots=True)
class Bar:
    """Seconds by part, to be drawn to the scale of the longest."""

    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """Return the length in seconds."""
        return sum(self.parts.values())

    def drawn(self, width: int, longest: float) -> list[tuple[str, int]]:
        """Return the parts with their numbers of characters, which add up to the whole."""
        shown = [(name, seconds) for name, seconds in self.parts.items() if seconds > 0]
        scale = width / longest if longest else 0.0
        room = round(self.total * scale)
        counts = [int(seconds * scale) for _, seconds in shown]
        rest = sorted(range(len(shown)), key=lambda index: counts[index] - shown[index][1] * scale)
        for index in rest[: room - sum(counts)]:
            counts[index] += 1
        names = [name for name, _ in shown]
        return [(name, count) for name, count in zip(names, counts, strict=True) if count]


@dataclass(slots=True)
class Sheet:
    """A table of few columns; the last column may be bars that take the width that is left."""

    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    bar_title: str = ""
    spare: Sequence[str] = ()
    """Columns that a narrow terminal leaves out, the first one first; the bars by their title."""
    left_out: list[str] = field(default_factory=list)
    """Columns that were left out of what was printed."""
    drawn: set[str] = field(default_factory=set)
    """Parts that the bars show."""

    def print(self) -> None:
        """Print the table within the width of the terminal, 80 columns in a pipe."""
        from rich.text import Text

        console = new_console()
        kept, gap = self._fitted(console.width)
        table = [[row[i] for i in kept] for row in self.rows]
        heads = [self.columns[i] for i in kept]
        widths = self._widths(kept)
        right = [_is_number([row[i] for row in table]) for i in range(len(heads))]
        left = console.width - sum(widths) - gap * len(widths)
        bars = self.bars if self.bar_title not in self.left_out else []
        room = max(LEAST_BAR, min(left, MOST_BAR)) if bars else 0
        title = [self.bar_title if len(self.bar_title) <= room else "time"] if bars else []
        apart = " " * gap
        _line(console, Text(apart.join([*_padded(heads, widths, right), *title])))
        rule = "-" if console.options.ascii_only else "\u2500"
        total = sum(widths) + gap * (len(widths) - 1) + (room + gap if room else 0)
        _line(console, Text(rule * total))
        longest = max((bar.total for bar in bars), default=0.0)
        for number, row in enumerate(table):
            line = Text(apart.join(_padded(row, widths, right)))
            if bars:
                line.append(apart)
                line.append_text(_bar(bars[number], room, longest))
                self.drawn |= {name for name, _ in bars[number].drawn(room, longest)}
            _line(console, line)

    def _fitted(self, width: int) -> tuple[list[int], int]:
        """Return the columns that there is room for, and the gap between them."""
        kept = [i for i, name in enumerate(self.columns) if any(row[i] for row in self.rows)]
        spare = [
            name
            for name in self.spare
            if name in [*(self.columns[i] for i in kept), self.bar_title]
        ]
        while True:
            bars = LEAST_BAR if self.bars and self.bar_title not in self.left_out else 0
            left = width - sum(self._widths(kept)) - bars
            gaps = len(kept) - (0 if bars else 1)
            # Wide tables are set closer, so that the bars have room.
            for gap in (2, 1):
                if left >= gap * gaps:
                    return kept, gap
            if not spare:
                return kept, 1
            self.left_out.append(spare.pop(0))
            kept = [i for i in kept if self.columns[i] != self.left_out[-1]]

    def _widths(self, kept: Sequence[int]) -> list[int]:
        return [max(len(line[i]) for line in (self.columns, *self.rows)) for i in kept]


def new_console() -> Console:
    """Return the console of stdout; it knows NO_COLOR, pipes and the locale."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def legend(sheet: Sheet, words: Mapping[str, str]) -> str:
    """Return what the letters of the bars that a sheet has drawn mean."""
    known = [name for name in LETTERS if name in sheet.drawn]
    return ", ".join(f"{letter(name)} {words.get(name, name)}" for name in known)


def say_left_out(sheet: Sheet) -> None:
    """Say which columns a narrow terminal left out of what was printed."""
    if sheet.left_out:
        say("left out", f"{', '.join(sheet.left_out)}: there is no room; --json has all")


def letter(name: str) -> str:
    """Return the letter of a part of a step."""
    return LETTERS.get(name, "?")


def chart(points: Sequence[tuple[int, float]], room: int = 80) -> list[str]:
    """Return a drawing of how much faster more cards are: 'o', and '.' where all would count.

    Both axes are logarithmic. Empty where it does not fit into ``room`` columns.
    """
    import math

    first, base = points[0]
    most = max(points[-1][0] / first, *(rate / base for _, rate in points))
    step = 1.0 if most > 8 else 0.5
    rows = math.ceil(math.log2(most) / step)

    def row_of(ratio: float) -> int:
        return max(0, min(rows, round(math.log2(max(ratio, 1e-9)) / step)))

    width = max(len(str(cards)) for cards, _ in points) + 2
    around = len("  x1024 |  cards")
    if around + width * len(points) > room:
        width -= 1
    if around + width * len(points) > room:
        return []
    grid = [[" " * width for _ in points] for _ in range(rows + 1)]
    for index, (cards, rate) in enumerate(points):
        grid[row_of(cards / first)][index] = ".".rjust(width)
        grid[row_of(rate / base)][index] = "o".rjust(width)
    lines = []
    for number in range(rows, -1, -1):
        lines.append(f"{f'x{2 ** (number * step):.3g}':>7} |{''.join(grid[number])}".rstrip())
    lines.append(" " * 8 + "+" + "-" * (width * len(points)))
    lines.append(" " * 9 + "".join(str(cards).rjust(width) for cards, _ in points) + "  cards")
    return lines


def sign() -> str:
    """Return the sign of plus or minus, as the locale can show it."""
    return "+-" if new_console().options.ascii_only else "\u00b1"


def say(name: str, text: str) -> None:
    """Print one remark under a table."""
    tell_lines(f"{name}: {text}")


def tell_lines(text: str) -> None:
    """Print a text, its further lines indented, within the width of the terminal."""
    import textwrap

    click.echo(
        "\n".join(
            textwrap.wrap(
                text,
                max(40, min(new_console().width, 100)),
                subsequent_indent="  ",
                break_on_hyphens=False,
            )
        )
    )


def _padded(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    whole = zip(cells, widths, right, strict=True)
    return [cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in whole]


def _is_number(cells: Sequence[str]) -> bool:
    return all(cell[:1].isdigit() or cell[:1] in ("", "-", "+", "~", "!") for cell in cells)


def _bar(bar: Bar, width: int, longest: float) -> Text:
    from rich.text import Text

    text = Text()
    for name, count in bar.drawn(width, longest):
        text.append(letter(name) * count, style=COLOURS.get(name, "magenta"))
    return text


def _line(console: Console, text: Text) -> None:
    text.rstrip()
    console.print(text)
