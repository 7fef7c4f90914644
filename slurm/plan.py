"""The plan: for each step, whether it has to run, and why.

Must not import `pipeline` or `pretrain`, and writes nothing: `dry_run=true` shows exactly this plan.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from omegaconf import DictConfig

from slurm.chain import Chain, Step
from slurm.fingerprints import Fingerprints
from slurm.keys import Parts, compute_parts, differences
from slurm.records import begun_parts, broken_outputs, read_record

Action = Literal["skip", "resume", "run"]
SHOWN_REASONS = 3


@dataclass(frozen=True)
class Decision:
    """What is to be done with a step: nothing (complete), go on where it was interrupted, or run from the start."""

    step: Step
    action: Action
    reasons: tuple[str, ...]

    def why(self) -> str:
        """The reasons in one line."""
        more = len(self.reasons) - SHOWN_REASONS
        return "; ".join(self.reasons[:SHOWN_REASONS]) + (f"; and {more} more" if more > 0 else "")


class ChainState:
    """A chain and what is on disk of it."""

    def __init__(
        self, chain: Chain, configs: Mapping[str, DictConfig], fingerprints: Fingerprints, words: Sequence[str] = ()
    ) -> None:
        """Take the chain, the composed configuration of each step's command by step name, and known file hashes.

        `words` are those after `python -m slurm.submit` that describe this chain.
        """
        self.chain = chain
        self.configs = configs
        self.fingerprints = fingerprints
        self.words = tuple(words)

    def parts(self, step: Step) -> Parts:
        """The parts of a step's key as things are now."""
        needs = {}
        for name in step.needs:
            record = read_record(self.chain.run_dir, name)
            needs[name] = record.run if record is not None else "not complete"
        return compute_parts(self.chain, step, self.configs[step.name], needs, self.fingerprints)

    def decide(self, step: Step, running: Collection[str] = ()) -> Decision:
        """Whether a step has to run.

        Args:
            step: the step.
            running: names of steps that will run before it.
        """
        ahead = tuple(f"step {name}, which it needs, runs" for name in step.needs if name in running)
        run_dir = self.chain.run_dir
        parts = self.parts(step)
        record = read_record(run_dir, step.name)
        if record is not None:
            reasons = (*differences(record.parts, parts), *broken_outputs(run_dir, record, self.fingerprints), *ahead)
            return Decision(step, "run" if reasons else "skip", reasons)
        if ahead:
            return Decision(step, "run", ahead)
        begun = begun_parts(run_dir, step.name)
        if begun is None:
            return Decision(step, "run", ("it has not run yet",))
        if changes := differences(begun, parts):
            return Decision(step, "run", (f"its last run did not complete, and since then: {changes[0]}", *changes[1:]))
        return Decision(step, "resume", ("its last run did not complete",))

    def plan(self) -> list[Decision]:
        """A decision for every step, in the order they run."""
        decisions: list[Decision] = []
        running: set[str] = set()
        for step in self.chain.steps:
            decision = self.decide(step, running)
            decisions.append(decision)
            if decision.action != "skip":
                running.add(step.name)
        return decisions
