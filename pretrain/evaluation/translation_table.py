"""The comparison of translations as a table for a terminal or a file. Must not import torch."""

from pretrain.evaluation.translation_arms import Comparison


def as_text(found: Comparison) -> str:
    """A line for each arm and group, what each arm gains over the first, and sacrebleu's signatures."""
    rows = [("arm", "test items", "n", "BLEU", "chrF", "exact match")]
    rows += [
        (
            score.arm if score.runs == 1 else f"{score.arm} ({score.runs} seeds)",
            score.group,
            f"{score.items:,}",
            _with_interval(score.bleu, score.bleu_interval),
            _with_interval(score.chrf, score.chrf_interval),
            _with_interval(100 * score.exact, (100 * score.exact_interval[0], 100 * score.exact_interval[1])),
        )
        for score in found.scores
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if column >= 2 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    baseline = next(score.arm for score in found.scores)
    for arm, gain in found.gains.items():
        verdict = "gains" if gain.low > 0 else "loses" if gain.high < 0 else "differs, undecided, by"
        lines.append(
            f"{arm} {verdict} {gain.value:+.1f} BLEU [{gain.low:+.1f}, {gain.high:+.1f}] against {baseline}, "
            f"p = {gain.p_value:.3f}."
        )
    over = "over sentences and seeds" if any(score.runs > 1 for score in found.scores) else "over sentences"
    lines.append(f"Intervals are of 95 %, {over}; exact match in per cent.")
    lines += [f"{name}: {signature}" for name, signature in found.signatures.items()]
    return "\n".join(lines) + "\n"


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.1f} [{interval[0]:.1f}, {interval[1]:.1f}]"
