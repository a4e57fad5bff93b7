"""A plan's algorithm as it is installed at a site, run step by step as the coordinator runs it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.registry import make_algorithm, program_digest
from cipherdag.arrays import FloatVector
from cipherdag.errors import ProgramMismatchError
from cipherdag.privacy.wire import digest
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.replay import Outcome, Replay
from cipherdag.questions.question import Question

COMPUTED_WITH = ("cipherdag", "numpy", "scipy", "torch")
"""The libraries whose versions stand in a plan."""

log = logging.getLogger("cipherdag.site")

OpenedSum = tuple[Question, FloatVector, int]
"""A question, the sum of the answers to it, and how many sites that covers."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a run at one site.

    Attributes:
        replay: Its steps.
        facts: What it knew before the first.
        algorithm: Whose it is; None for a function that only this process knows.
        earlier: What it opened in sessions before, where it goes on after them.
    """

    replay: Replay[Any] = field(repr=False)
    facts: Facts
    algorithm: Algorithm[Any, Any] | None = None
    earlier: tuple[OpenedSum, ...] = field(repr=False, default=())

    @property
    def decisions(self) -> bytes:
        """The program's decisions, once it has ended: the same wherever it ran."""
        if self.algorithm is None:
            return b""
        return self.algorithm.decisions(self.replay.outcome, self.facts)

    def result(self, plan: Plan, sums: bytes) -> bytes:
        """Digest of what the run came to, from the plan, the digest of all sums and `decisions`."""
        return digest(b"result", plan.digest, sums, self.decisions)


Programs = Callable[[Plan, Facts], Program]


def installed_program(plan: Plan, facts: Facts) -> Program:
    """The algorithm of a plan, as this site has it.

    Args:
        plan: Names the algorithm and its parameters.
        facts: What the session knows.

    Raises:
        ParameterError: It is not installed, a parameter is not one of it or out of its range, or
            sites lack variables that it needs.
        ProgramMismatchError: It is installed in another version.
    """
    if plan.program != program_digest(plan.algorithm):
        raise ProgramMismatchError(f"'{plan.algorithm}' is another program here than in the plan")
    for name, installed in computed_with().items():
        if plan.versions.get(name, installed) != installed:
            log.warning(
                "the plan was made with %s %s, here is %s", name, plan.versions[name], installed
            )
    algorithm = make_algorithm(plan.algorithm, plan.parameters)
    algorithm.check_measured(facts.measured)
    return Program(Replay(asking(algorithm.ask, facts), facts.present), facts, algorithm)


def asking(
    ask: Callable[[Facts], Generator[Question, FloatVector, Outcome]], facts: Facts
) -> Generator[Question, FloatVector, Outcome]:
    """Defers ``ask`` to its first step: where it cannot begin, the coordinator says why."""
    return (yield from ask(facts))


def computed_with(packages: Iterable[str] = COMPUTED_WITH) -> dict[str, str]:
    """The versions that a plan names, as they are here."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions
