"""How often edges occur when every site draws its rows anew.

Source: Friedman, Goldszmidt and Wyner, "Data analysis with Bayesian networks: a bootstrap
approach", UAI 1999: the confidence of a feature is the share of replicates whose graph has it.

Leaks:
    What the algorithm leaks, once more for every replicate. Which rows a site drew nobody else can
    tell (`cipherdag.sites.answers.resampling`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from cipherdag.questions.question import Bundle, Question, Resampled, SingleQuestion

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.questions.encodings import FloatVector

Outcome = TypeVar("Outcome")


def resampled(
    asking: Generator[Question, FloatVector, Outcome], *, replicate: int, seed: int
) -> Generator[Question, FloatVector, Outcome]:
    """The same search over rows that the sites draw.

    Args:
        asking: Yields questions that `Resampled` takes.
        replicate: 1 for the first.
        seed: Seed of the run.

    Returns:
        The outcome of ``asking``, in as many rounds.
    """
    try:
        question = next(asking)
        while True:
            parts = question.parts if isinstance(question, Bundle) else (question,)
            drawn = tuple(_drawn(part, replicate, seed) for part in parts)
            asked = Bundle(parts=drawn) if isinstance(question, Bundle) else drawn[0]
            question = asking.send((yield asked))
    except StopIteration as finished:
        outcome: Outcome = finished.value
        return outcome


def _drawn(question: SingleQuestion, replicate: int, seed: int) -> Resampled:
    return Resampled(question=question, replicate=replicate, seed=seed)  # type: ignore[arg-type]
