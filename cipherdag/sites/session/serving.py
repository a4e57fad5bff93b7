"""From a site's folder to the handler that answers for it.

A site that is not ready still answers, with a refusal that says so and nothing else: its own log
says why. Only a site whose key or study cannot be read stays silent, because it could not sign.

Leaks:
    What `SiteRuntime` leaks; before that, whether the site is ready and whether a run is approved.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.errors import (
    CipherdagError,
    CohortError,
    DifferencingError,
    MalformedMessageError,
    PolicyRefusedError,
    PrivacyError,
    SignatureError,
)
from cipherdag.protocol.messages import (
    COORDINATOR,
    SESSION_BYTES,
    Ask,
    Invite,
    Refusal,
    decode,
    open_envelope,
    read_envelope,
    seal_envelope,
)
from cipherdag.sites.answers.table_respondent import table_respondent
from cipherdag.sites.policy.approvals import Approvals
from cipherdag.sites.policy.usage import DailyReleases, TestBudget
from cipherdag.sites.private_files import LOCK_WAIT_S, lock
from cipherdag.sites.record.ledger import Ledger, read_releases
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.session.runtime import SiteProfile, SiteRuntime
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cipherdag.privacy.identity import SigningIdentity
    from cipherdag.protocol.messages import Topic
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.study.study import Study

OTHER_SITES = (
    "the run has other sites than an earlier one: their sums would show answers by subtraction"
)
NOT_READY = "the site is not ready; its own log says why"

log = logging.getLogger("cipherdag.site")


def site_handler(
    folder: Path, *, lock_wait_s: float = LOCK_WAIT_S
) -> Callable[[str, bytes], bytes]:
    """The handler of the site whose files lie in ``folder``; see `KeptSite`."""
    return KeptSite(folder, lock_wait_s=lock_wait_s).handle


def open_site(site: SiteFolder, identity: SigningIdentity, study: Study) -> GuardedSite:
    """Read policy, schema, data and ledger, and put the site together.

    Args:
        site: Its folder.
        identity: Its signing key.
        study: The active study.

    Raises:
        SiteNotReadyError: The policy is not valid, a key is open to others, or the record of
            opened sums is not complete.
        DataError: The data do not fit the schema.
        LedgerError: The ledger was altered.
    """
    site.check_keys()
    settings = site.settings()
    policy = site.policy().stricter(min_sites=study.min_sites, protections=study.protections)
    schema = Schema.load(site.schema_path(settings))
    table = load_table(site.data_path(settings), schema, site=settings.name)
    ledger = Ledger(settings.name, identity, path=site.ledger_path)
    sums = OpenedSums(schema.canonical(), site.sums_path)
    sums.check_complete(read_releases(ledger.lines))
    budget = TestBudget(policy, site.usage_path)
    respondent = table_respondent(
        table, min_cell_size=policy.min_cell_size, device=settings.device, budget=budget
    )
    profile = SiteProfile(
        name=settings.name,
        identity=identity,
        coordinator=study.coordinator,
        pinned=study.pinned,
        schema=schema.canonical(),
        rows=table.rows,
        labels=schema.label_positions,
    )
    return GuardedSite(
        runtime=SiteRuntime(profile, respondent, policy, ledger, sums=sums),
        profile=profile,
        policy=policy,
        revoked=frozenset(study.revoked),
        approvals=Approvals(site.runs),
        sums=sums,
        daily=DailyReleases(ledger),
        budget=budget,
    )


class KeptSite:
    """A site as its own process keeps it: read anew for every run, and held while a run goes on.

    The folder is locked until the process ends: one process answers for a site.

    Args:
        folder: The site's folder.
        lock_wait_s: Seconds to wait for an earlier process to end.

    Raises:
        SiteNotReadyError: Another process holds the folder, or the site was not activated.
        PrivacyError: The key or the study cannot be trusted.
    """

    def __init__(self, folder: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self._site = SiteFolder(folder)
        self._answering = threading.Lock()
        self._session = b""
        self._ended: set[bytes] = set()
        self._open: GuardedSite | NotReadySite | None = None
        self._heard = time.monotonic()
        self.held = lock(folder / ".lock", wait_s=lock_wait_s)
        try:
            self._coordinator = self._site.study().coordinator
        except BaseException:
            os.close(self.held)
            raise

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message, one at a time; see `GuardedSite.handle`.

        Raises:
            SiteNotReadyError: The key or the study cannot be read any more.
            PrivacyError: The key or the study cannot be trusted any more.
        """
        with self._answering:
            self._heard = time.monotonic()
            session = self._invited(message) if operation == "invite" else b""
            if session in self._ended:
                refusal = Refusal(error="ReplayError", message="the session was opened before")
                name = self._site.settings().name
                return _refuse(self._site.identity(), name, message, refusal)
            if self._open is None or session not in (b"", self._session):
                self._forget(session)
                self._open = self._opened()
            return self._open.handle(operation, message)

    def forget_idle(self, seconds: float) -> None:
        """Forget the keys of a run that nobody has gone on with for so long."""
        if time.monotonic() - self._heard > seconds and self._answering.acquire(blocking=False):
            self._forget(b"")
            self._answering.release()

    def close(self) -> None:
        """Let another process answer for the site."""
        os.close(self.held)

    def _forget(self, session: bytes) -> None:
        """Forget the keys of the run before, which never comes back, and expect ``session``."""
        if self._session:
            self._ended.add(self._session)
        self._session, self._open = session, None

    def _opened(self) -> GuardedSite | NotReadySite:
        identity, study = self._site.identity(), self._site.study()
        try:
            return open_site(self._site, identity, study)
        except CipherdagError as error:
            log.error("the site is not ready: %s", error)  # noqa: TRY400 - its text is enough
            return NotReadySite(identity, self._site.settings().name, type(error).__name__)

    def _invited(self, message: bytes) -> bytes:
        """The session that the coordinator invites to; empty if the message is not its own."""
        opened = opened_by(self._coordinator, message, "invite")
        return opened[0] if opened is not None else b""


