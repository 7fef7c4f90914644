"""Print the parity matrix as a markdown table: `python -m tests.integration.print_parity [ranks=1,2]`.

Each row is ten steps of a tiny encoder, against a plain torch loop in fp32 on one process that shares no code with the
engine (`tests/integration/parity_cases.py`). The bounds that tests hold the figures to are in `test_parity.py`.
"""

import sys

from tests.helpers.ranks import run_on_ranks
from tests.integration import parity_cases
from tests.integration.test_parity import LAYOUTS, STEPS


def main() -> None:
    chosen = dict(argument.split("=") for argument in sys.argv[1:])
    worlds = {int(world) for world in chosen.get("ranks", "1,2").split(",")}
    reference = parity_cases.plain_torch(STEPS)
    print("| ranks | ZeRO stage | accumulation | precision | relative loss difference | gradient | weights |")
    print("|---|---|---|---|---|---|---|")
    for ranks, cases in LAYOUTS.items():
        if ranks not in worlds:
            continue
        function = "tests.integration.parity_cases:run_cases"
        results = run_on_ranks(function, ranks, timeout=500.0, cases=cases, steps=STEPS)
        for case, run in zip(cases, results[0], strict=True):
            found = parity_cases.compare(run, reference)
            stage = f"{case.stage}, optimiser on CPU" if case.offload else f"{case.stage}"
            cells = [ranks, stage, case.accumulation, case.precision]
            figures = [f"{value:.1e}" for value in (found.loss, found.gradient, found.weights)]
            print("| " + " | ".join(map(str, [*cells, *figures])) + " |")


if __name__ == "__main__":
    main()
