"""What every algorithm is: frozen parameters, a generator of questions, a conclusion by name.

An algorithm is a frozen dataclass below `Algorithm` in a folder of its own, and one line of
`cipherdag.algorithms.registry`. All that command line, results and policies need to know of it
stands in the class.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from cipherdag.algorithms.parameters import (
    Parameter,
    check_parameters,
    flattened,
    grouped,
    no_parameter,
    options_of,
    parameters_of,
    require,
)
from cipherdag.errors import ParameterError
from cipherdag.findings.finding import Finding, Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.ci_tests import ColumnTypes
from cipherdag.questions.disclosure import Disclosure, Quantity, sums
from cipherdag.questions.presence import Measured, Presence
from cipherdag.questions.question import BY_PATIENT, Asking, Outcome


@dataclass(frozen=True, slots=True)
class Published:
    """One publication of an algorithm: a paper, or a program.

    Attributes:
        parameters: The values of parameters that differ from this package's defaults.
        varied: Parameters that the publication varies or does not state, or that change no result;
            all others have the value above, or their default.
        needed: Those of ``varied`` that a caller must give, since no default is right.
    """

    parameters: Mapping[str, Any]
    varied: frozenset[str]
    needed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def values(
        self, title: str, declared: Mapping[str, Parameter], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The publication's parameters that are not defaults, with the values that a caller gives.

        ParameterError where a value contradicts the publication, is of no parameter, or is missing;
        ``title`` names algorithm and publication.
        """
        for name, value in given.items():
            if name not in declared:
                raise no_parameter(title, name, declared)
            fixed = self.parameters.get(name, declared[name].default)
            if name not in self.varied and value != fixed:
                raise ParameterError(
                    f"{name} {value} contradicts {title}: there it is {fixed}",
                    remedy=f"Leave out {_option(name)}, or --as-published (Python: as_published).",
                )
        for name in sorted(self.needed - {*given}):
            raise ParameterError(
                f"{title} needs {name}: {declared[name].help}",
                remedy=f"Say it: {_option(name)}, in Python as_published({name}=...).",
            )
        return {**self.parameters, **given}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


