"""Mixed columns at sites, and statsmodels on the pooled rows."""

import numpy as np
import pandas as pd
import statsmodels.api as sm
from queries import Queries
from scipy import stats

from cipherdag import Policy
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import QUESTION_KINDS

CATEGORIES = (0, 2, 3, 0, 2, 4)


ALL_KINDS = Policy(questions=QUESTION_KINDS)


def mixed_data(rng, rows, missing=0.0):
    """Columns as in CATEGORIES that depend on their left neighbours; NaN where missing."""
    data = np.zeros((rows, len(CATEGORIES)))
    for v, count in enumerate(CATEGORIES):
        pull = data[:, max(v - 2, 0) : v].sum(axis=1) * 0.5
        if count:
            noise = rng.gumbel(size=(rows, count))
            data[:, v] = (noise + np.outer(pull, np.linspace(-0.7, 0.7, count))).argmax(axis=1)
        else:
            data[:, v] = pull + rng.standard_normal(rows)
    data[rng.random(data.shape) < missing] = np.nan
    return data


def mixed_site(data, categories=CATEGORIES, min_cell_size=0, ordered=()):
    discrete = np.array(categories) > 0
    codes = np.where(discrete & ~np.isnan(data), data, -1).astype(np.int64)
    values = np.where(discrete, np.nan, data)
    return SiteView(codes, values, tuple(categories), ordered=ordered, min_cell_size=min_cell_size)


def expanded(data, variable, categories):
    own = data[:, variable]
    if not categories[variable]:
        return own[:, None]
    return (own[:, None] == np.arange(1, categories[variable])).astype(float)


def log_likelihood(data, response, predictors, categories, site=None):
    """By statsmodels; of a linear model with the maximum-likelihood variance."""
    site = np.zeros(len(data)) if site is None else site
    constants = (site[:, None] == np.unique(site)).astype(float)
    columns = [constants, *(expanded(data, v, categories) for v in predictors)]
    design, target = np.column_stack(columns), data[:, response]
    if not categories[response]:
        return sm.OLS(target, design).fit().llf
    model = sm.Logit if categories[response] == 2 else sm.MNLogit
    return model(target, design).fit(disp=0, method="newton", maxiter=100, tol=1e-12).llf


def p_value(data, row, categories=CATEGORIES, site=None):
    """Of the likelihood-ratio test of a row, by statsmodels; with a constant for every site."""
    x, y, *s = (int(v) for v in row)
    complete = ~np.isnan(data[:, [x, y, *s]]).any(axis=1)
    data, site, sides = data[complete], None if site is None else site[complete], categories
    flip = sides[y] > 0 and (sides[x] == 0 or sides[y] < sides[x])
    response, other = (y, x) if flip or (sides[x] == sides[y] and y < x) else (x, y)
    with_it, without = (
        log_likelihood(data, response, given, categories, site) for given in ([*s, other], s)
    )
    dof = max(sides[response] - 1, 1) * max(sides[other] - 1, 1)
    return stats.chi2.sf(2 * (with_it - without), dof)


def frame(rng, rows):
    data = mixed_data(rng, rows)
    names = ["pressure", "smoker", "stage", "weight", "angina", "vessels"]
    return pd.DataFrame(
        {
            name: data[:, v].astype(int) if CATEGORIES[v] else data[:, v]
            for v, name in enumerate(names)
        }
    )


def with_effect(kind, tests):
    """Queries with constants of every site's own."""
    return Queries(kind, tests, site_effect=True)
