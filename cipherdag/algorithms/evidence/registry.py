"""The kinds of evidence by name: one line each."""

from __future__ import annotations

from cipherdag.algorithms.evidence.combined import FISHER, STATISTIC, STOUFFER, WEIGHTED_P
from cipherdag.algorithms.evidence.pooled_moments import POOLED
from cipherdag.algorithms.evidence.pooled_regressions import GLM
from cipherdag.algorithms.evidence.within_sites import STRATIFIED

EVIDENCE = {
    kind.name: kind
    for kind in (
        STRATIFIED,
        STATISTIC,
        FISHER,
        STOUFFER,
        WEIGHTED_P,
        POOLED,
        GLM,
    )
}
