"""Linear models and discrete networks of a DAG, in which causal effects are known by definition."""

from functools import cache
from itertools import combinations

import numpy as np
from oracle import OracleTest


class LinearModel:
    """Random weights on a DAG: total effects by matrix inversion, regressions by covariances."""

    def __init__(self, dag, rng):
        p = len(dag)
        weights = np.where(dag, rng.uniform(0.4, 1.6, (p, p)) * rng.choice([-1, 1], (p, p)), 0.0)
        self.total = np.linalg.inv(np.eye(p) - weights)
        noise = np.diag(rng.uniform(0.5, 2.0, p))
        self.covariance = self.total.T @ noise @ self.total

    def coefficient(self, x, y, given):
        """That of x in the regression of y on x and the variables given."""
        on = [x, *given]
        return np.linalg.solve(self.covariance[np.ix_(on, on)], self.covariance[on, y])[0]

    def partial(self, a, b, given):
        """Covariance of two variables given others."""
        on, both = list(given), [a, b]
        inner = np.linalg.solve(self.covariance[np.ix_(on, on)], self.covariance[np.ix_(on, both)])
        left = self.covariance[np.ix_(both, both)] - self.covariance[np.ix_(both, on)] @ inner
        return left[0, 1]

    def variance_factor(self, x, y, given):
        """Asymptotic variance of the coefficient: residual of y over residual of x."""
        return self.partial(y, y, [x, *given]) / self.partial(x, x, given)


class BinaryNetwork:
    """Random tables on a DAG over yes and no: the whole joint distribution, and under do(x)."""

    def __init__(self, dag, rng):
        self.p = len(dag)
        self.factors = []
        for v in range(self.p):
            shape = tuple(2 if u == v or dag[u, v] else 1 for u in range(self.p))
            yes = rng.uniform(0.1, 0.9, [1 if u == v else n for u, n in enumerate(shape)])
            self.factors.append(np.concatenate([1 - yes, yes], axis=v))

    def joint(self, do=None):
        """Shape (2, ..., 2); without the factor of a variable that is set, so it sums to 2."""
        whole = np.ones((2,) * self.p)
        for v, factor in enumerate(self.factors):
            if v != do:
                whole = whole * factor
        return whole

    def effect(self, x, y):
        """P(y | do(x)), axes x and y."""
        return self.marginal(self.joint(do=x), [x, y])

    def marginal(self, table, kept):
        """Over some variables, axes in their order."""
        out = table.sum(axis=tuple(v for v in range(self.p) if v not in kept))
        return out.transpose(np.argsort(np.argsort(kept)))

    def by_adjustment(self, x, y, given):
        """Sum over z of P(y | x, z) P(z), axes x and y."""
        both = self.marginal(self.joint(), [x, y, *given]).reshape(2, 2, -1)
        return np.einsum("xyz,z->xy", both / both.sum(1, keepdims=True), both.sum((0, 1)))

    def by_front_door(self, x, y, mediators):
        """Sum over m of P(m | x) and over x' of P(y | m, x') P(x'), axes x and y."""
        both = self.marginal(self.joint(), [x, y, *mediators]).reshape(2, 2, -1)
        given_x = both.sum(1) / both.sum((1, 2))[:, None]
        outcome = both / both.sum(1, keepdims=True)
        return np.einsum("xm,wym,w->xy", given_x, outcome, both.sum((1, 2)))


class Criterion:
    """The adjustment criterion of Shpitser et al. (2010) in one DAG, word for word."""

    def __init__(self, dag, x, y):
        below = reached(dag)
        causal = [v for v in range(len(dag)) if v != x and below[x, v] and below[v, y]]
        self.forbidden = {x, y} | {w for v in causal for w in np.flatnonzero(below[v]).tolist()}
        cut = dag.copy()
        cut[x, causal] = False
        self.oracle, self.x, self.y = OracleTest(cut), x, y

    def __call__(self, given):
        return not self.forbidden & set(given) and self.oracle.separated(self.x, self.y, given)


def reached(dag):
    """True at [u, v] where a directed path leads from u to v, or u is v."""
    steps = dag | np.eye(len(dag), dtype=bool)
    return np.linalg.matrix_power(steps.astype(float), len(dag)) > 0


@cache
def subsets(variables):
    """All subsets of a tuple, small ones first."""
    return [own for n in range(len(variables) + 1) for own in combinations(variables, n)]


def minimal(sets):
    """Those of which no other is a part."""
    return {own for own in sets if not any(set(other) < set(own) for other in sets)}


def triangular_dags(p):
    """Every DAG over p variables but for their names: the upper triangles."""
    above = np.transpose(np.triu_indices(p, 1))
    for bits in range(1 << len(above)):
        dag = np.zeros((p, p), dtype=bool)
        for i, (u, v) in enumerate(above):
            dag[u, v] = bits >> i & 1
        yield dag
