"""How each of the conditional-independence tests that questions name is made of a site's table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.sites.compute.ci_tests.ci_test import CITest
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest, Statistic
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.ci_tests.kci import KernelTest
from cipherdag.sites.compute.ci_tests.mixed import LikelihoodRatioTest
from cipherdag.sites.compute.pooled.regression.steps import RegressionTest
from cipherdag.sites.table.site_table import SiteTable

Maker = Callable[[SiteTable, CITestSpec, str], CITest]

log = logging.getLogger("cipherdag.site")


def _tables(statistic: Statistic, table: SiteTable, spec: CITestSpec, device: str) -> CITest:
    assert table.codes is not None, "a discrete table has codes"
    return DiscreteTest(
        table.codes,
        statistic=statistic,
        dof=spec.dof,
        min_rows_per_cell=spec.min_rows_per_cell,
        constant=spec.constant,
        device=device,
    )


def _fisher_z(table: SiteTable, _: CITestSpec, device: str) -> CITest:
    return FisherZTest(table.numbers(), device=device)


def _likelihood_ratio(table: SiteTable, _: CITestSpec, device: str) -> CITest:
    return LikelihoodRatioTest(table.numbers(), np.array(table.cardinalities) > 0, device=device)


def _regression(table: SiteTable, spec: CITestSpec, _device: str) -> CITest:
    numbers = table.numbers()
    return RegressionTest(
        table.cardinalities,
        lambda v: numbers[:, v],
        table.ordered,
        interactions=spec.name == "regression-interactions",
        fewest=spec.min_rows_per_cell,
    )


def _kernel(table: SiteTable, spec: CITestSpec, device: str) -> CITest:
    if table.rows > spec.kernel_rows:
        log.info("kernel tests look at %d rows, evenly spaced, of more", spec.kernel_rows)
    return KernelTest(table.numbers(), max_rows=spec.kernel_rows, device=device)


MAKERS: Mapping[str, Maker] = {
    "g2": partial(_tables, "g2"),
    "pearson": partial(_tables, "pearson"),
    "exact-mean": partial(_tables, "exact-mean"),
    "fisherz": _fisher_z,
    "likelihood-ratio": _likelihood_ratio,
    "regression": _regression,
    "regression-interactions": _regression,
    "kci": _kernel,
}
"""By the names that `CI_TESTS` has under ``computed``: table, specification and device to test."""
