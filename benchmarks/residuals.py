"""Draws predicted against measured step times as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, EDGE = 760, 420, 50
MOST = 0.5
"""Errors beyond are drawn at the edge."""

COLOURS = (
    "#1b6ca8", "#c8553d", "#588b8b", "#f28f3b", "#6a4c93",
    "#2d936c", "#b5179e", "#8d6a9f", "#4f772d", "#9c6644",
)  # fmt: skip


def drawn(points: Sequence[tuple[str, float, float]]) -> str:
    """Return the residuals of runs (system, measured, predicted seconds) over measured time."""
    low = math.floor(math.log10(min(measured for _, measured, _ in points)))
    high = math.ceil(math.log10(max(measured for _, measured, _ in points)))
    names = sorted({name for name, _, _ in points})
    colour = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}

    def x(seconds: float) -> float:
        share = (math.log10(seconds) - low) / (high - low)
        return EDGE + share * (WIDTH - 2 * EDGE - 150)

    def y(off: float) -> float:
        return HEIGHT / 2 - max(-MOST, min(MOST, off)) / MOST * (HEIGHT / 2 - EDGE)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for off in (-0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5):
        parts.append(
            f'<line x1="{EDGE}" x2="{WIDTH - EDGE - 150}" y1="{y(off):.1f}" y2="{y(off):.1f}" '
            f'stroke="{"#333" if off == 0 else "#ddd"}"/>'
            f'<text x="{EDGE - 6}" y="{y(off) + 4:.1f}" text-anchor="end">{off:+.0%}</text>'
        )
    for power in range(low, high + 1):
        parts.append(
            f'<text x="{x(10**power):.1f}" y="{HEIGHT - EDGE + 18}" '
            f'text-anchor="middle">{10**power:g} s</text>'
        )
    for name, measured, predicted in points:
        parts.append(
            f'<circle cx="{x(measured):.1f}" cy="{y(predicted / measured - 1):.1f}" r="3" '
            f'fill="{colour[name]}" fill-opacity="0.65"/>'
        )
    for place, name in enumerate(names):
        top = EDGE + 18 * place
        parts.append(
            f'<circle cx="{WIDTH - 165}" cy="{top}" r="4" fill="{colour[name]}"/>'
            f'<text x="{WIDTH - 155}" y="{top + 4}">{escape(name)}</text>'
        )
    parts.append(
        f'<text x="{EDGE}" y="{EDGE - 20}">error of the predicted step time, over the measured '
        "one</text></svg>"
    )
    return "\n".join(parts) + "\n"
