"""Pictures of scores as SVG text: parts of a task, learning curves, single runs, reliability, published scores.

As in `charts`, colours are CSS classes of the page. Pure functions; must not import anything of the project but the
facts they draw.
"""

import math
from collections.abc import Sequence
from statistics import median

from markupsafe import Markup, escape

from pretrain.evaluation.calibration import Calibration
from pretrain.evaluation.report.charts import short, ticks
from pretrain.evaluation.report.score_facts import AnchorFact, Interval, LearningCurve, Parts

WIDTH = 720
NAMES, VALUES, ROW = 318, 52, 19  # of bars: room for names, for values, and of a row
STRIP_WIDTH, STRIP_HEIGHT, STRIP_MARGIN = 240, 30, 8
FOREST_WIDTH = 200
RELIABILITY, AXIS, HISTOGRAM = 208, 26, 34
CURVE_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 280, 56, 120, 26, 40


def part_bars(parts: Parts) -> Markup:
    """The parts of a task, best first: a bar to each score, its interval, random weights as a grey point, and chance.

    A bar is coloured by where its interval lies against chance.
    """
    left, right = NAMES, WIDTH - VALUES
    height = ROW * len(parts.rows) + 26
    rows = [row for row in parts.rows if row.pretrained is not None]

    def x(value: float) -> float:
        return left + (right - left) * min(max(value, 0.0), 1.0)

    found = [_svg("chart parts", WIDTH, height, f"{parts.task}: {len(rows)} parts, from best to worst")]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        found.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="4" y2="{height - 22}"/>')
        found.append(f'<text class="tick" x="{x(tick):.1f}" y="{height - 6}" text-anchor="middle">{tick:g}</text>')
    for index, row in enumerate(rows):
        ours, middle = row.pretrained, 4 + ROW * index + ROW / 2
        assert ours is not None
        side = "undecided" if parts.chance is None else ours.against(parts.chance)
        found.append(f"<g><title>{escape(_sentence(row.task, ours, row.random))}</title>")
        found.append(
            f'<text class="name" x="{left - 10}" y="{middle + 4:.1f}" text-anchor="end">'
            f"{escape(_clip(parts.name(row), 52))}</text>"
        )
        found.append(
            f'<rect class="bar {side}" x="{left}" y="{middle - 6:.1f}" width="{x(ours.value) - left:.1f}" height="12"/>'
        )
        found.append(_whisker(x(ours.low), x(ours.high), middle, "interval"))
        if row.random is not None:
            found.append(f'<circle class="mark random" cx="{x(row.random.value):.1f}" cy="{middle:.1f}" r="3"/>')
        found.append(f'<text class="value" x="{right + 8}" y="{middle + 4:.1f}">{ours.value:.3f}</text></g>')
    if parts.chance is not None:
        place = x(parts.chance)
        found.append(f'<line class="chance" x1="{place:.1f}" x2="{place:.1f}" y1="2" y2="{height - 22}"/>')
    return Markup("".join([*found, "</svg>"]))


