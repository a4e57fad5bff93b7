"""The rounds of one session at a site: what each request of a round has to satisfy beyond its turn.

    ask        its number is the next one; the sites asked are enough, include this one and are
               those of the last sum or fewer; the last sum is that of the sites' answers, and the
               question the one that the plan asks after it; it was never opened before, and no
               other run opened any over nearly these sites
    unmask     the tags of all other sites asked, that share a key, on this digest
    recover    the vanished site was asked and is not this one
    open       once per round and ciphertext
    secure     a step of this site's role, once and in turn; see `privacy.mpc.seat`

`protocol.states` says which requests a state admits. Where sums are never opened, a question counts
as answered once this site has sent its parts.

An ask may also follow an unfinished round. That round is given up: this site releases nothing of it
any more. The ask names the same step again, and fewer sites; the answer is not computed anew. A
message that repeats the last one of its kind byte for byte gets the same bytes again.
"""

import logging
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import (
    BoundExceededError,
    CohortError,
    InconsistentQuestionError,
    KeyAgreementError,
    OpeningRefusedError,
    ReplayError,
    ShareError,
)
from cipherdag.privacy.aggregation import Declaration
from cipherdag.privacy.mpc.messages import Signed, Verdicts
from cipherdag.privacy.wire import decode
from cipherdag.program.program import Program
from cipherdag.protocol.asked import Recall, answer_bytes
from cipherdag.protocol.messages import (
    Ask,
    Finish,
    Open,
    Opened,
    Recover,
    Recovered,
    RoundRequest,
    Secure,
    Secured,
    Share,
    Unmask,
    Unmasked,
    declaration,
    question_digest,
)
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.progress import attributed_to_round
from cipherdag.protocol.secure_tests import stepped
from cipherdag.protocol.states import State
from cipherdag.questions.question import Question
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import DailyReleases
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.record.run_record import RunRecord
from cipherdag.sites.session.handshake import Keyring
from cipherdag.sites.session.reading import ALONE, Reading
from cipherdag.sites.session.round import Coverage, CoveredSites, FoundBits, Round

log = logging.getLogger("cipherdag.site")


