"""Base class of the questions that a coordinator may ask, and the questions that wrap others.

A question holds public parameters only and is the same for every site. Its ``encodings`` declare
how many values a site answers, within which bound and on which grid; the answers of all sites add
up, and the algorithm that asked receives nothing but that sum. To add a kind of question, define a
subclass with a tag in this room and its answer in `cipherdag.sites.answers`: no list names either.

Leaks:
    Every site and whoever carries the messages see the question: the current skeleton by
    identifier, never a name. The coordinator sees the sum of the answers.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Generator, Iterable, Iterator
from importlib import import_module
from typing import ClassVar, TypeVar

import msgspec
import numpy as np

from cipherdag import questions
from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.errors import ParameterError, PolicyRefusedError
from cipherdag.predicates import Predicates
from cipherdag.questions.disclosure import Disclosure, Quantity, joined, once_more
from cipherdag.questions.encodings import Encoding, segments

MAX_REPLICATES = 1000  # most resamples of its rows that a site draws in a run
BY_PATIENT = (
    'Choose evidence "stratified" (FedPC, FedFCI, GraphCheck, FedCMFS), FedBOSS within sites, '
    "Effect, Survival or Describe. Or give the site one row a patient."
)
"""What to do where an algorithm takes rows for persons, and they are visits of patients."""
MOST_VISITS = 1000  # most rows of a patient that a plan may declare
PATIENTS_COUNTED = "patients"
"""What ledgers add where rows are visits, and patients are counted, too."""
PARTS_COUNTED = "parts-of-patients"
"""What ledgers add where products of patients' parts are asked for."""
KINDS_ALONE = "column-kinds"
"""What ledgers call a question on kinds of columns that asks nothing of where numbers lie."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to every site: layout of its answer, and the rule of disclosure of small parts.

    The last segment of an answer has one value for each part, such as a test, and is above 0 where
    the site contributes to it; a question of which that does not hold overrides `n_parts`,
    `contributes` and `value_mask`. Of kinds that have them ``n_variables`` is the number of aligned
    variables, p, ``categories`` that of each variable's categories, 0 for a number, shape (p,), and
    ``max_rows`` the declared bound of a site's rows.
    """

    discloses: ClassVar[tuple[Disclosure, ...]]
    """All that a question of its kind may disclose; every kind has to say it."""
    resamplable: ClassVar[bool] = False  # whether it may be asked of rows that a site resampled
    countable: ClassVar[bool] = False  # whether the sites contributing to a part can be counted
    opt_in: ClassVar[bool] = False  # whether a site answers it only if its policy names it
    indivisible: ClassVar[bool] = False  # whether no part is opened where some part is not
    opens_without_parts: ClassVar[bool] = False
    """Whether its sums are disclosed even where no part has enough contributors."""
    by_patient: ClassVar[bool] = False
    """Whether a site whose rows are visits of patients answers it, or what it wraps."""
    keeps_count: ClassVar[bool] = False
    """Whether one count of contributors serves all questions with the same `counted_as`."""

    @property
    def label(self) -> str:
        """The name of the round in progress lines and reports."""
        raise NotImplementedError

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The segments of an answer in order."""
        raise NotImplementedError

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """What this question discloses: of `discloses` what its encodings open."""
        return joined(*(each.discloses for each in self.encodings if each.length))

    def check_declared(self, declared: Iterable[Disclosure]) -> None:
        """Refuse (PolicyRefusedError) to open what was not declared, and so approved, before."""
        said = [each.quantity.value for each in joined({*self.disclosures} - {*declared})]
        if any(each.length and not each.discloses for each in self.encodings):
            said.append("what it does not name")
        if said:
            raise PolicyRefusedError(
                f"'{self.label}' would open {'; '.join(said)}, which the plan did not declare",
                remedy="Report this to whoever wrote the algorithm.",
            )

    @property
    def n_values(self) -> int:
        """How many values an answer, or a sum of answers, has."""
        return sum(encoding.length for encoding in self.encodings)

    @property
    def question(self) -> Question:
        """The question inside this one; only where it is about another one."""
        raise AttributeError(f"{type(self).__name__} is about no other question")

    @property
    def parts(self) -> tuple[Question, ...]:
        """The questions of a bundle, or this one alone."""
        return (self,)

    def fits(self, categories: tuple[int, ...], ordered: tuple[int, ...]) -> bool:
        """Whether a study has the columns that it is about, where it names them or their number.

        ``ordered`` variables have three or more categories in an order, ascending.
        """
        del ordered
        named = getattr(self, "categories", categories)
        count = getattr(self, "n_variables", len(categories))
        return bool(named == categories and count == len(categories))

    def split(self, values: FloatVector) -> Iterator[tuple[Question, FloatVector]]:
        """Each of `parts` with its share of an answer or sum."""
        ends = np.cumsum([part.n_values for part in self.parts])[:-1]
        return zip(self.parts, np.split(values, ends), strict=True)

    @property
    def unit(self) -> int:
        """Rows in a unit, if only whole units of counts' totals are opened; else 0."""
        return 0

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the question and of the questions inside it."""
        inner = getattr(self, "question", None)
        return frozenset({tag_of(type(self))}) | (inner.tags if inner is not None else frozenset())

    @property
    def recorded_as(self) -> frozenset[str]:
        """Its `tags`, or more exact names of what is asked, in ledgers and reports."""
        inner = getattr(self, "question", None)
        return frozenset({tag_of(type(self))}) | (inner.recorded_as if inner else frozenset())

    @property
    def kind(self) -> str:
        """What ledgers and reports call it and the questions inside it."""
        return "+".join(sorted(self.recorded_as))

    @property
    def opens_bits(self) -> bool:
        """Whether verdicts on its sums are disclosed, and the sums are not."""
        return False

    @property
    def n_comparisons(self) -> int:
        """How many comparisons its verdicts take at most."""
        return self.n_values

    def predicates(self, n_sites: int) -> Predicates:
        """Which comparisons of sums over ``n_sites`` sites are opened; ParameterError for sums."""
        del n_sites
        raise ParameterError("sums and bits are disclosed, but not in one round")

    @property
    def n_parts(self) -> int:
        """How many parts have contributors of their own."""
        return self.encodings[-1].length

    @property
    def needs_count(self) -> bool:
        """Whether a part to which one site alone contributes would show that site's answer."""
        return self.countable

    @property
    def counted_as(self) -> Question:
        """The question whose contributors are counted for this one."""
        return self

    def contributes(self, answer: FloatVector) -> BoolVector:
        """To which parts an answer contributes, shape (n_parts,)."""
        return segments(self.encodings, answer)[-1] > 0

    def value_mask(self, parts: BoolVector) -> BoolVector:
        """Which values belong to the selected parts, shape (n_values,)."""
        return np.concatenate([parts[: encoding.length] for encoding in self.encodings])

    def suppress(self, answer: FloatVector, parts: BoolVector) -> FloatVector:
        """An answer with zeros for all but the selected parts."""
        return np.where(self.value_mask(parts), answer, 0.0)


