"""Compare a run with one that should be the same: `python -m tests.integration.compare_runs RUN_DIR OTHER_RUN_DIR`.

RUN_DIR is the one that was not disturbed. Prints the loss curve of both as a markdown table and whether all figures and
the last checkpoint's files are equal to the last digit. Ends with 1 if anything differs.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pretrain.checkpoints import CheckpointFolder

# What does not depend on the clock.
FIGURES = ("loss", "validation_loss", "gradient_norm", "learning_rate", "tokens", "skipped")
SHOWN_STEPS = 12


def figures(run_dir: Path) -> dict[int, dict[str, float]]:
    """Return of each logged step the figures that do not depend on the clock."""
    found: dict[int, dict[str, float]] = {}
    for line in (run_dir / "metrics.jsonl").read_text().splitlines():
        values: dict[str, Any] = json.loads(line)
        kept = {name: values[name] for name in FIGURES if name in values}
        if kept:
            found.setdefault(values["step"], {}).update(kept)
    return found


def last_files(run_dir: Path) -> dict[str, str]:
    """Return the checksums of weights and optimiser state in the last checkpoint, by file."""
    last = CheckpointFolder(run_dir).steps()[-1]
    files = json.loads((last / "state.json").read_text())["files"]
    return {f"{last.name}/{name}": facts["sha256"] for name, facts in files.items()}


def table(one: dict[int, dict[str, float]], other: dict[int, dict[str, float]]) -> str:
    """Return the losses of evenly spread steps, the first and the last among them, as a markdown table."""
    steps = sorted(step for step, values in one.items() if "loss" in values)
    places = sorted({round(i * (len(steps) - 1) / (SHOWN_STEPS - 1)) for i in range(SHOWN_STEPS)})
    lines = ["| step | loss | validation loss | loss, the other run | validation loss |", "|---|---|---|---|---|"]
    for step in (steps[place] for place in places):
        cells = [run.get(step, {}).get(name) for run in (one, other) for name in ("loss", "validation_loss")]
        lines.append(f"| {step} | " + " | ".join("" if cell is None else f"{cell:.6f}" for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Compare the two runs named on the command line."""
    one, other = (Path(argument) for argument in sys.argv[1:])
    losses = figures(one), figures(other)
    print(table(*losses))
    apart = [step for step in sorted(losses[0]) if losses[0][step] != losses[1].get(step)]
    only = sorted(losses[1].keys() - losses[0].keys())
    print(
        f"\nfigures of {len(losses[0])} steps: {f'others at steps {apart}' if apart else 'all equal to the last digit'}"
    )
    if only:
        print(f"lines that only the other run has, written where it was stopped: steps {only}")
    files = last_files(one), last_files(other)
    print(f"files of the last checkpoint: {'equal to the bit' if files[0] == files[1] else 'not equal'}")
    sys.exit(1 if apart or files[0] != files[1] else 0)


if __name__ == "__main__":
    main()
