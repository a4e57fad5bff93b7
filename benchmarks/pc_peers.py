"""PC by other packages on one table of discrete data, in the clear: who is there, and how fast.

Every runner takes codes (n, p), alpha and the largest conditioning set, and gives the skeleton,
shape (p, p). causal-learn, pgmpy and gcastle are Python packages; bnlearn and pcalg need R.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pandas as pd


class PeerMissingError(Exception):
    """The package is not installed here."""


def causal_learn(codes, alpha, largest):
    """PC-stable with the G2 test."""
    _installed("causal-learn")
    from causallearn.search.ConstraintBased.PC import pc

    found = pc(codes, alpha, "gsq", stable=True, show_progress=False, max_k=largest)
    return found.G.graph != 0


def pgmpy(codes, alpha, largest):
    """PC-stable with the chi-square test, one process."""
    _installed("pgmpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.causal_discovery import PC

        table = pd.DataFrame(codes, columns=[str(v) for v in range(codes.shape[1])])
        search = PC(
            variant="stable",
            ci_test="chi_square",
            significance_level=alpha,
            max_cond_vars=largest,
            n_jobs=1,
            show_progress=False,
        )
        graph = search.fit(table).causal_graph_
    kept = np.zeros((codes.shape[1],) * 2, dtype=bool)
    for a, b in graph.edges():
        kept[int(a), int(b)] = kept[int(b), int(a)] = True
    return kept


def gcastle(codes, alpha, largest):
    """PC-stable with the G2 test; sets of any size, which cannot be limited."""
    _installed("gcastle")
    logging.disable(logging.INFO)  # it tells its back end
    from castle.algorithms import PC

    del largest
    search = PC(variant="stable", alpha=alpha, ci_test="g2")
    search.learn(codes)
    graph = np.asarray(search.causal_matrix) != 0
    return graph | graph.T


def bnlearn(codes, alpha, largest):
    """PC-stable with the mutual-information (G2) test."""
    return _by_r("bnlearn", codes, BNLEARN.format(alpha=alpha, largest=largest))


def pcalg(codes, alpha, largest):
    """PC-stable with the G2 test and adapted degrees of freedom."""
    return _by_r("pcalg", codes, PCALG.format(alpha=alpha, largest=largest))


PEERS = {
    "causal-learn": causal_learn,
    "pgmpy": pgmpy,
    "gcastle": gcastle,
    "bnlearn": bnlearn,
    "pcalg": pcalg,
}

BNLEARN = """
d <- as.data.frame(lapply(read.csv("codes.csv"), factor))
g <- bnlearn::pc.stable(d, alpha = {alpha}, test = "mi", max.sx = {largest})
kept <- 1 * (bnlearn::amat(bnlearn::skeleton(g)) > 0)
write.table(kept, "kept.csv", sep = ",", row.names = FALSE, col.names = FALSE)
"""
PCALG = """
d <- read.csv("codes.csv")
levels <- sapply(d, function(own) max(own) + 1)
known <- list(dm = as.matrix(d), nlev = levels, adaptDF = TRUE)
g <- pcalg::skeleton(known, pcalg::disCItest, alpha = {alpha}, labels = names(d), m.max = {largest})
kept <- 1 * as(g@graph, "matrix")
write.table(kept, "kept.csv", sep = ",", row.names = FALSE, col.names = FALSE)
"""


def _by_r(package, codes, program):
    script = shutil.which("Rscript")
    if script is None:
        raise PeerMissingError("R is not installed here")
    there = f'quit(status = !requireNamespace("{package}", quietly = TRUE))'
    if subprocess.run([script, "-e", there], check=False, capture_output=True).returncode:
        raise PeerMissingError(f"R has no package {package} here")
    with tempfile.TemporaryDirectory() as folder:
        names = [f"v{k}" for k in range(codes.shape[1])]
        pd.DataFrame(codes, columns=names).to_csv(Path(folder) / "codes.csv", index=False)
        subprocess.run([script, "-e", program], check=True, cwd=folder, capture_output=True)
        return np.loadtxt(Path(folder) / "kept.csv", delimiter=",") > 0


def _installed(package):
    try:
        version(package)
    except PackageNotFoundError as error:
        raise PeerMissingError(f"{package} is not installed here") from error
