"""Peak memory of a translation's processes together, at sizes of which one is 16 times the other.

    python -m tests.integration.print_translate_memory [sentences=4000] [ranks=1] [rows=0]

With rows=1 the input is a shard directory of packed rows instead of a file of lines, and each translation is scored by
a second model. Prints a Markdown table of sentences, bytes of text, and the peak of the process tree in MiB.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from pipeline.tokenizer import load_tokenizer
from tests.helpers.ranks import REPOSITORY
from tests.helpers.shard_directory import write_shards
from tests.helpers.translation import command, environment, sentences, write_model

FACTORS = (1, 4, 16)


def peak(words: list[str]) -> float:
    """Run the command to its end -> the largest resident size of it and its descendants together, in MiB.

    What only one look finds does not count: a child that is just being forked seems to have all of its parent's memory.
    """
    process = subprocess.Popen(
        command(*words), cwd=REPOSITORY, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    tree, most, before = psutil.Process(process.pid), 0, 0
    while process.poll() is None:
        size = 0
        for one in [tree, *_children(tree)]:
            try:
                size += one.memory_info().rss
            except psutil.Error:
                continue
        most, before = max(most, min(size, before)), size
        time.sleep(0.05)
    assert process.returncode == 0, f"the command ended with {process.returncode}"
    return most / 2**20


def _children(tree: psutil.Process) -> list[psutil.Process]:
    try:
        return tree.children(recursive=True)
    except psutil.Error:
        return []


def measure(count: int, ranks: int, folder: Path, rows: bool = False) -> list[tuple[int, int, float]]:
    """(sentences, bytes, MiB) for each of FACTORS."""
    model = write_model(folder / "model")
    more = [f"score_with={write_model(folder / 'forward', seed=3)}"] if rows else []
    found = []
    for factor in FACTORS:
        path, texts = folder / f"{factor}.txt", sentences(factor * count, seed=factor)
        path.write_text("".join(f"{text}\n" for text in texts))
        size = path.stat().st_size
        if rows:
            path = folder / f"{factor}_rows"
            write_shards(path, texts, row_length=128, held_out=0, tokenizer=load_tokenizer(model))
        words = [f"checkpoint={model}", f"input={path}", f"output={folder / str(factor)}", "decoding=greedy", *more]
        words += ["decoding.maximum_length=4", "decoding.maximum_ratio=0.2", "chunk_bytes=20000", f"ranks={ranks}"]
        found.append((factor * count, size, peak(words)))
    return found


def main() -> None:
    """Measure what the arguments ask for and print the table."""
    chosen = {"sentences": 4000, "ranks": 1, "rows": 0}
    chosen |= {name: int(value) for name, value in (argument.split("=") for argument in sys.argv[1:])}
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(chosen["sentences"], chosen["ranks"], Path(folder), bool(chosen["rows"]))
    print("| sentences | bytes of text | peak of all processes, MiB |\n| --- | --- | --- |")
    for count, size, most in rows:
        print(f"| {count:,} | {size:,} | {most:,.0f} |")


if __name__ == "__main__":
    main()
