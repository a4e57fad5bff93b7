"""One run at the coordinator: set-up, rounds, drop-outs; only sums come back, or verdicts.

Leaks:
    The coordinator sees signed public keys, equality of schemas, the number of variables, which are
    labels or follow from others, seeds that open nothing but the agreed sum, and each round's
    aggregate; of secure tests only bits. With two sites it deals, and sees parts that are uniform.
"""

import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TypeVar

from cipherdag.arrays import FloatVector
from cipherdag.errors import (
    InconsistentQuestionError,
    ShareError,
    SiteUnreachableError,
    UnreadableRunError,
)
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.privacy.aggregation import Aggregate, Declaration
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.protections import protection_kind
from cipherdag.privacy.sums import CoordinatorAggregation
from cipherdag.privacy.wire import Body, digest, pack
from cipherdag.protocol import journal as log
from cipherdag.protocol.asked import Answers, Context, Recall, answer_bytes
from cipherdag.protocol.cohort_channel import CohortChannel
from cipherdag.protocol.engines.engine import Engine
from cipherdag.protocol.messages import (
    Ask,
    Closed,
    Finish,
    Share,
    Topic,
    content_digest,
    declaration,
    question_digest,
)
from cipherdag.protocol.opening import Opening, SecureRound, agreed_result, check_share
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.progress import DropOut, DropOuts, RoundReport, Watcher, attributed_to_round
from cipherdag.protocol.secure_tests import context_of
from cipherdag.protocol.set_up import coordinator_party, graph_of, roles_of, set_up
from cipherdag.protocol.states import IN_ROUNDS
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Question

Reply = TypeVar("Reply", bound=Body)


