"""Every choice of an algorithm that asks other questions, and data on which it runs in a moment."""

import numpy as np
import pandas as pd
from evidence_sites import discrete_codes, gaussian_values
from labelled_runs import TABLES
from mixed_sites import frame
from regretting import frames, linear_sites
from trials import SMALL, Often, patients, treated

from cipherdag import Effect, FedBOSS, FedCD, FedCMFS, FedFCI, FedPC, RFcd, Scoring
from cipherdag.algorithms.fedcd.algorithm import Averaging
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.graphs.networks import asia

NAMES = ["smoke", "cough", "asthma", "pollen", "fever"]


def dealt(table, n_sites=3):
    return {f"site-{k}": table.iloc[k::n_sites] for k in range(n_sites)}


def columns(kind):
    rng = np.random.default_rng(1)
    codes = discrete_codes(rng, 600, [2, 3, 2, 2, 3])
    values = codes if kind == "categories" else gaussian_values(rng, 300, 5)
    return dealt(pd.DataFrame(values, columns=NAMES))


PATIENTS = dealt(asia().sample(900, np.random.default_rng(0)))
MIXED = dealt(frame(np.random.default_rng(5), 900))
PULLED = dealt(pd.DataFrame(gaussian_values(np.random.default_rng(7), 1200, 4), columns=NAMES[:4]))
_, REGRETTED = linear_sites(5, 3, 200, 4)
INTERVENED = {"data": treated(), "interventions": "done"}

FEDPC = {
    f"{evidence} of {kind}": Often(
        algorithm=FedPC(evidence=evidence, alpha=0.05), data=columns(kind)
    )
    for evidence in ("fisher", "weighted_p", "pooled")
    for kind in ("categories", "numbers")
} | {
    "vote by mean": Often(
        algorithm=FedPC(evidence="vote", voting=Voting(sepset="mean")), data=PATIENTS
    ),
    "vote, bootstrap": Often(algorithm=FedPC(evidence="vote", bootstrap=3), data=PATIENTS),
    "pooled, bootstrap": Often(
        algorithm=FedPC(evidence="pooled", bootstrap=3, max_cond_size=1), data=PATIENTS
    ),
    "glm": Often(algorithm=FedPC(evidence="glm", max_cond_size=1), data=MIXED),
    "glm-site-effect": Often(
        algorithm=FedPC(evidence="glm-site-effect", max_cond_size=1), data=MIXED
    ),
    "verdicts of numbers": Often(algorithm=FedPC(reveal="bits", alpha=1e-3), data=PULLED),
    "verdicts of categories": Often(
        algorithm=FedPC(reveal="bits", alpha=1e-3), data=columns("categories")
    ),
}
FEDCD = {
    "naive": FedCD(**SMALL, averaging=Averaging(aggregation="naive")),
    "code": FedCD(**SMALL, averaging=Averaging(reference="code")),
    "sdi": FedCD(**SMALL, method="sdi", averaging=Averaging(sharpness=30.0)),
    "dcdi": FedCD(**SMALL, method="dcdi-g", intervention_type="imperfect"),
}
VARIANTS = {
    "fedfci rfci": Often(algorithm=FedFCI(search="rfci"), data=columns("numbers")),
    "fedboss of all rows": Often(
        algorithm=FedBOSS(scoring=Scoring(restarts=2), within_sites=False), data=PATIENTS
    ),
    "effect, refuted": Often(
        algorithm=Effect(treatment="2", outcome="3", adjust="1,4", refute=True), data=patients()
    ),
    **{f"fedpc {name}": own for name, own in FEDPC.items()},
    **{
        f"fedcmfs {evidence} of {kind}": Often(
            algorithm=FedCMFS(k1=100, k2=100, evidence=evidence), data=dealt(table), labels=labels
        )
        for evidence in ("weighted_p", "stratified")
        for kind, (table, labels) in TABLES.items()
    },
    **{
        f"rfcd {name}": Often(algorithm=own, data=frames(REGRETTED))
        for name, own in {
            "graph": RFcd(searching=Searching(beam=3)),
            "nodewise": RFcd(objective="nodewise"),
            "sum": RFcd(objective="sum"),
        }.items()
    },
    **{f"fedcd {name}": Often(algorithm=own, **INTERVENED) for name, own in FEDCD.items()},
}
