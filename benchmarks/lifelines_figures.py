"""What lifelines makes of the patients of `tests/support/followed_patients.py`.

    pip install lifelines==0.30.3     # in an environment of its own
    PYTHONPATH=tests/support python benchmarks/lifelines_figures.py FILE

Curves and the log-rank test are of all rows on binned times, the Cox models of strata by hospital
at exact times and of all rows on binned ones, with Efron's ties. Tests compare with
`tests/support/golden/lifelines.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lifelines
import pandas as pd
from followed_patients import binned, wards
from lifelines import CoxPHFitter, KaplanMeierFitter
from lifelines.statistics import multivariate_logrank_test


def curve(rows, name, times, ended):
    """Of an arm the times, the chance of no event, its interval, and the median."""
    own = (rows["arm"] == name).to_numpy()
    fit = KaplanMeierFitter().fit(times[own], ended[own])
    ends = fit.confidence_interval_survival_function_
    return {
        "times": fit.survival_function_.index[1:].tolist(),
        "survival": fit.survival_function_.iloc[1:, 0].tolist(),
        "low": ends.iloc[1:, 0].tolist(),
        "high": ends.iloc[1:, 1].tolist(),
        "median": float(fit.median_survival_time_),
    }


def cox(rows, times, ended, strata):
    """Coefficients and standard errors of age and of the old drug."""
    table = pd.DataFrame(
        {"age": rows["age"] - 60.0, "old": rows["arm"] == "old", "time": times, "ended": ended}
    ).astype(float)
    table["site"] = rows["site"].to_numpy()
    own = table if strata else table.drop(columns="site")
    fit = CoxPHFitter().fit(
        own, "time", "ended", strata=["site"] if strata else None,
        fit_options={"precision": 1e-12},
    )  # fmt: skip
    return {"log_ratio": fit.params_.tolist(), "deviation": fit.standard_errors_.tolist()}


def main() -> None:
    rows = pd.concat([own.assign(site=name) for name, own in wards().items()], ignore_index=True)
    times, ended = binned(rows)
    test = multivariate_logrank_test(times, rows["arm"], ended)
    exact = rows["months"].to_numpy(), (rows["died"] == "yes").to_numpy()
    figures = {
        "lifelines": lifelines.__version__,
        "curves": {name: curve(rows, name, times, ended) for name in ("new", "old")},
        "log_rank": {"statistic": float(test.test_statistic), "p_value": float(test.p_value)},
        "within": cox(rows, *exact, strata=True),
        "together": cox(rows, times, ended, strata=False),
    }
    Path(sys.argv[1]).write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
