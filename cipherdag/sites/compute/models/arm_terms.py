"""What each row adds to the mean of an arm, in the estimating functions of an effect."""

from dataclasses import dataclass

from cipherdag.statistics.array_functions import Array


@dataclass(frozen=True, slots=True)
class ArmTerms:
    """The terms of an arm's mean, sum (m + w (y - m)) / sum d, row by row.

    Attributes:
        arm: The number of the arm.
        in_arm: Which rows are of the arm, 0 or 1, shape (n,).
        weight: w, 1 over the propensity in rows of the arm, else 0, shape (n,).
        slope: Derivative of w by the logits of the treatment, shape (n, arms - 1).
        fitted: m, the outcome of the arm's model, shape (n,).
        change: Derivative of m by its linear combination, shape (n,).
        residual: y - m, shape (n,).
        denominator: d, shape (n,).
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
