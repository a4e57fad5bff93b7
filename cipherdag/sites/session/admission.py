"""A message that came in at a site, every reason to refuse it before anything is computed, replies.

`open_message` opens it once and never raises. `Admission` says what is wrong with it where its turn
comes among the other reasons, in this order; until then nobody gets a request out of it:

    all           the operation is unknown
    invite        the message is at fault
                  a site of the cohort is revoked                                  folder
                  the cohort names a site that is not pinned, or not this one
                  its program is not installed, or its parameters are not possible
                  its sites are not in order, or its purpose, a parameter, or one
                  run too many                                                     folder
                  a person has to approve the plan, and did not                    folder
                  the session was opened before
                  the site's policy forbids the run
                  too few sites lack the same variables
                  too many sites may collude or leave for any graph of keys
    not invite    the keys of the session are lost
                  the operation is of a set-up in rounds, or of a round in a set-up
                  the message has no form, is of another session, or is otherwise at fault
                  it is about another round than the current one
                  the session's state does not admit the operation (`protocol.states`)

Only a site with a folder makes the checks marked so. Whom a cohort may name is checked before
anything is computed from the plan. What may be asked in a round is checked by `rounds`.

Leaks:
    A refusal names in the set-up the first reason that applies; in a round it is always the same.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cipherdag.errors import (
    CipherdagError,
    CohortError,
    DifferencingError,
    MalformedMessageError,
    OutputError,
    PolicyRefusedError,
    PrivacyError,
    RefusedError,
    ReplayError,
    SessionLostError,
    SignatureError,
)
from cipherdag.privacy.wire import Body, decode
from cipherdag.protocol import messages
from cipherdag.protocol.messages import (
    AWAITS,
    OTHER_SITES,
    REPLIES,
    REQUESTS,
    Refusal,
    RoundRequest,
)
from cipherdag.protocol.plan import SESSION_BYTES, Plan, check_group_sizes
from cipherdag.protocol.set_up_messages import Ready
from cipherdag.protocol.states import SET_UP, State, check_phase, check_turn
from cipherdag.sites.policy.approvals import Approvals
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import BitBudget, DailyReleases, TestBudget
from cipherdag.sites.record.counted_replies import SAID_AGAIN, CountedReplies
from cipherdag.sites.record.ledger import REPEAT, REPLY_KINDS, Ledger
from cipherdag.sites.record.opened_sums import AskedBits, OpenedSums
from cipherdag.sites.session.handshake import SetUp, SiteProfile
from cipherdag.sites.session.rounds import Rounds

OPENED_BEFORE = "the session was opened before"


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message, whoever sent it.

    ``operation`` is what it was sent for, whether or not there is such an operation. ``session`` is
    the one it claims, so that even a refusal names it; zeros where unreadable. ``signed`` says
    whether the coordinator signed it, for both. ``content`` is the request, strictly decoded; or
    what is wrong.
    """

    operation: str
    session: bytes
    digest: bytes
    signed: bool
    content: Body | PrivacyError = field(repr=False)

    @property
    def request(self) -> Body:
        """The coordinator's request; raises what is wrong with the message, if anything is."""
        if isinstance(self.content, PrivacyError):
            raise self.content
        return self.content


def open_message(operation: str, message: bytes, *, coordinator: bytes) -> Incoming:
    """Check length, form, version, topic, sender, signature and body, in this order.

    Any bytes may come; another topic, or no signature of the pinned coordinator, is refused.
    """
    session, signed = bytes(SESSION_BYTES), False
    content: Body | PrivacyError
    try:
        envelope = messages.read_envelope(message, operation)
        session, sender = envelope.session, messages.COORDINATOR
        body = messages.open_envelope(
            envelope, identity=coordinator, session=session, sender=sender, topic=operation
        )
        signed = True
        content = decode(body, messages.REQUESTS.get(operation, Body))
        if isinstance(content, Plan):  # else the ledger would repeat its texts unread
            content.check(session)
    except (MalformedMessageError, SignatureError) as error:
        content = error
    return Incoming(operation, session, hashlib.sha256(message).digest(), signed, content)


