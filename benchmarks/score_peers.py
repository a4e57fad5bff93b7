"""Score-based searches of causal-learn, and FLOP, on all rows at one place, in the clear.

causal-learn's are at its defaults; FLOP (`flopsearch`, numbers only) has its recommended penalty.

Every runner takes a table and whether it is of categories, and gives the directed and undirected
edges that it found, shape (p, p), as `CausalGraph.from_arcs` reads them. Categories are scored by
BDeu, numbers by BIC.
"""

from __future__ import annotations

import contextlib
import io
from functools import partial

import numpy as np

RESTARTS = 5


def codes_of(data) -> np.ndarray:
    """Categories as whole numbers from 0, shape (n, p)."""
    return np.column_stack([np.unique(data[own], return_inverse=True)[1] for own in data])


def causal_learn(search: str, data, *, discrete: bool) -> np.ndarray:
    """``boss``, ``grasp`` or ``ges``."""
    from causallearn.search.PermutationBased.BOSS import boss
    from causallearn.search.PermutationBased.GRaSP import grasp
    from causallearn.search.ScoreBased.GES import ges

    rows = codes_of(data) if discrete else data.to_numpy()
    score = "local_score_BDeu" if discrete else "local_score_BIC_from_cov"
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does
        if search == "ges":
            found = ges(rows, score)["G"]
        else:
            found = {"boss": boss, "grasp": grasp}[search](rows, score, verbose=False)
    # 1 at [j, i] and -1 at [i, j] is i -> j, -1 at both i - j
    ends = np.asarray(found.graph)
    return (ends.T == 1) | ((ends == -1) & (ends.T == -1))


def flop(data, *, discrete: bool) -> np.ndarray:
    """FLOP (Wienöbst, Henckel and Weichwald, 2025), with as many restarts as FedBOSS."""
    import flopsearch

    if discrete:
        raise ValueError("FLOP takes numbers alone")
    rows = data.to_numpy()
    standardised = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    # 1 at [i, j] is i -> j, 2 at both is i - j
    return np.asarray(flopsearch.flop(standardised, 2.0, restarts=RESTARTS)) > 0


PEERS = {
    "FLOP": flop,
    "causal-learn BOSS": partial(causal_learn, "boss"),
    "causal-learn GRaSP": partial(causal_learn, "grasp"),
    "causal-learn GES": partial(causal_learn, "ges"),
}
