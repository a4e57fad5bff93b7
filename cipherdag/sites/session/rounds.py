"""The rounds of one session at a site: one table of what may follow what, and its conditions.

    expected    message    condition                                               then
    ask         ask        next number; the sites asked are enough, include this   unmask
                           one and are those of the last sum or fewer; this
                           question was never opened before, and by no other
                           run over nearly these sites
    unmask      unmask     the tags of all other sites asked on this digest        opened
    opened      recover    the vanished site was asked and is not this one         opened
    opened      open       once per round and ciphertext                           opened
    opened      ask        as above                                                unmask

An ask may also follow an unfinished round: it is given up, since this site releases nothing of it
any more. If it asks the same question again, of fewer sites, the answer is not computed anew. A
message that repeats the last one of its kind byte for byte gets the same bytes again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.errors import (
    CohortError,
    InconsistentQuestionError,
    KeyAgreementError,
    OpeningRefusedError,
    ReplayError,
    ShareError,
)
from cipherdag.protocol.messages import (
    Ask,
    Invite,
    Open,
    Opened,
    Recover,
    Recovered,
    Share,
    Unmask,
    Unmasked,
    content_digest,
    declaration,
    fewest_survivors,
    question_digest,
)
from cipherdag.questions.question import question_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from cipherdag.privacy.aggregation import Declaration, FloatVector
    from cipherdag.privacy.agreement import AgreementKeys
    from cipherdag.privacy.sums import SiteAggregation
    from cipherdag.sites.answers.respondent import Respondent
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.record.ledger import Release
    from cipherdag.sites.record.opened_sums import OpenedSums


@dataclass(slots=True)
class _Round:
    """Where the current round stands."""

    ask: Ask
    declared: Declaration
    content: bytes
    unmasked: bool = False


@dataclass(slots=True)
class Rounds:
    """Answers the rounds of one session.

    Attributes:
        index: This site's position in the cohort.
        transcript: Digest of the key agreement.
        aggregation: This site's side of the protection.
        agreement: This site's keys to agree with the others.
        record: `Ledger.append` for this session.
        sums: What was opened before, in this and in other runs.
    """

    session: bytes
    invite: Invite
    index: int
    invite_digest: bytes
    transcript: bytes
    aggregation: SiteAggregation = field(repr=False)
    agreement: AgreementKeys = field(repr=False)
    respondent: Respondent
    policy: Policy
    record: Callable[..., Release]
    sums: OpenedSums = field(repr=False)
    _number: int = 0
    _values: int = 0
    _present: tuple[int, ...] = ()
    _answered: tuple[bytes, FloatVector] | None = field(default=None, repr=False)
    _current: _Round | None = None
    _opened: set[bytes] = field(default_factory=set)

    def ask(self, ask: Ask) -> Share:
        """Answer a question under protection, and tell every other site asked what it was.

        Raises:
            ReplayError: The number is not the next one, or the question was opened before.
            CohortError: The sites asked are not among those still there, are not in order, leave
                this site out, or are too few.
            PolicyRefusedError: The site's policy forbids it.
            DifferencingError: Another run opened this question over nearly these sites.
        """
        if ask.number != self._number + 1:
            raise ReplayError(
                f"round {ask.number} was asked, but this site expects round {self._number + 1}"
            )
        everyone = tuple(range(len(self.invite.cohort)))
        self._check_sites(ask.participants, self._present or everyone)
        content = content_digest(ask.question)
        if content in self._opened:
            raise ReplayError("this question was opened before; it is not answered again")
        self.policy.check_question(
            ask.question, round_number=ask.number, values_so_far=self._values
        )
        fewest = self.policy.min_cohort_difference
        self.sums.check(self.session, content, self._names(ask.participants), fewest=fewest)
        bound_to = question_digest(
            invite_digest=self.invite_digest, transcript=self.transcript, ask=ask
        )
        declared = declaration(ask, bound_to, len(self.invite.cohort), self.invite.colluders)
        if self._answered is None or self._answered[0] != content:
            self._answered = content, self.respondent.answer(ask.question)
        share = self.aggregation.share(self._answered[1], declared)
        escrow = self.aggregation.escrow(declared)
        tags = tuple(self.agreement.tag(peer, bound_to) for peer in self._others(declared))
        self._number = ask.number
        self._values += declared.length
        self._current = _Round(ask, declared, content)
        self.record(
            round_number=ask.number,
            kind=question_kinds(ask.question),
            values=declared.length,
            content=share,
            digest=bound_to,
            sites=len(ask.participants),
        )
        return Share(digest=bound_to, share=share, escrow=escrow, tags=tags)

    def unmask(self, request: Unmask) -> Unmasked:
        """Release the seed that the sum needs.

        Raises:
            ReplayError: It is not about the current round.
            InconsistentQuestionError: Another site was not asked this question of these sites.
        """
        current = self._round(request.digest)
        self._check_tags(current.declared, request.tags)
        seed = self.aggregation.unmask(current.declared)
        if not current.unmasked:
            self.sums.write(self.session, current.content, self._names(current.declared.sites))
        current.unmasked = True
        self._opened.add(current.content)
        self._present = current.declared.sites
        self._answered = None
        self._record_opening(current, "mask-seeds", seed)
        return Unmasked(digest=request.digest, seed=seed)

    def recover(self, request: Recover) -> Recovered:
        """Release this site's piece of the self mask of a site that left.

        Raises:
            OpeningRefusedError: The site was not asked, or nothing was opened yet.
            KeyAgreementError: What it sealed for this one cannot be unsealed.
            ShareError: What it sealed is no piece.
        """
        current = self._unmasked_round(request.digest)
        try:
            piece = self.aggregation.recover(request.vanished, request.piece, current.declared)
        except (KeyAgreementError, ShareError) as error:
            name = self.invite.cohort[request.vanished].name
            raise type(error)(f"the piece that '{name}' left: {error.message}") from None
        self._record_opening(current, "mask-piece", piece)
        return Recovered(digest=request.digest, piece=piece)

    def open(self, request: Open) -> Opened:
        """Open the sum under homomorphic encryption.

        Raises:
            OpeningRefusedError: It is not the sum over the sites asked, or another was opened.
        """
        current = self._unmasked_round(request.digest)
        if len(request.seeds) != len(current.declared.sites):
            raise OpeningRefusedError("the seed of a site is missing")
        seeds = dict(zip(current.declared.sites, request.seeds, strict=True))
        words = self.aggregation.open(request.combined, seeds, current.declared)
        self._record_opening(current, "opened-sum", words)
        return Opened(digest=request.digest, words=words)

    def _names(self, positions: tuple[int, ...]) -> list[str]:
        return [self.invite.cohort[position].name for position in positions]

    def _check_sites(self, positions: tuple[int, ...], among: tuple[int, ...]) -> None:
        if list(positions) != sorted(set(positions)) or not set(positions) <= set(among):
            raise CohortError("the sites named are not in order, or were not there before")
        if self.index not in positions:
            raise CohortError("the sites named leave this site out")
        n_sites = len(self.invite.cohort)
        fewest = max(
            self.policy.fewest_survivors(n_sites),
            # others may fear more colluders, and their answers rest on this site too
            fewest_survivors(n_sites, self.invite.colluders),
            min(self.invite.min_survivors, n_sites),
        )
        if len(positions) < fewest:
            raise CohortError(
                f"a sum over {len(positions)} sites is refused; at least {fewest} are needed"
            )

    def _round(self, digest: bytes) -> _Round:
        if self._current is None or self._current.declared.digest != digest:
            raise ReplayError("the message is not about the current round")
        return self._current

    def _unmasked_round(self, digest: bytes) -> _Round:
        current = self._round(digest)
        if not current.unmasked:
            raise OpeningRefusedError("nothing is opened before this site released its seed")
        return current

    def _others(self, declared: Declaration) -> list[int]:
        return [position for position in declared.sites if position != self.index]

    def _check_tags(self, declared: Declaration, tags: tuple[bytes, ...]) -> None:
        others = self._others(declared)
        if len(tags) != len(others):
            raise InconsistentQuestionError("the word of a site is missing")
        for position, tag in zip(others, tags, strict=True):
            if not self.agreement.holds(position, tag, declared.digest):
                name = self.invite.cohort[position].name
                raise InconsistentQuestionError(
                    f"'{name}' did not agree to the question that this site was asked"
                )

    def _record_opening(self, current: _Round, kind: str, content: bytes) -> None:
        self.record(
            round_number=current.ask.number,
            kind=kind,
            values=current.declared.length if kind == "opened-sum" else 0,
            content=content,
            digest=current.declared.digest,
            sites=len(current.declared.sites),
        )
