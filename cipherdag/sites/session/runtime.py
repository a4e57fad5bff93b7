"""What a site runs: bytes in, bytes out, and every rule checked before anything leaves.

A message goes one way: it is opened once (`incoming`), admitted (`admission`), and answered here;
only then is the answer protected, recorded in the ledger and sent.

The keys of a session are held in memory and die with this object, with the end of the run, or with
the plan to the next one. A run goes on after its coordinator was restarted, since a message that
repeats the last one gets the same bytes; it does not go on at a site that was restarted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from cipherdag.errors import (
    CipherdagError,
    PrivacyError,
    SiteComputationError,
)
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.messages import (
    REPLIES,
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
from cipherdag.protocol.set_up.bodies import (
    Chances,
    Commitments,
    Linked,
    Offer,
    Offers,
    Ready,
    Sealed,
)
from cipherdag.protocol.wire import Body
from cipherdag.sites.answers.respondent import Respondent
from cipherdag.sites.plan_facts import plan_facts
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import Ledger, read_releases
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.record.release_kinds import ENGINE_START, REFUSAL, REPAIRED, REPEAT
from cipherdag.sites.record.run_record import RunRecord
from cipherdag.sites.session.admission import Admission, HeldSession
from cipherdag.sites.session.by_lot import ByLot
from cipherdag.sites.session.coverage import Coverage
from cipherdag.sites.session.handshake import Handshake, Keyring
from cipherdag.sites.session.incoming import Incoming, open_message
from cipherdag.sites.session.program import Program, Programs, installed_program
from cipherdag.sites.session.reading import ALONE, Reading
from cipherdag.sites.session.recording import description, recorded, refusal
from cipherdag.sites.session.rounds import Rounds

if TYPE_CHECKING:
    from cipherdag.sites.session.admission import FolderLimits

BEFORE_KEYS = frozenset({"offer", "seals", REFUSAL, REPEAT, REPAIRED, ENGINE_START})
"""What leaves in a session that may still be begun anew."""

log = logging.getLogger("cipherdag.site")


@dataclass(frozen=True, slots=True)
class SiteProfile:
    """Who a site is and whom it knows: pinned public identity keys of 32 bytes each.

    ``labels`` are the positions of the variables that the schema marks as labels, ``determined``
    says which follow from others by it, and ``lacking`` which every site lacks by it, of sites that
    lack some.
    """

    name: str
    identity: SigningIdentity
    coordinator: bytes
    pinned: Mapping[str, bytes]
    schema: bytes
    rows: int
    labels: tuple[int, ...] = ()
    determined: Determined = NOTHING
    lacking: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class SiteRuntime:
    """A site of the federation; `handle` is its only door.

    Args:
        profile: Who it is and whom it knows.
        respondent: Computes its answers.
        policy: Its limits.
        ledger: Records what leaves.
        sums: Records which sums were opened; in memory only where None.
        folder: The limits that its folder adds; none for a site in memory.
        programs: Makes the program of a plan; what the site has installed by default.
        reading: Reads what all sites are told alike; itself by default.

    ``refused`` is why it refused last, for whoever runs the site.
    """

    def __init__(
        self,
        profile: SiteProfile,
        respondent: Respondent,
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
        self._programs = programs
        self._reading = reading
        self._seen = {
            bytes.fromhex(own.session)
            for own in read_releases(ledger.lines)
            if own.kind not in BEFORE_KEYS
        }
        self._admission = Admission(
            policy, profile.rows, self._sums, self._seen, folder, self._program
        )
        self._current = HeldSession()
        self.refused: CipherdagError | None = None

    def began(self, session: bytes) -> bool:
        """Whether a session was begun here, now or in any process before."""
        return session in self._seen

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message; a refusal is an answer too, without data and without a traceback.

        Args:
            operation: One of `messages.OPERATIONS`.
            message: A signed envelope of the coordinator.

        Returns:
            A signed envelope: the reply, or a refusal, which names its error in the set-up only. A
            message that repeats the last one of its operation byte for byte gets the same bytes
            again. Nothing, where the ledger cannot be written.
        """
        return self.answer(open_message(operation, message, coordinator=self._profile.coordinator))

    def answer(self, message: Incoming) -> bytes:
        """Answer a message that was opened under this site's coordinator; see `handle`."""
        held = self._current
        last, reply = held.repeats.get(message.operation, (b"", b""))
        if last == message.digest:
            return recorded(self.ledger, reply, description(message, held, kind=REPEAT))
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
        left = recorded(self.ledger, reply, description(message, held, ready=ready))
        if left:
            self._current.repeats[message.operation] = message.digest, left
        return left

    def refuse(self, message: Incoming, error: PrivacyError) -> bytes:
        """Refuse a message for a reason that this site's keeper knows."""
        usual = error.remedy == error.default_remedy
        what = "the plan" if message.operation == "invite" else f"the message '{message.operation}'"
        run, do = message.session.hex()[:8], "" if usual else f". {error.remedy}"
        log.warning("refused %s of run %s: %s%s", what, run, error, do)
        return self._refusal(message, error, error.message)

    def _refusal(self, message: Incoming, error: CipherdagError, text: str) -> bytes:
        # the frames that a traceback shows hold the keys of the session
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.refused = error
        told = refusal(message.operation, type(error), text)
        reply = self._envelope(message.session, "refusal", told)
        return recorded(self.ledger, reply, description(message, self._current, kind=REFUSAL))

    def _envelope(self, session: bytes, topic: Topic, body: Body) -> bytes:
        own = self._profile
        return seal_envelope(own.identity, session=session, sender=own.name, topic=topic, body=body)

    def _answered(self, message: Incoming) -> Body:
        """The reply to a message, if it is admitted."""
        held = self._current
        reply: Body
        match self._admission.admit(message, held):
            case Plan() as plan:
                reply = self._begin(message.session, plan)
            case Offers() | Commitments() | Chances() | Sealed() | Linked() as relayed:
                reply = self._relayed(relayed)
            case Ask() as ask:
                reply = self._ask(ask)
            case Unmask() as unmask:
                reply = held.set_up().unmask(unmask)
            case Recover() as recover:
                reply = held.set_up().recover(recover)
            case Open() as request:
                reply = held.set_up().open(request)
            case Secure() as request:
                reply = held.set_up().secure(request)
            case Finish() as finish:
                reply = self._finish(finish)
        return reply

    def _relayed(self, body: Offers | Commitments | Chances | Sealed | Linked) -> Body:
        """The reply to what others said in the set-up, if it is that of the plan."""
        held = self._current
        match body:
            case Offers():
                return held.set_up_of(Handshake).seals(body)
            case Commitments():
                return held.set_up_of(ByLot).chance(body)
            case Chances():
                return held.set_up_of(ByLot).links(body)
            case Sealed():
                return self._set_up(*held.set_up_of(Handshake).finish(body))
            case Linked():
                return self._set_up(*held.set_up_of(ByLot).finish(body))

    def _begin(self, session: bytes, plan: Plan) -> Offer:
        kind = Handshake if plan.key_bounds is None else ByLot
        handshake = kind(self._profile, plan, self._reading)
        self._seen.add(session)
        if self._folder is not None:
            self._folder.budget.start_run()
        self._current = HeldSession(session, handshake)
        log.info("run %s begins: %s", session.hex()[:8], plan.algorithm)
        return handshake.offer()

    def _set_up(self, keyring: Keyring, ready: Ready) -> Ready:
        current = self._current
        handshake = current.setting_up()
        plan = handshake.plan
        program = self._program(plan)
        kept = None
        if self._folder is not None:
            kept = RunRecord(self._folder.runs / current.session.hex())
            kept.begin(plan)
        fewest = min(self._policy.min_sites, len(plan.cohort))
        coverage = Coverage(fewest, plan.min_contributors, self._reading)
        for opened in program.earlier:
            coverage.opened(*opened)
        current.rounds = Rounds(
            plan=plan,
            program=program,
            index=handshake.index,
            transcript=keyring.transcript,
            aggregation=keyring.aggregation,
            agreement=keyring.agreement,
            graph=keyring.graph,
            secure_tests=keyring.secure_tests,
            respondent=self._respondent,
            policy=self._policy,
            sums=self._sums,
            coverage=coverage,
            daily=self._folder.daily if self._folder is not None else None,
            kept=kept,
            read=self._reading,
        )
        current.handshake = None  # the private halves of its keys are not needed any more
        return msgspec.structs.replace(
            ready,
            n_variables=program.facts.n_variables,
            labels=program.facts.labels,
            relations=program.facts.determined.relations,
        )

    def _program(self, plan: Plan) -> Program:
        """The plan's program over this site's variables."""
        profile, count = self._profile, self._respondent.n_variables
        facts = plan_facts(plan, count, profile.labels, determined=profile.determined)
        return self._programs(plan, facts)

    def _ask(self, ask: Ask) -> Share:
        try:
            return self._current.set_up().ask(ask)
        finally:
            if self._folder is not None:
                self._folder.budget.save()

    def _finish(self, finish: Finish) -> Closed:
        result = self._current.set_up().result(finish)
        log.info("run %s has ended", self._current.session.hex()[:8])
        self._current = HeldSession()
        head = self.ledger.head
        return Closed(ledger_head=bytes.fromhex(head.hash), records=head.records, result=result)
