"""How a benchmark that reads a user's files ends: a bad input is one sentence and exit code 2, as of every command."""

import sys
from collections.abc import Callable

from conf.errors import InputError


def run(main: Callable[[], None]) -> None:
    """Run a benchmark's `main`; an InputError becomes its sentence on stderr and exit code 2."""
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
