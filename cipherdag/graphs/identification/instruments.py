"""Conditional instruments of one treatment and one outcome in a DAG whose effects are all linear.

z is an instrument given W if, with the arrows from the treatment x cut, W separates z from the
outcome y and not from x, and neither z nor W is an effect of x. Then y less the effect of x is
independent of z given W, and cov(z, y | W) / cov(z, x | W) is the total effect of x on y.

Sources: Pearl, "Causality", Cambridge 2009, definition 7.4.1; Brito and Pearl, "Generalized
instrumental variables", UAI 2002; van der Zander, Textor and Liskiewicz, "Efficiently finding
conditional instruments for causal inference", IJCAI 2015 (separators near the outcome).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from cipherdag.graphs.dags import Dag, members, turned
from cipherdag.graphs.identification.separation import (
    closure,
    connected,
    moral,
    without_arrows_from,
)
from cipherdag.graphs.identification.separators import minimal_separators

MOST_SEPARATORS = 100


def conditional_instruments(dag: Dag, x: int, y: int, observed: int) -> Iterator[tuple[int, int]]:
    """Every instrument z that is found, with a bit mask W of what it is one given.

    Args:
        dag: The DAG.
        x: The treatment.
        y: The outcome.
        observed: Bit mask of the variables that may be chosen.
    """
    cut = without_arrows_from(dag, 1 << x)
    usable = observed & ~closure(turned(dag), 1 << x) & ~(1 << y)
    for z in members(usable):
        separators = minimal_separators(moral(cut, y, z), y, z, usable & ~(1 << z))
        for given in islice(separators, MOST_SEPARATORS):  # the nearest to y comes first
            if connected(cut, z, given) >> x & 1:
                yield z, given
                break
