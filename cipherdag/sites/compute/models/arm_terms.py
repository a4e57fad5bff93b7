"""What each row adds to the mean of an arm, in the estimating functions of an effect."""

from dataclasses import dataclass

from cipherdag.statistics.array_functions import Array


@dataclass(frozen=True, slots=True)
class ArmTerms:
    """The terms of an arm's mean, sum (m + w (y - m)) / sum d, row by row, shape (n,) each.

    ``in_arm`` is 0 or 1. ``weight`` is w, 1 over the propensity in rows of the arm, else 0, and
    ``slope`` its derivative by the logits of the treatment, (n, arms - 1). ``fitted`` is m, the
    outcome of the arm's model, and ``change`` its derivative by its linear combination.
    ``residual`` is y - m, ``denominator`` d.
    """

    arm: int
    in_arm: Array
    weight: Array
    slope: Array
    fitted: Array
    change: Array
    residual: Array
    denominator: Array

    @property
    def numerator(self) -> Array:
        """The sum's terms m + w (y - m), shape (n,)."""
        return self.fitted + self.weight * self.residual
