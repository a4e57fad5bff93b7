"""The rounds of one session at a site: one table of what may follow what, and its conditions.

    expected    message    condition                                               then
    ask         ask        next number; asked sites are the last survivors or      agree
                           fewer; this question was never opened before
    agree       agree      this digest; survivors are enough and include this      unmask
                           site; no other survivors were agreed for this digest;
                           no other run opened this question over nearly
                           these sites
    unmask      unmask     the tags of all other survivors on one question and     opened
                           one set of survivors
    opened      recover    the vanished site is a survivor and not this one        opened
    opened      open       once per round and ciphertext                           opened
    opened      ask        as above                                                agree

An ask may also follow an unfinished round (it is given up, and nothing of it was opened). A
message that repeats the last one of its kind byte for byte gets the same bytes again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.algorithms.questions import question_kinds
from cipherdag.errors import (
    CohortError,
    InconsistentQuestionError,
    OpeningRefusedError,
    ReplayError,
)
from cipherdag.protocol.messages import (
    Agree,
    Agreed,
    Ask,
    Invite,
    Open,
    Opened,
    Recover,
    Recovered,
    Share,
    Unmask,
    Unmasked,
    agreement_parts,
    content_digest,
    declaration,
    question_digest,
)

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import Declaration, SiteAggregation
    from cipherdag.privacy.agreement import AgreementKeys
    from cipherdag.sites.answers import Respondent
    from cipherdag.sites.policy import Policy
    from cipherdag.sites.recording import Recorder
    from cipherdag.sites.sums import OpenedSums


@dataclass(slots=True)
class _Round:
    """Where the current round stands."""

    ask: Ask
    declared: Declaration
    content: bytes
    survivors: tuple[int, ...] = ()
    unmasked: bool = False


@dataclass(slots=True)
class Rounds:
    """Answers the rounds of one session.

    Attributes:
        session: The session's identifier.
        invite: What it was opened with.
        index: This site's position in the cohort.
        invite_digest: Digest of the invite.
        transcript: Digest of the key agreement.
        aggregation: This site's side of the protection.
        agreement: This site's keys to agree with the others.
        respondent: Computes answers.
        policy: This site's limits.
        recorder: Writes the ledger.
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
    recorder: Recorder
    sums: OpenedSums = field(repr=False)
    _number: int = 0
    _values: int = 0
    _present: tuple[int, ...] = ()
    _current: _Round | None = None
    _opened: set[bytes] = field(default_factory=set)

    def ask(self, ask: Ask) -> Share:
        """Answer a question under protection.

        Raises:
            ReplayError: The number is not the next one, or the question was opened before.
            CohortError: The sites asked are not among the last survivors, or too few.
            PolicyRefusedError: The site's policy forbids it.
        """
        if ask.number != self._number + 1:
            raise ReplayError(
                f"round {ask.number} was asked, but this site expects round {self._number + 1}"
            )
        self._check_sites(ask.participants, self._present or self._everyone)
        content = content_digest(ask.question)
        if content in self._opened:
            raise ReplayError("this question was opened before; it is not answered again")
        self.policy.check_question(
            ask.question, round_number=ask.number, values_so_far=self._values
        )
        bound_to = question_digest(
            invite_digest=self.invite_digest, transcript=self.transcript, ask=ask
        )
        declared = declaration(ask, bound_to, len(self.invite.cohort), self.invite.colluders)
        share = self.aggregation.share(self.respondent.answer(ask.question), declared)
        escrow = self.aggregation.escrow(declared)
        self._number = ask.number
        self._values += declared.length
        self._current = _Round(ask, declared, content)
        self.recorder.write(
            round_number=ask.number,
            kind=question_kinds(ask.question),
            values=declared.length,
            content=share,
            digest=bound_to,
            sites=len(ask.participants),
        )
        return Share(digest=bound_to, share=share, escrow=escrow)

    def agree(self, proposal: Agree) -> Agreed:
        """Tell every other survivor whom the sum covers, once per question.

        Raises:
            ReplayError: The digest is not the current one, or other survivors were agreed.
            CohortError: The survivors leave this site out, are too few, or were not asked.
            DifferencingError: Another run opened this question over nearly these sites.
        """
        current = self._round(proposal.digest)
        self._check_sites(proposal.survivors, current.ask.participants)
        if current.survivors and current.survivors != proposal.survivors:
            raise ReplayError("other survivors were agreed for this question")
        self.sums.check(
            self.session,
            current.content,
            self._names(proposal.survivors),
            fewest=self.policy.min_cohort_difference,
        )
        current.survivors = proposal.survivors
        parts = self._agreement(current)
        others = self._others(proposal.survivors)
        return Agreed(tags=tuple(self.agreement.tag(peer, *parts) for peer in others))

    def unmask(self, request: Unmask) -> Unmasked:
        """Release the seeds that the agreed sum needs.

        Raises:
            ReplayError: These are not the survivors this site agreed to.
            InconsistentQuestionError: A survivor did not agree to this question and survivors.
        """
        current = self._round(request.digest)
        if not current.survivors or current.survivors != request.survivors:
            raise ReplayError("this site did not agree to these survivors")
        self._check_tags(current, request.tags)
        seeds = self.aggregation.unmask(current.survivors, current.declared)
        if not current.unmasked:
            self.sums.write(self.session, current.content, self._names(current.survivors))
        current.unmasked = True
        self._opened.add(current.content)
        self._present = current.survivors
        self._record_opening(current, "mask-seeds", seeds)
        return Unmasked(digest=request.digest, seeds=seeds)

    def recover(self, request: Recover) -> Recovered:
        """Release this site's piece of the self mask of a survivor that left.

        Raises:
            OpeningRefusedError: The site is not a survivor that the agreed sum covers.
        """
        current = self._unmasked_round(request.digest)
        if request.vanished not in current.survivors or request.vanished == self.index:
            raise OpeningRefusedError("only the mask of another survivor is ever recovered")
        piece = self.aggregation.recover(request.vanished, request.piece, current.declared)
        self._record_opening(current, "mask-piece", piece)
        return Recovered(digest=request.digest, piece=piece)

    def open(self, request: Open) -> Opened:
        """Open the sum under homomorphic encryption.

        Raises:
            OpeningRefusedError: Nothing was agreed, or it is not the sum over the survivors.
        """
        current = self._unmasked_round(request.digest)
        if len(request.seeds) != len(current.survivors):
            raise OpeningRefusedError("the seeds of a survivor are missing")
        seeds = dict(zip(current.survivors, request.seeds, strict=True))
        words = self.aggregation.open(request.combined, seeds, current.declared)
        self._record_opening(current, "opened-sum", words)
        return Opened(digest=request.digest, words=words)

    def _names(self, positions: tuple[int, ...]) -> list[str]:
        return [self.invite.cohort[position].name for position in positions]

    @property
    def _everyone(self) -> tuple[int, ...]:
        return tuple(range(len(self.invite.cohort)))

    def _check_sites(self, positions: tuple[int, ...], among: tuple[int, ...]) -> None:
        if list(positions) != sorted(set(positions)) or not set(positions) <= set(among):
            raise CohortError("the sites named are not in order, or were not there before")
        if self.index not in positions:
            raise CohortError("the sites named leave this site out")
        fewest = self.policy.fewest_survivors(len(self.invite.cohort))
        fewest = max(fewest, min(self.invite.min_survivors, len(self.invite.cohort)))
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
            raise OpeningRefusedError("nothing is opened before all survivors have agreed")
        return current

    def _agreement(self, current: _Round) -> tuple[bytes, ...]:
        return agreement_parts(
            self.session, current.ask.number, current.declared.digest, current.survivors
        )

    def _others(self, survivors: tuple[int, ...]) -> list[int]:
        return [position for position in survivors if position != self.index]

    def _check_tags(self, current: _Round, tags: tuple[bytes, ...]) -> None:
        others = self._others(current.survivors)
        if len(tags) != len(others):
            raise InconsistentQuestionError("the tag of a survivor is missing")
        parts = self._agreement(current)
        for position, tag in zip(others, tags, strict=True):
            if not self.agreement.holds(position, tag, *parts):
                name = self.invite.cohort[position].name
                raise InconsistentQuestionError(
                    f"'{name}' did not agree to the question that this site was asked"
                )

    def _record_opening(self, current: _Round, kind: str, content: bytes) -> None:
        self.recorder.write(
            round_number=current.ask.number,
            kind=kind,
            values=current.declared.length if kind == "opened-sum" else 0,
            content=content,
            digest=current.declared.digest,
            sites=len(current.survivors),
        )
