"""Multi-label tables, and what FedCMFS finds in them."""

import numpy as np
from driving import drive, respondent
from oracle import OracleTest

from cipherdag.algorithms.algorithm import Facts
from cipherdag.questions.ci_tests import CITestSpec

SPEC = CITestSpec(alpha=0.05)


def oracle_outcome(dag, labels, algorithm, n_sites=3):
    sites = [respondent(OracleTest(dag)) for _ in range(n_sites)]
    return drive(algorithm.ask(Facts(len(dag), 3, labels=labels)), sites)


def found(outcome, label):
    own = outcome.by_label[label]
    return {*own.features, *own.labels}


def draw_labels(rng, n):
    return tuple(sorted(rng.choice(n, int(rng.integers(1, n // 2 + 1)), replace=False).tolist()))


def planted_tables(seed, n_sites=3, rows=600):
    """Figure 4: E is a weak parent of label C, whose child, label D, is close to a copy of it."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(n_sites):
        e, f, noise = rng.standard_normal((3, rows))
        c = 0.2 * e + 0.5 * f + rng.standard_normal(rows)
        d = c + 0.4 * rng.standard_normal(rows)
        tables.append(np.column_stack([c, d, e, f, noise]))
    return tables


def discrete_table(rng, n=9, rows=600):
    levels = rng.integers(2, 4, size=n)
    dag = np.triu(rng.random((n, n)) < 0.3, 1)
    codes = np.zeros((rows, n), dtype=np.int64)
    for v in range(n):
        shift = codes[:, dag[:, v]].sum(axis=1)
        noise = rng.integers(0, levels[v], size=rows)
        codes[:, v] = np.where(rng.random(rows) < 0.6, shift % levels[v], noise)
    return codes


def continuous_table(rng, n=9, rows=300):
    values = rng.standard_normal((rows, n))
    dag = np.triu(rng.random((n, n)) < 0.3, 1)
    for v in range(n):
        values[:, v] += values[:, dag[:, v]] @ rng.uniform(0.2, 0.8, size=dag[:, v].sum())
    return values


class Rounded:
    """A site whose answers lie on the declared grid, as they do under every protection."""

    def __init__(self, inner):
        self._inner = inner

    def answer(self, question):
        values = self._inner.answer(question)
        bits = [e.resolution_bits for e in question.encodings for _ in range(e.length)]
        bounds = [e.bound for e in question.encodings for _ in range(e.length)]
        assert (np.abs(values) <= bounds).all()
        grid = np.exp2(bits)
        return np.rint(values * grid) / grid