EMPTY: tuple[Any, ...] = ("", (), None)  # values of a parameter that mean it was not given
MOST_SHOWN = 20
Reading = Literal["labels", "interventions", "relations"]
Conclusion = TypeVar("Conclusion", bound=Finding)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a session has before its first question."""

    n_variables: int  # number of aligned variables, p
    n_sites: int  # size of the cohort, N
    # the variables in the order of their positions; identifiers "1", "2", ... where only the sites
    # know the names
    names: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()  # positions of the labels, for algorithms that need them
    seed: int = 0  # seed of all that the algorithm draws
    # how many sites have to contribute to a test whose sums are disclosed
    min_contributors: int = 1
    measured: Measured = field(default_factory=Measured)  # which variables the sites measured
    determined: Determined = NOTHING  # which variables follow from others, by the schema
    # for every variable its two categories in order, None if it has not two; empty where only the
    # sites know them
    coded: tuple[tuple[str, str] | None, ...] = ()
    visits: int = 1  # most rows of a patient at any site; 1 where every row is a person
    # how many sites the last sum covers
    present: Presence = field(default_factory=lambda: Presence(0), compare=False)

    def __post_init__(self) -> None:
        self.present.n_sites = self.n_sites
        if not self.names:
            numbers = tuple(str(number) for number in range(1, self.n_variables + 1))
            object.__setattr__(self, "names", numbers)

    def position(self, name: str) -> int:
        """The position of a column that a parameter names; ParameterError where there is none."""
        if name not in self.names:
            shown = ", ".join(self.names[:MOST_SHOWN])
            raise ParameterError(
                f"there is no column '{name}'",
                remedy=f"Columns are called {shown}{' ...' * (len(self.names) > MOST_SHOWN)}"
                + ("; say each column of a list by itself." if "," in name else "."),
            )
        return self.names.index(name)

    def referred(self, effect: EffectSize | None, *pair: int) -> EffectSize | None:
        """The effect of two variables with the categories that its sign refers to."""
        if effect is None or not self.coded:
            return effect
        two = [(self.names[v], *codes) for v in pair if (codes := self.coded[v]) is not None]
        said = (f"{name} = {second} (against {first})" for name, first, second in two)
        return replace(effect, of=" and ".join(said))


class Algorithm(ABC, Generic[Outcome, Conclusion]):
    """A federated algorithm; its fields are its parameters.

    Attributes:
        name: What questions, policies and results call it.
        title: What people call it.
        use: What it is for, as the command line lists it: a sentence in the imperative.
        usual: The parameters that the command line's short help shows; None: all.
        reads: What it reads of a schema beside the columns. The coordinator of an algorithm that
            reads labels or relations between variables learns their positions.
        retired: Parameters that are gone, with the value under which a saved run still reads.
        concludes: Type of its conclusions.
        takes_overlap: Whether sites may lack variables with some of its parameters.
        takes_visits: Whether rows may be visits of patients with any of its parameters.
        of_visits: What it discloses besides where rows are visits of patients.
        published: The parameters of its paper (``paper``) or of its authors' program (``code``);
            see `as_published`.
    """

    __slots__ = ()

    name: ClassVar[str]
    title: ClassVar[str]
    use: ClassVar[str] = ""
    usual: ClassVar[tuple[str, ...] | None] = None
    reads: ClassVar[frozenset[Reading]] = frozenset()
    retired: ClassVar[dict[str, object]] = {}
    concludes: ClassVar[type[Finding]] = LearntGraph
    takes_overlap: ClassVar[bool] = False
    takes_visits: ClassVar[bool] = False
    of_visits: ClassVar[tuple[Disclosure, ...]] = sums(Quantity.PATIENTS)
    published: ClassVar[Mapping[str, Published]] = {}

    @classmethod
    def as_published(cls, source: str = "paper", **varied: Any) -> Self:
        """The algorithm with the parameters of its paper, or of its authors' program (``code``).

        The publication's results need sites that restrict nothing
        (`cipherdag.Policy.as_published`); other policies perturb tests or refuse sums.

        Args:
            source: ``paper``, or ``code`` where a program was published.
            varied: Parameters that the source varies or leaves open.

        Raises:
            ParameterError: There is no such source, a value contradicts it, or one is missing.
        """
        published = cls.published.get(source)
        if published is None:
            sources = ", ".join(cls.published)
            raise ParameterError(
                f"{cls.title} follows {sources or 'nothing'} as published, not '{source}'",
                remedy=f"Take one of {sources}."
                if sources
                else f"Take it as it is: {cls.title}().",
            )
        title = f"{cls.title} as published in its {source}"
        given = published.values(title, options_of(cls), flattened(cls, varied))
        return cls(**grouped(cls, given))

    def __post_init__(self) -> None:
        check_parameters(self)
        self.check()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them; ``deep`` is not looked at."""
        del deep
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def set_params(self, **changed: Any) -> Self:
        """A new algorithm with some parameters changed; this one stays as it is.

        Where scikit-learn changes the object and returns it, an algorithm is frozen, so that a plan
        cannot change once it was read: take what is returned.

        Raises:
            ParameterError: There is no such parameter, or a value is out of its range.
        """
        declared = parameters_of(type(self))
        for name in changed:
            if name not in declared:
                raise no_parameter(self.title, name, declared)
        return type(self)(**{**self.get_params(), **changed})

    def __sklearn_clone__(self) -> Self:
        """The algorithm itself for ``sklearn.base.clone``: nothing can change it."""
        return self

    def check(self) -> None:
        """Refuse parameters that do not go together (ParameterError); each alone is checked."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that parameters name, an empty name for none; no column by default."""
        return ()

    def check_measured(self, measured: Measured) -> None:
        """Refuse sites that lack variables (ParameterError), unless the algorithm takes them."""
        require(
            measured.everywhere,
            f"{self.title} needs every variable of every site; Describe, FedPC and FedFCI take "
            "sites that lack some",
        )

    def check_visits(self, visits: int) -> None:
        """Refuse rows that are visits (ParameterError), unless the algorithm counts patients."""
        if visits > 1 and not self.takes_visits:
            raise ParameterError(
                f"{self.title} with these parameters takes rows for persons, and a site's are "
                "visits of patients",
                remedy=BY_PATIENT,
            )

    @abstractmethod
    def ask(self, facts: Facts) -> Asking[Outcome]:
        """The run as a generator: yields questions, receives sums, returns its outcome."""

    @abstractmethod
    def conclude(self, outcome: Outcome, facts: Facts) -> Conclusion:
        """Make the finding of an outcome, with variables by name."""

    def decisions(self, outcome: Outcome, facts: Facts) -> bytes:
        """The canonical bytes of the decisions, which all parties compute and must agree on."""
        return self.conclude(outcome, facts).decisions

    def used(self, conclusion: Conclusion, columns: ColumnTypes | None) -> dict[str, Any]:
        """The parameters that had a part in a run, with the values that were used, for its report.

        Each setting stands by itself; presets stand only where they differ from the default.
        ``columns`` says what the columns are; None where only the sites know it.
        """
        del conclusion, columns
        values = flattened(type(self), self.get_params())
        return {
            name: values[name]
            for name, known in options_of(type(self)).items()
            if (values[name] not in EMPTY or known.kind is int)  # no limit
            and (not known.preset or values[name] != known.default)
        }

    @abstractmethod
    def disclosures(self) -> tuple[Disclosure, ...]:
        """All that a run with these parameters may disclose, at least one thing.

        They include what each of its questions discloses; the columns and earlier sums may decide
        which questions are asked.
        """

    def disclosed(self, visits: int) -> tuple[Disclosure, ...]:
        """The `disclosures` of a run in which a patient has so many rows at most."""
        return (*self.disclosures(), *(self.of_visits if visits > 1 else ()))

    @property
    def most_rounds(self) -> int | None:
        """Most rounds of a run, where the parameters say so; it may end earlier."""
        return None

    def report(self, conclusion: Conclusion) -> Report:
        """Make the report of a conclusion from its details; empty by default."""
        del conclusion
        return Report()
