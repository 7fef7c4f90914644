"""What the ranks tell each other of their progress, and the rule that finds the one that holds up the others.

Pure: nothing here has a thread, a socket, or a clock of its own (times are given); see `pretrain.watchdog`. Must not
import torch.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

# A phase that is allowed to be long may take this many times as long as any other.
PATIENCE = 6.0
PATIENT_PHASES = ("starting", "checkpoint", "validation")  # what such a phase has in its name
WAITING_FOR_DATA = "waiting for data"
# How long an end by an error or a closed connection may stay unexplained: the others may be about to end likewise.
ENDED_SECONDS, GONE_SECONDS = 2.0, 1.0


@dataclass(frozen=True)
class Beat:
    """One heartbeat of a rank.

    `number` counts them. `since` is when the phase began, on that rank's own clock: with `step` and `phase` it tells
    progress. `waits`: the main thread is inside a collective call. `first`: no step has been completed yet (a
    compiler may be at work). `ended`: the error that ends this rank; `failed`: a collective call broke down;
    `done`: the rank leaves in good order.
    """

    rank: int
    host: str
    number: int = 0
    step: int = 0
    phase: str = "starting"
    since: float = 0.0
    waits: bool = False
    first: bool = True
    ended: str | None = None
    failed: bool = False
    done: bool = False

    @property
    def patience(self) -> float:
        """By what factor this rank may take longer than `hang_seconds`."""
        return PATIENCE if self.first or any(word in self.phase for word in PATIENT_PHASES) else 1.0

    def line(self) -> bytes:
        """Return the beat as one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_beat(line: bytes) -> Beat:
    """Read what `Beat.line` wrote. Raises ValueError or TypeError for anything else."""
    return Beat(**json.loads(line))


@dataclass(frozen=True)
class Verdict:
    """Why the run ends, in one sentence, and the ranks that are to show what they were doing."""

    sentence: str
    culprits: tuple[int, ...]


@dataclass
class _Watched:
    beat: Beat
    heard: float  # the time of the last heartbeat
    moved: float  # the time of the last progress
    gone: float | None = None  # since when the connection is closed
    ended: float | None = None
    failed: float | None = None


@dataclass
class Judge:
    """Keeps the last heartbeat of each rank and says when one has to be given up. All times are in seconds.

    `hang` is how long no rank may make progress, `silence` how long a rank may send no heartbeat.
    """

    hang: float
    silence: float
    _ranks: dict[int, _Watched] = field(default_factory=dict)

    def expect(self, beat: Beat, now: float) -> None:
        """Watch a rank from `now` on."""
        self._ranks[beat.rank] = _Watched(beat, now, now)

    def hear(self, beat: Beat, now: float) -> None:
        """Take in a heartbeat."""
        watched = self._ranks[beat.rank]
        before, watched.beat, watched.heard, watched.gone = watched.beat, beat, now, None
        if (before.step, before.phase, before.since) != (beat.step, beat.phase, beat.since):
            watched.moved = now
        if beat.ended is not None and watched.ended is None:
            watched.ended = now
        if beat.failed and watched.failed is None:
            watched.failed = now

    def lose(self, rank: int, now: float) -> None:
        """Take in that the connection of a rank is closed: its process has ended, or will not be heard again."""
        self._ranks[rank].gone = now

    def forgive(self, seconds: float) -> None:
        """Do not count the last `seconds`, in which this process itself was suspended."""
        for watched in self._ranks.values():
            watched.heard += seconds
            watched.moved += seconds
            for name in ("gone", "ended", "failed"):
                if getattr(watched, name) is not None:
                    setattr(watched, name, getattr(watched, name) + seconds)

    def reachable(self) -> list[int]:
        """Return the ranks that can still be told a verdict."""
        return [r for r, watched in self._ranks.items() if watched.gone is None and not watched.beat.done]

    def verdict(self, now: float) -> Verdict | None:
        """Return why the run has to end, None while nothing is wrong."""
        active = [watched for watched in self._ranks.values() if not watched.beat.done]
        lost = self._ended(active, now) or self._dead(active, now) or self._silent(active, now)
        if lost is not None:
            return lost
        active = [watched for watched in active if watched.gone is None and watched.ended is None]
        if not active:
            return None
        limit = self.hang * max(watched.beat.patience for watched in active)
        broken = [watched.failed for watched in active if watched.failed is not None]
        # A collective breaks down at once where a rank has died, and that is told by its silence at the latest.
        if broken and now - min(broken) > self.silence:
            working = [watched for watched in active if watched.failed is None] or active
            return _blame(working, len(self._ranks), now)
        if now - max(watched.moved for watched in active) > limit:
            return _blame(active, len(self._ranks), now)
        return None

    def _ended(self, active: Sequence[_Watched], now: float) -> Verdict | None:
        for watched in sorted(active, key=lambda w: w.ended or 0.0):
            if watched.ended is not None and now - watched.ended > ENDED_SECONDS:
                beat = watched.beat
                return Verdict(f"{_name(beat)} ended {_place(beat)} with {beat.ended}", (beat.rank,))
        return None

    def _dead(self, active: Sequence[_Watched], now: float) -> Verdict | None:
        for watched in sorted(active, key=lambda w: w.gone or 0.0):
            if watched.gone is not None and watched.ended is None and now - watched.gone > GONE_SECONDS:
                return Verdict(f"{_name(watched.beat)} has died {_place(watched.beat)}", (watched.beat.rank,))
        return None

    def _silent(self, active: Sequence[_Watched], now: float) -> Verdict | None:
        silent = [w for w in active if w.gone is None and w.ended is None and now - w.heard > self.silence]
        if not silent:
            return None
        first = min(silent, key=lambda w: w.heard)
        return Verdict(
            f"{_name(first.beat)} has given no sign of life for {now - first.heard:.0f} s; it was last seen "
            f"{_place(first.beat)}: its process is stopped, or its machine or network is down",
            (first.beat.rank,),
        )


def _blame(active: Sequence[_Watched], ranks: int, now: float) -> Verdict:
    """Name those that the others wait for: not inside a collective call, then the furthest behind."""

    def place(watched: _Watched) -> tuple[bool, int]:
        return watched.beat.waits, watched.beat.step

    worst = min(map(place, active))
    held_up_by = [watched for watched in active if place(watched) == worst]
    beat = held_up_by[0].beat
    numbers = tuple(watched.beat.rank for watched in held_up_by)
    doing = f"'{beat.phase}' since step {beat.step} for {now - max(w.moved for w in held_up_by):.0f} s"
    why = ": its data loader stalls" if beat.phase == WAITING_FOR_DATA else ""
    if len(numbers) == 1:
        others = " while the others wait for it" if ranks > 1 else ""
        return Verdict(f"{_name(beat)} has been {doing}{others}{why}", numbers)
    if beat.waits:
        why = ": the network between them may be down, or they wait in different calls"
    named = f"ranks {', '.join(map(str, numbers[:8]))}{' ...' if len(numbers) > 8 else ''} (the first on {beat.host})"
    return Verdict(
        f"{named} have been {doing}{why.replace('its data loader stalls', 'their data loaders stall')}", numbers
    )


def _name(beat: Beat) -> str:
    return f"rank {beat.rank} on {beat.host}"


def _place(beat: Beat) -> str:
    return f"at step {beat.step} in '{beat.phase}'"
