"""MB-MCF, phases 1 and 2: every label's Markov blanket, and features that another label hid.

Source: Wu, Jiang, Yu, Chen, Miao, "Multi-label causal feature selection", AAAI 2020, 6430-6437. At
hand were its abstract and the caption of its Figure 2, and no program: phase 1 learns the local
causal structure of each label, phase 2 retrieves what is left out of a label's because another
label blocks it (Theorem 2), phase 3 finds features common to labels among equivalent blankets
(Theorem 3). Phase 1 is HITON-MB here (Aliferis et al., JMLR 11, 2010: parents and children, and
spouses through each of them); phase 2 is FedCMFS's Algorithm 2, of the same purpose, over all
features left out. Phase 3 is missing, since Theorem 3 is not known here: where blankets are
equivalent, one is kept. Nor is it known how the original finds a blanket, by which tests and with
sets of how many variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag import FedCMFS
from cipherdag.algorithms.fedcmfs.hiton import Sets, Triplets, parents_and_children
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.encodings import subsets
from cipherdag.questions.gather import gather

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from cipherdag.algorithms.algorithm import Facts
    from cipherdag.questions.encodings import FloatVector
    from cipherdag.questions.question import Question

    Blankets = Generator[Question, FloatVector, dict[int, frozenset[int]]]

MAX_COND_SIZE = 3


def ask(facts: Facts, alpha: float = 0.05, max_cond_size: int | None = MAX_COND_SIZE) -> Blankets:
    """Every label's features by position; a generator of questions to one site.

    Args:
        facts: Variables, and which are labels.
        alpha: Independent iff p > alpha.
        max_cond_size: Largest conditioning set; None for no limit.
    """
    learning = FedCMFS(
        alpha=alpha, k1=100, k2=0, max_cond_size=max_cond_size, retrieval="paper", reveal="sums"
    )
    outcome = yield from learning.ask(facts)
    near = {label: own.learned for label, own in outcome.by_label.items()}
    triplets = Triplets(
        n_variables=facts.n_variables,
        test=CITestSpec(alpha=alpha, name="by-type", dof="adjusted", constant="untestable"),
        max_cond_size=max_cond_size,
        part="FedCFC",
        max_rows=learning.max_rows,
    )
    between = sorted({v for own in near.values() for v in own} - set(near))
    found = yield from gather([parents_and_children(triplets, v) for v in between])
    around = near | {v: own.members for v, own in zip(between, found, strict=True)}
    labels = list(near)
    spouses = yield from gather([spouses_of(triplets, label, around) for label in labels])
    return {
        label: frozenset((*near[label], *outcome.by_label[label].retrieved, *own)) - set(near)
        for label, own in zip(labels, spouses, strict=True)
    }


def spouses_of(
    triplets: Triplets, target: int, around: Mapping[int, tuple[int, ...]]
) -> Generator[Question, FloatVector, set[int]]:
    """Variables that depend on the target once a neighbour of both is known.

    The set without it that separates them best is of the target's neighbours; in two rounds.

    Args:
        triplets: Asks the site.
        target: Position of the target.
        around: Parents and children of the target and of each of them.
    """
    own = around[target]
    pairs = [
        (between, far) for between in own for far in around[between] if far not in {target, *own}
    ]
    pools = [np.array([v for v in own if v != between], dtype=np.int64) for between, _ in pairs]
    families = [
        (target, far, [pool[subsets(len(pool), size)] for size in triplets.sizes(len(pool))])
        for (_, far), pool in zip(pairs, pools, strict=True)
    ]
    p_values = yield from triplets.given(families)
    checks: list[tuple[int, int, Sets]] = []
    for (between, far), (_, _, sets), found in zip(pairs, families, p_values, strict=True):
        best = _separator(sets, found, triplets.test.alpha)
        checks.append((target, far, [] if best is None else _only(np.append(best, between))))
    p_values = yield from triplets.given(checks)
    return {
        far
        for (_, far), found in zip(pairs, p_values, strict=True)
        if any((p < triplets.test.alpha).any() for p in found)
    }


def _only(members: np.ndarray) -> Sets:
    """One set, as sets by size."""
    return [np.zeros((0, size), dtype=np.int64) for size in range(len(members))] + [members[None]]


def _separator(sets: Sets, p_values: list[FloatVector], alpha: float) -> np.ndarray | None:
    """The set of largest p above alpha; None if no set separates."""
    best, largest = None, alpha
    for own, found in zip(sets, p_values, strict=True):
        known = np.nan_to_num(found, nan=-1.0)
        if known.size and known.max() > largest:
            best, largest = own[known.argmax()], known.max()
    return best
