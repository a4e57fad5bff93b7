"""How often edges occur when every site draws its rows anew.

Source: Friedman, Goldszmidt and Wyner, "Data analysis with Bayesian networks: a bootstrap
approach", UAI 1999: the confidence of a feature is the share of replicates whose graph has it.

Leaks:
    Only a site itself can tell which rows it drew (`cipherdag.sites.answers.column_answers`).
"""

from collections.abc import Callable, Sequence
from dataclasses import Field, replace
from typing import Any, ClassVar, Protocol, TypeVar

from cipherdag.algorithms.evidence.federated_test import MAX_VALUES_PER_ROUND
from cipherdag.algorithms.parameters import require
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.graphs.endpoints import endpoints_of
from cipherdag.questions.gather import gather, map_questions
from cipherdag.questions.question import Asking, Bundle, Question, Resampled


class Replicable(Protocol):
    """An outcome whose edges are counted over replicates: a dataclass with a field `bootstrap`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def bootstrap(self) -> EdgeCounts | None:
        """In how many replicates each edge occurs; None without replicates."""


class Directed(Replicable, Protocol):
    """A replicable outcome with a matrix of arcs, as a property or a field."""

    @property
    def arcs(self) -> BoolMatrix:
        """The graph, shape (p, p)."""


Outcome = TypeVar("Outcome", bound=Replicable)


def replicated(
    run: Asking[Outcome],
    again: Callable[[], Asking[Outcome]],
    *,
    replicates: int,
    seed: int,
    counted: Callable[[Sequence[Outcome]], EdgeCounts],
) -> Asking[Outcome]:
    """A run and its ``replicates`` over rows that the sites draw anew, in shared rounds.

    ``again`` starts the run of one replicate, the seed decides which rows the sites draw, and
    ``counted`` counts the edges of the replicates. ParameterError for a seed beyond 64 bits.
    """
    if not replicates:
        return (yield from run)
    require(0 <= seed < 1 << 64, "with bootstrap the seed must be a number of 64 bits")
    numbers = range(1, replicates + 1)
    others = [resampled(again(), replicate=number, seed=seed) for number in numbers]
    outcome, *repeated = yield from gather([run, *others], most_values=MAX_VALUES_PER_ROUND)
    return replace(outcome, bootstrap=counted(repeated))


def arcs_counted(outcomes: Sequence[Directed]) -> EdgeCounts:
    """In how many outcomes' CPDAGs each edge occurs, and with which ends."""
    return EdgeCounts.of([endpoints_of(outcome.arcs) for outcome in outcomes], "---")


def resampled(asking: Asking[Outcome], *, replicate: int, seed: int) -> Asking[Outcome]:
    """Run a search over rows that the sites resample, in its usual rounds; see `Resampled`."""

    def answer(question: Question) -> Asking[FloatVector]:
        parts = tuple(
            Resampled(question=part, replicate=replicate, seed=seed) for part in question.parts
        )
        return (yield Bundle(parts=parts) if isinstance(question, Bundle) else parts[0])

    return map_questions(asking, answer)