@dataclass(slots=True)
class Rounds:
    """Answers the rounds of one session.

    The ``program`` says what is asked; it is run here as at every other site. ``sums`` are those
    that were opened before, in this and in other runs, and ``coverage`` says which tests enough
    sites contribute to. ``current`` is the round that was answered last, until the plan goes on. A
    site with a folder counts what left today (``daily``), keeps the sums (``record``), and recalls,
    counts and keeps ``bits``.
    """

    plan: Plan
    program: Program = field(repr=False)
    index: int
    keys: Keyring = field(repr=False)
    respondent: SiteView
    policy: Policy
    sums: OpenedSums = field(repr=False)
    coverage: Coverage
    daily: DailyReleases | None = None
    record: RunRecord | None = None
    bits: FoundBits | None = None
    read: Reading = ALONE
    state: State = State.READY
    _number: int = 0
    _values: int = 0  # released so far
    _present: tuple[int, ...] = ()  # positions of the sites in the last sum
    _answered: tuple[bytes, FloatVector] | None = field(default=None, repr=False)
    current: Round | None = None
    _opened: set[bytes] = field(default_factory=set)  # digests of questions
    _step: int = 0
    _question: Question | None = None
    _sums: bytes = b""  # the digest of all that was opened, step by step
    _previous: bytes = field(default=b"", repr=False)

    def round_of(self, request: RoundRequest) -> Round:
        """The current round; raises ReplayError where a request is about another one."""
        if self.current is None or self.current.declared.digest != request.digest:
            raise ReplayError("the message is not about the current round")
        return self.current

    def ask(self, ask: Ask) -> Share:
        """Answer the plan's question under protection, and tell every other site asked what it was.

        Raises:
            ReplayError: The number or the step is not the next one, or the question was opened
                before.
            ForgedSumError: The last sum is not that of the sites' answers.
            InconsistentQuestionError: The coordinator derived another question than this site.
            CohortError: As `CoveredSites.check`.
            PolicyRefusedError: The site's policy forbids it, the plan did not declare it, or counts
                of these sites were found in another unit.
            DifferencingError: Another run opened a sum over nearly these sites.
        """
        if ask.number != self._number + 1:
            raise ReplayError(
                f"round {ask.number} was asked, but this site expects round {self._number + 1}"
            )
        everyone = tuple(range(len(self.plan.cohort)))
        self._sites.check(ask.participants, self._present or everyone)
        question, content = self._asked(ask)
        if self.program.algorithm is not None:
            question.check_declared(self.program.algorithm.disclosed(self.plan.visits))
        self.policy.check_question(question, round_number=ask.number, values_so_far=self._values)
        self.coverage.check(question, len(ask.participants))
        if self.daily is not None:
            self.daily.check(question, self.policy)
        fewest, groups = self.policy.min_cohort_difference, self._sites.groups(ask.participants)
        self.sums.check(self.plan.session, *groups, fewest=fewest, unit=question.unit)
        bound_to = question_digest(self.plan, self.keys.transcript, ask)
        declared = declaration(question, ask.participants, bound_to, self.plan)
        current = Round(ask, declared, content, question)
        unsent = self._recall(current) if question.opens_bits else ()
        rest = question if current.recall is None else current.recall.rest
        answer = None if rest is None or unsent else self._answer(rest)
        try:
            if current.recall is None:
                share = self._protected(current, cast("FloatVector", answer))
            else:
                share = self._contributed(current, cast("IndexArray | None", answer), unsent)
        except BoundExceededError as error:
            raise self.respondent.explain() or error from None
        self._number = ask.number
        self._values += 0 if unsent else declared.length
        self.current = current
        self.state = State.MASKED if current.recall is None else State.SECURE
        return share

    def _answer(self, question: Question) -> FloatVector:
        """This site's answer, which is computed once for all attempts at a question."""
        content = self.read.content(question)
        if self._answered is None or self._answered[0] != content:
            self._answered = content, self.respondent.answer(question)
        return self._answered[1]

    def _protected(self, current: Round, answer: FloatVector) -> Share:
        """The answer under protection, and this site's word to the others."""
        declared = current.declared
        suppressed = self.coverage.suppress(current.question, answer, len(declared.sites))
        return Share(
            digest=declared.digest,
            share=self.keys.aggregation.share(suppressed, declared),
            escrow=self.keys.aggregation.escrow(declared),
            tags=self.keys.agreement.tags(self._others(declared), declared.digest),
        )

    def _recall(self, current: Round) -> tuple[bytes, ...]:
        """Recall a question's bits; the lines the coordinator lacks, sent in place of an answer.

        ForgedSumError where a line that it sent is not signed for these rows, or is another here.
        """
        if self.keys.secure_tests is None:
            raise CohortError("secure tests need two sites")
        context, ask = self.keys.secure_tests.context, current.ask
        current.recall = Recall.of(current.question, context, ask.known, ask.participants)
        return () if self.bits is None else self.bits.lacking(current, current.recall)

    def _contributed(
        self, current: Round, words: IndexArray | None, unsent: tuple[bytes, ...]
    ) -> Share:
        """The words in sealed parts, or the unsent lines; the question counts as answered now."""
        tests, recall, share = self.keys.secure_tests, current.recall, b""
        if tests is not None and recall is not None and recall.rest and words is not None:
            batch = self.read.batch(tests.context, current.ask, recall, self._sums)
            current.seat = tests.party.begin(batch)
            share = current.seat.share(words)
        self._present = sites = current.declared.sites
        groups = self._sites.groups(sites)
        self.sums.write(self.plan.session, *groups, unit=current.question.unit)
        return Share(current.declared.digest, share, (), (), unsent)

    def result(self, finish: Finish) -> bytes:
        """The digest of the result, empty before the end; ForgedSumError for a wrong last sum."""
        recall = None if self.current is None else self.current.recall
        all_known = recall is not None and recall.rest is None
        verdicts = self.state == State.SECURE and (finish.previous or all_known)
        if self._step == 0 or verdicts or self.state == State.OPENED:
            self._advance(finish.previous)
        if not self.program.replay.ended:
            log.warning("the coordinator ended the run before the plan did")
            return b""
        return self.program.result(self.plan, self._sums)

    def _asked(self, ask: Ask) -> tuple[Question, bytes]:
        """The question of the step that is asked for, derived here, and its digest."""
        refused = self.state == State.READY and self._step > 0  # derived before, not answered
        next_verdicts = self.state == State.SECURE and ask.step > self._step  # the round ended
        given_up = self.state in (State.MASKED, State.SECURE) and not next_verdicts
        if ask.step != self._step + (not refused and not given_up):
            raise ReplayError(f"step {ask.step} of the plan is not the next one")
        if refused and ask.previous != self._previous:
            raise ReplayError("another sum came for this step of the plan")
        if given_up and ask.previous:
            raise ReplayError("a sum came for a round that was given up")
        if not refused and not given_up:
            self._advance(ask.previous)
        if self._question is None:
            raise ReplayError("the plan has ended: it asks nothing more")
        content = self.read.content(self._question)
        if content != ask.content:
            raise InconsistentQuestionError("the coordinator's question is not that of the plan")
        if content in self._opened:
            raise ReplayError("this question was opened before; it is not answered again")
        return self._question, content

    def _advance(self, previous: bytes) -> None:
        """Check the last sum, and run the program on to its next question."""
        if self.current is None:
            if previous:
                raise ReplayError("a sum came before anything was asked")
            self._question = self.program.replay.advance(1, None)
        else:
            declared = self.current.declared
            with attributed_to_round(
                self._number, self._sites.names(declared.sites), self._step - 1
            ):
                opened, sums = self._opened_last(previous, self.current)
                self._question = self.program.replay.advance(
                    self._step + 1, sums, len(declared.sites)
                )
            self.coverage.opened(self.current.question, sums, len(declared.sites))
            if self.record is not None:
                self.record.add(self._number, declared.sites, sums)
            told = self.current.ask.known
            self._sums = self.read.digest(b"sums", self._sums, answer_bytes(told, opened))
            self._opened.add(self.current.content)
            self._answered = None
        self._step, self._previous, self.current = self._step + 1, previous, None
        self.state = State.READY

    def _opened_last(self, previous: bytes, current: Round) -> tuple[bytes, FloatVector]:
        """The opened sum, or the verdicts, checked, and the numbers in it."""
        if current.recall is None or self.keys.secure_tests is None:
            return self.read.sum(previous, current.declared, self.keys.aggregation)
        if current.recall.rest is None:
            if previous:
                raise ReplayError("verdicts came for a round that asked for none")
            return b"", current.recall.values(np.zeros(0))
        if current.seat is None:
            raise ReplayError("this question was not answered: what was found before comes first")
        tests, batch = self.keys.secure_tests, current.seat.batch
        opened, bits = tests.verdicts(previous, batch, self.read.verdicts)
        if self.bits is not None:
            self.bits.keep(current, self._sums, decode(opened, Verdicts))
        return opened, current.recall.values(bits)

    def unmask(self, request: Unmask) -> Unmasked:
        """Release the sum's seed; InconsistentQuestionError if another site was asked otherwise."""
        current = self.round_of(request)
        self._check_tags(current.declared, request.tags)
        seed = self.keys.aggregation.unmask(current.declared)
        if self.state == State.MASKED:
            sites = current.declared.sites
            self.sums.write(self.plan.session, *self._sites.groups(sites))
        self.state = State.OPENED
        self._opened.add(current.content)
        self._present = current.declared.sites
        self._answered = None
        return Unmasked(digest=request.digest, seed=seed)

    def recover(self, request: Recover) -> Recovered:
        """Release this site's piece of the self mask of a site that left.

        OpeningRefusedError where the site was not asked, KeyAgreementError or ShareError where what
        it sealed for this one cannot be unsealed, or is no piece.
        """
        current = self.round_of(request)
        try:
            piece = self.keys.aggregation.recover(request.vanished, request.piece, current.declared)
        except (KeyAgreementError, ShareError) as error:
            name = self.plan.cohort[request.vanished].name
            raise type(error)(f"the piece that '{name}' left: {error.message}") from None
        return Recovered(digest=request.digest, piece=piece)

    def open(self, request: Open) -> Opened:
        """Open the sum, over the sites asked and once, under encryption; or OpeningRefusedError."""
        current = self.round_of(request)
        if len(request.seeds) != len(current.declared.sites):
            raise OpeningRefusedError("the seed of a site is missing")
        seeds = dict(zip(current.declared.sites, request.seeds, strict=True))
        words = self.keys.aggregation.open(request.combined, seeds, current.declared)
        return Opened(digest=request.digest, words=words)

    def secure(self, request: Secure) -> Secured:
        """This site's next step in the secure tests of the round; its last where `Seat` refuses."""
        current = self.round_of(request)
        if current.seat is None:
            raise ReplayError("this site takes no part in the round")
        secured = stepped(current.seat, request)
        if request.verb == "open" and self.bits is not None:
            self.bits.keep(current, self._sums, decode(secured.content, Signed))
        return secured

    @property
    def _sites(self) -> CoveredSites:
        return CoveredSites(self.plan, self.policy, self.index)

    def _others(self, declared: Declaration) -> list[int]:
        """The other sites asked that share a key with this one: it has their word."""
        return self.keys.graph.peers(self.index, declared.sites)

    def _check_tags(self, declared: Declaration, tags: tuple[bytes, ...]) -> None:
        others = self._others(declared)
        if len(tags) != len(others):
            raise InconsistentQuestionError("the word of a site is missing")
        for position in self.keys.agreement.silent(others, tags, declared.digest):
            name = self.plan.cohort[position].name
            raise InconsistentQuestionError(
                f"'{name}' did not agree to the question that this site was asked"
            )
