"""The report's pictures as SVG text: curves over training steps, and intervals of scores.

Colours are CSS variables of the page, so that one picture serves a light and a dark screen. Pure functions; must not
import anything of the project but the facts they draw.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from pretrain.evaluation.report.facts import Curve
from pretrain.evaluation.report.score_facts import Interval

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 30, 40
BAR_WIDTH, BAR_HEIGHT, BAR_MARGIN = 240, 30, 8


@dataclass(frozen=True)
class Line:
    """A curve to draw: its name in the legend, its CSS class, and whether its points are marked."""

    name: str
    css: str
    curve: Curve
    marked: bool = False


def line_chart(lines: Sequence[Line], label: str, from_zero: bool = False, height: int = 290) -> Markup:
    """Curves over steps in one frame, with axes, grid and a legend.

    Args:
        lines: the curves; those without points are left out.
        label: what the vertical axis shows, with its unit.
        from_zero: begin the vertical axis at 0.
        height: of the picture, where its width is 720.
    """
    drawn = [line for line in lines if line.curve.steps]
    values = [value for line in drawn for value in line.curve.values if math.isfinite(value)]
    if not values:
        return Markup("")
    last = max(max(line.curve.steps) for line in drawn)
    ticks_y = ticks(0.0 if from_zero else min(values), max(values), about=height // 50)
    ticks_x = [tick for tick in ticks(0.0, last, 7) if tick <= last]
    low, high = ticks_y[0], ticks_y[-1]

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(value: float) -> float:
        return height - BOTTOM - (height - TOP - BOTTOM) * (value - low) / (high - low)

    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)} over steps">']
    for tick in ticks_y:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    for tick in ticks_x:
        parts.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{height - 22}" text-anchor="middle">{short(tick)}</text>'
        )
    parts.append(f'<text class="tick" x="{WIDTH - RIGHT}" y="{height - 4}" text-anchor="end">step</text>')
    parts.append(f'<text class="tick" x="0" y="12">{escape(label)}</text>')
    for line in drawn:
        points = [
            (x(step), y(value))
            for step, value in zip(line.curve.steps, line.curve.values, strict=True)
            if math.isfinite(value)
        ]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="curve {line.css}" points="{path}"/>')
        if line.marked:
            parts += [f'<circle class="mark {line.css}" cx="{a:.1f}" cy="{b:.1f}" r="4"/>' for a, b in points]
    for index, line in enumerate(drawn if len(drawn) > 1 else []):
        place = TOP + 12 + 20 * index
        parts.append(
            f'<line class="curve {line.css}" x1="{WIDTH - 170}" x2="{WIDTH - 146}" y1="{place}" y2="{place}"/>'
        )
        parts.append(f'<text class="legend" x="{WIDTH - 138}" y="{place + 4}">{escape(line.name)}</text>')
    parts.append("</svg>")
    return Markup("".join(parts))


def interval_bars(pretrained: Interval | None, random: Interval | None) -> Markup:
    """Two scores between 0 and 1 with their intervals, one above the other, on one scale; a thin line at one half."""

    def x(value: float) -> float:
        return BAR_MARGIN + (BAR_WIDTH - 2 * BAR_MARGIN) * min(max(value, 0.0), 1.0)

    words = [
        f"{name} {score.value:.3f}"
        for name, score in (("pretrained", pretrained), ("random", random))
        if score is not None
    ]
    parts = [
        f'<svg class="bars" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" role="img" aria-label="{", ".join(words)}">',
        f'<rect class="track" x="{x(0)}" y="2" width="{x(1) - x(0)}" height="{BAR_HEIGHT - 4}" rx="3"/>',
        f'<line class="half" x1="{x(0.5)}" x2="{x(0.5)}" y1="2" y2="{BAR_HEIGHT - 2}"/>',
    ]
    for score, css, place in ((pretrained, "pretrained", 10), (random, "random", 20)):
        if score is not None:
            low, middle, high = x(score.low), x(score.value), x(score.high)
            parts.append(f'<line class="whisker {css}" x1="{low:.1f}" x2="{high:.1f}" y1="{place}" y2="{place}"/>')
            parts.append(f'<circle class="mark {css}" cx="{middle:.1f}" cy="{place}" r="3.6"/>')
    parts.append("</svg>")
    return Markup("".join(parts))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that enclose `low` to `high`, about so many: steps of 1, 2 or 5 times a power of ten."""
    if high - low < 1e-6 * max(1.0, abs(low), abs(high)):  # a flat line: its noise is not worth a scale
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]


def short(value: float) -> str:
    """A number on an axis: 0.5, 12, 1.5k, 2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
