"""Multivariate adaptive regression splines (MARS) of degree 2 are fitted in batches.

Source: Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19 (1991). The
defaults are those of the R package earth, with two simplifications: knots are spaced over all rows
rather than over those where the parent term is not zero, and no variable enters linearly.

For one parent term and one variable all knots are evaluated together: inner products with hinges
are differences of sums over the rows beyond the knot, cumulated from knot to knot.
"""

import math
from dataclasses import dataclass

import torch

Tensor = torch.Tensor

LEAST_GAIN = 1e-3  # of R squared: a smaller one ends the forward pass
PENALTY = 3.0  # per knot, in the generalised cross-validation of an interaction model
SPAN_RISK = 0.05  # alpha of Friedman's Eq. 43 and 45, which space the knots
TOLERANCE = 1e-7  # a column with less of its squared norm left is in the span of others


@dataclass(frozen=True, slots=True)
class Hinge:
    """A hinge is max(0, x - cut) for sign 1 and max(0, cut - x) for sign -1."""

    variable: int
    cut: float
    sign: int


@dataclass(frozen=True, slots=True)
class Spline:
    """Products of hinges, the empty one first, their coefficients, and the squared residuals."""

    terms: tuple[tuple[Hinge, ...], ...]
    coefficients: tuple[float, ...]
    sse: float


@dataclass(frozen=True, slots=True)
class Knots:
    """Each of p columns of n rows has J candidate knots at ``cuts``, (p, J), and the rows beyond.

    Rows are sorted by the column and cut into J buckets of s rows; bucket j holds the rows beyond
    knot j and not beyond knot j + 1.

    ``usable`` knots, (J,), are far enough from the ends. Rows, (p, s, J), are arbitrary where a
    bucket is not full, and its weight, (s, J), is 0.
    """

    cuts: Tensor
    usable: Tensor
    rows: Tensor
    weight: Tensor


