"""How the tests of a run are done, whatever method combines the sites."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Measured, Presence

SECOND_ALPHA = 0.3
"""p-value up to which independence is doubted, where p-values are weighed by bits."""


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


def with_second_alpha(settings: EvidenceSettings) -> EvidenceSettings:
    """The same tests at the second level."""
    level = max(SECOND_ALPHA, settings.spec.alpha)
    return replace(settings, spec=msgspec.structs.replace(settings.spec, alpha=level))
