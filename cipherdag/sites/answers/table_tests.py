"""A site's conditional-independence tests: those that questions name, over its own table."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import IndexArray
from cipherdag.errors import BoundExceededError, MixedTypesError
from cipherdag.graphs.relations import Determined
from cipherdag.questions.ci_tests import CI_TESTS, CITestSpec, fitting_tests
from cipherdag.questions.combined_evidence import SUMMED
from cipherdag.sites.compute.ci_tests.ci_test import CITest, CITestResult, ci_test_class, not_done
from cipherdag.sites.table.site_table import SiteTable

FAR = 1000.0
"""A number farther from the median, in robust standard deviations, is blamed if a run ends."""
NORMAL = 1.4826  # from a median deviation to the standard deviation of a Gaussian


def table_test(table: SiteTable, spec: CITestSpec, *, device: str = "auto") -> CITest:
    """The test that a question names, over a site's table; MixedTypesError if it does not fit."""
    kind = CI_TESTS[spec.name]
    computed = kind.computed.get(table.kind)
    several = [column for column in table.schema.variables if column.cardinality > 2]  # noqa: PLR2004
    many = [column.name for column in several if not (kind.scored and column.scores)]
    # some tests that a run asks for are computed by another one
    asked = next((name for name, summed in SUMMED.items() if summed == spec.name), spec.name)
    asked = "auto" if asked == "by-type" else asked
    if computed is None:
        raise MixedTypesError(
            f"the test '{asked}' cannot treat {table.kind} columns",
            column=odd_column(table),
            remedy=fitting_tests(table.kind, kind, two_categories=not many),
        )
    if many and CI_TESTS[computed].two_categories and spec.name != "numbers":
        raise MixedTypesError(
            f"the test '{asked}' takes discrete columns of two categories only",
            column=many[0],
            remedy=fitting_tests(table.kind, kind, two_categories=False),
        )
    return ci_test_class(computed).of_table(table, spec, computed, device)


@dataclass(frozen=True, slots=True)
class CountedTest:
    """A test that counts what it is about to compute against a budget."""

    test: CITest
    spend: Callable[[int], None]

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> CITestResult:
        """See `CITest.evaluate`; the budget may refuse."""
        self.spend(len(x))
        return self.test.evaluate(x, y, given)


@dataclass(frozen=True, slots=True)
class PossibleTest:
    """A test that is skipped where S determines x or y.

    The sites' half of the rule of `cipherdag.algorithms.evidence.federated_test.OverlapFilter`, for
    votes and p-values of one site. The schema that all sites share says which tests these are.
    """

    test: CITest
    determined: Determined

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> CITestResult:
        """See `CITest.evaluate`; NaN, and no row, where S determines x or y."""
        possible = ~self.determined.undone(np.column_stack([x, y, given]))
        if possible.all():
            return self.test.evaluate(x, y, given)
        done = self.test.evaluate(x[possible], y[possible], given[possible])
        outcomes = not_done(np.zeros(len(x), dtype=np.int64))
        columns = (done.p_value, done.statistic, done.dof, done.dependence, done.rows)
        outcomes[possible] = np.column_stack(columns)
        return CITestResult.of(outcomes)


def far_number(table: SiteTable) -> BoundExceededError | None:
    """Explain an answer beyond its bound for the site's screen; None where no number is far out.

    It names the column whose farthest number is the most robust deviations from the median.
    """
    worst, column = FAR, ""
    for position, variable in enumerate(table.schema.variables):
        if variable.cardinality or table.values is None:
            continue
        held = table.values[:, position]
        away = np.abs(held - np.nanmedian(held)) if not np.isnan(held).all() else np.zeros(1)
        spread = NORMAL * float(np.nanmedian(away)) or float(np.nanmean(away))
        if spread > 0.0 and (far := float(np.nanmax(away)) / spread) > worst:
            worst, column = far, variable.name
    if not column:
        return None
    return BoundExceededError(
        f"a number of column '{column}' is so far from its others that sums of it are beyond what "
        "the run declares",
        remedy=f"If it is a mistake, correct it, or write it under missing of '{column}' in "
        "schema.toml (plausible = [least, greatest] there finds its row); if it is right, write "
        f"logarithms of '{column}' into the data of every site.",
    )


def odd_column(table: SiteTable) -> str | None:
    """The first column of the minority type in a mixed table, or None."""
    if table.kind != "mixed":
        return None
    discrete = [column.name for column in table.schema.variables if column.cardinality]
    others = [column.name for column in table.schema.variables if not column.cardinality]
    return min(others, discrete, key=len)[0]
