"""Effects by M-estimation on all rows in one place, by numpy and scipy alone.

The stacked functions are written out, their root is found model by model, and the sandwich takes
the derivative of their mean by complex steps. Nothing here is of the package.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

TINY = 1e-30


def design(*columns):
    """A constant, numbers as they are, and indicators of every category but the first."""
    parts = [np.ones(len(columns[0]))] if columns else []
    for own in map(np.asarray, columns):
        if own.dtype.kind == "f":
            parts.append(own)
        else:
            parts += [(own == level).astype(float) for level in np.unique(own)[1:]]
    return np.column_stack(parts)


def multinomial(X, t, arms):
    """Maximum likelihood, shape (arms - 1, columns)."""
    seen = np.eye(arms)[t]

    def logits(flat):
        return np.column_stack([np.zeros(len(X)), X @ flat.reshape(arms - 1, -1).T])

    def value(flat):
        return -(seen * log_softmax(logits(flat), axis=1)).sum()

    def slope(flat):
        return -((seen - softmax(logits(flat), axis=1))[:, 1:].T @ X).ravel()

    found = minimize(value, np.zeros((arms - 1) * X.shape[1]), jac=slope, method="BFGS").x
    for _ in range(20):  # Newton, to the last digit
        p = softmax(logits(found), axis=1)[:, 1:]
        hessian = np.block(
            [[(X * (p[:, [a]] * ((a == b) - p[:, [b]]))).T @ X for b in range(arms - 1)]
             for a in range(arms - 1)]
        )  # fmt: skip
        found = found - np.linalg.solve(hessian, slope(found))
    return found


def arm_means(y, t, X, estimator, *, truncate=0.0, binary=False):
    """Means of all arms and their covariance, by the stacked estimating functions.

    In the sandwich, residuals of the outcome are divided by one less their leverage (HC3).
    """
    arms, (n, m) = int(t.max()) + 1, X.shape
    q = (arms - 1) * m
    link = (lambda x: 1.0 / (1.0 + np.exp(-x))) if binary else (lambda x: x)

    def psi(theta, stretch=None):
        stretch = np.ones((arms, n)) if stretch is None else stretch
        gamma, betas, means = np.split(theta, [q, q + arms * m])
        chance = np.exp(np.column_stack([np.zeros(n), X @ gamma.reshape(arms - 1, m).T]))
        chance = chance / chance.sum(axis=1, keepdims=True)
        kept = np.where(chance.real < truncate, truncate, chance)
        kept = np.where(chance.real > 1.0 - truncate, 1.0 - truncate, kept)
        parts = [((t == k) - chance[:, k])[:, None] * X for k in range(1, arms)]
        scores, rest = [], []
        for a, beta in enumerate(betas.reshape(arms, m)):
            fitted = link(X @ beta)
            residual = (y - fitted) * stretch[a]
            scores.append(((t == a) * residual)[:, None] * X)
            weight = (t == a) / kept[:, a]
            if estimator == "regression":
                rest.append(fitted - means[a])
            elif estimator == "ipw":
                rest.append(weight * (y - means[a]))
            else:
                rest.append(fitted + weight * residual - means[a])
        return np.column_stack([*parts, *scores, *rest])

    gamma = multinomial(X, t, arms)
    betas = [_outcome(X[t == a], y[t == a], binary=binary) for a in range(arms)]
    theta = np.concatenate([gamma, *betas, np.zeros(arms)])
    at_zero = psi(theta)[:, -arms:].mean(axis=0)
    theta[-arms:] = 1.0
    slope = at_zero - psi(theta)[:, -arms:].mean(axis=0)
    theta[-arms:] = at_zero / slope  # linear in the means
    bread = np.column_stack([_slope(psi, theta, k) for k in range(len(theta))])
    own = psi(theta, [_stretch(X, t == a, link(X @ beta), binary=binary)
                      for a, beta in enumerate(betas)])  # fmt: skip
    inverse = np.linalg.inv(bread)
    whole = inverse @ (own.T @ own / n) @ inverse.T / n
    return theta[-arms:], whole[-arms:, -arms:]


def _stretch(X, used, fitted, *, binary):
    """1 / (1 - h) with the leverages h of the rows that a model is fitted to; 1 elsewhere."""
    root = np.sqrt(fitted * (1.0 - fitted)) if binary else np.ones(len(X))
    own = (X * root[:, None])[used]
    found = np.ones(len(X))
    share = (own @ np.linalg.pinv(own.T @ own) * own).sum(axis=1)
    found[used] = 1.0 / np.maximum(1.0 - share, 0.1)
    return found


def _slope(psi, theta, k):
    """The derivative of the mean by one parameter, by a complex step."""
    step = np.zeros(len(theta), dtype=complex)
    step[k] = TINY * 1j
    return psi(theta + step).mean(axis=0).imag / TINY


def _outcome(X, y, *, binary):
    if binary:
        return multinomial(X, y.astype(int), 2)
    return np.linalg.lstsq(X, y, rcond=None)[0]
