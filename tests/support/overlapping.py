"""Six sites that measured different variables of twelve, and their rows together."""

import numpy as np
import pandas as pd

from cipherdag import Federation, Policy
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.sites.policy.policy import QUESTION_KINDS

NAMES = tuple(f"v{k:02d}" for k in range(12))
LACKING = (("v00", "v05"),) * 3 + (("v03", "v09"),) * 3
"""Every site lacks two, and two groups of three lack the same."""
EXACT = Policy(questions=QUESTION_KINDS, min_cell_size=0)
"""Nothing is blurred, so that sums are those of the rows."""


def chained(rng, rows, *, discrete=()):
    """Rows of variables that depend on their two left neighbours; some are cut in two."""
    data = np.zeros((rows, len(NAMES)))
    for v in range(len(NAMES)):
        data[:, v] = 0.4 * data[:, max(v - 2, 0) : v].sum(axis=1) + rng.normal(size=rows)
        if v in discrete:
            data[:, v] = data[:, v] > 0
    return pd.DataFrame(data, columns=NAMES)


def sites_of(rng, lacking=LACKING, *, discrete=(), rows=(150, 260)):
    """A frame for every site, without what it lacks."""
    drawn = [chained(rng, int(rng.integers(*rows)), discrete=discrete) for _ in lacking]
    return [own.drop(columns=list(less)) for own, less in zip(drawn, lacking, strict=True)]


def p_values(federation, algorithm, tests):
    """The p-values of tests (x, y, s1, ...) by name, asked over the real protocol."""
    names = federation.sites[0].table.names
    rows = [[names.index(own) for own in test] for test in tests]
    sizes = range(max(map(len, rows)) - 1)
    blocks = [np.array([r for r in rows if len(r) == 2 + k] or np.zeros((0, 2 + k))) for k in sizes]

    def asking(facts):
        algorithm.check_measured(facts.measured)
        settings = algorithm.evidence_settings(facts)
        source = yield from EVIDENCE[algorithm.decided_by].source(settings, closed=algorithm.closed)
        found = yield from source.p_values([block.astype(np.int64) for block in blocks])
        return found, source.n_tests_by_method

    found, n_tests_by_method = federation.ask(algorithm.name, asking).outcome
    by_size = [iter(own.tolist()) for own in found]
    return np.array([next(by_size[len(test) - 2]) for test in rows]), dict(n_tests_by_method)


def having(frames, test):
    """The frames that have all variables of a test."""
    return [own for own in frames if set(test) <= set(own.columns)]


def simulated(frames, **options):
    """The federation of some frames; sites may lack columns."""
    return Federation.simulate(
        frames, **({"overlapping": True, "policy": EXACT, "device": "cpu"} | options)
    )
