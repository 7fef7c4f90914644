"""Peak memory of a translation's processes together, at sizes of which one is 16 times the other.

    python -m tests.integration.print_translate_memory [sentences=4000] [ranks=1]

Prints a Markdown table of sentences, bytes, and the peak of the process tree in MiB.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.helpers.ranks import REPOSITORY
from tests.helpers.translation import command, environment, sentences, write_model

FACTORS = (1, 4, 16)


def peak(words: list[str]) -> float:
    """Run the command to its end -> the largest resident size of it and its descendants together, in MiB."""
    process = subprocess.Popen(
        command(*words), cwd=REPOSITORY, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    tree, most = psutil.Process(process.pid), 0
    while process.poll() is None:
        size = 0
        for one in [tree, *_children(tree)]:
            try:
                size += one.memory_info().rss
            except psutil.Error:
                continue
        most = max(most, size)
        time.sleep(0.05)
    assert process.returncode == 0, f"the command ended with {process.returncode}"
    return most / 2**20


def _children(tree: psutil.Process) -> list[psutil.Process]:
    try:
        return tree.children(recursive=True)
    except psutil.Error:
        return []


def measure(count: int, ranks: int, folder: Path) -> list[tuple[int, int, float]]:
    """(sentences, bytes, MiB) for each of FACTORS."""
    model = write_model(folder / "model")
    rows = []
    for factor in FACTORS:
        path = folder / f"{factor}.txt"
        path.write_text("".join(f"{text}\n" for text in sentences(factor * count, seed=factor)))
        words = [f"checkpoint={model}", f"input={path}", f"output={folder / str(factor)}", "decoding=greedy"]
        words += ["decoding.maximum_length=4", "decoding.maximum_ratio=0.2", "chunk_bytes=20000", f"ranks={ranks}"]
        rows.append((factor * count, path.stat().st_size, peak(words)))
    return rows


def main() -> None:
    """Measure what the arguments ask for and print the table."""
    chosen = {"sentences": 4000, "ranks": 1}
    chosen |= {name: int(value) for name, value in (argument.split("=") for argument in sys.argv[1:])}
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(chosen["sentences"], chosen["ranks"], Path(folder))
    print("| sentences | bytes of input | peak of all processes, MiB |\n| --- | --- | --- |")
    for count, size, most in rows:
        print(f"| {count:,} | {size:,} | {most:,.0f} |")


if __name__ == "__main__":
    main()