@dataclass(slots=True)
class SiteSession:
    """The session whose keys a site holds, if any, and by operation the last digest and reply."""

    session: bytes = b""
    set_up: SetUp | None = None
    rounds: Rounds | None = None
    repeats: dict[str, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)

    @property
    def part(self) -> SetUp | Rounds | None:
        """The part of the session that the site is in."""
        return self.rounds or self.set_up

    @property
    def plan(self) -> Plan | None:
        """The plan that the session carries out."""
        return None if self.part is None else self.part.plan

    @property
    def state(self) -> State:
        """The state that says which operations are admitted."""
        return State.CLOSED if self.part is None else self.part.state


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """The limits that a folder adds: revoked names, approved runs, and what was used so far.

    ``runs`` is where runs are recorded, ``asked`` bits that were found; ``bits`` counts these, and
    ``counted`` replies that tell nothing new.
    """

    revoked: frozenset[str]
    approvals: Approvals
    daily: DailyReleases
    budget: TestBudget
    runs: Path
    asked: AskedBits
    bits: BitBudget
    counted: CountedReplies


@dataclass(frozen=True, slots=True)
class Admission:
    """The checks of one site, by its name and the identity keys that its profile pins.

    ``seen`` are all sessions that it ever opened, and ``program`` makes the program of a plan.
    """

    profile: SiteProfile = field(repr=False)
    policy: Policy
    sums: OpenedSums = field(repr=False)
    seen: set[bytes] = field(repr=False)
    folder: FolderLimits | None
    program: Callable[[Plan], object]

    def admit(self, message: Incoming, session: SiteSession) -> Body:
        """The request of the coordinator, if it may be answered now in this session.

        Else the first reason of the table above that applies. SessionLostError where the session's
        keys are gone, SiteNotReadyError where a file of the folder cannot be read.
        """
        if message.operation not in REQUESTS:
            raise ReplayError("this site knows no such operation")
        if message.operation == "invite" and isinstance(plan := message.request, Plan):
            self._check_plan(plan)
            return plan
        foreign = message.session != session.session
        if foreign and message.session in self.seen:
            if message.signed:
                raise SessionLostError("the keys of this run are not held any more")
        else:
            check_phase(session.state, message.operation)
            if foreign and (message.signed or isinstance(message.content, SignatureError)):
                raise SignatureError("the message belongs to another session or sender")
        request = message.request  # raises what is wrong with a message that nobody signed
        if isinstance(request, RoundRequest) and session.rounds is not None:
            session.rounds.round_of(request)
        check_turn(frozenset({session.state}), message.operation)
        return request

    def _check_plan(self, plan: Plan) -> None:
        if self.folder is not None:
            for member in plan.cohort:
                if member.name in self.folder.revoked:
                    raise CohortError(f"the cohort names '{member.name}', which is revoked")
        check_cohort(plan, self.profile.name, self.profile.pinned)
        if plan.algorithm in self.policy.algorithms:
            self.program(plan)
        if self.folder is not None:
            if list(plan.names) != sorted(plan.names):  # roles would follow from the order
                raise CohortError("the cohort's sites do not stand in the order of their names")
            self.policy.check_plan(plan, runs=self.sums.runs(but=plan.session))
        if plan.session in self.seen:  # nor is anybody asked: it would forget who decided on it
            raise ReplayError(OPENED_BEFORE)
        if self.folder is not None:
            self._check_approval(plan, self.folder.approvals)
        self._check_run(plan)
        self.policy.check_colluders(plan.colluders, n_sites=len(plan.cohort))
        check_group_sizes(plan.cohort, self.policy.min_group_size(plan))
        plan.check_keys()

    def _check_approval(self, plan: Plan, approvals: Approvals) -> None:
        """Have a person decide where the policy says so, or the cohort is not that of before."""
        names = plan.names
        groups = () if plan.measured.everywhere else plan.measured.groups(range(len(names)))
        named_groups = [tuple(names[site] for site in group) for group in groups]
        change = self.sums.change(plan.session, names, named_groups)
        near = change is not None and len(change.differing) < self.policy.min_cohort_difference
        by_hand, witness = self.policy.approve_cohorts == "manual", self.profile.witness
        other = near or (change is not None and not change.covered_before and by_hand)
        changed = () if witness is None else witness.changed(plan)
        if not other and not (changed and by_hand) and self.policy.approve_runs != "manual":
            return
        self._check_run(plan)  # nobody is asked about a run that the policy forbids
        consider = [change.text] if change is not None and other else []
        if changed:
            of = " and ".join(map(repr, changed))
            consider += [f"the rows of {of} changed since an earlier run: they are asked anew"]
        try:
            approvals.check(plan, consider=consider)
        except PolicyRefusedError as refusal:
            if other and refusal.message == AWAITS:
                raise DifferencingError(OTHER_SITES) from None
            raise
        if other:  # nobody else heard what sums over other sites show
            self.sums.accept(plan.session)
        if witness is not None:
            witness.accept(plan)

    def _check_run(self, plan: Plan) -> None:
        self.policy.check_run(plan, rows=self.profile.rows)