def make_knots(columns: Tensor, n_predictors: int) -> Knots:
    """Spaces the knots of all columns, (p, n), for regressions on ``n_predictors`` variables."""
    n = columns.shape[1]
    # Friedman's Eq. 43 and 45
    span = max(1, int(-math.log2(-math.log1p(-SPAN_RISK) / (n_predictors * n)) / 2.5))
    end = max(1, int(3.0 - math.log2(SPAN_RISK / n_predictors)))
    first = min(end, n - 1)
    buckets = max(1, -(-(n - 1 - first) // span))
    order = torch.argsort(columns, dim=1, stable=True)
    knot = torch.clamp(first + span * torch.arange(buckets, device=columns.device), max=n - 1)
    rank = first + 1 + torch.arange(buckets * span, device=columns.device)
    rank = rank.view(buckets, span).T.contiguous()
    return Knots(
        cuts=torch.gather(columns, 1, order[:, knot]),
        usable=knot < n - end,
        rows=order[:, torch.clamp(rank, max=n - 1)],
        weight=(rank < n).double(),
    )


def fit_splines(x: Tensor, y: Tensor, knots: Knots, predictors: Tensor) -> list[Spline]:
    """Fits and prunes F regressions of y, (F, n), on k of x, (p, n), by positions, (F, k)."""
    growth = _Growth(x, y, knots, predictors)
    while growth.grow():
        pass
    return growth.pruned()


@dataclass(slots=True)
class _Parents:
    """The forward pass selects hinges on S parent terms by these inner products.

    For a parent term b, a variable x and a knot t the hinge is h = b max(0, x - t), and the pair of
    hinges spans h and the linear column b x. Both are projected onto the complement of the span of
    the chosen terms, except where "before" says otherwise: ``hinge_square`` is <h, h>, ``cross``
    <h, b x>, ``linear_square`` <b x, b x>, and "residual" that with the response's residual. Those
    of hinges have shape (F, k, S, J), those of ``linear`` (F, k, S).

    ``columns`` are b in the order of the buckets, 0 where not full, shape (s, F, k, S, J),
    ``basis`` is b, (F, S, n), and ``linear`` b x, (F, k, S, n). The variable may multiply the term
    where it is ``allowed``, (F, k, S); ``term`` is its index among all terms, (F, S).
    """

    columns: Tensor
    basis: Tensor
    linear: Tensor
    hinge_square: Tensor
    cross: Tensor
    hinge_residual: Tensor
    hinge_square_before: Tensor
    linear_square: Tensor
    linear_square_before: Tensor
    linear_residual: Tensor
    allowed: Tensor
    term: Tensor

    def gains(self, usable: Tensor) -> Tensor:
        """Computes the reduction of squared error by every pair of hinges, shape (F, k, S, J)."""
        independent = self.linear_square > TOLERANCE * self.linear_square_before
        linear = torch.where(independent, self.linear_square, torch.inf)[..., None]
        slope = self.linear_residual[..., None]
        hinge = self.hinge_square - self.cross.square() / linear
        gain = (self.hinge_residual - self.cross * (slope / linear)).square() / hinge
        gain = torch.where(hinge > TOLERANCE * self.hinge_square_before, gain, -torch.inf)
        gain = gain + slope.square() / linear
        return torch.where(self.allowed[..., None] & usable, gain, -torch.inf)


class _Growth:
    """The forward pass of F regressions adds terms and keeps their orthonormal basis."""

    def __init__(self, x: Tensor, y: Tensor, knots: Knots, predictors: Tensor) -> None:
        count, n = y.shape
        k = predictors.shape[1]
        self._most = min(200, max(20, 2 * k)) + 1
        self._x = x[predictors]  # (F, k, n)
        self._y = y
        self._cuts = knots.cuts[predictors]  # (F, k, J)
        self._usable = knots.usable
        self._weight = knots.weight[:, None, None]  # (s, 1, 1, J)
        self._rows = knots.rows[predictors]  # (F, k, s, J)
        self._beyond = self._in_buckets(self._x)  # (s, F, k, J)
        self._residual = y - y.mean(dim=1, keepdim=True)
        self._total = self._residual.square().sum(dim=1)
        self._active = self._total > 0.0
        self._basis = torch.ones_like(y)[:, None]
        self._span = self._basis / math.sqrt(n)
        self._sorted_span = [self._in_buckets(self._span[:, 0])[:, :, :, None]]
        self._terms: list[list[tuple[Hinge, ...]]] = [[()] for _ in range(count)]
        intercept = torch.zeros(count, 1, dtype=torch.int64, device=y.device)
        free = torch.ones(count, k, 1, dtype=torch.bool, device=y.device)
        self._parents = [self._measured(self._basis, free, intercept)]

    def grow(self) -> bool:
        """Adds the best pair of hinges to every regression that gains by it; False at the end."""
        size = self._basis.shape[1]
        if size + 2 > self._most:
            return False
        gain, variable, knot, parent = self._best()
        self._active = self._active & (gain > LEAST_GAIN * self._total)
        if not bool(self._active.any()):
            return False
        rows = torch.arange(len(gain), device=gain.device)
        x, cut = self._x[rows, variable], self._cuts[rows, variable, knot]
        base = self._basis[rows, parent] * self._active[:, None]
        for sign in (1, -1):
            self._add(base * torch.clamp(sign * (x - cut[:, None]), min=0.0))
        self._record(variable, parent, cut)
        for parents in self._parents:
            self._project(size, parents)
        for unit in self._span[:, size:].unbind(dim=1):
            self._residual = self._residual - (unit * self._residual).sum(1, keepdim=True) * unit
        self._adopt(size, variable, parent == 0)
        left = self._residual.square().sum(dim=1)
        self._active = self._active & (left > LEAST_GAIN * self._total)
        return True

    def _best(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Finds every regression's best pair: gain, variable, knot and parent term, shape (F,)."""
        n_knots = self._cuts.shape[2]
        best = torch.full_like(self._total, -torch.inf)
        where = torch.zeros(3, len(best), dtype=torch.int64, device=best.device)
        for parents in self._parents:
            gain, flat = parents.gains(self._usable).flatten(1).max(dim=1)
            n_terms = parents.term.shape[1]
            parent = parents.term.gather(1, (flat // n_knots % n_terms)[:, None])[:, 0]
            position = torch.stack([flat // n_knots // n_terms, flat % n_knots, parent])
            better = gain > best
            best = torch.where(better, gain, best)
            where = torch.where(better, position, where)
        return best, where[0], where[1], where[2]

    def _add(self, column: Tensor) -> None:
        """Adds a column, (F, n), to the terms; 0 in regressions whose terms span it."""
        direction = column
        for _ in range(2):  # twice, for orthogonality to rounding
            inside = self._span @ direction[:, :, None]
            direction = direction - (self._span.transpose(1, 2) @ inside)[:, :, 0]
        left = direction.square().sum(dim=1, keepdim=True)
        fits = left > TOLERANCE * column.square().sum(dim=1, keepdim=True)
        unit = torch.where(fits, direction / left.clamp(min=1e-300).sqrt(), 0.0)
        self._basis = torch.cat([self._basis, torch.where(fits, column, 0.0)[:, None]], dim=1)
        self._span = torch.cat([self._span, unit[:, None]], dim=1)
        self._sorted_span.append(self._in_buckets(unit)[:, :, :, None])

    def _record(self, variable: Tensor, parent: Tensor, cut: Tensor) -> None:
        chosen = zip(variable.tolist(), parent.tolist(), cut.tolist(), strict=True)
        for terms, (v, m, t) in zip(self._terms, chosen, strict=True):
            terms += [(*terms[m], Hinge(v, t, 1)), (*terms[m], Hinge(v, t, -1))]

    def _project(self, size: int, parents: _Parents) -> None:
        """Projects the inner products of some parents onto the complement of the new directions."""
        for direction in range(size, size + 2):
            unit = self._span[:, direction]
            residual = (unit * self._residual).sum(dim=1)
            linear = (parents.linear @ unit[:, None, :, None])[..., 0]  # (F, k, S)
            hinge = self._beyond_knots(parents.columns, self._sorted_span[direction])
            parents.hinge_square = parents.hinge_square - hinge.square()
            parents.cross = parents.cross - hinge * linear[..., None]
            parents.hinge_residual = parents.hinge_residual - hinge * residual[:, None, None, None]
            parents.linear_square = parents.linear_square - linear.square()
            parents.linear_residual = parents.linear_residual - linear * residual[:, None, None]

    def _adopt(self, size: int, variable: Tensor, first_order: Tensor) -> None:
        """Adds the new terms that have one factor only to the parents."""
        if self._x.shape[1] == 1 or not bool((first_order & self._active).any()):
            return
        columns = self._basis[:, size:]
        eligible = (first_order & self._active)[:, None] & (columns.square().sum(dim=2) > 0.0)
        other = torch.arange(self._x.shape[1], device=variable.device) != variable[:, None]
        allowed = other[:, :, None] & eligible[:, None]
        terms = torch.arange(size, size + 2, device=variable.device).expand(len(variable), 2)
        self._parents.append(self._measured(columns, allowed, terms))

    def _measured(self, basis: Tensor, allowed: Tensor, term: Tensor) -> _Parents:
        """Computes all inner products of new parent terms, shape (F, S, n)."""
        columns = torch.stack(
            [self._in_buckets(basis[:, m]) for m in range(basis.shape[1])], dim=3
        )  # (s, F, k, S, J)
        beyond, cut = self._beyond[:, :, :, None], self._cuts[:, :, None]
        squares = columns.square()
        zeroth = _from_last(squares.sum(dim=0))
        first = _from_last((squares * beyond).sum(dim=0))
        second = _from_last((squares * beyond.square()).sum(dim=0))
        square_before = second - 2.0 * cut * first + cut.square() * zeroth
        square, cross = square_before, second - cut * first
        linear = self._x[:, :, None] * basis[:, None]  # (F, k, S, n)
        projected = linear @ self._span[:, None].transpose(2, 3)  # (F, k, S, Q)
        for q in range(self._span.shape[1]):
            hinge = self._beyond_knots(columns, self._sorted_span[q])
            square = square - hinge.square()
            cross = cross - hinge * projected[..., q, None]
        linear_square = linear.square().sum(dim=3)
        residual = self._in_buckets(self._residual)[:, :, :, None]
        return _Parents(
            columns=columns,
            basis=basis,
            linear=linear,
            hinge_square=square,
            cross=cross,
            hinge_residual=self._beyond_knots(columns, residual),
            hinge_square_before=square_before,
            linear_square=linear_square - projected.square().sum(dim=3),
            linear_square_before=linear_square,
            linear_residual=(linear * self._residual[:, None, None]).sum(dim=3),
            allowed=allowed,
            term=term,
        )

    def _beyond_knots(self, columns: Tensor, other: Tensor) -> Tensor:
        """Computes <b max(0, x - t), other> of every knot, shape (F, k, S, J), by bucket sums."""
        product = columns[0] * other[0]
        plain, weighted = product, product * self._beyond[0, :, :, None]
        for row in range(1, len(columns)):
            product = columns[row] * other[row]
            plain = plain + product
            weighted = torch.addcmul(weighted, product, self._beyond[row, :, :, None])
        return _from_last(weighted) - self._cuts[:, :, None] * _from_last(plain)

    def _in_buckets(self, column: Tensor) -> Tensor:
        """Sorts columns, (F, n) or (F, k, n), into every variable's buckets, (s, F, k, J)."""
        if column.ndim == 2:  # noqa: PLR2004
            column = column[:, None].expand(-1, self._rows.shape[1], -1)
        ordered = torch.gather(column, 2, self._rows.flatten(2)).view(self._rows.shape)
        return ordered.permute(2, 0, 1, 3) * self._weight

    def pruned(self) -> list[Spline]:
        """Removes terms one by one in the backward pass and keeps the best by cross-validation."""
        basis = self._basis
        selected = _backward(basis, self._y)
        scaled = basis * selected[:, :, None]
        gram = scaled @ scaled.transpose(1, 2) + torch.diag_embed((~selected).double())
        moment = (scaled @ self._y[:, :, None])[:, :, 0]
        coefficient = torch.linalg.solve(gram, moment)
        fitted = (coefficient[:, None] @ scaled)[:, 0]
        sse = (self._y - fitted).square().sum(dim=1).tolist()
        return [
            Spline(
                terms=tuple(term for term, keep in zip(terms, keeps, strict=False) if keep),
                coefficients=tuple(c for c, keep in zip(coefficients, keeps, strict=True) if keep),
                sse=left,
            )
            for terms, keeps, coefficients, left in zip(
                self._terms, selected.tolist(), coefficient.tolist(), sse, strict=True
            )
        ]


def _backward(basis: Tensor, y: Tensor) -> Tensor:
    """Selects terms by backward elimination and generalised cross-validation, shape (F, M)."""
    n = y.shape[1]
    present = basis.square().sum(dim=2) > 0.0
    scale = torch.where(present, basis.square().sum(dim=2).sqrt(), 1.0)
    unit = basis / scale[:, :, None]
    gram = unit @ unit.transpose(1, 2) + torch.diag_embed((~present).double())
    inverse = torch.linalg.inv(gram)
    moment = (unit @ y[:, :, None])[:, :, 0]
    coefficient = (inverse @ moment[:, :, None])[:, :, 0]
    sse = y.square().sum(dim=1) - (coefficient * moment).sum(dim=1)
    rows = torch.arange(len(y), device=y.device)
    best, lowest = present.clone(), _cross_validated(sse, present, n)
    for _ in range(basis.shape[1] - 1):
        diagonal = inverse.diagonal(dim1=1, dim2=2)
        loss = torch.where(present, coefficient.square() / diagonal, torch.inf)
        loss[:, 0] = torch.inf  # the intercept stays
        least, weakest = loss.min(dim=1)
        live = least < torch.inf
        sse = torch.where(live, sse + least, sse)
        present = present.clone()
        present[rows[live], weakest[live]] = False
        # the inverse without one variable (partial sweep)
        column = inverse[rows, :, weakest]
        pivot = column[rows, weakest]
        change = column[:, :, None] * column[:, None, :] / pivot[:, None, None]
        coefficient = torch.where(
            live[:, None],
            coefficient - column * (coefficient[rows, weakest] / pivot)[:, None],
            coefficient,
        )
        inverse = torch.where(live[:, None, None], inverse - change, inverse)
        inverse[rows[live], weakest[live], weakest[live]] = 1.0
        score = _cross_validated(sse, present, n)
        better = live & (score <= lowest)
        best = torch.where(better[:, None], present, best)
        lowest = torch.where(better, score, lowest)
    return best


def _cross_validated(sse: Tensor, present: Tensor, n: int) -> Tensor:
    """Computes generalised cross-validation (Friedman, Eq. 30); knots cost ``PENALTY`` each."""
    terms = present.sum(dim=1).double()
    cost = terms + PENALTY * (terms - 1.0) / 2.0
    return torch.where(cost < n, sse / n / (1.0 - cost / n).square(), torch.inf)


def _from_last(sums: Tensor) -> Tensor:
    """Computes sums over a bucket and all later ones, along the last dimension."""
    return sums.flip(-1).cumsum(-1).flip(-1)
