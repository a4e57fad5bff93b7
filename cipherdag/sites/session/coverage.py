"""The threshold rule at a site: what it opens has contributors enough, as counted just before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import PolicyRefusedError
from cipherdag.questions.question import Question, Resampled
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.session.reading import ALONE, Reading


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The number of sites that contribute to every part of a question, of how many.

    Attributes:
        counts: Contributors, shape (number of parts,).
        n_sites: How many sites were counted.
    """

    counts: FloatVector
    n_sites: int

    def left(self, n_sites: int) -> FloatVector:
        """The least number of contributors that remain where ``n_sites`` answer."""
        return self.counts - (self.n_sites - n_sites)


@dataclass(slots=True)
class Coverage:
    """Holds every question of a run against the counts that were opened.

    Attributes:
        min_contributors: How many sites have to contribute to a part, of this site's own policy.
        planned: How many by the plan, the same at every site.
        read: How this site computes the digest of a question, perhaps shared in its process.
    """

    min_contributors: int
    planned: int = 1
    read: Reading = ALONE
    _counts: dict[tuple[object, ...], Counted] = field(default_factory=dict, repr=False)

    def check(self, question: Question, n_sites: int) -> None:
        """Refuse a question that would open a part of fewer sites.

        Args:
            question: What is asked.
            n_sites: How many sites are asked. Every one that left since contributors were counted
                may have been one of them.

        Raises:
            PolicyRefusedError: Parts are asked for without being counted, or too few contribute.
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
        """An answer, zero where too few sites may be left of those that were counted.

        Every site leaves out the same parts, since all go by the plan; see `check`.
        """
        return np.concatenate([np.zeros(0), *self._suppressed(question, answer, n_sites)])

    def _suppressed(
        self, question: Question, answer: FloatVector, n_sites: int
    ) -> Iterator[FloatVector]:
        for part, values in question.split(answer):
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Suppressed):
                left = self._counts[self._key(part, inner.question)].left(n_sites)
                yield inner.without(values, left < self.planned)
            else:
                yield values

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
