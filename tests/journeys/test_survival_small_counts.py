"""Breast cancer at four sites, of which one has 59 patients: no row is left out of the curves.

The German Breast Cancer Study Group's trial 2, 686 patients (Schumacher and others, Journal of
Clinical Oncology 12 (1994) 2086-2093), cut into four unequal sites.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight

from cipherdag import Federation, Survival

ROWS = pd.read_csv(Path(__file__).parents[1] / "support" / "golden" / "gbsg2.csv")
EDGES = tuple(float(day) for day in range(200, 2201, 200))
ASKED = {"time": "time", "event": "cens", "event_category": 2, "edges": EDGES}


def known(rows):
    """Kaplan and Meier's curve of these rows at the edges."""
    exact = SurvfuncRight(rows["time"], rows["cens"])
    last = np.searchsorted(exact.surv_times, EDGES, side="right") - 1
    return np.where(last < 0, 1.0, exact.surv_prob[last]), exact.surv_prob_se[last]


@pytest.fixture(scope="module")
def found():
    sites = {name: own.drop(columns="site") for name, own in ROWS.groupby("site")}
    return Federation.simulate(sites).run(Survival(**ASKED, by="horTh"))


def test_all_intervals_hold_the_curve_of_all_rows(found):
    held = 0
    for (_, rows), curve in zip(ROWS.groupby("horTh"), found.finding.curves, strict=True):
        survival, _ = known(rows)
        held += ((np.array(curve.low) <= survival) & (survival <= np.array(curve.high))).sum()
        assert abs(np.array(curve.survival) - survival).max() < 0.05
    assert held == 22


def test_all_rows_and_sites_take_part(found):
    assert found.finding.rounded_to == 11
    for (_, rows), curve in zip(ROWS.groupby("horTh"), found.finding.curves, strict=True):
        assert curve.sites == 4
        assert curve.rows[0] <= len(rows) <= curve.rows[1]
        ended = ((rows["cens"] == 1) & (rows["time"] <= EDGES[-1])).sum()
        assert curve.ended[0] <= ended <= curve.ended[1]
    text = "\n".join(found.lines()) + found.page()
    assert "moved" not in text
    assert "later edges" not in text


def test_intervals_are_little_wider_than_plain_ones(found):
    for (_, rows), curve in zip(ROWS.groupby("horTh"), found.finding.curves, strict=True):
        survival, deviation = known(rows)
        spread = deviation / (survival * np.abs(np.log(survival)))
        low, high = (survival ** np.exp(sign * 1.96 * spread) for sign in (1.0, -1.0))
        assert (np.array(curve.high) - curve.low).mean() < 1.6 * (high - low).mean()


def test_a_median_lies_in_its_interval(found):
    for (_, rows), curve in zip(ROWS.groupby("horTh"), found.finding.curves, strict=True):
        exact = SurvfuncRight(rows["time"], rows["cens"]).quantile(0.5)
        _, low, high = curve.median
        assert low - 200 < exact
        assert high is None or exact <= high
