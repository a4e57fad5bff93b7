"""What a site opens of tests: those that enough sites contribute to, as counted just before."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import PolicyRefusedError
from cipherdag.questions.coverage import Contributors, CountedQuestion, Covered, counted_as
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.lockstep import parts_of, split_parts
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.question import Question, Resampled, SingleQuestion
from cipherdag.questions.separators import CandidateScores
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.sites.session.reading import ALONE, Reading


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """How many sites contribute to every test, of how many.

    Attributes:
        counts: Contributors, shape (number of tests,).
        n_sites: How many sites were counted.
    """

    counts: FloatVector
    n_sites: int

    def left(self, n_sites: int) -> FloatVector:
        """Contributors that are there at least, where so many sites are."""
        return self.counts - (self.n_sites - n_sites)


@dataclass(slots=True)
class Coverage:
    """Holds every question of a run against the counts that were opened.

    Attributes:
        fewest: How many sites have to contribute to a test, of this site's own policy.
        planned: How many by the plan, the same at every site.
        read: How this site reads what all sites are told.
    """

    fewest: int
    planned: int = 1
    read: Reading = ALONE
    _counts: dict[tuple[object, ...], Counted] = field(default_factory=dict, repr=False)

    def check(self, question: Question, n_sites: int) -> None:
        """Refuse a question that would open a test of fewer sites.

        Args:
            question: What is asked.
            n_sites: How many sites are asked. Every one that left since contributors were counted
                may have been one of them.

        Raises:
            PolicyRefusedError: Tests are asked for without being counted, or too few contribute.
        """
        for part in parts_of(question):
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Covered):
                counted = self._counts.get(self._key(part, inner.question))
                if counted is None or self._too_few(inner, counted, n_sites):
                    raise PolicyRefusedError(
                        f"a test is opened where {self.fewest} sites contribute to it at least"
                    )
            elif _tells_of_one(inner) and self.fewest > 1:
                raise PolicyRefusedError("the sites that contribute to a test are counted first")

    def kept(self, question: Question, answer: FloatVector, n_sites: int) -> FloatVector:
        """An answer, zero where too few sites may be left of those that were counted.

        Every site leaves out the same tests, since all go by the plan; see `check`.
        """
        parts: list[FloatVector] = []
        for part, own in split_parts(question, answer):
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Covered):
                left = self._counts[self._key(part, inner.question)].left(n_sites)
                parts.append(inner.without(own, left < self.planned))
            else:
                parts.append(own)
        return np.concatenate([np.zeros(0), *parts])

    def _too_few(self, inner: Covered, counted: Counted, n_sites: int) -> bool:
        left = counted.left(n_sites)
        open_still = inner.enough_array() & (left >= self.planned)
        uncounted = inner.enough_array() & (counted.counts < self.fewest)
        return bool((uncounted | (open_still & (left < self.fewest))).any())

    def opened(self, question: Question, sums: FloatVector, n_sites: int) -> None:
        """Remember the counts among the sums of a question, and that they are of so many sites."""
        for part, own in split_parts(question, sums):
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Contributors):
                counts = np.rint(own)
                self._counts[self._key(part, inner.question)] = Counted(counts, n_sites)
            elif isinstance(inner, Covered) and not isinstance(inner.question, EffectSums):
                self._counts.pop(self._key(part, inner.question), None)

    def _key(self, part: SingleQuestion, inner: CountedQuestion) -> tuple[object, ...]:
        drawn = (part.replicate, part.seed) if isinstance(part, Resampled) else ()
        return (*drawn, self.read.content(counted_as(inner)))


def _tells_of_one(question: object) -> bool:
    """Whether a test that one site alone can do would show that site's answer."""
    if isinstance(question, EdgeVotes):
        return question.abstain
    if isinstance(question, Columns):
        return False  # marks of a column that one site alone has are coarse
    return isinstance(question, CountedQuestion) and not (
        isinstance(question, CandidateScores) and question.score == "vote"
    )
