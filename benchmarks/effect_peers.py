"""Effects on all rows in one place: by statsmodels, by scikit-learn, and by plain M-estimation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, LogisticRegression
from statsmodels.treatment.treatment_effects import TreatmentEffect

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import plain_effects


def of(algorithm, rows, site):
    """Per program the differences from the reference, and their standard errors or None.

    Args:
        algorithm: An `Effect` of the columns drug and well.
        rows: Complete rows.
        site: The site of each.
    """
    names = [own for own in algorithm.adjust.split(",") if own]
    y, reference = _numbers(rows["well"]), algorithm.reference - 1
    if algorithm.estimator == "linear":
        return {"statsmodels": _linear(y, rows, names, site, algorithm)}
    arm = _numbers(rows["drug"]).astype(int)
    if algorithm.estimator == "standardise":
        strata = rows[names].sum(axis=1) if names else pd.Series("", rows.index)
        strata = pd.factorize(strata.to_numpy(str) + np.char.add(" ", site.astype(str)))[0]
        kept = np.isin(strata, _whole_strata(strata, arm))
        strata = pd.factorize(strata[kept])[0]
        return {"numpy": _against(*_standardised(y[kept], arm[kept], strata), reference)}
    X, binary = _design(rows, names), rows["well"].dtype.kind != "f"
    if algorithm.site_effect:
        X = np.column_stack([X, plain_effects.design(site.astype(str))[:, 1:]])
    own = {"truncate": algorithm.truncate, "binary": binary}
    plain = plain_effects.arm_means(y, arm, X, algorithm.estimator, **own)
    means = _by_scikit_learn(y, arm, X, algorithm.estimator, **own)
    found = {"numpy": _against(*plain, reference), "scikit-learn": _against(means, None, reference)}
    if not binary and arm.max() == 1 and reference == 0:
        known = _by_statsmodels(y, arm, X, algorithm)
        found |= {} if known is None else {"statsmodels": known}
    return found


def _numbers(column):
    if column.dtype.kind == "f":
        return column.to_numpy()
    return pd.factorize(column, sort=True)[0].astype(float)


def _design(rows, names):
    """A constant, numbers by their deviations, and indicators."""
    columns = [rows[own].to_numpy() for own in names]
    columns = [(c - c.mean()) / c.std() if c.dtype.kind == "f" else c for c in columns]
    return plain_effects.design(*columns) if columns else np.ones((len(rows), 1))


def _linear(y, rows, names, site, algorithm):
    """Ordinary least squares with HC3 errors; coefficients of a category as differences."""
    drug, reference = rows["drug"].to_numpy(), algorithm.reference - 1
    parts = [_design(rows, names)]
    if algorithm.site_effect:
        parts.append(plain_effects.design(site.astype(str))[:, 1:])
    number = drug.dtype.kind == "f"
    unit = drug.std() if number else 1.0
    own = (drug - drug.mean())[:, None] / unit if number else plain_effects.design(drug)[:, 1:]
    X = np.column_stack([*parts, own])
    size = y.std()
    fit = sm.OLS((y - y.mean()) / size, X).fit(cov_type="HC3")
    k, scale = X.shape[1] - own.shape[1], size / unit
    means, covariance = fit.params[k:] * scale, fit.cov_params()[k:, k:] * scale**2
    if number:
        return means, np.sqrt(np.diag(covariance))
    return _against(np.append(0.0, means), np.pad(covariance, ((1, 0), (1, 0))), reference)


def _against(means, covariance, reference):
    """Every arm less the reference, and standard errors."""
    ways = np.delete(np.eye(len(means)), reference, axis=0) - np.eye(len(means))[reference]
    if covariance is None:
        return ways @ means, None
    return ways @ means, np.sqrt(np.diag(ways @ covariance @ ways.T))


def _whole_strata(stratum, arm):
    """Those that have rows of every arm."""
    filled = np.zeros((stratum.max() + 1, arm.max() + 1), dtype=bool)
    filled[stratum, arm] = True
    return np.flatnonzero(filled.all(axis=1))


def _standardised(y, arm, stratum):
    """Means of arms over strata, and their covariance from what every row moves them by."""
    arms, n = arm.max() + 1, len(y)
    means, moved = np.zeros(arms), np.zeros((n, arms))
    for a in range(arms):
        in_arm = np.bincount(stratum[arm == a], minlength=stratum.max() + 1)
        sums = np.bincount(stratum[arm == a], y[arm == a], minlength=len(in_arm))
        fitted, weight = (sums / in_arm)[stratum], (np.bincount(stratum) / in_arm)[stratum]
        means[a] = fitted.mean()
        stretch = 1.0 / np.maximum(1.0 - 1.0 / in_arm, 0.1)[stratum]
        moved[:, a] = fitted - means[a] + (arm == a) * weight * (y - fitted) * stretch
    return means, moved.T @ moved / n**2


def _by_scikit_learn(y, arm, X, estimator, *, truncate, binary):
    """Means of arms, from its regressions."""
    own = {"C": np.inf, "solver": "newton-cg", "tol": 1e-12, "max_iter": 500}
    logistic, means = LogisticRegression(fit_intercept=False, **own), []
    chance = np.clip(logistic.fit(X, arm).predict_proba(X), truncate, 1.0 - truncate)
    for a in range(arm.max() + 1):
        weight, there = (arm == a) / chance[:, a], arm == a
        if estimator == "ipw":
            means.append(weight @ y / weight.sum())
            continue
        if binary:
            fit = LogisticRegression(fit_intercept=False, **own).fit(X[there], y[there])
            fitted = fit.predict_proba(X)[:, 1]
        else:
            fitted = LinearRegression(fit_intercept=False).fit(X[there], y[there]).predict(X)
        rest = weight * (y - fitted) if estimator == "aipw" else 0.0
        means.append((fitted + rest).mean())
    return np.array(means)


def _by_statsmodels(y, arm, X, algorithm):
    """The second arm less the first; None where either truncates: statsmodels does at 0.01."""
    treated = sm.Logit(arm, X).fit(disp=0, method="newton", tol=1e-13)
    chance, least = treated.predict(), max(algorithm.truncate, 0.01)
    if chance.min() <= least or chance.max() >= 1.0 - least:
        return None
    own = {"ipw": "ipw", "regression": "ra", "aipw": "aipw"}[algorithm.estimator]
    size = y.std()
    known = TreatmentEffect(sm.OLS((y - y.mean()) / size + 2.0, X), arm, results_select=treated)
    found = getattr(known, own)(disp=False)
    if own != "ipw":  # its covariance takes residuals as they are, ours over one less leverage
        return found.effect[:1] * size, None
    return found.effect[:1] * size, found.results_gmm.bse[:1] * size