def learning_curve(curve: LearningCurve) -> Markup:
    """A metric over log2 of the training size: means with intervals, a point for each run, random weights in grey."""
    models = [
        (name, [(point.size, score) for point in curve.points if (score := getattr(point.row, name)) is not None])
        for name in ("random", "pretrained")
    ]
    scores = [score for _, points in models for _, score in points]
    if len(curve.points) < 2 or not scores:
        return Markup("")
    marks = ticks(
        min(min(score.low, *score.runs) for score in scores),
        max(max(score.high, *score.runs) for score in scores),
    )
    first, last = (math.log2(curve.points[at].size) for at in (0, -1))

    def x(size: float) -> float:
        return LEFT + 14 + (WIDTH - LEFT - RIGHT - 28) * (math.log2(size) - first) / (last - first)

    def y(value: float) -> float:
        return TOP + (CURVE_HEIGHT - TOP - BOTTOM) * (marks[-1] - value) / (marks[-1] - marks[0])

    found = [_svg("chart", WIDTH, CURVE_HEIGHT, f"{curve.task}: {curve.metric} over training items")]
    for tick in marks:
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        found.append(f'<text class="tick" x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    for point in curve.points:
        place = x(point.size)
        found.append(
            f'<text class="tick" x="{place:.1f}" y="{CURVE_HEIGHT - 22}" text-anchor="middle">{point.size:,}</text>'
        )
    found.append(f'<text class="tick" x="0" y="12">{escape(curve.metric.replace("_", " "))}</text>')
    found.append(
        f'<text class="tick" x="{WIDTH - RIGHT}" y="{CURVE_HEIGHT - 4}" text-anchor="end">'
        "training items, on a scale of powers of two</text>"
    )
    for name, points in models:
        if not points:
            continue
        path = " ".join(f"{x(size):.1f},{y(score.value):.1f}" for size, score in points)
        found.append(f'<polyline class="curve {name}" points="{path}"/>')
        for size, score in points:
            shift = -3 if name == "random" else 3
            place = x(size) + shift
            found.append(f"<g><title>{size:,} items, {name}: {escape(_words(score))}</title>")
            found.append(
                f'<line class="whisker {name}" x1="{place:.1f}" x2="{place:.1f}" y1="{y(score.low):.1f}" '
                f'y2="{y(score.high):.1f}"/>'
            )
            found += [
                f'<circle class="run {name}" cx="{place + 3 * shift:.1f}" cy="{y(value):.1f}" r="2.2"/>'
                for value in score.runs
            ]
            found.append(f'<circle class="mark {name}" cx="{place:.1f}" cy="{y(score.value):.1f}" r="4"/></g>')
        size, score = points[-1]
        word = "random weights" if name == "random" else name
        found.append(f'<text class="legend" x="{WIDTH - RIGHT + 8}" y="{y(score.value) + 4:.1f}">{word}</text>')
    return Markup("".join([*found, "</svg>"]))


def run_strip(score: Interval) -> Markup:
    """A point for each run between the lowest and the highest, and a line at the median."""
    low, high = min(score.runs), max(score.runs)
    span = high - low or 1.0

    def x(value: float) -> float:
        share = (value - low) / span if high > low else 0.5
        return STRIP_MARGIN + (STRIP_WIDTH - 2 * STRIP_MARGIN) * share

    words = ", ".join(f"{value:.3f}" for value in score.runs)
    middle = x(median(score.runs))
    found = [_svg("bars", STRIP_WIDTH, STRIP_HEIGHT, f"runs {words}")]
    found.append(f'<rect class="track" x="{STRIP_MARGIN}" y="13" width="{STRIP_WIDTH - 2 * STRIP_MARGIN}" height="4"/>')
    found.append(f'<line class="median" x1="{middle:.1f}" x2="{middle:.1f}" y1="3" y2="27"/>')
    found += [
        f'<circle class="run pretrained" cx="{x(value):.1f}" cy="15" r="4.5"><title>{value:.4f}</title></circle>'
        for value in score.runs
    ]
    return Markup("".join([*found, "</svg>"]))


def reliability(pretrained: Calibration | None, random: Calibration | None) -> Markup:
    """Accuracy over confidence: on the diagonal confidence is what it says. Below, how many predictions lie where."""
    height = RELIABILITY + HISTOGRAM + AXIS
    inner = RELIABILITY - AXIS

    def x(value: float) -> float:
        return AXIS + inner * value

    def y(value: float) -> float:
        return 6 + inner * (1 - value)

    found = [_svg("reliability", RELIABILITY + 8, height, "accuracy over confidence")]
    for tick in (0.0, 0.5, 1.0):
        found.append(f'<line class="grid" x1="{x(0)}" x2="{x(1)}" y1="{y(tick)}" y2="{y(tick)}"/>')
        found.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="{y(0)}" y2="{y(1)}"/>')
        found.append(f'<text class="tick" x="{x(0) - 4}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>')
        found.append(f'<text class="tick" x="{x(tick)}" y="{height - 12}" text-anchor="middle">{tick:g}</text>')
    found.append(f'<line class="chance" x1="{x(0)}" x2="{x(1)}" y1="{y(0)}" y2="{y(1)}"/>')
    for name, facts in (("random", random), ("pretrained", pretrained)):
        if facts is None:
            continue
        path = " ".join(f"{x(one.confidence):.1f},{y(one.accuracy):.1f}" for one in facts.bins)
        found.append(f'<polyline class="curve {name}" points="{path}"/>')
        most = max((one.count for one in facts.bins), default=1)
        for one in facts.bins:
            words = f"{one.count:,} predictions of confidence {one.confidence:.2f}, {one.accuracy:.1%} right"
            found.append(
                f'<circle class="mark {name}" cx="{x(one.confidence):.1f}" cy="{y(one.accuracy):.1f}" r="3">'
                f"<title>{words}</title></circle>"
            )
            if name == "pretrained":
                tall = HISTOGRAM * one.count / most
                bottom = y(0) + HISTOGRAM + 6
                found.append(
                    f'<rect class="bar undecided" x="{x(one.confidence) - 4:.1f}" y="{bottom - tall:.1f}" width="8" '
                    f'height="{tall:.1f}"/>'
                )
    return Markup("".join([*found, "</svg>"]))


def anchor_strip(ours: Interval, anchors: Sequence[AnchorFact]) -> Markup:
    """Our score with its interval, and ticks where others stand, between 0 and 1; the human level is a diamond."""

    def x(value: float) -> float:
        return STRIP_MARGIN + (STRIP_WIDTH - 2 * STRIP_MARGIN) * min(max(value, 0.0), 1.0)

    words = ", ".join(f"{anchor.system} {anchor.value:.3f}" for anchor in anchors)
    found = [_svg("bars", STRIP_WIDTH, STRIP_HEIGHT, f"ours {ours.value:.3f}, {words}")]
    found.append(f'<rect class="track" x="{x(0)}" y="2" width="{x(1) - x(0)}" height="{STRIP_HEIGHT - 4}" rx="3"/>')
    for anchor in anchors:
        place = x(anchor.value)
        title = f"<title>{escape(anchor.system)} {anchor.value:.3f}</title>"
        if anchor.human:
            points = f"{place:.1f},8 {place + 6:.1f},15 {place:.1f},22 {place - 6:.1f},15"
            found.append(f'<polygon class="anchor human" points="{points}">{title}</polygon>')
        else:
            found.append(f'<line class="anchor" x1="{place:.1f}" x2="{place:.1f}" y1="5" y2="25">{title}</line>')
    found.append(_whisker(x(ours.low), x(ours.high), 15, "pretrained"))
    found.append(f'<circle class="mark pretrained" cx="{x(ours.value):.1f}" cy="15" r="4"/>')
    return Markup("".join([*found, "</svg>"]))


def forest(low: float, value: float, high: float, bound: float, margin: float = 0.0, css: str = "pretrained") -> Markup:
    """A difference with its interval around a line at 0.

    Args:
        low: lower end of the interval.
        value: the difference.
        high: upper end.
        bound: what the picture reaches on either side.
        margin: a band of differences that count as none.
        css: class of the mark.
    """

    def x(number: float) -> float:
        share = (min(max(number, -bound), bound) + bound) / (2 * bound)
        return STRIP_MARGIN + (FOREST_WIDTH - 2 * STRIP_MARGIN) * share

    found = [_svg("bars forest", FOREST_WIDTH, STRIP_HEIGHT, f"{value:+.3f}, {low:+.3f} to {high:+.3f}")]
    if margin > 0:
        left, right = x(-margin), x(margin)
        found.append(f'<rect class="track" x="{left:.1f}" y="3" width="{right - left:.1f}" height="24"/>')
    found.append(f'<line class="half" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="2" y2="28"/>')
    found.append(_whisker(x(low), x(high), 15, css))
    found.append(f'<circle class="mark {css}" cx="{x(value):.1f}" cy="15" r="4"/>')
    return Markup("".join([*found, "</svg>"]))


def _svg(css: str, width: float, height: float, label: str) -> str:
    return f'<svg class="{css}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'


def _whisker(left: float, right: float, height: float, css: str) -> str:
    return f'<line class="whisker {css}" x1="{left:.1f}" x2="{right:.1f}" y1="{height:.1f}" y2="{height:.1f}"/>'


def _words(score: Interval) -> str:
    return f"{score.value:.3f}, {score.low:.3f} to {score.high:.3f}"


def _sentence(task: str, ours: Interval, random: Interval | None) -> str:
    beside = "" if random is None else f"; random weights {_words(random)}"
    return f"{task}: {_words(ours)}{beside}"


def _clip(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"
