"""How a site computes each of the conditional-independence tests that questions name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.ci_tests.kci import KernelTest
from cipherdag.sites.compute.ci_tests.mixed import LikelihoodRatioTest
from cipherdag.sites.compute.pooled.site_regressions import RegressionTest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cipherdag.questions.ci_tests import CITestSpec
    from cipherdag.sites.compute.ci_tests.ci_test import CITest
    from cipherdag.sites.table.site_table import SiteTable

    Maker = Callable[[SiteTable, CITestSpec, str], CITest]

MAKERS: Mapping[str, Maker] = {
    "g2": DiscreteTest.of_table,
    "pearson": DiscreteTest.of_table,
    "fisherz": FisherZTest.of_table,
    "likelihood-ratio": LikelihoodRatioTest.of_table,
    "regression": RegressionTest.of_table,
    "kci": KernelTest.of_table,
}
"""By the names that `CI_TESTS` has under ``computed``: table, specification and device to test."""
