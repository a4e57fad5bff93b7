"""A run over whatever sites, from an open session to its end and to a result.

Leaks:
    What the algorithm's questions leak: the coordinator sees sums over the sites.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import msgspec

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.registry import ALGORITHMS, make_algorithm
from cipherdag.deployment.packages import BEHIND_A_RESULT, package_versions
from cipherdag.errors import ParameterError, ResultMismatchError
from cipherdag.findings.finding import Finding
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.progress import DropOut, RoundReport
from cipherdag.protocol.session import Session
from cipherdag.results.run import Run
from cipherdag.sites.plan_facts import plan_facts, two_categories
from cipherdag.sites.program import Program
from cipherdag.sites.record.ledger import LedgerHead
from cipherdag.sites.table.schema import Schema

Outcome = TypeVar("Outcome")
FindingType = TypeVar("FindingType", bound=Finding)
log = logging.getLogger("cipherdag.result")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun(Generic[Outcome]):
    """The outcome of a run and the releases of every site.

    Attributes:
        outcome: What the algorithm concluded; it speaks of positions in ``facts.names``.
        facts: What the algorithm knew before its first question.
        rounds: The rounds that ended in a sum.
        dropouts: The sites that left.
        bytes_sent_per_site: Bytes that left each site, the set-up included.
        heads: Where every ledger ended, as far as it was reported.
        seconds: How long it took.
        keys: What is said of who shared keys with whom; empty where every two sites did.
        ledgers: Every site's ledger, line by line, where the sites are in this process.
    """

    outcome: Outcome
    facts: Facts
    rounds: tuple[RoundReport, ...]
    dropouts: tuple[DropOut, ...]
    bytes_sent_per_site: Mapping[str, int]
    heads: Mapping[str, LedgerHead] = field(repr=False)
    seconds: float
    keys: str = ""
    ledgers: Mapping[str, tuple[str, ...]] = field(repr=False, default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables in the order of their positions."""
        return self.facts.names

    def result(self, algorithm: Algorithm[Outcome, FindingType], **more: Any) -> Run[FindingType]:
        """The result by name.

        Args:
            algorithm: The algorithm that came to the outcome.
            more: The fields of the result that only the federation has.
        """
        schema = more.get("schema", "")
        coded = two_categories(Schema.loads(schema)) if schema else ()
        run = Run(
            finding=algorithm.conclude(self.outcome, replace(self.facts, coded=coded)),
            algorithm=algorithm.name,
            parameters=msgspec.to_builtins(algorithm),
            made_by=algorithm,
            seed=self.facts.seed,
            sites=tuple(self.bytes_sent_per_site),
            rounds=self.rounds,
            seconds=self.seconds,
            bytes_sent_per_site=self.bytes_sent_per_site,
            dropouts=self.dropouts,
            versions=package_versions(BEHIND_A_RESULT),
            ledgers=self.ledgers,
            heads=self.heads,
            keys=self.keys,
            relations=self.facts.determined.named(self.names),
            **more,
        )
        for warning in run.report.warnings:
            log.warning("%s", warning)
        return run


def carry_out(
    session: Session,
    plan: Plan,
    programs: Callable[[Facts], Program],
    *,
    names: tuple[str, ...] = (),
    opened: Callable[[], int] | None = None,
) -> FinishedRun[Outcome]:
    """Open a session, carry its plan out, and close it.

    Args:
        session: The session.
        plan: Its plan.
        programs: Makes the plan's program from what the session knows.
        names: The variables in the order of their positions; empty where only the sites know them.
        opened: Opens the session and says how many variables it has, if not `Session.open`.

    Raises:
        PrivacyError: A site refused, or a message was altered.
        SiteNotReadyError: A site failed in its own computation.
        SiteUnreachableError: A site did not answer.
        ResultMismatchError: The sites came to another result than this coordinator.
    """
    began = time.perf_counter()
    n_variables = (opened or session.open)()
    facts = plan_facts(plan, n_variables, session.labels, names, session.determined)
    program = programs(facts)
    outcome: Outcome = session.run(program.replay)
    closed = session.finish()
    if session.result not in (b"", program.result(plan, session.sums)):
        raise ResultMismatchError("the sites came to one result, and the coordinator to another")
    return FinishedRun(
        outcome=outcome,
        facts=facts,
        rounds=session.rounds,
        dropouts=session.dropouts,
        bytes_sent_per_site=session.bytes_sent_per_site,
        heads={
            member.name: LedgerHead(
                last.records, last.ledger_head.hex(), member.name, member.identity.hex()
            )
            for member in plan.cohort
            if (last := closed.get(member.name)) is not None
        },
        seconds=time.perf_counter() - began,
        keys=plan.keys_sentence,
    )


def chosen_algorithm(given: Algorithm[Any, Any] | str) -> Algorithm[Any, Any]:
    """The algorithm that a caller means: it, or that of a name with its default parameters.

    Raises:
        ParameterError: There is no algorithm of this name, or something else stands for one.
    """
    if isinstance(given, type):
        raise ParameterError(
            f"{given.__name__} is a class, not an algorithm with its parameters",
            remedy=f"Write {given.__name__}(), with parameters in the brackets if need be.",
        )
    if isinstance(given, Algorithm):
        return given
    if not isinstance(given, str):
        raise ParameterError(f"an algorithm or its name is needed, not {given!r:.80}")
    name = given.strip().lower()
    try:
        return make_algorithm(name, {})
    except ParameterError as error:
        close = get_close_matches(name, ALGORITHMS, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(ALGORITHMS)}."
        raise ParameterError(error.message, remedy=hint) from None
