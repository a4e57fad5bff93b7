"""The best graph by exact search, as an oracle for a site's greedy one."""

from cipherdag.graphs.dags import members, submasks


def exact_search(scores):
    """An optimal DAG by dynamic programming over sinks (Silander and Myllymaki, UAI 2006)."""
    p = scores.n_variables
    everything = (1 << p) - 1
    scores.prepare((v, parents) for v in range(p) for parents in submasks(everything & ~(1 << v)))
    best = [_best_parents(scores, v, everything & ~(1 << v)) for v in range(p)]
    total = [0.0] * (everything + 1)
    sink = [0] * (everything + 1)
    for subset in range(1, everything + 1):
        total[subset], sink[subset] = min(
            (total[subset ^ 1 << v] + best[v][subset ^ 1 << v][0], v) for v in members(subset)
        )
    dag = [0] * p
    left = everything
    while left:
        v = sink[left]
        left ^= 1 << v
        dag[v] = best[v][left][1]
    return tuple(dag)


def _best_parents(scores, v, others):
    """Finds the best parents of v within every set of candidates: their score and mask."""
    best = {}
    for pool in submasks(others):
        candidate = (scores.of((v, pool)), pool)
        # on a tie the smaller set, which a smaller pool has
        within = [best[pool ^ 1 << u] for u in members(pool)]
        best[pool] = min([*within, candidate], key=lambda entry: (entry[0], entry[1].bit_count()))
    return best
