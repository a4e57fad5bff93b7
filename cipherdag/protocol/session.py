"""One run at the coordinator: set-up, rounds, drop-outs, and nothing but sums coming back.

Leaks:
    The coordinator sees signed public keys, equality of schemas, the number of variables, which of
    them are labels if the algorithm needs it, shares that say nothing on their own, seeds that open
    nothing but the agreed sum, and each round's aggregate. It holds no key that opens a share.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cipherdag.errors import (
    InconsistentQuestionError,
    KeyAgreementError,
    OutputError,
    ParameterError,
    SchemaMismatchError,
    ShareError,
    SiteUnreachableError,
)
from cipherdag.privacy.agreement import TAG_BYTES
from cipherdag.privacy.protections import protection_kind
from cipherdag.protocol import journal as log
from cipherdag.protocol.courier import Courier
from cipherdag.protocol.messages import (
    COLLUDERS,
    SESSION_BYTES,
    Ask,
    Body,
    Closed,
    Finish,
    Invite,
    Member,
    Offer,
    Offers,
    Protection,
    Ready,
    Sealed,
    Seals,
    Share,
    Topic,
    content_digest,
    declaration,
    digest,
    encode,
    fewest_survivors,
    question_digest,
)
from cipherdag.protocol.opening import Opening
from cipherdag.protocol.progress import DropOut, RoundReport, Watcher
from cipherdag.questions.question import FloatVector, Question, question_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from cipherdag.privacy.aggregation import Declaration
    from cipherdag.privacy.identity import SigningIdentity
    from cipherdag.privacy.sums import CoordinatorAggregation
    from cipherdag.protocol.engines.engine import Engine

Outcome = TypeVar("Outcome")
Reply = TypeVar("Reply", bound=Body)


class Session:
    """Asks one cohort the questions of one algorithm.

    Args:
        engine: Carries the messages.
        identity: The coordinator's signing key, pinned by the sites.
        cohort: The sites in order; the first one makes what the sites share.
        protection: ``masking``, ``bfv`` or ``none``.
        algorithm: Name of the algorithm, which policies refer to.
        colluders: Sites that may collude with the coordinator without learning more than sums;
            each site's policy may ask for more, and then refuses the invite.
        timeout_s: Seconds to wait for the slowest site.
        progress: Called after every round; a `Watcher` also before.
        journal: Where the session is written down, and taken up again if it is not empty.

    Raises:
        ParameterError: All sites but none, or fewer than none, would collude.
        OutputError: The journal is of another session.
    """

    def __init__(
        self,
        engine: Engine,
        identity: SigningIdentity,
        cohort: Sequence[Member],
        *,
        protection: Protection,
        algorithm: str,
        colluders: int = COLLUDERS,
        timeout_s: float = 600.0,
        progress: Callable[[RoundReport], None] | None = None,
        journal: log.Journal | None = None,
    ) -> None:
        n_sites = len(cohort)
        if not 0 <= colluders < max(n_sites, 2):
            raise ParameterError(
                f"a run of {n_sites} sites cannot be safe against {colluders} colluding ones"
            )
        colluders = min(colluders, max(n_sites - 1, 0))
        self._invite = Invite(
            cohort=tuple(cohort),
            protection=protection,
            algorithm=algorithm,
            min_survivors=fewest_survivors(n_sites, colluders),
            colluders=colluders,
        )
        self._journal = journal
        self._replay = log.Replay(journal.entries if journal is not None else ())
        started = self._replay.started
        if started is not None and started.invite != self._invite:
            raise OutputError("the journal is of another cohort, protection or algorithm")
        self._session = os.urandom(SESSION_BYTES) if started is None else started.session
        self._invite_digest = digest(b"invite", self._session, encode(self._invite))
        self._courier = Courier(
            engine, identity, self._invite.cohort, session=self._session, timeout_s=timeout_s
        )
        self._progress = progress
        self._reports: list[RoundReport] = []
        self._dropouts: list[DropOut] = []
        self._before = dict.fromkeys(self._courier.bytes_received, 0)
        self._number = 0
        self._summed = 0
        self._present = tuple(range(n_sites))
        self._labels: tuple[int, ...] = ()
        self._transcript = b""
        self._aggregation: CoordinatorAggregation | None = None

    @property
    def rounds(self) -> tuple[RoundReport, ...]:
        """All rounds that ended in a sum, those before a restart included."""
        return tuple(self._reports)

    @property
    def dropouts(self) -> tuple[DropOut, ...]:
        """The sites that left."""
        return tuple(self._dropouts)

    @property
    def bytes_sent_per_site(self) -> dict[str, int]:
        """Bytes that left each site in this session, the set-up included."""
        return {name: self._before[name] + n for name, n in self._courier.bytes_received.items()}

    @property
    def labels(self) -> tuple[int, ...]:
        """Positions of the labels, once open; empty where the algorithm needs none."""
        return self._labels

    def open(self) -> int:
        """Agree keys and check that all sites follow one schema.

        Returns:
            The number of aligned variables.

        Raises:
            SchemaMismatchError: A site's keyed schema digest differs.
            PrivacyError: A site refused, or a message was altered.
            SiteUnreachableError: A site did not answer.
        """
        protection = protection_kind(self._invite.protection)
        opened = self._replay.opened
        if opened is not None:
            self._transcript = opened.transcript
            self._aggregation = protection.coordinator(opened.public_context)
            self._count(opened.received)
            self._labels = opened.labels
            return opened.n_variables
        if self._replay.started is None:
            self._write(log.Started(session=self._session, invite=self._invite))
        offers, raw = self._all("invite", self._invite, Offer)
        if any(offer.invite_digest != self._invite_digest for offer in offers):
            raise KeyAgreementError("a site answered another invite")
        transcript = digest(b"offers", self._invite_digest, *raw)
        seals, raw = self._all("offers", Offers(envelopes=raw), Seals)
        self._transcript = digest(b"sealed", transcript, *raw)
        self._aggregation = protection.coordinator(seals[0].public_context)
        ready, _ = self._all("sealed", Sealed(envelopes=raw), Ready)
        for member, reply in zip(self._invite.cohort, ready, strict=True):
            if reply != ready[0]:
                raise SchemaMismatchError("its schema differs from the others'", site=member.name)
        self._write(
            log.Opened(
                transcript=self._transcript,
                public_context=seals[0].public_context,
                n_variables=ready[0].n_variables,
                received=self._courier.bytes_received,
                labels=ready[0].labels,
            )
        )
        self._labels = ready[0].labels
        return ready[0].n_variables

    def run(self, asking: Generator[Question, FloatVector, Outcome]) -> Outcome:
        """Drive an algorithm's generator to its end."""
        try:
            question = next(asking)
            while True:
                question = asking.send(self.ask(question))
        except StopIteration as finished:
            outcome: Outcome = finished.value
            return outcome

    def ask(self, question: Question) -> FloatVector:
        """One round: the sum of the sites' answers, shape (sum of the encodings' lengths,).

        Where a site does not answer and enough others are there, they are asked once more without
        it; from then on it is left out.

        Raises:
            SiteUnreachableError: Too few sites are left for a sum.
            InconsistentQuestionError: A site answered another question.
            AggregateRangeError: The sum lies outside what the cohort can produce.
            PrivacyError: A site refused, or a message was altered.
        """
        content = content_digest(question)
        stored = self._replayed(content)
        if stored is not None:
            return stored
        started, before = time.perf_counter(), self._courier.bytes_received
        if isinstance(self._progress, Watcher):
            self._progress.asked(self._number + 1, question)
        values: FloatVector | None = None
        while values is None:
            values = self._attempt(question)
        sent = self._courier.bytes_received
        reported = {left for report in self._reports for left in report.left}
        report = RoundReport(
            number=self._number,
            kind=question_kinds(question),
            label=question.label,
            values=len(values),
            seconds=time.perf_counter() - started,
            bytes_sent_per_site={name: sent[name] - before[name] for name in sent},
            n_sites=self._summed,
            n_cohort=len(self._invite.cohort),
            aggregate=hashlib.sha256(values.tobytes()).hexdigest(),
            left=tuple(left for left in self._dropouts if left not in reported),
        )
        words = values.astype("<f8").tobytes()
        self._write(log.Summed(content=content, present=self._present, values=words, report=report))
        self._reports.append(report)
        if self._progress is not None:
            self._progress(report)
        return values

    def _replayed(self, content: bytes) -> FloatVector | None:
        """The sum of a round that ended before a restart; None where the journal ends."""
        while (ended := self._replay.next_ended()) is not None:
            self._present = ended.present
            if isinstance(ended, log.GivenUp):
                self._number = ended.number
                self._dropouts += ended.left
                continue
            if ended.content != content:
                raise OutputError("the journal is of a run with other parameters")
            self._number = ended.report.number
            self._dropouts += [left for left in ended.report.left if left not in self._dropouts]
            self._reports.append(ended.report)
            self._count(ended.report.bytes_sent_per_site)
            return np.frombuffer(ended.values, dtype="<f8").astype(np.float64)
        return None

    def _count(self, received: Mapping[str, int]) -> None:
        for name, count in received.items():
            self._before[name] += count

    def finish(self) -> dict[str, Closed]:
        """End the session at the sites still there and take the heads of their ledgers."""
        request = Finish(rounds=self._number)
        replies = self._courier.exchange("finish", dict.fromkeys(self._present, request), Closed)
        for position, reason in replies.failures.items():
            self._leave(position, "finish", reason, in_sum=True)
        return {self._name(position): closed for position, closed in replies.bodies.items()}

    def _attempt(self, question: Question) -> FloatVector | None:
        """One try at a round; None where a share is missing, and nothing of it was opened."""
        self._number += 1
        self._require(self._present, "share")
        ask = Ask(number=self._number, participants=self._present, question=question)
        bound_to = question_digest(
            invite_digest=self._invite_digest, transcript=self._transcript, ask=ask
        )
        declared = declaration(ask, bound_to, len(self._invite.cohort), self._invite.colluders)
        shares = self._shares(ask, declared)
        if len(shares) < len(self._present):
            self._give_up(tuple(sorted(shares)))
            return None
        opening = Opening(
            self._courier,
            self._protection,
            declared,
            tuple(member.name for member in self._invite.cohort),
            self._number,
            lambda position, step, reason: self._leave(position, step, reason, in_sum=True),
        )
        seeds = opening.released(shares)
        self._require(opening.present, "unmask")
        total = opening.sum(shares, seeds | opening.recovered(shares))
        self._present = opening.present
        self._summed = len(shares)
        return total

    def _shares(self, ask: Ask, declared: Declaration) -> dict[int, Share]:
        """The usable shares; a site whose share does not fit is left out like one that is gone."""
        replies = self._courier.exchange("ask", dict.fromkeys(ask.participants, ask), Share)
        for position, share in list(replies.bodies.items()):
            if share.digest != declared.digest:
                raise InconsistentQuestionError(
                    "it answered another question", site=self._name(position)
                )
            try:
                self._check(share, declared)
            except ShareError as error:
                replies.failures[position] = error.message
                del replies.bodies[position]
        for position, reason in replies.failures.items():
            self._leave(position, "share", reason, in_sum=False)
        return replies.bodies

    def _check(self, share: Share, declared: Declaration) -> None:
        others = len(declared.sites) - 1
        if len(share.escrow) not in (0, others) or len(share.tags) != others:
            raise ShareError("its sealed pieces and its word are not one for every other site")
        if any(len(tag) != TAG_BYTES for tag in share.tags):
            raise ShareError("its word to a site is cut short or too long")
        self._protection.check(share.share, declared)

    def _give_up(self, present: tuple[int, ...]) -> None:
        """Nothing of this round was opened, so the question is asked again, of those present."""
        self._require(present, "share")
        self._present = present
        left = tuple(left for left in self._dropouts if left.round == self._number)
        self._write(log.GivenUp(number=self._number, present=present, left=left))

    def _leave(self, position: int, step: str, reason: str, *, in_sum: bool) -> None:
        name = self._name(position)
        if any(left.site == name for left in self._dropouts):
            return
        self._dropouts.append(
            DropOut(
                site=name,
                round=self._number,
                step=step,
                reason=reason,
                in_sum=in_sum,
                n_sites=len(self._invite.cohort) - len(self._dropouts) - 1,
                fewest=self._invite.min_survivors,
            )
        )

    def _require(self, present: tuple[int, ...], step: str) -> None:
        fewest = self._invite.min_survivors
        if len(present) >= fewest:
            return
        gone = [d for d in self._dropouts if d.round == self._number] or self._dropouts
        names = ", ".join(f"'{left.site}' ({left.reason})" for left in gone)
        raise SiteUnreachableError(
            f"round {self._number}, {step}: no answer from {names}; {len(present)} of "
            f"{len(self._invite.cohort)} sites remain, {fewest} are needed",
            site=gone[0].site if gone else None,
        )

    def _all(
        self, operation: Topic, body: Body, kind: type[Reply]
    ) -> tuple[list[Reply], tuple[bytes, ...]]:
        """Ask the whole cohort; the set-up needs every site."""
        replies = self._courier.exchange(operation, dict.fromkeys(self._present, body), kind)
        for position, reason in replies.failures.items():
            raise SiteUnreachableError(
                f"it did not answer the {operation} ({reason})", site=self._name(position)
            )
        return (
            [replies.bodies[position] for position in self._present],
            tuple(replies.envelopes[position] for position in self._present),
        )

    @property
    def _protection(self) -> CoordinatorAggregation:
        if self._aggregation is None:
            raise KeyAgreementError("the session was not set up")
        return self._aggregation

    def _name(self, position: int) -> str:
        return self._invite.cohort[position].name

    def _write(self, entry: log.Entry) -> None:
        if self._journal is not None:
            self._journal.write(entry)
