"""A plan's program: its algorithm, which asks one question after another and returns an outcome.

The coordinator and every site run it, each the algorithm as it is installed there. A process that
holds the coordinator and sites shares one run between them.
"""

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.registry import (
    make_algorithm,
    program_digest,
    reads_labels,
    reads_relations,
)
from cipherdag.arrays import FloatVector
from cipherdag.errors import ProgramMismatchError
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.privacy.wire import digest
from cipherdag.program.replay import EarlierSum, OpenedSum, Outcome, Replay
from cipherdag.program.versions import computed_with
from cipherdag.protocol.plan import Plan
from cipherdag.questions.question import Question

Asking = Callable[[Facts], Generator[Question, FloatVector, Outcome]]
"""Makes a generator that yields questions, receives sums, and returns an outcome."""

log = logging.getLogger("cipherdag.site")


def plan_facts(
    plan: Plan, n_variables: int, labels: tuple[int, ...] = (), determined: Determined = NOTHING
) -> Facts:
    """What the program of a plan knows before its first question, wherever it runs.

    ``labels`` and ``determined`` (what follows from others) are for algorithms that read them.
    """
    return Facts(
        n_variables,
        len(plan.cohort),
        labels=labels if reads_labels(plan.algorithm) else (),
        seed=plan.seed,
        min_contributors=plan.min_contributors,
        measured=plan.measured,
        determined=determined if reads_relations(plan.algorithm) else NOTHING,
        visits=plan.visits,
    )


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a run at one party.

    ``facts`` are what it knew before its first question; there is no ``algorithm`` where a function
    of this process asks. ``earlier`` has questions and sums of sessions that this run resumes.
    """

    replay: Replay[Any] = field(repr=False)
    facts: Facts
    algorithm: Algorithm[Any, Any] | None = None
    earlier: tuple[OpenedSum, ...] = field(repr=False, default=())

    @classmethod
    def of(cls, algorithm: Algorithm[Any, Any], facts: Facts) -> Self:
        """The program of an algorithm."""
        return cls(Replay(_deferred(algorithm.ask, facts), facts.present), facts, algorithm)

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

    ParameterError where it is not installed, a parameter is unknown or out of range, or sites lack
    variables that it needs; ProgramMismatchError where it is another version.
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
    algorithm.check_visits(facts.visits)
    return Program.of(algorithm, facts)


@dataclass(slots=True)
class SharedProgram(Generic[Outcome]):
    """One run of a generator, which ``ask`` makes, by coordinator and sites of this process.

    The first party that asks for it makes it from its facts; all parties have the same facts.
    Everybody in this process may know the ``names`` of variables. ``earlier`` sums were opened
    before this run was stopped and taken up again.
    """

    ask: Asking[Outcome]
    names: tuple[str, ...]
    earlier: tuple[EarlierSum, ...] = field(repr=False, default=())
    _program: Program | None = field(default=None, repr=False)

    def __call__(self, _: Plan, facts: Facts) -> Program:
        """The program; raises OutputError where `earlier` has answers to other questions."""
        if self._program is None:
            facts = replace(facts, names=self.names)
            replay = Replay(_deferred(self.ask, facts), facts.present)
            self._program = Program(replay, facts, earlier=replay.go_past(self.earlier))
        return self._program


def _deferred(ask: Asking[Outcome], facts: Facts) -> Generator[Question, FloatVector, Outcome]:
    """Defers ``ask`` to its first step: where it cannot begin, the coordinator says why."""
    return (yield from ask(facts))
