"""What a site opens of tests: those that enough sites contribute to, as counted just before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import PolicyRefusedError
from cipherdag.protocol.messages import content_digest
from cipherdag.questions.coverage import Contributors, CountedQuestion, Covered, n_tests
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.question import Resampled
from cipherdag.questions.separators import CandidateScores
from cipherdag.questions.skeleton import EdgeVotes

if TYPE_CHECKING:
    from cipherdag.questions.encodings import FloatVector
    from cipherdag.questions.question import Question, SingleQuestion


@dataclass(slots=True)
class Coverage:
    """Holds every question of a run against the counts that were opened.

    Attributes:
        fewest: How many sites have to contribute to a test.
    """

    fewest: int
    _counts: dict[tuple[object, ...], FloatVector] = field(default_factory=dict, repr=False)

    def check(self, question: Question) -> None:
        """Refuse a question that would open a test of fewer sites.

        Raises:
            PolicyRefusedError: Tests are asked for without being counted, or too few contribute.
        """
        for part in parts_of(question):
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Covered):
                counts = self._counts.get(_key(part, inner.question))
                if counts is None or (inner.enough_array() & (counts < self.fewest)).any():
                    raise PolicyRefusedError(
                        f"a test is opened where {self.fewest} sites contribute to it at least"
                    )
            elif _tells_of_one(inner) and self.fewest > 1:
                raise PolicyRefusedError("the sites that contribute to a test are counted first")

    def opened(self, question: Question, sums: FloatVector) -> None:
        """Remember the counts among the sums of a question."""
        start = 0
        for part in parts_of(question):
            length = sum(encoding.length for encoding in part.encodings)
            inner = part.question if isinstance(part, Resampled) else part
            if isinstance(inner, Contributors):
                counts = np.rint(sums[start : start + n_tests(inner.question)])
                self._counts[_key(part, inner.question)] = counts
            elif isinstance(inner, Covered):
                self._counts.pop(_key(part, inner.question), None)
            start += length


def _tells_of_one(question: object) -> bool:
    """Whether a test that one site alone can do would show that site's answer."""
    if isinstance(question, EdgeVotes):
        return question.abstain
    return isinstance(question, CountedQuestion) and not (
        isinstance(question, CandidateScores) and question.score == "vote"
    )


def _key(part: SingleQuestion, inner: CountedQuestion) -> tuple[object, ...]:
    drawn = (part.replicate, part.seed) if isinstance(part, Resampled) else ()
    return (*drawn, content_digest(inner))
