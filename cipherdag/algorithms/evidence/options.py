"""Evidence settings are the options of a run's tests, whatever method combines the sites."""

from dataclasses import dataclass, field, replace

import msgspec

from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Measured, Presence

SECOND_ALPHA = 0.3
"""The second level, at which tests that say independent are asked again for a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSettings:
    """An `EvidenceSettings` holds the options of the tests of a run.

    Attributes:
        max_cells: Largest contingency table that is asked for.
        site_effect: Whether regressions have constants per site.
        interactions: Whether the variables that regressions condition on interact.
        min_contributors: How many sites have to contribute to a test whose sums are disclosed.
        ranked: Whether strengths of dependence are stored, which takes 16 bytes per pair.
        visits: Most rows of a patient at any site; 1 where every row is a person.
    """

    spec: CITestSpec
    n_variables: int
    max_cells: int = 4096
    max_rows: int = 1 << 20
    site_effect: bool = False
    interactions: bool = False
    present: Presence = field(default_factory=lambda: Presence(0))
    min_contributors: int = 1
    measured: Measured = field(default_factory=Measured)
    determined: Determined = NOTHING
    ranked: bool = False
    visits: int = 1


def with_second_alpha(settings: EvidenceSettings) -> EvidenceSettings:
    """Return the settings of the same tests at the second level."""
    level = max(SECOND_ALPHA, settings.spec.alpha)
    return replace(settings, spec=msgspec.structs.replace(settings.spec, alpha=level))
