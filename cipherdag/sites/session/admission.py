"""Every reason to refuse a message before anything is computed for it, in their order.

    all           the operation is unknown
    invite        the message is at fault (`incoming`)
                  a site of the cohort is revoked                                  folder
                  a person has to approve the run, and did not                     folder
                  the session was opened before
                  the site's policy forbids the run
    ask           the day's rounds or values are used up                           folder
    not invite    the keys of the session are lost
                  it is not the turn of this operation
                  the message has no form, is of another session, or is otherwise at fault

Only a site with a folder makes the checks marked so. Whom a cohort may name is checked with the
keys of its set-up (`handshake`), and what may be asked in a round by `rounds`.

Leaks:
    The first reason that applies, to the coordinator; of lost keys, limits of the day and approvals
    nothing to anybody else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.errors import (
    CohortError,
    DifferencingError,
    PolicyRefusedError,
    ReplayError,
    SessionLostError,
    SignatureError,
)
from cipherdag.protocol.messages import REQUESTS, Ask, Body, Invite

if TYPE_CHECKING:
    from cipherdag.sites.policy.approvals import Approvals
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.policy.usage import DailyReleases, TestBudget
    from cipherdag.sites.record.opened_sums import OpenedSums
    from cipherdag.sites.session.handshake import Handshake
    from cipherdag.sites.session.incoming import Incoming
    from cipherdag.sites.session.rounds import Rounds

SET_UP = ("offers", "sealed")
OPENED_BEFORE = "the session was opened before"
OTHER_SITES = (
    "the run has other sites than an earlier one: their sums would show answers by subtraction"
)


@dataclass(slots=True)
class HeldSession:
    """The session whose keys a site holds: in its set-up, then in its rounds; or none at all.

    ``repeats`` has for each operation the digest of the last message, and the reply to it.
    """

    session: bytes = b""
    handshake: Handshake | None = None
    rounds: Rounds | None = None
    repeats: dict[str, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)

    def setting_up(self) -> Handshake:
        """The set-up; raises ReplayError before it and after it."""
        if self.handshake is None:
            raise ReplayError("the message is out of step with the session's set-up")
        return self.handshake

    def set_up(self) -> Rounds:
        """The rounds; raises ReplayError before there can be any."""
        if self.rounds is None:
            raise ReplayError("the message is out of step: the session is not set up")
        return self.rounds


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """What a folder adds: revoked names, approved runs, what left and what was computed today."""

    revoked: frozenset[str]
    approvals: Approvals
    daily: DailyReleases
    budget: TestBudget


@dataclass(frozen=True, slots=True)
class Admission:
    """The checks of one site; ``seen`` are all sessions that it ever opened."""

    policy: Policy
    rows: int
    sums: OpenedSums = field(repr=False)
    seen: set[bytes] = field(repr=False)
    folder: FolderLimits | None

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
        if message.operation == "invite" and isinstance(invite := message.request, Invite):
            self._check_invite(message.session, invite)
            return invite
        if self.folder is not None and message.operation == "ask" and message.signed:
            self._check_day(message.request, self.folder.daily)
        foreign = message.session != held.session
        if foreign and message.session in self.seen:
            if message.signed:
                raise SessionLostError("the keys of this run are not held any more")
        else:
            held.setting_up() if message.operation in SET_UP else held.set_up()
            if foreign and (message.signed or isinstance(message.content, SignatureError)):
                raise SignatureError("the message belongs to another session or sender")
        return message.request  # raises what is wrong with whatever the coordinator did not sign

    def _check_invite(self, session: bytes, invite: Invite) -> None:
        if self.folder is not None:
            for member in invite.cohort:
                if member.name in self.folder.revoked:
                    raise CohortError(f"the cohort names '{member.name}', which is revoked")
            self._check_approval(session, invite, self.folder.approvals)
        if session in self.seen:
            raise ReplayError(OPENED_BEFORE)
        self._check_run(invite)
        self.policy.check_colluders(invite.colluders, n_sites=len(invite.cohort))

    def _check_approval(self, session: bytes, invite: Invite, approvals: Approvals) -> None:
        """Have a person decide where the policy says so, or the cohort is not that of before."""
        change = self.sums.change(session, (member.name for member in invite.cohort))
        near = change is not None and len(change.differing) < self.policy.min_cohort_difference
        new = change is not None and not change.known and self.policy.approve_cohorts == "manual"
        if not near and not new and self.policy.approve_runs != "manual":
            return
        self._check_run(invite)  # nobody is asked about a run that the policy forbids
        try:
            why = change.text if change is not None and (near or new) else ""
            approvals.check(session, invite, why=why)
        except PolicyRefusedError:
            if near or new:
                raise DifferencingError(OTHER_SITES) from None
            raise
        self.sums.accept(session)

    def _check_run(self, invite: Invite) -> None:
        self.policy.check_run(
            algorithm=invite.algorithm,
            protection=invite.protection,
            n_sites=len(invite.cohort),
            rows=self.rows,
        )

    def _check_day(self, request: Body, daily: DailyReleases) -> None:
        if isinstance(request, Ask):
            daily.check(request.question, self.policy)
