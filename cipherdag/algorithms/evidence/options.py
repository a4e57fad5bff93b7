"""The options of a run's tests over all sites, and the methods by which tests are done."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

import msgspec

from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Measured, Presence

SECOND_ALPHA = 0.3
"""The second level, at which tests that say independent are asked again for a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSettings:
    """An `EvidenceSettings` holds the options of the tests of a run."""

    spec: CITestSpec
    n_variables: int
    max_cells: int = 4096  # of a contingency table that is asked for
    max_rows: int = 1 << 20
    site_effect: bool = False  # whether regressions have constants per site
    interactions: bool = False  # whether what regressions condition on interacts
    present: Presence = field(default_factory=lambda: Presence(0))
    min_contributors: int = 1  # sites that have to contribute to a test whose sums are disclosed
    measured: Measured = field(default_factory=Measured)
    determined: Determined = NOTHING
    ranked: bool = False  # whether strengths are stored, which takes 16 bytes per pair
    visits: int = 1  # most rows of a patient at any site; 1 where every row is a person


def with_second_alpha(settings: EvidenceSettings) -> EvidenceSettings:
    """Return the settings of the same tests at the second level."""
    level = max(SECOND_ALPHA, settings.spec.alpha)
    return replace(settings, spec=msgspec.structs.replace(settings.spec, alpha=level))


class Method(StrEnum):
    """A `Method` is how a test over all sites was done; its value is what results call it."""

    done_by: str  # how the test was done; "" where it was not
    reason: str  # why it was not done as the evidence does tests; "" where it was

    WITHIN_SITES = "within sites"
    POOLED = "pooled"
    FISHER = "fisher"
    WEIGHTED_P = "weighted_p"
    REGRESSION = "regression"
    TOO_LARGE = "within sites", "too large"
    WITHHELD = "within sites", "withheld"
    INCOMPLETE = "within sites", "incomplete"
    FEW_VALUES = "within sites", "few values"
    CONSTANT = "varies at too few sites"
    """Pairs that too few sites can test given nothing; they count as independent."""
    TOO_FEW_ROWS = "", "too few rows"
    NOT_DONE = "", "no degrees of freedom or too few sites"
    NEVER_TOGETHER = "", "never measured together"
    DETERMINED = "", "a variable follows from those given"
    TOO_MANY_COEFFICIENTS = "", "too many coefficients"
    SITE_LEFT = "", "a site left"

    def __new__(cls, done_by: str, reason: str = "") -> Self:
        """Name the method by its reason and how it is done."""
        value = f"{reason}: {done_by or 'none'}" if reason else done_by
        method = str.__new__(cls, value)
        method._value_, method.done_by, method.reason = value, done_by, reason
        return method

    @property
    def phrase(self) -> str:
        """How the test was done, or that it was not, and the reason if there is one."""
        return f"{self.done_by or 'not done'} ({self.reason})" if self.reason else self.done_by
