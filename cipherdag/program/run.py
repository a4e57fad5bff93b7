"""Carries out a plan's program over the sites of a session, from its opening to its end.

Leaks:
    What the algorithm's questions leak: the coordinator sees sums over the sites.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic

from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import ResultMismatchError
from cipherdag.program.program import Programs, plan_facts
from cipherdag.program.replay import Outcome, Replay
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.progress import DropOut, LedgerHead, RoundReport
from cipherdag.protocol.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun(Generic[Outcome]):
    """The outcome of a run and the releases of every site.

    Attributes:
        outcome: What the algorithm concluded; it speaks of positions in ``facts.names``.
        facts: What the algorithm knew before its first question.
        rounds: The rounds that ended in a sum.
        bytes_sent_per_site: Bytes that left each site, the set-up included.
        heads: The last record of every ledger that was reported, by site.
        keys: A sentence on which sites shared keys; empty where every two sites did.
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


def run_program(session: Session, replay: Replay[Outcome]) -> Outcome:
    """Ask the sites of an open session all that a program asks; raises as `Session.ask`."""
    step, question = 1, replay.advance(1, None)
    while question is not None:
        step, sums = step + 1, session.ask(question, replay.shown)
        with session.attributed():
            question = replay.advance(step, sums, session.n_summed)
    return replay.outcome


def carry_out(
    session: Session, plan: Plan, programs: Programs, *, opened: Callable[[], int] | None = None
) -> FinishedRun[Outcome]:
    """Open a session, carry its plan out by what ``programs`` makes of it, and close it.

    ``opened`` opens the session in place of `Session.open`, and says how many variables it has.
    PrivacyError where a site refused or a message was altered, SiteNotReadyError or
    SiteUnreachableError where a site failed in its own computation or was silent,
    ResultMismatchError where the sites came to another result than this coordinator.
    """
    began = time.perf_counter()
    n_variables = (opened or session.open)()
    program = programs(plan, plan_facts(plan, n_variables, session.labels, session.determined))
    outcome: Outcome = run_program(session, program.replay)
    closed = session.finish()
    if session.result not in (b"", program.result(plan, session.sums)):
        raise ResultMismatchError("the sites came to one result, and the coordinator to another")
    return FinishedRun(
        outcome=outcome,
        facts=program.facts,
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
