"""A site's folder is opened, and answers messages until its process ends.

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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cipherdag.errors import (
    CipherdagError,
    LedgerError,
    OutputError,
    PrivacyError,
    ReplayError,
    SessionLostError,
    SiteNotReadyError,
)
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.secrecy import recorded as recorded_draws
from cipherdag.privacy.wire import digest
from cipherdag.program.program import Programs, installed_program
from cipherdag.protocol.messages import seal_envelope
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.noise import rows_digest
from cipherdag.sites.drafts.related_columns import related_columns
from cipherdag.sites.drafts.table_suspicions import row_suspicions
from cipherdag.sites.policy.approvals import Approvals
from cipherdag.sites.policy.usage import BitBudget, DailyReleases, TestBudget
from cipherdag.sites.private_files import LOCK_WAIT_S, lock
from cipherdag.sites.record.counted_replies import CountedReplies
from cipherdag.sites.record.ledger import ENGINE_START, REFUSAL, Ledger, read_releases
from cipherdag.sites.record.opened_sums import AskedBits, OpenedSums
from cipherdag.sites.record.run_record import Answered, SessionLog
from cipherdag.sites.record.witnesses import Witness
from cipherdag.sites.session.admission import (
    OPENED_BEFORE,
    FolderLimits,
    Incoming,
    SiteSession,
    open_message,
    recorded,
    refusal,
)
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.study.study import Study
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable, load_table

ROWS_PURPOSE: Final = b"cipherdag rows that were asked"

log = logging.getLogger("cipherdag.site")


def open_site(
    site: SiteFolder,
    identity: SigningIdentity,
    study: Study,
    *,
    programs: Programs = installed_program,
    looked_at: set[bytes],
    counted: CountedReplies | None = None,
) -> SiteRuntime:
    """Read policy, schema, data and ledger, and put the site together.

    ``looked_at`` has digests of the rows whose suspicious values were logged already, and
    ``counted`` the replies that this process counts.

    SiteNotReadyError where the policy is not valid, a key is open to others, or the record of
    opened sums is not complete; DataError where the data do not fit the schema; LedgerError where
    the ledger was altered.
    """
    site.check_keys()
    settings = site.settings()
    settings.check_host(study)
    policy = site.policy_in(study)
    schema = Schema.load(site.schema_path(settings))
    table = load_table(site.data_source(settings), schema, site=settings.name, folder=site.path)
    ledger = Ledger(settings.name, identity, path=site.ledger_path)
    key, canonical = identity.draw_key(), schema.canonical()
    sums = OpenedSums(canonical, site.sums_path)
    sums.check_complete(read_releases(ledger.lines))
    budget = TestBudget(policy, site.usage_path)
    respondent = SiteView.of_table(
        table,
        min_cell_size=policy.min_cell_size,
        device=settings.device,
        budget=budget.spend,
        keyed=key,
    )
    patients = () if table.patients is None else (table.patients,)
    about = rows_digest(ROWS_PURPOSE, table.codes, table.values, table.interventions, *patients)
    shown = key(digest(b"rows", canonical, about))
    _look_at(table, shown, looked_at)
    profile = SiteProfile(
        name=settings.name,
        identity=identity,
        coordinator=study.coordinator,
        pinned=study.pinned,
        schema=canonical,
        rows=table.rows,
        labels=schema.label_positions,
        determined=schema.determined,
        lacking=schema.lacking,
        witness=Witness(site.witnessed_path, settings.name, identity.public, ledger),
        rows_digest=shown,
    )
    folder = FolderLimits(
        frozenset(study.revoked),
        Approvals(site.runs, identity.public, approvers=policy.approvers),
        DailyReleases(ledger),
        budget,
        site.runs,
        AskedBits(site.asked_path),
        BitBudget(policy, site.bits_path, schema.names),
        counted or CountedReplies(),
    )
    return SiteRuntime(
        profile, respondent, policy, ledger, sums=sums, folder=folder, programs=programs
    )


def _look_at(table: SiteTable, shown: bytes, looked_at: set[bytes]) -> None:
    """Log once what is suspicious in the rows, and relations of columns that are not declared."""
    if shown in looked_at:
        return
    looked_at.add(shown)
    for each in row_suspicions(table):
        log.warning("%s", each)
    for relation in related_columns(table):
        if relation not in table.schema.applied:
            log.warning("the schema does not declare that %s", relation.in_words())


class KeptSite:
    """A site in its own process: its folder is read anew for every run, and held during the run.

    The folder is locked until the process ends: one process answers for a site, and waits
    ``lock_wait_s`` seconds for an earlier one to end. A ``resumable`` run outlasts this process;
    its keys then lie in the folder until the run ends. SiteNotReadyError where another process
    holds the folder, or the site was not activated; PrivacyError where key or study cannot be
    trusted.
    """

    def __init__(
        self,
        folder: Path,
        *,
        lock_wait_s: float = LOCK_WAIT_S,
        programs: Programs = installed_program,
        resumable: bool = False,
    ) -> None:
        self._site = SiteFolder(folder)
        self._log = SessionLog(self._site.session_path) if resumable else None
        self._programs = programs
        self._answering = threading.Lock()
        self._session = b""
        self._ended: set[bytes] = set()
        self._looked_at: set[bytes] = set()
        self._open: SiteRuntime | RefusingSite | None = None
        self._read: list[tuple[int, int]] = []
        self._heard = time.monotonic()
        self._counted = CountedReplies()
        self.held = lock(folder / ".lock", wait_s=lock_wait_s)
        try:
            self._coordinator = self._site.study().coordinator
        except BaseException:
            os.close(self.held)
            raise
        if self._log is not None:
            self._take_up(self._log)

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message, one at a time; see `SiteRuntime.handle`.

        What tells nothing new is counted; see `CountedReplies`. SiteNotReadyError or PrivacyError
        where key or study cannot be read or trusted any more.
        """
        with self._answering:
            self._heard = time.monotonic()
            self._write_counts()
            incoming = open_message(operation, message, coordinator=self._coordinator)
            session = incoming.session if operation == "invite" and incoming.signed else b""
            ended, other = session in self._ended, session not in (b"", self._session)
            anew = other or (session and self._may_differ())
            if self._open is None or (not ended and anew):
                self._forget(session)
                self._read = self._files()
                self._open = self._opened()
            if ended:
                return self._open.refuse(incoming, ReplayError(OPENED_BEFORE))
            return self._answered(self._open, incoming, message)

    def _write_counts(self, *, at_once: bool = False) -> None:
        """Record what was counted in an hour that has ended, or until now."""
        if not self._counted.due(at_once=at_once):
            return
        try:
            ledger = self._ledger()
            if ledger is not None:
                self._counted.write(ledger)
        except (CipherdagError, OSError) as error:
            log.error("what was counted cannot be recorded: %s", error)  # noqa: TRY400

    def _ledger(self) -> Ledger | None:
        """The ledger of the open site, or read from the folder; LedgerError where it is broken."""
        if self._open is not None:
            return self._open.ledger
        name = self._site.settings().name
        return Ledger(name, self._site.identity(), path=self._site.ledger_path)

    def _answered(self, site: SiteRuntime | RefusingSite, said: Incoming, message: bytes) -> bytes:
        """The answer; where runs outlast this process, it is written to the session log first."""
        if self._log is None or isinstance(site, RefusingSite):
            return site.answer(said)
        held, repeats, draws = site.session, site.repeats(said), list[bytes]()
        with recorded_draws(draws):
            reply = site.answer(said)
        answers = not repeats and site.repeats(said)  # a refusal releases nothing, and is no step
        if said.signed and answers and said.session in {held, site.session} - {b""}:
            answered = Answered(said.operation, message, tuple(draws), reply)
            try:
                if not site.session:
                    self._log.end(self._read, answered)
                    return reply
                if held != site.session:
                    self._log.begin(self._read)
                self._log.add(answered)
            except OutputError as error:
                log.error("nothing leaves, and the run is lost: %s", error)  # noqa: TRY400
                self._forget(b"")
                return b""
        return reply

    def _take_up(self, session_log: SessionLog) -> None:
        """Hold the keys of the run that was under way, if nothing changed since it began."""
        try:
            files, answered = session_log.read()
            if not answered:
                return
            self._read = self._files()
            if list(files) != self._read:
                raise SessionLostError("data, schema, settings, policy or study changed since")
            site = self._opened()
            if isinstance(site, RefusingSite):
                raise SiteNotReadyError("the site is not ready")
            site.take_up(answered)
        except CipherdagError as error:
            log.error("the run that was under way is lost: %s", error)  # noqa: TRY400
            session_log.forget()
            return
        first = answered[0]
        said = open_message(first.operation, first.message, coordinator=self._coordinator)
        self._open, self._session = site, said.session

    def record_start(self, account: str) -> None:
        """Write to the ledger that the process which carries messages was started."""
        with self._answering:
            try:
                ledger = self._ledger()
            except LedgerError:
                log.exception("the start cannot be recorded")  # every run is refused until then
                return
            if ledger is not None and self._counted.starts(ledger, account):
                ledger.note(ENGINE_START, account)

    def forget_idle(self, seconds: float) -> None:
        """Forget the keys of a run that nobody has gone on with for so long."""
        if not self._answering.acquire(blocking=False):
            return
        try:
            self._write_counts()
            if time.monotonic() - self._heard > seconds:
                self._forget(b"")
        finally:
            self._answering.release()

    def close(self) -> None:
        """Record what was counted, and let another process answer for the site."""
        self._write_counts(at_once=True)
        os.close(self.held)

    def _forget(self, session: bytes) -> None:
        """Forget the keys of the last run, which then cannot go on, and expect ``session``."""
        if self._began():
            self._ended.add(self._session)
        self._session, self._open = session, None
        if self._log is not None:
            self._log.forget()

    def _began(self) -> bool:
        """True if the session has begun: a plan alone may be sent again and again."""
        return isinstance(self._open, SiteRuntime) and self._open.began(self._session)

    def _may_differ(self) -> bool:
        """True if a repeated plan may get another reply, since the folder was changed."""
        if isinstance(self._open, RefusingSite):
            return True
        return not self._began() and self._files() != self._read

    def _files(self) -> list[tuple[int, int]]:
        """The times of change and the sizes of the files that a run is opened from."""
        site, stamps = self._site, []
        with suppress(CipherdagError):
            settings = site.settings()
            paths = (site.settings_path, site.policy_path, site.study_path)
            for path in (*paths, site.schema_path(settings), site.data_path(settings)):
                about = path.stat() if path.exists() else None
                stamps.append((about.st_mtime_ns, about.st_size) if about else (0, 0))
        return stamps

    def _opened(self) -> SiteRuntime | RefusingSite:
        identity, study = self._site.identity(), self._site.study()
        try:
            if study.coordinator != self._coordinator:
                raise SiteNotReadyError("the study has another coordinator since the site started")
            about = self._site, identity, study
            return open_site(
                *about,
                programs=self._programs,
                looked_at=self._looked_at,
                counted=self._counted,
            )
        except CipherdagError as error:
            log.error("the site is not ready: %s", error)  # noqa: TRY400 - its text is enough
            name, ledger = self._site.settings().name, None
            with suppress(LedgerError, OutputError, OSError):
                ledger = Ledger(name, identity, path=self._site.ledger_path)
            return RefusingSite(identity, name, type(error), ledger, self._counted)


@dataclass(frozen=True, slots=True)
class RefusingSite:
    """A site that is not ready: it says so to every message, and no more; its own log says why.

    The ledger, None where it cannot be read, records what it says.
    """

    identity: SigningIdentity = field(repr=False)
    name: str
    error: type[CipherdagError]
    ledger: Ledger | None
    counted: CountedReplies

    def answer(self, message: Incoming) -> bytes:
        """Refuse the message."""
        body = refusal(message.operation, self.error, SiteNotReadyError.summary)
        reply = seal_envelope(
            self.identity,
            session=message.session,
            sender=self.name,
            topic="refusal",
            body=body,
        )
        if self.ledger is None:
            return reply
        said = self.ledger, reply, message, SiteSession()
        return recorded(*said, kind=REFUSAL, error=body.error, counted=self.counted)

    def refuse(self, message: Incoming, error: PrivacyError) -> bytes:
        """Refuse the message, whatever else is wrong with it."""
        del error
        return self.answer(message)
