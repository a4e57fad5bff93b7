"""Newton's method with step halving: maxima, halved steps, steps within directions."""

import numpy as np
import pytest

from cipherdag.statistics.newton import ESTIMATE_TOLERANCE, HALVINGS, STEPS, NewtonAscent


def derivatives(point, centre):
    """Value, gradient and minus the Hessian of a concave function that Newton's step overshoots."""
    roots = np.sqrt(1.0 + (point - centre) ** 2)
    return -float(roots.sum()), -(point - centre) / roots, np.diag(1.0 / roots**3)


@pytest.mark.parametrize("directions", [None, np.array([[1.0], [1.0], [0.0]])])
def test_the_maximum_within_the_directions_is_found(directions):
    centre = np.array([3.0, 3.0, 2.0])
    ascent, halved, accepted = NewtonAscent(np.zeros(3), ESTIMATE_TOLERANCE), 0, []
    while not accepted or not ascent.settled:
        value, gradient, information = derivatives(ascent.proposed, centre)
        if ascent.halves(value):
            halved += 1
        else:
            ascent.accept(value, gradient, information, directions)
            accepted.append(ascent.value)
    assert halved > 0
    assert accepted == sorted(accepted)
    assert ascent.rank == (3 if directions is None else 1)
    expected = centre if directions is None else np.array([3.0, 3.0, 0.0])
    np.testing.assert_allclose(ascent.coefficients, expected, atol=1e-6)


def test_an_ascent_without_gain_ends():
    ascent = NewtonAscent(np.zeros(1))
    ascent.accept(0.0, np.ones(1), np.eye(1))
    assert [ascent.halves(-1.0) for _ in range(HALVINGS + 1)] == [True] * HALVINGS + [False]
    assert ascent.loses(-1.0)
    assert not ascent.loses(-1e-12)  # rounding
    for value in range(1, STEPS):
        assert not ascent.settled
        ascent.accept(float(value), np.ones(1), np.eye(1))
    assert ascent.settled