def check_cohort(plan: Plan, name: str, pinned: Mapping[str, bytes]) -> None:
    """Refuse a cohort that is not of sites of the study, this one among them.

    ``pinned`` has the identity key of every site of the study. CohortError where the cohort names a
    site twice, one that is not of the study, or not this one; SignatureError for another identity.
    """
    names = [member.name for member in plan.cohort]
    if name not in names:
        raise CohortError("this site is not in the cohort")
    if len(set(names)) != len(names) or len({m.identity for m in plan.cohort}) != len(names):
        raise CohortError("the cohort names a site or an identity twice")
    for member in plan.cohort:
        if member.name not in pinned:
            raise CohortError(f"the cohort names '{member.name}', which this site has not pinned")
        if pinned[member.name] != member.identity:
            raise SignatureError(f"the identity of '{member.name}' is not the pinned one")


log = logging.getLogger("cipherdag.site")


def refusal(operation: str, error: type[CipherdagError], text: str) -> Refusal:
    """A refusal: with its reason in the set-up; in a round the same, whatever the reason."""
    if operation not in REPLIES or operation in SET_UP:
        return Refusal(error=error.__name__, message=text)
    return Refusal(error=RefusedError.__name__, message="")


def recorded(
    ledger: Ledger,
    reply: bytes,
    message: Incoming,
    session: SiteSession,
    *,
    kind: str = "",
    ready: Ready | None = None,
    error: str = "",
    why: str = "",
    counted: CountedReplies | None = None,
) -> bytes:
    """The reply, once it stands in the ledger; nothing where it cannot stand there.

    ``kind`` is what the reply is, if not the answer: ``refusal``, ``repeat`` or ``waits``, which
    are ``counted`` where a folder does. ``ready`` is the reply that ends the set-up: it shows
    positions of labels and relations. ``error`` is what a refusal names, and ``why`` says why a
    plan is refused.
    """
    counts = counted if kind in SAID_AGAIN else None
    key = message.session if kind == REPEAT else hashlib.sha256(reply).digest()
    if counts is not None:
        standing = counts.judge(kind, key, len(reply), signed=message.signed, error=error)
        if standing != "new":
            return reply if standing == "again" else b""
    plan = message.content if isinstance(message.content, Plan) else session.plan
    rounds, in_round = session.rounds, message.operation in REPLIES.keys() - {*SET_UP}
    round_ = rounds.current if rounds is not None and in_round else None
    values, shown = (0, "") if kind or ready is None else _shown(ready)
    digest, question = b"" if round_ is None else round_.declared.digest, ""
    if rounds is not None and rounds.record is not None and not kind:
        digest = rounds.record.digest if message.operation == "finish" else digest
    if round_ is not None and not kind and message.operation in ("ask", "open"):
        values, question = round_.declared.length, round_.question.label
        kind = round_.question.kind if message.operation == "ask" else ""
    try:
        ledger.append(
            kind=kind or REPLY_KINDS[message.operation] + shown,
            content=reply,
            session=message.session,
            algorithm=plan.algorithm if plan is not None else "",
            protection=plan.protection if plan is not None else "",
            round_number=round_.ask.number if round_ is not None else 0,
            values=values,
            sites=len(round_.declared.sites) if round_ is not None else 0,
            digest=digest,
            question=question or why,
        )
    except OutputError as failed:
        log.error("nothing leaves: %s", failed)  # noqa: TRY400 - its text is enough
        return b""
    if counts is not None:
        counts.wrote(ledger, kind, key, signed=message.signed)
    return reply


def _shown(ready: Ready) -> tuple[int, str]:
    """How many values the last reply of a set-up shows, and their kinds as the ledger has them."""
    parts = (
        ("+label-positions", len(ready.labels)),
        ("+relations", sum(len(each.columns) for each in ready.relations)),
    )
    return 1 + sum(n for _, n in parts), "".join(kind for kind, n in parts if n)
