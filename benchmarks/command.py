"""How a benchmark that reads a user's files ends: a bad input is one sentence and exit code 2, as of every command."""

import sys
from collections.abc import Callable

from conf.errors import InputError
from pretrain.freed_memory import keep_freed_memory


def run(main: Callable[[], None]) -> None:
    """Run a benchmark's `main`; an InputError becomes its sentence on stderr and exit code 2.

    What our commands set of the C library's memory is set for the peers too, so that no ratio comes from it.
    """
    keep_freed_memory()
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
