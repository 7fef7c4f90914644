"""Numbers and names in words, for the page."""

import math


def task_name(task: str) -> str:
    """`minimal_pairs/subject_verb` -> `subject verb`."""
    if task.endswith("/overall"):
        return f"{task.rpartition('/')[0].replace('_', ' ')} overall"
    return task.rpartition("/")[2].replace("_", " ")


def path_name(task: str) -> str:
    """`winogrande/xs` -> `winogrande, xs`: a name with all of its parts."""
    return task.replace("/", ", ").replace("_", " ")


def duration(seconds: float) -> str:
    """Seconds in words: `4.2 s`, `3 min 7 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(number: int) -> str:
    """Bytes in words: `312 B`, `4.1 MB`."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def percent(share: float) -> str:
    """A share in percent with two decimals, rounded down, so that only what is whole is called 100 %."""
    return f"{math.floor(round(share * 1e4, 6)) / 100:.2f} %"


def p_value(p: float) -> str:
    """A p-value in words: `0.031` or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
