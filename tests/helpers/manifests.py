"""Edits of a manifest, for tests of what refuses it."""

import json
from collections.abc import Callable
from typing import Any


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], str]:
    """Make a function of a manifest that gives its text after a change in place."""

    def edit(raw: dict[str, Any]) -> str:
        change(raw)
        return json.dumps(raw)

    return edit
