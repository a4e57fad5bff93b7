"""All that a site can answer from its own table, put together.

Leaks:
    Nothing: answers stay inside the site until they are protected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.sites.answers.belief_answers import table_beliefs
from cipherdag.sites.answers.odd_column import far_number
from cipherdag.sites.answers.regret_answers import table_scores
from cipherdag.sites.answers.resampling import Resamples
from cipherdag.sites.answers.respondent import Respondent, table_tests
from cipherdag.sites.compute.ci_tests.ci_test import CITest
from cipherdag.sites.table.rows.digest import Keyed, unkeyed
from cipherdag.sites.table.site_table import SiteTable

if TYPE_CHECKING:
    from cipherdag.sites.compute.pooled.poolable_data import PoolableData
    from cipherdag.sites.policy.usage import TestBudget


def table_respondent(
    table: SiteTable,
    *,
    min_cell_size: int,
    device: str = "auto",
    budget: TestBudget | None = None,
    keyed: Keyed = unkeyed,
) -> Respondent:
    """Answers every kind of question about a site's table.

    Args:
        table: The site's aligned data; rows with interventions train beliefs and nothing else.
        min_cell_size: Smallest count that a pooled count may come from.
        device: ``cpu``, ``cuda`` or ``auto``.
        budget: Counts what is computed against the site's policy.
        keyed: The key of all that the site draws and blurs by; none in a simulation.
    """
    observed = table.observational()
    spend = None if budget is None else budget.spend

    def pooled(own: SiteTable, within: PoolableData | None = None) -> PoolableData:
        from cipherdag.sites.compute.pooled.poolable_data import PoolableData

        return PoolableData(
            own.codes,
            own.values,
            own.cardinalities,
            min_cell_size=min_cell_size,
            device=device,
            spend=spend,
            within=within,
            ordered=own.ordered,
            keyed=keyed,
        )

    def tests(own: SiteTable) -> Callable[[CITestSpec], CITest]:
        made = table_tests(own, device=device)
        return made if budget is None else budget.counted(made)

    pool = pooled(observed)

    def respond_drawn(own: SiteTable) -> Respondent:
        by = table.schema.determined
        return Respondent(len(own.names), tests(own), pool=pooled(own, pool), determined=by)

    return Respondent(
        len(table.names),
        tests(observed),
        make_scores=table_scores(
            observed,
            device=device,
            spend=spend,
            least=min_cell_size,
            blur=(lambda: pool.blur) if min_cell_size > 1 else None,
        ),
        pool=pool,
        learn=table_beliefs(
            table, min_cell_size=min_cell_size, device=device, spend=spend, keyed=keyed
        ),
        resamples=Resamples(observed, respond_drawn, keyed=keyed),
        determined=table.schema.determined,
        explain=lambda: far_number(table),
    )
