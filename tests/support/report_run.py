"""A real run of three sites over ASIA, and its page, for every test of reports."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
from pages import Page

from cipherdag import Federation, FedPC
from cipherdag.graphs.networks import asia

TRUTH = asia().graph


@cache
def asia_run():
    """Three sites, masked, eight variables; the same object every time."""
    data = asia().sample(3000, np.random.default_rng(5))
    return Federation.split(data, 3, seed=2).run(
        FedPC(evidence="vote"), seed=4, source={"command": "simulate"}
    )


def altered(result, **changes):
    """A result with other fields of its own, or of its finding."""
    of_run = {own.name for own in fields(result)}
    inner = {name: changes.pop(name) for name in changes.keys() - of_run}
    return replace(result, finding=replace(result.finding, **inner), **changes)


def page_of(result, **options):
    """The page of a result, read strictly and found to need nothing else."""
    page = Page(result.page(**options))
    page.check_offline()
    return page
