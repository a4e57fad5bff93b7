"""From a site's folder to the handler that answers for it.

A site that is not ready still answers, with a refusal that says so and nothing else: its own log
says why. Only a site whose key or study cannot be read stays silent, because it could not sign.

Leaks:
    What `SiteRuntime` leaks; before that, whether the site is ready and whether a run is approved.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.errors import (
    CipherdagError,
    CohortError,
    MalformedMessageError,
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
from cipherdag.sites.answers import Respondent, table_tests
from cipherdag.sites.approvals import Approvals
from cipherdag.sites.beliefs import table_beliefs
from cipherdag.sites.data import load_table
from cipherdag.sites.ledger import Ledger
from cipherdag.sites.runtime import SiteProfile, SiteRuntime
from cipherdag.sites.schema import Schema
from cipherdag.sites.site_folder import LOCK_WAIT_S, SiteFolder, lock
from cipherdag.sites.usage import DailyReleases, TestBudget

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cipherdag.privacy.identity import SigningIdentity
    from cipherdag.protocol.messages import Topic
    from cipherdag.sites.policy import Policy
    from cipherdag.sites.study import Study

NOT_READY = "the site is not ready; its own log says why"

log = logging.getLogger("cipherdag.site")


def site_handler(
    folder: Path, *, lock_wait_s: float = LOCK_WAIT_S
) -> Callable[[str, bytes], bytes]:
    """The handler of the site whose files lie in ``folder``.

    The folder is locked until the process ends: one process answers for a site.

    Args:
        folder: The site's folder.
        lock_wait_s: Seconds to wait for an earlier process to end.

    Returns:
        A function from operation and signed message to signed reply.

    Raises:
        SiteNotReadyError: Another process holds the folder, or the site was not activated.
        PrivacyError: The key or the study cannot be trusted.
    """
    site = SiteFolder(folder)
    held = lock(folder / ".lock", wait_s=lock_wait_s)
    try:
        identity, study = site.identity(), site.study()
        name = site.settings().name
    except BaseException:
        os.close(held)
        raise
    try:
        return open_site(site, identity, study, held=held).handle
    except CipherdagError as error:
        log.error("the site is not ready: %s", error)  # noqa: TRY400 - its text is enough
        return NotReadySite(identity, name, type(error).__name__, held).handle


def open_site(
    site: SiteFolder, identity: SigningIdentity, study: Study, *, held: int
) -> GuardedSite:
    """Read policy, schema, data and ledger, and put the site together.

    Args:
        site: Its folder.
        identity: Its signing key.
        study: The active study.
        held: The folder's lock, kept open as long as the result lives.

    Raises:
        SiteNotReadyError: The policy is not valid, or a key is open to others.
        DataError: The data do not fit the schema.
        LedgerError: The ledger was altered.
    """
    site.check_keys()
    settings = site.settings()
    policy = site.policy().stricter(min_sites=study.min_sites, protections=study.protections)
    schema = Schema.load(site.schema_path(settings))
    table = load_table(site.data_path(settings), schema, site=settings.name)
    ledger = Ledger(settings.name, identity, path=site.ledger_path)
    budget = TestBudget(policy, site.usage_path)
    tests = budget.counted(table_tests(table.observational(), device=settings.device))
    learn = table_beliefs(table, device=settings.device)
    respondent = Respondent(len(table.names), tests, learn=learn)
    profile = SiteProfile(
        name=settings.name,
        identity=identity,
        coordinator=study.coordinator,
        pinned=study.pinned,
        schema=schema.canonical(),
        rows=table.rows,
    )
    return GuardedSite(
        runtime=SiteRuntime(profile, respondent, policy, ledger),
        profile=profile,
        policy=policy,
        revoked=frozenset(study.revoked),
        approvals=Approvals(site.runs) if policy.approve_runs == "manual" else None,
        daily=DailyReleases(ledger),
        budget=budget,
        held=held,
    )


@dataclass(frozen=True, slots=True)
class NotReadySite:
    """A site that says that it is not ready, and no more; ``held`` is the folder's lock."""

    identity: SigningIdentity = field(repr=False)
    name: str
    error: str
    held: int

    def handle(self, operation: str, message: bytes) -> bytes:
        """Refuse the message."""
        del operation
        refusal = Refusal(error=self.error, message=NOT_READY)
        return _refuse(self.identity, self.name, message, refusal)


@dataclass(slots=True)
class GuardedSite:
    """A site's runtime behind the checks that need its folder: approval, revocation, the day.

    Attributes:
        runtime: Answers what passes.
        profile: Who the site is.
        policy: Its limits, the study's included.
        revoked: Names that no cohort may hold.
        approvals: Runs that a person approves; None where runs need none.
        daily: What left today.
        budget: Tests that may still be computed.
        held: The folder's lock.
    """

    runtime: SiteRuntime = field(repr=False)
    profile: SiteProfile = field(repr=False)
    policy: Policy
    revoked: frozenset[str]
    approvals: Approvals | None
    daily: DailyReleases = field(repr=False)
    budget: TestBudget = field(repr=False)
    held: int
    _asked: bytes = b""

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
        if self.approvals is not None:
            self.policy.check_run(
                algorithm=invite.algorithm,
                protection=invite.protection,
                n_sites=len(invite.cohort),
                rows=self.profile.rows,
            )
            self.approvals.check(session, invite)
        self.budget.start_run()

    def _check_day(self, message: bytes) -> None:
        opened = self._opened(message, "ask")
        if opened is not None:
            self.daily.check(decode(opened[1], Ask).question, self.policy)

    def _opened(self, message: bytes, topic: Topic) -> tuple[bytes, bytes] | None:
        """Session and body of a message of the coordinator; the runtime refuses any other."""
        try:
            session = read_envelope(message).session
            body = open_envelope(
                message,
                identity=self.profile.coordinator,
                session=session,
                sender=COORDINATOR,
                topic=topic,
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
