"""Kill a translation with -9 again and again, go on, and compare its end with an undisturbed one's, to the byte.

    python -m tests.integration.translate_kills [kills=10] [seed=1] [sentences=400]

The seed decides of each kill how many more chunks it waits for, how much longer, with how many ranks the session runs
(each session with another number), and which of them it hits. Prints a Markdown table.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conf.command import compose
from pretrain.ranks import Ranks
from pretrain.translate import TranslateOptions
from pretrain.translation.work import translate
from tests.helpers.translation import content, sentences, write_model

TIMEOUT = 120.0
_POLL_SECONDS = 0.0005


@dataclass(frozen=True)
class Kill:
    """A session of `ranks` ranks, of which `victims` are killed `delay` seconds after `chunks` more were finished; of
    `in_write`, at the first moment from then on at which a file is being written."""

    ranks: int
    victims: tuple[int, ...]
    chunks: int
    delay: float
    in_write: bool


@dataclass(frozen=True)
class Hit:
    """What a kill left: chunks finished by then, and files that were being written."""

    kill: Kill
    finished: int
    half_written: int


def draw(kills: int, seed: int) -> list[Kill]:
    """Draw the kills."""
    generator = random.Random(seed)
    found = []
    for number in range(kills):
        ranks = generator.randint(1, 3)
        victims = tuple(generator.sample(range(ranks), generator.choice([1, ranks])))
        found.append(Kill(ranks, victims, generator.randint(0, 2), generator.uniform(0.0, 0.08), number % 2 == 1))
    return found


def crash(kills: int, seed: int, count: int, folder: Path) -> tuple[list[Hit], bool]:
    """Make both translations in `folder` -> where the kills hit, and whether the ends are equal."""
    os.environ["OMP_NUM_THREADS"] = "1"
    model = write_model(folder / "model")
    (folder / "in.txt").write_text("".join(f"{text}\n" for text in sentences(count)))
    words = [f"checkpoint={model}", f"input={folder / 'in.txt'}", "decoding.beams=2", "chunk_bytes=300"]
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    wait(start(words, undisturbed, 1))
    hits = []
    for kill in draw(kills, seed):
        wanted = finished(disturbed) + kill.chunks
        session = start(words, disturbed, kill.ranks)
        wait_until(disturbed, finished, wanted)
        time.sleep(kill.delay)
        if kill.in_write:
            wait_until(disturbed, half_written, 1)
        for victim in kill.victims:
            os.kill(session[victim], signal.SIGKILL)
        # The others end by themselves, or go on with what the dead ones were at; they are stopped in the next breath.
        for survivor in set(range(kill.ranks)) - set(kill.victims):
            os.kill(session[survivor], signal.SIGTERM)
        for pid in session:
            os.waitpid(pid, 0)
        hits.append(Hit(kill, finished(disturbed), half_written(disturbed)))
    wait(start(words, disturbed, 2))
    return hits, content(undisturbed) == content(disturbed)


def wait_until(output: Path, count: Callable[[Path], int], wanted: int) -> None:
    """Wait for a count to be reached, or for the translation to be complete."""
    deadline = time.monotonic() + TIMEOUT
    while count(output) < wanted and not (output / "manifest.json").exists():
        assert time.monotonic() < deadline, "nothing to kill"
        time.sleep(_POLL_SECONDS)


def half_written(output: Path) -> int:
    """Files that are being written, or that a kill left so."""
    return len([*output.glob("translations/.*.tmp"), *output.glob("progress/.*.tmp")])


def start(words: list[str], output: Path, ranks: int) -> list[int]:
    """Start the ranks of a session -> their process ids. Forked: to import torch takes longer than all the work."""
    return [_fork(words, output, Ranks(rank, ranks, rank, ranks)) for rank in range(ranks)]


def _fork(words: list[str], output: Path, ranks: Ranks) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        config = compose("translate", [*words, f"output={output}"], TranslateOptions)
        code = 0 if translate(config, ranks) == "done" else 85
    finally:
        os._exit(code)


def wait(session: list[int]) -> None:
    """Wait until all ranks have done their work."""
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in session]
    assert codes == [0] * len(session), codes


def finished(output: Path) -> int:
    """Chunks that are finished."""
    return len([*output.glob("progress/*.json")])


def table(hits: list[Hit]) -> str:
    """Return where each kill hit, as a Markdown table."""
    rows = ["| kill | ranks | whom | chunks finished | files half written |", "| --- | --- | --- | --- | --- |"]
    for number, hit in enumerate(hits, start=1):
        whom = ", ".join(f"rank {victim}" for victim in sorted(hit.kill.victims))
        rows.append(f"| {number} | {hit.kill.ranks} | {whom} | {hit.finished} | {hit.half_written} |")
    return "\n".join(rows)


def main() -> None:
    """Make the translations that the arguments ask for; end with 1 if they differ."""
    chosen = {"kills": 10, "seed": 1, "sentences": 400}
    chosen |= {name: int(value) for name, value in (argument.split("=") for argument in sys.argv[1:])}
    with tempfile.TemporaryDirectory() as folder:
        hits, equal = crash(chosen["kills"], chosen["seed"], chosen["sentences"], Path(folder))
    print(table(hits))
    words = "is byte for byte" if equal else "is NOT"
    print(f"\n{len(hits)} kills by seed {chosen['seed']}. What was translated {words} what it is undisturbed.")
    if not equal:
        sys.exit(1)


if __name__ == "__main__":
    main()
