"""How often edges occur when every site draws its rows anew.

Source: Friedman, Goldszmidt and Wyner, "Data analysis with Bayesian networks: a bootstrap
approach", UAI 1999: the confidence of a feature is the share of replicates whose graph has it.

Leaks:
    What the algorithm leaks, once more for every replicate. Which rows a site drew nobody else can
    tell (`cipherdag.sites.answers.resampling`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from cipherdag.questions.lockstep import answered, parts_of
from cipherdag.questions.question import Bundle, Question, Resampled

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.questions.encodings import FloatVector

Outcome = TypeVar("Outcome")


def resampled(
    asking: Generator[Question, FloatVector, Outcome], *, replicate: int, seed: int
) -> Generator[Question, FloatVector, Outcome]:
    """The same search in as many rounds, over rows that the sites draw; see `Resampled`."""

    def answer(question: Question) -> Generator[Question, FloatVector, FloatVector]:
        drawn = tuple(
            Resampled(question=part, replicate=replicate, seed=seed)  # type: ignore[arg-type]
            for part in parts_of(question)
        )
        return (yield Bundle(parts=drawn) if isinstance(question, Bundle) else drawn[0])

    return answered(asking, answer)
