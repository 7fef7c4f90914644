"""Print the matrix of layouts that a run may go on at: `python -m tests.integration.print_elastic [worlds=1,2,4]`.

For each pair: the largest relative difference of the next two losses from those of the run that was not interrupted.
Ends with 1 if a state was not equal to the bit once loaded, or a loss is further away than 1e-6.
"""

import sys
import tempfile
from pathlib import Path

from tests.integration.elastic_cases import matrix, table


def main() -> None:
    chosen = dict(argument.split("=") for argument in sys.argv[1:])
    worlds = tuple(int(world) for world in chosen.get("worlds", "1,2,4").split(","))
    with tempfile.TemporaryDirectory() as folder:
        found = matrix(worlds, Path(folder))
    print(table(found))
    if not all(equal and away < 1e-6 for equal, away in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
