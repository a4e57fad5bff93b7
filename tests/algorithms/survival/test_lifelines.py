"""Survival over sites is what lifelines makes of all rows in one place.

Its figures are frozen by `benchmarks/lifelines_figures.py`, so that it need not be installed.
"""

import json
from pathlib import Path

import followed_patients
import numpy as np
import pytest
from followed_patients import EDGES, wards
from simulating import federated

from cipherdag import Survival

KNOWN = json.loads(
    (Path(followed_patients.__file__).parent / "golden" / "lifelines.json").read_text("utf-8")
)


def analysed(*, site_effect=True):
    asked = Survival(
        censored="after",
        time="months", event="died", by="arm", adjust=("age", "arm"), edges=EDGES,
        site_effect=site_effect,
    )  # fmt: skip
    return federated(wards()).run(asked)


def test_curves_medians_and_the_log_rank_test():
    found = analysed()
    for name, own in zip(found.finding.group_names, found.finding.curves, strict=True):
        known = KNOWN["curves"][name]
        at = np.searchsorted(EDGES, known["times"])
        for figure in ("survival", "low", "high"):
            numbers = np.array(getattr(own, figure))[at]
            np.testing.assert_allclose(numbers, known[figure], rtol=1e-9)
        assert own.median[0] == known["median"]
    assert found.finding.together.statistic == pytest.approx(
        KNOWN["log_rank"]["statistic"], rel=1e-9
    )
    assert found.finding.together.p_value == pytest.approx(KNOWN["log_rank"]["p_value"], rel=1e-6)


@pytest.mark.parametrize("site_effect", [True, False])
def test_cox_models(site_effect):
    known = KNOWN["within" if site_effect else "together"]
    table = analysed(site_effect=site_effect).table("hazard_ratios")
    np.testing.assert_allclose(table["log_ratio"], known["log_ratio"], rtol=1e-6)
    np.testing.assert_allclose(table["deviation"], known["deviation"], rtol=1e-6)