class Session:
    """Asks one cohort the questions of one algorithm, as the plan says.

    ``sums`` is the digest of all sums in their order, as every site has it, ``result`` that of the
    result that all sites sign, once it is finished; the last sum covers ``n_summed`` sites.

    Sites pin the ``identity`` of the coordinator, and the slowest has ``timeout_s`` seconds.
    ``progress`` is called after every round; a `Watcher` also before. The session is written down
    in the ``journal``, and taken up again if that is not empty; OutputError if it is of another
    plan.
    """

    def __init__(
        self,
        engine: Engine,
        identity: SigningIdentity,
        plan: Plan,
        *,
        timeout_s: float = 600.0,
        progress: Callable[[RoundReport], None] | None = None,
        journal: log.Record | None = None,
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._resumed = log.Resumption(journal.entries if journal is not None else ())
        started = self._resumed.started
        if started is not None and started.plan != plan:
            raise UnreadableRunError("the journal is of another plan")
        self._channel = CohortChannel(
            engine, identity, plan.cohort, session=plan.session, timeout_s=timeout_s
        )
        self._progress = progress
        self._reports = list(journal.reports if journal is not None else ())
        self._rounds_before = len(self._reports)
        self._dropouts = DropOuts(plan)
        self._bytes_before_restart = Counter[str]()
        self._number = self.n_summed = self._step = 0
        self._present = self._asked = tuple(range(len(plan.cohort)))
        self._previous = self._transcript = self.result = self.sums = self._beacon = b""
        self._lines: tuple[bytes, ...] = ()
        self._opened: log.KeysAgreed | None = None
        self._graph = KeyGraph.complete(len(plan.cohort))
        self._party: Party | None = None
        self._maybe_cut_short = self._resumed.opened is not None

    @property
    def rounds(self) -> tuple[RoundReport, ...]:
        """All rounds that ended in a sum, those before a restart or of earlier sessions too."""
        return tuple(self._reports)

    @property
    def dropouts(self) -> tuple[DropOut, ...]:
        """The sites that left."""
        return tuple(self._dropouts.all)

    @property
    def bytes_sent_per_site(self) -> dict[str, int]:
        """Bytes that left each site in this session, the set-up included."""
        since, before = self._channel.bytes_received, self._bytes_before_restart
        return {name: before[name] + n for name, n in since.items()}

    @property
    def labels(self) -> tuple[int, ...]:
        """Positions of the labels, once open; empty where the algorithm needs none."""
        return () if self._opened is None else self._opened.labels

    @property
    def determined(self) -> Determined:
        """The variables that follow from others, once open; none where the algorithm needs none."""
        return NOTHING if self._opened is None else Determined(self._opened.relations)

    def open(self) -> int:
        """Agree keys, check that all sites follow one schema, and return the number of variables.

        SchemaMismatchError where one does not, SiteUnreachableError where a site does not answer,
        PrivacyError where one refused, or a message was altered.
        """
        opened = self._resumed.opened
        if opened is None:
            opened = self._set_up()
        else:
            self._channel.states = frozenset(IN_ROUNDS)
            self._bytes_before_restart.update(opened.received)
        self._opened, self._transcript, self._beacon = opened, opened.transcript, opened.beacon
        self._graph = graph_of(self._plan, self._beacon)
        return opened.n_variables

    def _set_up(self) -> log.KeysAgreed:
        """Agrees keys, and writes down what was agreed."""
        if self._resumed.started is None:
            # once: while people have not approved it, the set-up is tried again and again
            self._resumed.started = log.Started(plan=self._plan)
            self._write(self._resumed.started)
        agreed = set_up(self._plan, self._all)
        self._party = coordinator_party(self._plan, agreed)
        first, *_ = agreed.ready
        opened = log.KeysAgreed(
            transcript=agreed.transcript,
            beacon=agreed.beacon,
            n_variables=first.n_variables,
            received=self._channel.bytes_received,
            labels=first.labels,
            relations=first.relations,
            rows=agreed.rows,
        )
        self._write(opened)
        return opened

    def attributed(self) -> AbstractContextManager[None]:
        """Adds to an error about the last sum its round, and which sites' answers it covers."""
        return attributed_to_round(
            self._number, [self._plan.names[site] for site in self._asked], self._step - 1
        )

    def ask(self, question: Question, shown: Presence | None = None) -> FloatVector:
        """The next step: the sums of the sites' answers, or verdicts on them, shape (values,).

        Where a site does not answer and enough others are there, they are asked once more without
        it; from then on it is left out. What is shown is for those who watch.

        Raises:
            SiteUnreachableError: Too few sites are left for a sum, or one with a role left.
            InconsistentQuestionError: A site answered another question.
            AggregateRangeError: The sum lies outside what the cohort can produce.
            PrivacyError: A site refused, or found another sum; or a message was altered.
        """
        content = content_digest(question)
        self._step += 1
        if (stored := self._replayed_from_journal(question, content)) is not None:
            return stored
        started, before = time.perf_counter(), self._channel.bytes_received
        if isinstance(self._progress, Watcher):
            self._progress.asked(self._rounds_before + self._number + 1, question, shown)
        while (opened := self._attempt(question, content)) is None:
            pass
        values = opened.values
        self._go_on(pack(opened.content) if opened.content else b"", opened.content)
        reported = sum(len(report.left) for report in self._reports[self._rounds_before :])
        report = RoundReport.of(
            question,
            values,
            number=self._rounds_before + self._number,
            seconds=time.perf_counter() - started,
            bytes_sent_per_site=self._channel.bytes_since(before),
            n_sites=self.n_summed,
            n_cohort=len(self._plan.cohort),
            left=tuple(self._dropouts.all[reported:]),
        )
        written = values.astype("<f8").tobytes()
        self._write(log.Summed(content, self._present, written, self._previous, report))
        self._reports.append(report)
        if self._progress is not None:
            self._progress(report)
        return values

    def _replayed_from_journal(self, question: Question, content: bytes) -> FloatVector | None:
        """The sum of a round that ended before a restart; None where the journal ends."""
        while (ended := self._resumed.next_ended()) is not None:
            self._present = self._asked = ended.present
            if isinstance(ended, log.GivenUp):
                self._number, self._previous = ended.number, b""
                if ended.known:
                    self._answers.add(ended.known)
                self._dropouts.all += ended.left
                continue
            if ended.content != content:
                raise UnreadableRunError("the journal is of a run with other parameters")
            self._number, self.n_summed = ended.report.number, ended.report.n_sites
            opened = zlib.decompress(ended.opened) if ended.opened else b""
            self._lines = self._earlier(question)
            self._go_on(ended.opened, opened)
            gone = self._dropouts.all
            gone += [left for left in ended.report.left if left not in gone]
            self._reports.append(ended.report)
            self._bytes_before_restart.update(ended.report.bytes_sent_per_site)
            return ended.array
        return None

    def _go_on(self, packed: bytes, content: bytes) -> None:
        """Go on from what was opened, as sites are sent it and as it is."""
        self.sums = digest(b"sums", self.sums, answer_bytes(self._lines, content))
        self._previous = packed

    def _earlier(self, question: Question) -> tuple[bytes, ...]:
        return self._answers.lines_for(question, self._asked) if question.opens_bits else ()

    @cached_property
    def _answers(self) -> Answers:
        """What sites said was found before."""
        return Answers(self._context)

    @cached_property
    def _context(self) -> Context:
        """What secure tests are bound to, once open."""
        roles, rows = roles_of(self._plan, self._beacon), self._opened.rows if self._opened else ()
        return context_of(self._plan, self._transcript, roles, rows)

    def finish(self) -> dict[str, Closed]:
        """End the session at the sites still there and take the heads of their ledgers.

        SiteUnreachableError where fewer sites confirm the last sum than a sum has to cover,
        ResultMismatchError where they did not come to one result.
        """
        request = Finish(rounds=self._number, previous=self._previous)
        replies = self._channel.exchange("finish", dict.fromkeys(self._present, request), Closed)
        for position, reason in replies.failures.items():
            self._dropouts.record(position, self._number, "finish", reason, in_sum=True)
        self._dropouts.require(tuple(replies.bodies), self._number, "finish")
        self.result = agreed_result(replies.bodies, self._plan.names)
        return {self._plan.names[site]: closed for site, closed in replies.bodies.items()}

    def _attempt(self, question: Question, content: bytes) -> Aggregate | None:
        """One try at a round; None where a share is missing, and nothing of it was opened."""
        self._number += 1
        self._dropouts.require(self._present, self._number, "share")
        self._asked = self._present
        self._lines = self._earlier(question)
        ask = Ask(self._number, self._present, self._step, content, self._previous, self._lines)
        bound_to = question_digest(self._plan, self._transcript, ask)
        declared = declaration(question, ask.participants, bound_to, self._plan)
        secure = self._secure(question, ask, bound_to) if question.opens_bits else None
        opening, before = self._resumed.opening, self._channel.bytes_received
        if secure is not None and opening is not None and opening.number == self._number:
            self.n_summed, self._maybe_cut_short = len(ask.participants), False
            self._bytes_before_restart.update(opening.received)
            with self.attributed():
                return secure.opened(opening.requests)
        shares = self._shares(ask, declared, secure)
        # a round of secure tests that a crash may have cut short is begun anew
        begun_anew, self._maybe_cut_short = self._maybe_cut_short and secure is not None, False
        if len(shares) < len(self._present) or begun_anew:
            self._give_up(tuple(sorted(shares)))
            return None
        with self.attributed():
            if secure is None:
                total = self._total(declared, shares)
            elif learnt := secure.learn(shares, self._answers):
                self._give_up(self._present, learnt)
                return None
            elif secure.recall.rest is None:
                total = secure.recalled
            else:
                requests = secure.found(shares)
                self._write(log.Opening(self._number, requests, self._channel.bytes_since(before)))
                total = secure.opened(requests)
        self.n_summed = len(shares)
        return total

    def _total(self, declared: Declaration, shares: Mapping[int, Share]) -> Aggregate:
        """The sum over the sites asked; those that leave now are in it."""
        about, names = (self._channel, self._protection, declared, self._graph), self._plan.names
        opening = Opening(*about, names, self._number, self._dropouts)
        total, self._present = opening.total(shares), opening.present
        return total

    def _secure(self, question: Question, ask: Ask, bound_to: bytes) -> SecureRound:
        recall = Recall.of(question, self._context, ask.known, ask.participants)
        about = self._channel, bound_to, self._context, recall
        return SecureRound.begun(*about, ask, self.sums, self._party)

    def _shares(
        self, ask: Ask, declared: Declaration, secure: SecureRound | None
    ) -> dict[int, Share]:
        """The usable shares; a site whose share does not fit is left out like one that is gone."""
        replies = self._channel.exchange("ask", dict.fromkeys(ask.participants, ask), Share)
        asked = frozenset(ask.participants)
        for position, share in list(replies.bodies.items()):
            if share.digest != declared.digest:
                raise InconsistentQuestionError(
                    "it answered another question", site=self._plan.names[position]
                )
            try:
                if secure is not None:
                    secure.check(position, share)
                else:
                    check_share(share, len(self._graph.peers(position, asked)))
                    self._protection.check(share.share, declared)
            except ShareError as error:
                replies.failures[position] = error.message
                del replies.bodies[position]
        for position, reason in replies.failures.items():
            self._dropouts.record(position, self._number, "share", reason, in_sum=False)
        if secure is not None:
            secure.require(replies.failures, "share")
        return replies.bodies

    def _give_up(self, present: tuple[int, ...], known: tuple[bytes, ...] = ()) -> None:
        """Nothing of this round was opened, so the question is asked again, of those present."""
        self._dropouts.require(present, self._number, "share")
        self._present, self._previous = present, b""
        left = tuple(each for each in self._dropouts.all if each.round == self._number)
        self._write(log.GivenUp(self._number, present, left, known))

    def _all(
        self, operation: Topic, body: Body | Mapping[int, Body], kind: type[Reply]
    ) -> tuple[list[Reply], tuple[bytes, ...]]:
        """Ask the whole cohort, one thing or each its own; the set-up needs every site."""
        bodies = dict.fromkeys(self._present, body) if isinstance(body, Body) else body
        replies = self._channel.exchange(operation, bodies, kind)
        for position, reason in replies.failures.items():
            raise SiteUnreachableError(
                f"it did not answer the {operation} ({reason})", site=self._plan.names[position]
            )
        return list(replies.bodies.values()), tuple(replies.envelopes.values())

    @cached_property
    def _protection(self) -> CoordinatorAggregation:
        return protection_kind(self._plan.protection).coordinator()

    def _write(self, entry: log.Entry) -> None:
        if self._journal is not None:
            self._journal.write(entry)