Outcome = TypeVar("Outcome")
Asking = Generator[Question, FloatVector, Outcome]
"""A search: it yields questions, receives the sum of the answers to each, returns its outcome."""


class Resampled(Question, frozen=True, tag="resampled"):
    """A question about rows that the site draws from its own, as many, with replacement.

    Which rows it draws depends on the seed, the number of the replicate, the rows themselves and
    the site's key, so nobody but the site knows them. The answer is that of the question.
    """

    discloses = once_more(Quantity.RESAMPLED)
    by_patient = True

    question: Question
    replicate: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.question.resamplable:
            raise ValueError("a question of this kind is not asked of resampled rows")
        if not 1 <= self.replicate <= MAX_REPLICATES:
            raise ValueError(f"replicate must lie in 1..{MAX_REPLICATES}")
        if not 0 <= self.seed < 1 << 64:
            raise ValueError("seed must be a whole number of 64 bits")

    @property
    def label(self) -> str:
        return f"{self.question.label}, replicate {self.replicate}"

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        return joined(self.question.disclosures, self.discloses)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return self.question.encodings

    @property
    def opens_bits(self) -> bool:
        return self.question.opens_bits

    @property
    def n_comparisons(self) -> int:
        return self.question.n_comparisons

    def predicates(self, n_sites: int) -> Predicates:
        return self.question.predicates(n_sites)


class Bundle(Question, frozen=True, tag="bundle"):
    """Questions of many concurrent searches, asked in one round; the answers are concatenated."""

    parts: tuple[Question, ...]

    def __post_init__(self) -> None:
        if any(isinstance(part, Bundle) for part in self.parts):
            raise ValueError("a bundle holds no bundle")

    @property
    def label(self) -> str:
        drawn = sum(isinstance(part, Resampled) for part in self.parts)
        if drawn and drawn == len(self.parts) - 1 and not isinstance(self.parts[0], Resampled):
            return f"{self.parts[0].label}, {drawn} replicates"
        more = len(self.parts) - 1
        return f"{self.parts[0].label}; {more} more question{'s' * (more != 1)}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return tuple(encoding for part in self.parts for encoding in part.encodings)

    @property
    def tags(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.tags for part in self.parts))

    @property
    def recorded_as(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.recorded_as for part in self.parts))

    @property
    def opens_bits(self) -> bool:
        return any(part.opens_bits for part in self.parts)

    @property
    def n_comparisons(self) -> int:
        return sum(part.n_comparisons for part in self.parts)

    def predicates(self, n_sites: int) -> Predicates:
        each = [part.predicates(n_sites) for part in self.parts]
        return Predicates.joined(each) if len(each) > 1 else each[0]


def tag_of(kind: type[Question]) -> str:
    """The name of a kind of question in digests, policies and ledgers."""
    return str(kind.__struct_config__.tag)


def question_kinds() -> dict[str, type[Question]]:
    """All kinds of questions by tag: the subclasses of `Question` in every module of this room.

    A bundle is no kind of its own. TypeError where a kind does not say what it discloses, or two
    have one tag.
    """
    for module in pkgutil.walk_packages(questions.__path__, f"{questions.__name__}."):
        import_module(module.name)
    kinds: dict[str, type[Question]] = {}
    waiting = Question.__subclasses__()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__struct_config__.tag is None or kind is Bundle:
            continue
        if not hasattr(kind, "discloses"):
            raise TypeError(f"{kind.__name__} does not say what it discloses")
        if kinds.setdefault(tag_of(kind), kind) is not kind:
            raise TypeError(f"two kinds of questions have the tag '{tag_of(kind)}'")
    return dict(sorted(kinds.items()))