@dataclass(frozen=True, slots=True)
class NotReadySite:
    """A site that says that it is not ready, and no more."""

    identity: SigningIdentity = field(repr=False)
    name: str
    error: str

    def handle(self, operation: str, message: bytes) -> bytes:
        """Refuse the message."""
        del operation
        refusal = Refusal(error=self.error, message=NOT_READY)
        return _refuse(self.identity, self.name, message, refusal)


@dataclass(slots=True)
class GuardedSite:
    """A site's runtime behind the checks that need its folder: who, how often, with whom before.

    Attributes:
        runtime: Answers what passes.
        profile: Who the site is.
        policy: Its limits, the study's included.
        revoked: Names that no cohort may hold.
        approvals: Runs that a person approves.
        sums: Which sums were opened, in all runs.
        daily: What left today.
        budget: Tests that may still be computed.
    """

    runtime: SiteRuntime = field(repr=False)
    profile: SiteProfile = field(repr=False)
    policy: Policy
    revoked: frozenset[str]
    approvals: Approvals
    sums: OpenedSums = field(repr=False)
    daily: DailyReleases = field(repr=False)
    budget: TestBudget = field(repr=False)
    _asked: bytes = b""
    _invited: bytes = b""

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message, or refuse it; see `SiteRuntime.handle`."""
        try:
            if operation == "invite":
                self._check_invite(message)
            elif operation == "ask" and message != self._asked:
                self._check_day(message)
        except CipherdagError as error:
            log.warning("refused %s: %s", operation, error)
            text = error.message if isinstance(error, PrivacyError) else NOT_READY
            refusal = Refusal(error=type(error).__name__, message=text)
            return _refuse(self.profile.identity, self.profile.name, message, refusal)
        try:
            return self.runtime.handle(operation, message)
        finally:
            if operation == "ask":
                self._asked = message
                self.budget.save()

    def _check_invite(self, message: bytes) -> None:
        opened = self._opened(message, "invite")
        if opened is None:
            return
        session, body = opened
        invite = decode(body, Invite)
        for member in invite.cohort:
            if member.name in self.revoked:
                raise CohortError(f"the cohort names '{member.name}', which is revoked")
        self._check_approval(session, invite)
        if session != self._invited:  # the same invite again starts no new run
            self._invited = session
            self.budget.start_run()

    def _check_approval(self, session: bytes, invite: Invite) -> None:
        """Have a person decide where the policy says so, or the cohort is not that of before."""
        change = self.sums.change(session, (member.name for member in invite.cohort))
        near = change is not None and len(change.differing) < self.policy.min_cohort_difference
        new = change is not None and not change.known and self.policy.approve_cohorts == "manual"
        if not near and not new and self.policy.approve_runs != "manual":
            return
        self.policy.check_run(
            algorithm=invite.algorithm,
            protection=invite.protection,
            n_sites=len(invite.cohort),
            rows=self.profile.rows,
        )
        try:
            why = change.text if change is not None and (near or new) else ""
            self.approvals.check(session, invite, why=why)
        except PolicyRefusedError:
            if near or new:
                raise DifferencingError(OTHER_SITES) from None
            raise
        self.sums.accept(session)

    def _check_day(self, message: bytes) -> None:
        opened = self._opened(message, "ask")
        if opened is not None:
            self.daily.check(decode(opened[1], Ask).question, self.policy)

    def _opened(self, message: bytes, topic: Topic) -> tuple[bytes, bytes] | None:
        return opened_by(self.profile.coordinator, message, topic)


def opened_by(coordinator: bytes, message: bytes, topic: Topic) -> tuple[bytes, bytes] | None:
    """Session and body of a message that the coordinator signed; None for any other."""
    try:
        session = read_envelope(message).session
        body = open_envelope(
            message, identity=coordinator, session=session, sender=COORDINATOR, topic=topic
        )
    except (MalformedMessageError, SignatureError):
        return None
    return session, body


def _refuse(identity: SigningIdentity, name: str, message: bytes, refusal: Refusal) -> bytes:
    try:
        session = read_envelope(message).session
    except MalformedMessageError:
        session = bytes(SESSION_BYTES)
    return seal_envelope(identity, session=session, sender=name, topic="refusal", body=refusal)
