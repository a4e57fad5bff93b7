"""What an algorithm reads beside the columns, labels or interventions: whether the sites have it.

Leaks:
    Nothing: all data lie in this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.errors import ConstantColumnError
from cipherdag.sites.answers.belief_answers import no_interventions

if TYPE_CHECKING:
    from cipherdag.federation.site import Site


def check_marked(algorithm: Algorithm[Any, Any], sites: Sequence[Site]) -> None:
    """Refuse sites without what the algorithm reads.

    Raises:
        ConstantColumnError: It reads labels, and a label is constant at a site or a feature at
            every site, unless the schema allows it.
        SchemaError: It reads interventions, and no row of any site names one.
    """
    if "labels" in algorithm.reads:
        _check_labels(sites)
    marks = [site.table.interventions for site in sites]
    intervened = any(own is not None and own.any() for own in marks)
    if "interventions" in algorithm.reads and not intervened:
        raise no_interventions(
            f"{algorithm.title} needs rows of known interventions, and no row of any site names one"
        )


def _check_labels(sites: Sequence[Site]) -> None:
    """Refuse constant labels, and features that are constant everywhere."""
    variables = sites[0].table.schema.variables
    varies = [site.table.varies() for site in sites]
    for position, column in enumerate(variables):
        idle = [s.name for s, own in zip(sites, varies, strict=True) if not own[position]]
        if not idle or column.allow_constant:
            continue
        if column.label:
            raise ConstantColumnError(
                "the label holds one value only", column=column.name, site=idle[0]
            )
        if len(idle) == len(sites):
            raise ConstantColumnError(
                "the feature holds one value only at every site", column=column.name
            )
