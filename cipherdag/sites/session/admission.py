"""Every reason to refuse a message before anything is computed for it, in their order.

    all           the operation is unknown
    invite        the message is at fault (`incoming`)
                  its program is not installed, or its parameters are not possible
                  a site of the cohort is revoked                                  folder
                  its purpose, a parameter, or one run too many                    folder
                  a person has to approve the plan, and did not                    folder
                  the session was opened before
                  the site's policy forbids the run
                  too few sites lack the same variables
                  too many sites may collude or leave for any graph of keys
    not invite    the keys of the session are lost
                  it is not the turn of this operation
                  the message has no form, is of another session, or is otherwise at fault

Only a site with a folder makes the checks marked so. Whom a cohort may name is checked with the
keys of its set-up (`handshake`), and what may be asked in a round by `rounds`.

Leaks:
    In the set-up the first reason that applies; in a round, that there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cipherdag.errors import (
    CohortError,
    DifferencingError,
    PolicyRefusedError,
    ReplayError,
    SessionLostError,
    SignatureError,
)
from cipherdag.protocol.messages import AWAITS, OTHER_SITES, REQUESTS
from cipherdag.protocol.plan import Plan, check_alike
from cipherdag.protocol.wire import Body
from cipherdag.sites.policy.approvals import Approvals
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import DailyReleases, TestBudget
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.session.handshake import SetUp
from cipherdag.sites.session.incoming import Incoming
from cipherdag.sites.session.rounds import Rounds

SET_UP = ("invite", "offers", "sealed", "commitments", "chances", "linked")
OPENED_BEFORE = "the session was opened before"

Kind = TypeVar("Kind", bound=SetUp)


@dataclass(slots=True)
class HeldSession:
    """The session whose keys a site holds: in its set-up, then in its rounds; or none at all.

    ``repeats`` has for each operation the digest of the last message, and the reply to it.
    """

    session: bytes = b""
    handshake: SetUp | None = None
    rounds: Rounds | None = None
    repeats: dict[str, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)

    @property
    def plan(self) -> Plan | None:
        """The plan that the session carries out."""
        held = self.rounds or self.handshake
        return held.plan if held is not None else None

    def setting_up(self) -> SetUp:
        """The set-up; raises ReplayError before it and after it."""
        return self.set_up_of(SetUp)

    def set_up_of(self, kind: type[Kind]) -> Kind:
        """The set-up, if it is of this kind; raises ReplayError where there is no such one."""
        if not isinstance(self.handshake, kind):
            raise ReplayError("the message is out of step with the session's set-up")
        return self.handshake

    def set_up(self) -> Rounds:
        """The rounds; raises ReplayError before there can be any."""
        if self.rounds is None:
            raise ReplayError("the message is out of step: the session is not set up")
        return self.rounds


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """What a folder adds: revoked names, approved runs, what left and what was computed today.

    ``runs`` is where runs are recorded.
    """

    revoked: frozenset[str]
    approvals: Approvals
    daily: DailyReleases
    budget: TestBudget
    runs: Path


@dataclass(frozen=True, slots=True)
class Admission:
    """The checks of one site.

    ``seen`` are all sessions that it ever opened, and ``program`` makes the program of a plan.
    """

    policy: Policy
    rows: int
    sums: OpenedSums = field(repr=False)
    seen: set[bytes] = field(repr=False)
    folder: FolderLimits | None
    program: Callable[[Plan], object]

    def admit(self, message: Incoming, held: HeldSession) -> Body:
        """What the coordinator asks, if it may be answered now.

        Args:
            message: What came in.
            held: The session whose keys this site holds.

        Raises:
            PrivacyError: The first reason of the table above that applies.
            SessionLostError: The session's keys are gone; told to the coordinator alone.
            SiteNotReadyError: A file of the folder cannot be read.
        """
        if message.operation not in REQUESTS:
            raise ReplayError("this site knows no such operation")
        if message.operation == "invite" and isinstance(plan := message.request, Plan):
            plan.check(message.session)
            self._check_plan(plan)
            return plan
        foreign = message.session != held.session
        if foreign and message.session in self.seen:
            if message.signed:
                raise SessionLostError("the keys of this run are not held any more")
        else:
            held.setting_up() if message.operation in SET_UP[1:] else held.set_up()
            if foreign and (message.signed or isinstance(message.content, SignatureError)):
                raise SignatureError("the message belongs to another session or sender")
        return message.request  # raises what is wrong with whatever the coordinator did not sign

    def _check_plan(self, plan: Plan) -> None:
        if plan.algorithm in self.policy.algorithms:
            self.program(plan)
        if self.folder is not None:
            for member in plan.cohort:
                if member.name in self.folder.revoked:
                    raise CohortError(f"the cohort names '{member.name}', which is revoked")
            self.policy.check_plan(plan, runs=self.sums.runs(but=plan.session))
            self._check_approval(plan, self.folder.approvals)
        if plan.session in self.seen:
            raise ReplayError(OPENED_BEFORE)
        self._check_run(plan)
        self.policy.check_colluders(plan.colluders, n_sites=len(plan.cohort))
        check_alike(plan.cohort, self.policy.fewest_alike(plan))
        plan.check_keys()

    def _check_approval(self, plan: Plan, approvals: Approvals) -> None:
        """Have a person decide where the policy says so, or the cohort is not that of before."""
        names = [member.name for member in plan.cohort]
        groups = () if plan.measured.everywhere else plan.measured.alike(range(len(names)))
        alike = [tuple(names[site] for site in group) for group in groups]
        change = self.sums.change(plan.session, names, alike)
        near = change is not None and len(change.differing) < self.policy.min_cohort_difference
        new = change is not None and not change.known and self.policy.approve_cohorts == "manual"
        if not near and not new and self.policy.approve_runs != "manual":
            return
        self._check_run(plan)  # nobody is asked about a run that the policy forbids
        try:
            approvals.check(
                plan, consider=change.text if change is not None and (near or new) else ""
            )
        except PolicyRefusedError as refusal:
            if (near or new) and refusal.message == AWAITS:
                raise DifferencingError(OTHER_SITES) from None
            raise
        if near or new:  # nobody else was told what sums over other sites show
            self.sums.accept(plan.session)

    def _check_run(self, plan: Plan) -> None:
        self.policy.check_run(plan, rows=self.rows)
