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

    Attributes:
        name: The value of the parameter ``evidence``.
        discloses: What everybody learns, at most.
        open: Opens the source of p-values of some settings.
        close: Opens a source of verdicts, whose sums stay closed; None where there is none.
        closed: What everybody learns where sums stay closed.
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
    discloses: tuple[Disclosure, ...]
    open: Opening = field(repr=False)
    close: Opening | None = field(default=None, repr=False)
    closed: tuple[Disclosure, ...] = ()
    own_tests: bool = False
    triplets: bool = False
    asks_columns: bool = False
    overlapping: bool = False
    mixes_sites: bool = False
    tests: tuple[str, ...] = ()

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
