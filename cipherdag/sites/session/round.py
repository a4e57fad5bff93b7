"""One round at a site: what its sum may cover, and bits, which a folder records and budgets."""

from dataclasses import dataclass, field
from operator import lt

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import CohortError, PolicyRefusedError
from cipherdag.privacy.aggregation import Declaration
from cipherdag.privacy.mpc.messages import Signed, Verdicts
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.protocol.asked import Answers, Context, Recall, encoded
from cipherdag.protocol.messages import Ask
from cipherdag.protocol.plan import Plan, fewest_survivors
from cipherdag.questions.question import Question, Resampled
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import BitBudget
from cipherdag.sites.record.opened_sums import AskedBits
from cipherdag.sites.session.reading import ALONE, Reading


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The number of sites that contribute to every part of a question, of how many."""

    counts: FloatVector
    n_sites: int

    def left(self, n_sites: int) -> FloatVector:
        """The least number of contributors that remain where ``n_sites`` answer."""
        return self.counts - (self.n_sites - n_sites)


@dataclass(slots=True)
class Coverage:
    """Holds every question of a run against the counts that were opened.

    ``min_contributors`` sites have to contribute to a part by this site's own policy, and as many
    as ``planned`` by the plan, the same at every site.
    """

    min_contributors: int
    planned: int = 1
    read: Reading = ALONE
    _counts: dict[tuple[object, ...], Counted] = field(default_factory=dict, repr=False)

    def check(self, question: Question, n_sites: int) -> None:
        """Refuse (PolicyRefusedError) a question that would open a part of fewer sites.

        Of ``n_sites`` that are asked, each that left since may have been one of those counted.
        Parts that are asked for without being counted are refused, too.
        """
        for part in question.parts:
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Suppressed):
                counted = self._counts.get(self._key(part, inner.question))
                if counted is None or self._too_few(inner, counted, n_sites):
                    raise PolicyRefusedError(
                        f"a test is disclosed where {self.min_contributors} sites contribute to it "
                        "at least"
                    )
            elif inner.needs_count and self.min_contributors > 1:
                raise PolicyRefusedError("the sites that contribute to a test are counted first")

    def suppress(self, question: Question, answer: FloatVector, n_sites: int) -> FloatVector:
        """An answer, zero where too few sites may be left by the plan of those counted."""
        parts = [np.zeros(0)]
        for part, values in question.split(answer):
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Suppressed):
                left = self._counts[self._key(part, inner.question)].left(n_sites)
                parts.append(inner.without(values, left < self.planned))
            else:
                parts.append(values)
        return np.concatenate(parts)

    def _too_few(self, inner: Suppressed, counted: Counted, n_sites: int) -> bool:
        left, enough = counted.left(n_sites), inner.enough_array()
        open_still = enough & (left >= self.planned)
        below_policy = enough & (counted.counts < self.min_contributors)
        return bool((below_policy | (open_still & (left < self.min_contributors))).any())

    def opened(self, question: Question, sums: FloatVector, n_sites: int) -> None:
        """Remember the counts among the sums of a question, and that they are of so many sites."""
        for part, values in question.split(sums):
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, ContributorCounts):
                counts = np.rint(values)
                self._counts[self._key(part, inner.question)] = Counted(counts, n_sites)
            elif isinstance(inner, Suppressed) and not inner.question.keeps_count:
                self._counts.pop(self._key(part, inner.question), None)

    def _key(self, part: Question, counted: Question) -> tuple[object, ...]:
        drawn = (part.replicate, part.seed) if isinstance(part, Resampled) else ()
        return (*drawn, self.read.content(counted.counted_as))


@dataclass(frozen=True, slots=True)
class CoveredSites:
    """The rule of one site, whose position in the cohort is ``index``."""

    plan: Plan
    policy: Policy
    index: int

    def names(self, positions: tuple[int, ...]) -> list[str]:
        """The names of the sites at these positions."""
        names = self.plan.names
        return [names[position] for position in positions]

    def groups(self, positions: tuple[int, ...]) -> tuple[list[str], list[tuple[str, ...]]]:
        """Names of the sites, and of groups that lack the same variables, if any lacks some."""
        measured = self.plan.measured
        groups = () if measured.everywhere else measured.groups(positions)
        return self.names(positions), [tuple(self.names(group)) for group in groups]

    def check(self, positions: tuple[int, ...], among: tuple[int, ...]) -> None:
        """Refuse (CohortError) sites that are too few, not in order, or not ``among`` those before.

        They are to include this site.
        """
        ascending = all(map(lt, positions, positions[1:]))
        if not ascending or (positions != among and not set(positions) <= set(among)):
            raise CohortError("the sites named are not in order, or were not there before")
        if self.index not in positions:
            raise CohortError("the sites named leave this site out")
        n_sites = len(self.plan.cohort)
        fewest = max(
            self.policy.fewest_survivors(n_sites),
            # others may fear more colluders, and their answers rest on this site too
            fewest_survivors(n_sites, self.plan.colluders),
            min(self.plan.min_survivors, n_sites),
        )
        if len(positions) < fewest:
            raise CohortError(
                f"a sum over {len(positions)} sites is refused; at least {fewest} are needed"
            )
        measured, least = self.plan.measured, self.policy.min_group_size(self.plan)
        if not measured.everywhere and measured.smallest_group(positions) < least:
            raise CohortError(
                f"fewer than {least} of the sites left lack the same variables: differences of "
                "sums would tell of them alone"
            )


@dataclass(slots=True)
class Round:
    """The round that was answered last.

    Where sums stay closed, ``recall`` has bits known before, and ``seat`` computes the others.
    """

    ask: Ask
    declared: Declaration
    content: bytes
    question: Question
    recall: Recall | None = None
    seat: Seat | None = field(default=None, repr=False)


@dataclass(slots=True)
class FoundBits:
    """The record and the budget of a site, in one session.

    ``index`` is this site's position in the cohort, and ``context`` what its bits are about.
    """

    session: bytes
    index: int
    context: Context
    asked: AskedBits
    budget: BitBudget
    _before: Answers | None = field(default=None, repr=False)

    def lacking(self, current: Round, recall: Recall) -> tuple[bytes, ...]:
        """Bits of a question that this site knows and the coordinator did not tell, as lines.

        Where there are none, the bits that are to be found are counted. ForgedSumError where a bit
        has another value in the record, PolicyRefusedError where more would be found than allowed,
        SiteNotReadyError where the record cannot be read.
        """
        sites = current.ask.participants
        self._before = self._before or self.asked.of(self.context)
        if lines := recall.unsent(self._before, sites):
            return encoded(lines)
        if recall.rest is not None:
            self.budget.spend(self.session, recall.rest, sites)
        return ()

    def keep(self, current: Round, sums: bytes, said: Signed | Verdicts) -> None:
        """Record bits that were signed by this site, or by both computing parties.

        Bits that differ from earlier ones are recorded, too: more tries would show which ones do.
        ForgedSumError where a bit differs from an earlier one; nothing leaves, now or in later
        runs. OutputError where the file cannot be written; then nothing may leave.
        """
        recall, seat = current.recall, current.seat
        if recall is not None and seat is not None:
            about = seat.batch, current.content, sums, recall.rest_names
            self.asked.write(self.context, self.context.line(*about, said, self.index))
            packed = np.frombuffer(said.bits, dtype=np.uint8)
            recall.values(np.unpackbits(packed, count=len(recall.positions)).astype(np.float64))
