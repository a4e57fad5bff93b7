"""A combination method defines how p-values over all sites are opened, and what that discloses."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from cipherdag.algorithms.evidence.federated_test import CachedFederatedCITest
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.arrays import FloatVector
from cipherdag.questions.disclosure import Disclosure, Quantity, bits
from cipherdag.questions.question import Question

Opening = Callable[[EvidenceSettings], Generator[Question, FloatVector, CachedFederatedCITest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinationMethod:
    """A `CombinationMethod` combines the sites' evidence; the module `registry` lists all.

    ValueError where it does not say what it discloses.
    """

    name: str  # the value of the parameter ``evidence``
    discloses: tuple[Disclosure, ...]  # what everybody learns, at most
    open: Opening = field(repr=False)  # opens the source of p-values of some settings
    # opens a source of verdicts, whose sums stay closed; None where there is none
    close: Opening | None = field(default=None, repr=False)
    closed: tuple[Disclosure, ...] = ()  # what everybody learns where sums stay closed
    # whether the columns alone decide its tests, and no test of a site's is computed
    own_tests: bool = False
    triplets: bool = False  # whether FedCMFS can use it, test by test
    # whether it asks for the kinds of columns, and so can compare the sites
    asks_columns: bool = False
    # whether sites may lack variables: sums cover the sites that can do a test
    overlapping: bool = False
    mixes_sites: bool = False  # whether differences between sites may look like dependence
    tests: tuple[str, ...] = ()  # names of the tests it accepts; empty for all

    def __post_init__(self) -> None:
        if not self.discloses or (self.close is not None and not self.closed):
            raise ValueError(f"evidence '{self.name}' does not say what it discloses")

    def source(
        self, settings: EvidenceSettings, *, closed: bool
    ) -> Generator[Question, FloatVector, CachedFederatedCITest]:
        """Open the source of p-values, or of verdicts where sums stay ``closed``."""
        opening = self.close if closed and self.close is not None else self.open
        return opening(settings)

    def disclosures(self, *, closed: bool, lenient: bool = False) -> tuple[Disclosure, ...]:
        """What everybody learns; ``lenient`` where tests are also asked at a larger level."""
        if not closed:
            return self.discloses
        return (*self.closed, *bits(*(Quantity.LENIENT,) * lenient))
