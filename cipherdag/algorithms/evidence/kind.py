"""What a kind of evidence is: a name, how its p-values are opened, and what that opens."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.algorithms.evidence.closed import DOUBTED
from cipherdag.algorithms.evidence.source import WherePossible
from cipherdag.arrays import FloatVector
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Measured, Presence
from cipherdag.questions.question import Question

if TYPE_CHECKING:
    from cipherdag.algorithms.evidence.source import EvidenceSource


AGAIN = (
    "Of tests of the ends of unshielded triples that say independent, whether they do at the level "
    f"{DOUBTED}, too."
)
"""What everybody learns besides where verdicts judge triples by all sets."""
STAYED_CLOSED = (
    "Of every test one bit was opened, whether it says dependent: no sum, statistic or p-value."
)
OPENED_BESIDE = (
    "Also opened were the kinds of columns, the rows of all sites together, to a power of two the "
    "rows of each category, and of every two variables whether any site can test them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSettings:
    """How the tests of a run are done.

    Attributes:
        spec: The test.
        n_variables: Number of aligned variables, p.
        max_cells: Largest contingency table that is asked for.
        max_rows: Declared bound of a site's rows.
        rows: Rows of all sites together, where these are told and none is left out; else 0.
        site_effect: Whether regressions have constants of every site's own.
        interactions: Whether the variables that regressions condition on interact.
        present: How many sites the last sum covers.
        fewest: How many sites have to contribute to a test whose sums are opened.
        measured: Which variables the sites measured.
        determined: Which of them follow from others.
        ranked: Whether anyone asks how dependent pairs are, which takes 16 bytes of every pair.
    """

    spec: CITestSpec
    n_variables: int
    max_cells: int = 4096
    max_rows: int = 1 << 20
    rows: int = 0
    site_effect: bool = False
    interactions: bool = False
    present: Presence = field(default_factory=lambda: Presence(0))
    fewest: int = 1
    measured: Measured = field(default_factory=Measured)
    determined: Determined = NOTHING
    ranked: bool = False


Opening = Callable[[EvidenceSettings], "Generator[Question, FloatVector, EvidenceSource]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceKind:
    """One kind of evidence; `cipherdag.algorithms.evidence.registry` lists them.

    Attributes:
        name: What parameters call it.
        discloses: What the coordinator learns, in one sentence.
        open: Yields the source of p-values of some settings.
        close: The same by bits, whose sums stay closed; None where sums have to be opened.
        closed: What everybody learns of it then, in one sentence.
        any_test: Whether it takes p-values alone, hence tests whose statistics do not add up.
        triplets: Whether FedCMFS can use it, test by test.
        asks_columns: Whether it asks for the kinds of columns, and so can compare the sites.
        overlapping: Whether sites may lack variables: its sums cover whoever can do a test.
        mixes_sites: Whether differences between sites may look like dependence; of ``glm``, where
            regressions have no constants of every site's own.
        tests: Names of tests that it takes, where it has tests of its own; empty for any.

    Raises:
        ValueError: Nothing is said of what it discloses.
    """

    name: str
    discloses: str
    open: Opening = field(repr=False)
    close: Opening | None = field(default=None, repr=False)
    closed: str = ""
    any_test: bool = False
    triplets: bool = False
    asks_columns: bool = False
    overlapping: bool = False
    mixes_sites: bool = False
    tests: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        silent = not self.discloses.strip() or (self.close is not None and not self.closed.strip())
        if silent:
            raise ValueError(f"evidence '{self.name}' does not say what it discloses")

    def source(
        self, settings: EvidenceSettings, *, closed: bool
    ) -> Generator[Question, FloatVector, EvidenceSource]:
        """The source of p-values, or of verdicts where sums stay ``closed``.

        A test whose variables no site measured together is never asked, nor one given what
        determines a variable.
        """
        opening = self.close if closed and self.close is not None else self.open
        source = yield from opening(settings)
        if settings.measured.everywhere and not settings.determined:
            return source
        return WherePossible(source, settings.measured, settings.determined)

    def told(self, *, closed: bool, p_value_drop: bool = False) -> str:
        """What is learnt of it, in a sentence; of triples that ``p_value_drop`` judges in two."""
        if not closed:
            return self.discloses
        return f"{self.closed} {AGAIN}" if p_value_drop else self.closed

    @property
    def stayed_closed(self) -> str:
        """What a report says of a run by bits: what stayed closed, and what did not."""
        return f"{STAYED_CLOSED} {OPENED_BESIDE}" if self.asks_columns else STAYED_CLOSED
