"""A site's runtime: bytes in, bytes out, and every rule checked before anything leaves.

A message goes one way: it is opened once and admitted (`admission`), and answered here; only then
is the answer protected, recorded in the ledger and sent. A reply without a record does not leave.

The keys of a session are held in memory, until the run ends or the next plan is admitted. A run
survives a restart of its coordinator, since a message that repeats the last one gets the same
bytes. It survives a restart of the site only by `take_up`.

Leaks:
    Its replies, and that it refuses: a refusal in a round is always the same, so that it answers no
    question.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from cipherdag.errors import (
    CipherdagError,
    PrivacyError,
    ReplayError,
    SessionLostError,
    SiteComputationError,
)
from cipherdag.pages.files import printable
from cipherdag.privacy.secrecy import repeated
from cipherdag.privacy.wire import Body
from cipherdag.program.program import Program, Programs, installed_program, plan_facts
from cipherdag.protocol.messages import (
    MAX_REFUSAL,
    REPLIES,
    WAITING,
    Ask,
    Closed,
    Finish,
    Open,
    Recover,
    Secure,
    Share,
    Topic,
    Unmask,
    seal_envelope,
)
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.set_up_messages import (
    Chances,
    Commitments,
    Linked,
    Offer,
    Offers,
    Ready,
    Sealed,
)
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import (
    COUNTED,
    ENGINE_START,
    REFUSAL,
    REPAIRED,
    REPEAT,
    WAITS,
    Ledger,
    read_releases,
)
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.record.run_record import Answered, RunRecord
from cipherdag.sites.session.admission import (
    Admission,
    FolderLimits,
    Incoming,
    SiteSession,
    open_message,
    recorded,
    refusal,
)
from cipherdag.sites.session.handshake import Handshake, Keyring, SetUp, SiteProfile
from cipherdag.sites.session.reading import ALONE, Reading
from cipherdag.sites.session.round import Coverage, FoundBits
from cipherdag.sites.session.rounds import Rounds
from cipherdag.sites.session.sparse_setup import SparseSetUp

BEFORE_KEYS = frozenset({"offer", "seals", REFUSAL, WAITS, REPEAT, COUNTED, REPAIRED, ENGINE_START})
"""Kinds of records after which a session may still be begun anew."""

log = logging.getLogger("cipherdag.site")


class SiteRuntime:
    """A site of the federation; `handle` is its only door.

    Its programs and reading are what it has installed, and itself, by default; sums are recorded
    in memory only where None, and the folder is None for a site in memory. ``refused`` is why it
    refused last, for whoever runs the site.
    """

    def __init__(
        self,
        profile: SiteProfile,
        respondent: SiteView,
        policy: Policy,
        ledger: Ledger,
        *,
        sums: OpenedSums | None = None,
        folder: FolderLimits | None = None,
        programs: Programs = installed_program,
        reading: Reading = ALONE,
    ) -> None:
        self._profile = profile
        self._respondent = respondent
        self._policy = policy
        self.ledger = ledger
        self._sums = OpenedSums(profile.schema) if sums is None else sums
        self._folder = folder
        self._counted = None if folder is None else folder.counted
        self._programs = programs
        self._reading = reading
        self._seen = {
            bytes.fromhex(release.session)
            for release in read_releases(ledger.lines)
            if release.kind not in BEFORE_KEYS
        }
        about = profile, policy, self._sums, self._seen, folder
        self._admission = Admission(*about, self._program)
        self._current = SiteSession()
        self.refused: CipherdagError | None = None

    def began(self, session: bytes) -> bool:
        """True if the session was begun here, by this process or an earlier one."""
        return session in self._seen

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message; a refusal is an answer too, without data and without a traceback.

        Both are signed envelopes; a refusal names its error in the set-up only. A message that
        repeats the last one of its operation byte for byte gets the same bytes again. The reply is
        empty where the ledger cannot be written.
        """
        return self.answer(open_message(operation, message, coordinator=self._profile.coordinator))

    @property
    def session(self) -> bytes:
        """The session whose keys are held; empty where there is none."""
        return self._current.session

    def repeats(self, message: Incoming) -> bool:
        """True if a message is the last one of its operation, which gets the same bytes again."""
        last, _ = self._current.repeats.get(message.operation, (b"", b""))
        return last == message.digest

    def take_up(self, answered: Sequence[Answered]) -> None:
        """Hold a session's keys again, by answering once more what was answered before a restart.

        Nothing leaves: the answers left before and stand in the ledger, and no limit of a day
        counts them twice. Of a run that ended `SessionLog` holds the last answer alone.
        SessionLostError where this site answers otherwise now.
        """
        written, self.ledger = self.ledger, Ledger(self._profile.name, self._profile.identity)
        folder = self._folder
        limits = () if folder is None else (folder.daily, folder.budget, folder.bits)
        try:
            for each in limits:
                each.counting = False
            for said in answered:
                self._answer_again(said)
        finally:
            self.ledger = written
            for each in limits:
                each.counting = True

    def _answer_again(self, said: Answered) -> None:
        coordinator = self._profile.coordinator
        message = open_message(said.operation, said.message, coordinator=coordinator)
        if message.operation == "finish":
            self._current.repeats[message.operation] = message.digest, said.reply
            return
        if message.operation == "invite":
            self._seen.discard(message.session)
        with repeated(said.draws):
            reply = self.answer(message)
        if reply != said.reply:
            self._current = SiteSession()
            raise SessionLostError("what this site answered before does not come out any more")

    def answer(self, message: Incoming) -> bytes:
        """Answer a message that was opened under this site's coordinator; see `handle`."""
        held = self._current
        if self.repeats(message):
            _, reply = held.repeats[message.operation]
            return recorded(self.ledger, reply, message, held, kind=REPEAT, counted=self._counted)
        try:
            body = self._answered(message)
        except PrivacyError as error:
            return self.refuse(message, error)
        except CipherdagError as error:
            # its text may quote a column or a value, so only its name leaves
            log.log(logging.ERROR, "failed on %s: %s", message.operation, error)
            return self._refusal(message, error, "")
        except Exception:  # whatever failed, its text must not leave the site
            log.exception("failed on %s", message.operation)
            return self._refusal(message, SiteComputationError("it failed"), "")
        reply = self._envelope(message.session, REPLIES[message.operation], body)
        ready = body if isinstance(body, Ready) else None
        left = recorded(self.ledger, reply, message, held, ready=ready)
        if left:
            self._current.repeats[message.operation] = message.digest, left
        return left

    def refuse(self, message: Incoming, error: PrivacyError) -> bytes:
        """Refuse a message for a reason that this site's keeper knows."""
        usual = error.remedy == error.default_remedy
        run, do = message.session.hex()[:8], "" if usual else f". {error.remedy}"
        if error.message in WAITING:
            said = f"run {run} does not begin yet"
        elif message.operation == "invite":
            said = f"refused the plan of run {run}"
        else:
            said = f"refused the message '{message.operation}' of run {run}"
        log.warning("%s: %s%s", said, error, do)
        return self._refusal(message, error, error.message)

    def _refusal(self, message: Incoming, error: CipherdagError, text: str) -> bytes:
        # the frames that a traceback shows hold the keys of the session
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.refused, text = error, printable(text)[:MAX_REFUSAL]  # it may quote a plan
        body = refusal(message.operation, type(error), text)
        reply = self._envelope(message.session, "refusal", body)
        kind = WAITS if text in WAITING else REFUSAL
        why = text if (kind, message.operation) == (REFUSAL, "invite") else ""
        return recorded(
            self.ledger,
            reply,
            message,
            self._current,
            kind=kind,
            error=body.error,
            why=why,
            counted=self._counted,
        )

    def _envelope(self, session: bytes, topic: Topic, body: Body) -> bytes:
        key, name = self._profile.identity, self._profile.name
        return seal_envelope(key, session=session, sender=name, topic=topic, body=body)

    def _answered(self, message: Incoming) -> Body:
        request, part = self._admission.admit(message, self._current), self._current.part
        if isinstance(request, Plan):
            return self._begin(message.session, request)
        if isinstance(part, Rounds):
            return self._in_round(part, request)
        return self._in_set_up(part, request)

    def _in_set_up(self, set_up: SetUp | None, request: Body) -> Body:
        reply: Body
        match request, set_up:
            case Offers(), Handshake():
                reply = set_up.seals(request)
            case Sealed(), Handshake():
                reply = self._set_up(set_up, *set_up.finish(request))
            case Commitments(), SparseSetUp():
                reply = set_up.chance(request)
            case Chances(), SparseSetUp():
                reply = set_up.links(request)
            case Linked(), SparseSetUp():
                reply = self._set_up(set_up, *set_up.finish(request))
            case _:
                raise ReplayError("the set-up admits no such message")
        return reply

    def _in_round(self, rounds: Rounds, request: Body) -> Body:
        if isinstance(request, Ask):
            return self._ask(rounds, request)
        if isinstance(request, Finish):
            return self._finish(rounds, request)
        steps: dict[type[Body], Callable[[Any], Body]] = {
            Unmask: rounds.unmask, Recover: rounds.recover, Open: rounds.open, Secure: rounds.secure
        }  # fmt: skip
        if type(request) not in steps:
            raise ReplayError("a round admits no such message")
        return steps[type(request)](request)

    def _begin(self, session: bytes, plan: Plan) -> Offer:
        kind = Handshake if plan.key_bounds is None else SparseSetUp
        set_up = kind(self._profile, plan, self._reading)
        self._seen.add(session)
        if self._folder is not None:
            self._folder.budget.start_run()
        self._current = SiteSession(session, set_up)
        log.info("run %s begins: %s", session.hex()[:8], plan.algorithm)
        return set_up.offer()

    def _set_up(self, set_up: SetUp, keyring: Keyring, ready: Ready) -> Ready:
        current, plan = self._current, set_up.plan
        program = self._program(plan)
        record = bits = None
        if self._folder is not None:
            if keyring.secure_tests is not None:
                about = current.session, set_up.index, keyring.secure_tests.context
                bits = FoundBits(*about, self._folder.asked, self._folder.bits)
            record = RunRecord(self._folder.runs / current.session.hex())
            record.begin(plan)
        fewest = self._policy.fewest_contributors(plan)
        coverage = Coverage(fewest, plan.min_contributors, self._reading)
        for opened in program.earlier:
            coverage.opened(*opened)
        current.rounds = Rounds(
            plan=plan,
            program=program,
            index=set_up.index,
            keys=keyring,
            respondent=self._respondent,
            policy=self._policy,
            sums=self._sums,
            coverage=coverage,
            daily=self._folder.daily if self._folder is not None else None,
            record=record,
            bits=bits,
            read=self._reading,
        )
        current.set_up = None  # the private halves of its keys are not needed any more
        return msgspec.structs.replace(
            ready,
            n_variables=program.facts.n_variables,
            labels=program.facts.labels,
            relations=program.facts.determined.relations,
        )

    def _program(self, plan: Plan) -> Program:
        profile, count = self._profile, self._respondent.n_variables
        facts = plan_facts(plan, count, profile.labels, profile.determined)
        return self._programs(plan, facts)

    def _ask(self, rounds: Rounds, ask: Ask) -> Share:
        try:
            return rounds.ask(ask)
        finally:
            if self._folder is not None:
                self._folder.budget.save()

    def _finish(self, rounds: Rounds, finish: Finish) -> Closed:
        result = rounds.result(finish)
        log.info("run %s has ended", self._current.session.hex()[:8])
        self._current = SiteSession()
        head = self.ledger.head
        return Closed(ledger_head=bytes.fromhex(head.hash), records=head.records, result=result)
