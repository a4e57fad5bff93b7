"""The methods by which tests over all sites are done, or for which reasons they are not."""

from enum import StrEnum
from typing import Self


class Method(StrEnum):
    """A `Method` is how a test over all sites was done; its value is what results call it.

    Attributes:
        done_by: How the test was done; "" where it was not.
        reason: Why it was not done as the evidence does tests; "" where it was.
    """

    done_by: str
    reason: str

    WITHIN_SITES = "within sites"
    POOLED = "pooled"
    FISHER = "fisher"
    WEIGHTED_P = "weighted_p"
    REGRESSION = "regression"
    TOO_LARGE = "within sites", "too large"
    WITHHELD = "within sites", "withheld"
    INCOMPLETE = "within sites", "incomplete"
    FEW_VALUES = "within sites", "few values"
    CONSTANT = "varies at too few sites"
    """Pairs that too few sites can test given nothing; they count as independent."""
    TOO_FEW_ROWS = "", "too few rows"
    NOT_DONE = "", "no degrees of freedom or too few sites"
    NEVER_TOGETHER = "", "never measured together"
    DETERMINED = "", "a variable follows from those given"
    TOO_MANY_COEFFICIENTS = "", "too many coefficients"
    SITE_LEFT = "", "a site left"

    def __new__(cls, done_by: str, reason: str = "") -> Self:
        """Name the method by its reason and how it is done."""
        value = f"{reason}: {done_by or 'none'}" if reason else done_by
        method = str.__new__(cls, value)
        method._value_, method.done_by, method.reason = value, done_by, reason
        return method

    @property
    def phrase(self) -> str:
        """How the test was done, or that it was not, and the reason if there is one."""
        return f"{self.done_by or 'not done'} ({self.reason})" if self.reason else self.done_by
