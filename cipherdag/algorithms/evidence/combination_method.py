"""A combination method defines how p-values over all sites are opened, and what that discloses."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from cipherdag.algorithms.evidence.federated_test import FederatedCITest, OverlapFilter
from cipherdag.algorithms.evidence.options import SECOND_ALPHA, EvidenceSettings
from cipherdag.arrays import FloatVector
from cipherdag.questions.question import Question

SECOND_ALPHA_DISCLOSES = (
    "Of tests of the ends of unshielded triples that say independent, whether they do at the level "
    f"{SECOND_ALPHA}, too."
)
"""What everybody learns in addition where triples are oriented by verdicts of all sets."""
NOTHING_OPENED = (
    "Of every test one bit was opened, whether it says dependent: no sum, statistic or p-value."
)
ALSO_OPENED = (
    "Also opened were the kinds of columns, the rows of all sites together, and of every two "
    "variables whether any site can test them."
)


Opening = Callable[[EvidenceSettings], Generator[Question, FloatVector, FederatedCITest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinationMethod:
    """A `CombinationMethod` combines the sites' evidence; the module `registry` lists all.

    Attributes:
        name: The value of the parameter ``evidence``.
        discloses: What the coordinator learns, in one sentence.
        open: Opens the source of p-values of some settings.
        close: Opens a source of verdicts, whose sums stay closed; None where there is none.
        closed: What everybody learns of verdicts, in one sentence.
        own_tests: Whether the columns alone decide its tests, and no test of a site's is computed.
        triplets: Whether FedCMFS can use it, test by test.
        asks_columns: Whether it asks for the kinds of columns, and so can compare the sites.
        overlapping: Whether sites may lack variables: sums cover the sites that can do a test.
        mixes_sites: Whether differences between sites may look like dependence.
        tests: Names of the tests it accepts; empty for all.

    Raises:
        ValueError: It does not say what it discloses.
    """

    name: str
    discloses: str
    open: Opening = field(repr=False)
    close: Opening | None = field(default=None, repr=False)
    closed: str = ""
    own_tests: bool = False
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
    ) -> Generator[Question, FloatVector, FederatedCITest]:
        """Open the source of p-values, or of verdicts where sums stay ``closed``.

        Tests whose variables no site measured together are never asked for, nor tests given
        variables that determine x or y.
        """
        opening = self.close if closed and self.close is not None else self.open
        source = yield from opening(settings)
        if settings.measured.everywhere and not settings.determined:
            return source
        return OverlapFilter(source, settings.measured, settings.determined)

    def disclosure(self, *, closed: bool, p_value_drop: bool = False) -> str:
        """Return what is disclosed, in a sentence; with ``p_value_drop`` in two."""
        if not closed:
            return self.discloses
        return f"{self.closed} {SECOND_ALPHA_DISCLOSES}" if p_value_drop else self.closed

    @property
    def bits_summary(self) -> str:
        """The sentences of a report on what stayed closed in a run by bits, and what did not."""
        return f"{NOTHING_OPENED} {ALSO_OPENED}" if self.asks_columns else NOTHING_OPENED
