"""Which version of the pipeline's code wrote something: a hash of its source. Imports nothing of the project."""

import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


@functools.cache
def code_version() -> str:
    """A short hash over all Python files of the pipeline but those of the data card, which shape no row."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("report"):
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
