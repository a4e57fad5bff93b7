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


def arm_means(y, t, X, estimator, *, truncate=0.0, binary=False, alone=None):
    """Means of all arms and their covariance, by the stacked estimating functions.

    In the sandwich, residuals of the outcome are divided by one less their leverage (HC3). Rows
    that are ``alone`` have models of their own, of the columns that vary among them; those of the
    others are fitted to all rows.
    """
    arms, n = int(t.max()) + 1, len(X)
    alone = np.zeros(n, dtype=bool) if alone is None else alone
    designs = [(X, np.ones(n, dtype=bool), ~alone)]
    if alone.any():
        local = np.column_stack([np.ones(n), X[:, np.ptp(X[alone], axis=0) > 0.0]])
        designs.append((local, alone, alone))
    link = (lambda x: 1.0 / (1.0 + np.exp(-x))) if binary else (lambda x: x)

    def psi(theta, stretch=None):
        scores, left = [], theta
        chance, fitted = np.zeros((2, n, arms), dtype=complex)
        for design, fits, tells in designs:
            m = design.shape[1]
            gamma, betas, left = np.split(left, [(arms - 1) * m, (2 * arms - 1) * m])
            odds = np.exp(np.column_stack([np.zeros(n), design @ gamma.reshape(arms - 1, m).T]))
            odds = odds / odds.sum(axis=1, keepdims=True)
            means = link(design @ betas.reshape(arms, m).T)
            stretched = np.where(tells[:, None], 1.0 if stretch is None else stretch, 1.0)
            stretched = np.broadcast_to(stretched, (n, arms))
            scores += [(fits * ((t == k) - odds[:, k]))[:, None] * design for k in range(1, arms)]
            for a in range(arms):
                residual = (y - means[:, a]) * stretched[:, a]
                scores.append((fits * (t == a) * residual)[:, None] * design)
            chance[tells], fitted[tells] = odds[tells], means[tells]
        kept = np.where(chance.real < truncate, truncate, chance)
        kept = np.where(chance.real > 1.0 - truncate, 1.0 - truncate, kept)
        rest = []
        for a in range(arms):
            residual = (y - fitted[:, a]) * (1.0 if stretch is None else stretch[:, a])
            weight = (t == a) / kept[:, a]
            if estimator == "regression":
                rest.append(fitted[:, a] - left[a])
            elif estimator == "ipw":
                rest.append(weight * (y - left[a]))
            else:
                rest.append(fitted[:, a] + weight * residual - left[a])
        values = np.column_stack([*scores, *rest])
        return values if np.iscomplexobj(theta) else values.real

    theta, leverages = [], np.ones((n, arms))
    for design, fits, tells in designs:
        theta.append(multinomial(design[fits], t[fits], arms))
        for a in range(arms):
            used = fits & (t == a)
            beta = _outcome(design[used], y[used], binary=binary)
            theta.append(beta)
            every = _stretch(design, used, link(design @ beta), binary=binary)
            leverages[tells, a] = every[tells]
    theta = np.concatenate([*theta, np.zeros(arms)])
    at_zero = psi(theta)[:, -arms:].mean(axis=0)
    theta[-arms:] = 1.0
    slope = at_zero - psi(theta)[:, -arms:].mean(axis=0)
    theta[-arms:] = at_zero / slope  # linear in the means
    bread = np.column_stack([_slope(psi, theta, k) for k in range(len(theta))])
    own = psi(theta, leverages)
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
