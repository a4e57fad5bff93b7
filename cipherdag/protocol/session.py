"""One run at the coordinator: set-up, rounds, receipts, and nothing but sums coming back.

Leaks:
    The coordinator sees signed public keys, equality of schemas, the number of variables, shares
    that say nothing on their own, and each round's aggregate. It holds no key that opens a share.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cipherdag import errors
from cipherdag.algorithms.questions import FloatVector, Question, question_kinds
from cipherdag.errors import (
    AggregateRangeError,
    InconsistentQuestionError,
    KeyAgreementError,
    MalformedMessageError,
    SchemaMismatchError,
    SignatureError,
    SiteUnreachableError,
)
from cipherdag.privacy.identity import SigningIdentity, verify
from cipherdag.privacy.masking import MaskingCoordinator
from cipherdag.privacy.unprotected import UnprotectedCoordinator
from cipherdag.protocol.messages import (
    COORDINATOR,
    RECEIPT_DOMAIN,
    SESSION_BYTES,
    Ask,
    Body,
    Closed,
    Finish,
    Invite,
    Member,
    Offer,
    Offers,
    Open,
    Opened,
    Protection,
    Ready,
    Refusal,
    Sealed,
    Seals,
    Share,
    Topic,
    declaration,
    decode,
    digest,
    encode,
    open_envelope,
    question_digest,
    read_envelope,
    seal_envelope,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from cipherdag.privacy.aggregation import CoordinatorAggregation, Declaration
    from cipherdag.protocol.engines.engine import Engine, SiteFailure

Outcome = TypeVar("Outcome")
Reply = TypeVar("Reply", bound=Body)


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One finished round: what was asked, what it cost, and which aggregate came back.

    ``values`` are per site, ``aggregate`` is the SHA-256 of the sum in hexadecimal: equal for every
    protection.
    """

    number: int
    kind: str
    label: str
    values: int
    seconds: float
    bytes_sent_per_site: Mapping[str, int]
    n_sites: int
    aggregate: str


