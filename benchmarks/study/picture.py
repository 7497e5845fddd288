"""The plot of the study, written by hand: coverage against the number of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 56, 190, 40, 48
LOWEST, HIGHEST = 40.0, 100.0
COLOURS = ("#0072b2", "#d55e00", "#cc79a7", "#009e73", "#e69f00", "#777777")


def picture(title: str, clusters: Sequence[int], lines: Mapping[str, Sequence[float]]) -> str:
    """Coverage in per cent of each method (a line) by clusters, on a log scale.

    Names stand at the right end of their lines, moved apart where lines meet; the first line is
    drawn thick.
    """
    across = (WIDTH - LEFT - RIGHT) / log(clusters[-1] / clusters[0])

    def x(count: float) -> float:
        return LEFT + across * log(count / clusters[0])

    def y(coverage: float) -> float:
        share = (max(coverage, LOWEST) - LOWEST) / (HIGHEST - LOWEST)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    right = WIDTH - RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        '<g font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{title}</text>',
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">clusters</text>',
    ]
    for level in (40, 50, 60, 70, 80, 90, 95, 100):
        dashes = ' stroke-dasharray="5 4" stroke-width="2"' if level == 95 else ""
        parts += [
            f'<path d="M{LEFT} {y(level):.1f}H{right}" stroke="#ccc"{dashes}/>',
            f'<text x="{LEFT - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{level} %</text>',
        ]
    parts += [
        f'<text x="{x(count):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{count}</text>'
        for count in clusters
    ]
    at = TOP - 14.0
    ends = sorted(lines, key=lambda name: -lines[name][-1])
    for name in ends:
        colour = COLOURS[list(lines).index(name) % len(COLOURS)]
        thick = 3.5 if name == next(iter(lines)) else 1.8
        points = " ".join(
            f"{x(a):.1f},{y(b):.1f}" for a, b in zip(clusters, lines[name], strict=False)
        )
        at = max(at + 15, y(lines[name][-1]))
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}"/>',
            f'<text x="{right + 8}" y="{at + 4:.1f}" fill="{colour}">{name}</text>',
        ]
    return "\n".join([*parts, "</g>", "</svg>\n"])