class Session:
    """Asks one cohort the questions of one algorithm.

    Args:
        engine: Carries the messages.
        identity: The coordinator's signing key, pinned by the sites.
        cohort: The sites in order; the first one makes what the sites share.
        protection: ``masking``, ``bfv`` or ``none``.
        algorithm: Name of the algorithm, which policies refer to.
        timeout_s: Seconds to wait for the slowest site.
        progress: Called after every round.
    """

    def __init__(
        self,
        engine: Engine,
        identity: SigningIdentity,
        cohort: Sequence[Member],
        *,
        protection: Protection,
        algorithm: str,
        timeout_s: float = 600.0,
        progress: Callable[[RoundReport], None] | None = None,
    ) -> None:
        self._engine = engine
        self._identity = identity
        self._invite = Invite(cohort=tuple(cohort), protection=protection, algorithm=algorithm)
        self._session = os.urandom(SESSION_BYTES)
        self._invite_digest = digest(b"invite", self._session, encode(self._invite))
        self._timeout_s = timeout_s
        self._progress = progress
        self._bytes = {member.name: 0 for member in cohort}
        self._reports: list[RoundReport] = []
        self._receipts: tuple[bytes, ...] = ()
        self._transcript = b""
        self._aggregation: CoordinatorAggregation | None = None

    @property
    def rounds(self) -> tuple[RoundReport, ...]:
        """All finished rounds."""
        return tuple(self._reports)

    @property
    def bytes_sent_per_site(self) -> dict[str, int]:
        """Bytes that left each site in this session, the set-up included."""
        return dict(self._bytes)

    def open(self) -> int:
        """Agree keys and check that all sites follow one schema.

        Returns:
            The number of aligned variables.

        Raises:
            SchemaMismatchError: A site's keyed schema digest differs.
            PrivacyError: A site refused, or a message was altered.
            SiteUnreachableError: A site did not answer.
        """
        offers = self._relay("invite", self._invite, "offer", Offer)
        if any(offer.invite_digest != self._invite_digest for _, offer in offers):
            raise KeyAgreementError("a site answered another invite")
        bundle = Offers(envelopes=tuple(raw for raw, _ in offers))
        seals = self._relay("offers", bundle, "seals", Seals)
        transcript = digest(b"offers", self._invite_digest, *bundle.envelopes)
        envelopes = tuple(raw for raw, _ in seals)
        self._transcript = digest(b"sealed", transcript, *envelopes)
        self._aggregation = self._coordinator_side(seals[0][1])
        ready = [r for _, r in self._relay("sealed", Sealed(envelopes=envelopes), "ready", Ready)]
        first = ready[0]
        for member, reply in zip(self._invite.cohort, ready, strict=True):
            if reply != first:
                raise SchemaMismatchError("its schema differs from the others'", site=member.name)
        return first.n_variables

    def run(self, asking: Generator[Question, FloatVector, Outcome]) -> Outcome:
        """Drive an algorithm's generator to its end, then close the session's rounds."""
        try:
            question = next(asking)
            while True:
                question = asking.send(self.ask(question))
        except StopIteration as finished:
            outcome: Outcome = finished.value
            return outcome

    def ask(self, question: Question) -> FloatVector:
        """One round: the sum of all sites' answers, shape (sum of the encodings' lengths,).

        Raises:
            InconsistentQuestionError: A site answered another question.
            AggregateRangeError: The sum lies outside what the cohort can produce.
            PrivacyError: A site refused, or a message was altered.
        """
        started, before = time.perf_counter(), dict(self._bytes)
        number = len(self._reports) + 1
        ask = Ask(number=number, question=question, receipts=self._receipts)
        bound_to = question_digest(
            invite_digest=self._invite_digest, transcript=self._transcript, number=number, ask=ask
        )
        shares = [share for _, share in self._relay("ask", ask, "share", Share)]
        self._check_receipts(shares, number, bound_to)
        self._receipts = tuple(share.receipt for share in shares)
        declared = declaration(question, bound_to, len(self._invite.cohort))
        values = self._sum([share.share for share in shares], declared)
        self._report(
            RoundReport(
                number=number,
                kind=question_kinds(question),
                label=question.label,
                values=declared.length,
                seconds=time.perf_counter() - started,
                bytes_sent_per_site={n: count - before[n] for n, count in self._bytes.items()},
                n_sites=len(self._invite.cohort),
                aggregate=hashlib.sha256(values.tobytes()).hexdigest(),
            )
        )
        return values

    def finish(self) -> dict[str, Closed]:
        """Show every site the last receipts and take the heads of their ledgers."""
        replies = self._relay("finish", Finish(receipts=self._receipts), "closed", Closed)
        names = [member.name for member in self._invite.cohort]
        return dict(zip(names, [closed for _, closed in replies], strict=True))

    def _report(self, report: RoundReport) -> None:
        self._reports.append(report)
        if self._progress is not None:
            self._progress(report)

    def _sum(self, shares: list[bytes], declared: Declaration) -> FloatVector:
        aggregation = self._aggregation
        if aggregation is None:
            raise KeyAgreementError("the session was not set up")
        combined = aggregation.combine(shares, declared)
        if aggregation.opened_by_site:
            combined = self._opened(combined, declared)
        return aggregation.open(combined, declared).values

    def _opened(self, combined: bytes, declared: Declaration) -> bytes:
        """Have a site open the sum; the sites take turns."""
        opener = self._invite.cohort[len(self._reports) % len(self._invite.cohort)]
        request = Open(digest=declared.digest, combined=combined, receipts=self._receipts)
        _, opened = self._exchange("open", request, [opener], "opened", Opened)[0]
        if opened.digest != declared.digest:
            raise AggregateRangeError("the opened sum is not of this round", site=opener.name)
        return opened.words

    def _check_receipts(self, shares: list[Share], number: int, bound_to: bytes) -> None:
        parts = (self._session, number.to_bytes(8, "big"), bound_to)
        for member, share in zip(self._invite.cohort, shares, strict=True):
            if share.digest != bound_to:
                raise InconsistentQuestionError("it answered another question", site=member.name)
            verify(member.identity, share.receipt, RECEIPT_DOMAIN, *parts)

    def _coordinator_side(self, first: Seals) -> CoordinatorAggregation:
        if self._invite.protection == "masking":
            return MaskingCoordinator()
        if self._invite.protection == "none":
            return UnprotectedCoordinator()
        from cipherdag.privacy.bfv import BfvCoordinator

        return BfvCoordinator(first.public_context)

    def _relay(
        self, operation: Topic, body: Body, topic: Topic, kind: type[Reply]
    ) -> list[tuple[bytes, Reply]]:
        return self._exchange(operation, body, self._invite.cohort, topic, kind)

    def _exchange(
        self,
        operation: Topic,
        body: Body,
        members: Sequence[Member],
        topic: Topic,
        kind: type[Reply],
    ) -> list[tuple[bytes, Reply]]:
        message = seal_envelope(
            self._identity,
            session=self._session,
            sender=COORDINATOR,
            topic=operation,
            body=body,
        )
        names = [member.name for member in members]
        replies = self._engine.call(
            operation, dict.fromkeys(names, message), timeout_s=self._timeout_s
        )
        return [self._read(member, replies.get(member.name), topic, kind) for member in members]

    def _read(
        self, member: Member, reply: bytes | SiteFailure | None, topic: Topic, kind: type[Reply]
    ) -> tuple[bytes, Reply]:
        if not isinstance(reply, bytes):
            reason = reply.reason if reply is not None else "no reply"
            raise SiteUnreachableError(f"it did not answer ({reason})", site=member.name)
        self._bytes[member.name] += len(reply)
        try:
            asked_topic: Topic = topic if read_envelope(reply).topic != "refusal" else "refusal"
            body = open_envelope(
                reply,
                identity=member.identity,
                session=self._session,
                sender=member.name,
                topic=asked_topic,
            )
            if asked_topic == "refusal":
                raise refusal_error(decode(body, Refusal), member.name)
            return reply, decode(body, kind)
        except (MalformedMessageError, SignatureError) as error:
            error.site = error.site or member.name
            raise


def refusal_error(refusal: Refusal, site: str) -> errors.CipherdagError:
    """The error that a site's refusal names, as this side's own exception."""
    kind = getattr(errors, refusal.error, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.CipherdagError)):
        return MalformedMessageError("it refused with an unknown error", site=site)
    known: type[errors.CipherdagError] = kind
    summary = (known.__doc__ or "").split("\n")[0].rstrip(".;")
    return known(refusal.message or f"{refusal.error}: {summary}", site=site)
