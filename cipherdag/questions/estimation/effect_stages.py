"""The stages of an effect's estimation: which sums of estimating functions each asks for."""

from typing import ClassVar

import msgspec

from cipherdag.questions.disclosure import Disclosure, Quantity, coarse, sums


class _Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    label: ClassVar[str] = "rows"
    per_part: ClassVar[bool] = False
    opens: ClassVar[tuple[Disclosure, ...]] = ()


class Contribution(_Stage, frozen=True, tag="rows"):
    """Does the site contribute rows, and rows of each arm? There are no sums."""


class ModelSteps(_Stage, frozen=True, tag="models"):
    """A Newton step of each model: what `RegressionSteps` has of it."""

    opens: ClassVar[tuple[Disclosure, ...]] = sums(Quantity.REGRESSIONS)
    models: tuple[int, ...]  # numbers of the models, ascending
    coefficients: bytes  # packed 64-bit floats, model by model


class ArmMeans(_Stage, frozen=True, tag="means"):
    """The estimating functions of the arm means, at the fitted models.

    Arm by arm its rows; the sums of numerators and denominators, whose ratio is the mean; the
    weights and their squares; the derivatives of the numerators by the coefficients of the arm's
    outcome, and of numerators and of denominators by those of the treatment. Then how many rows of
    every arm have a propensity in each bin of `PROPENSITY_EDGES`, for every category of the
    treatment but 0. Then, of every such category and every number adjusted for, the score of the
    rows below each of `MARKS` in the treatment's model, and of the number's square, less what the
    site's coefficients explain, and the variances of these; zeros where few rows of the site are
    below, or are not.
    """

    label: ClassVar[str] = "means of the arms"
    opens: ClassVar[tuple[Disclosure, ...]] = sums(Quantity.ARMS)
    coefficients: bytes  # packed 64-bit floats of all models
    overlap: bool = True  # whether propensities are counted, and there are scores


class Variance(_Stage, frozen=True, tag="variance"):
    """Sums of the rows' influence functions, and of their products, upper triangle by rows.

    Attributes:
        coefficients: Packed 64-bit floats of all models.
        influence: Packed 64-bit floats: per estimate the mean that multiplies its denominator, and
            the weights of the scores of the arm's outcome and of the treatment; for ``linear`` the
            weights of its model's scores.
        inverses: Packed 64-bit floats: the inverse of minus the Hessian of each model of the
            outcome, for the leverage of a row.
    """

    label: ClassVar[str] = "spread of the estimates"
    opens: ClassVar[tuple[Disclosure, ...]] = sums(Quantity.SPREAD)
    coefficients: bytes
    influence: bytes
    inverses: bytes


class PerSite(_Stage, frozen=True, tag="per-site"):
    """The effect estimated within each site: the sums of a fixed-effect meta-analysis.

    Per category of the treatment but the reference, or once of a number: 1 over the site's
    variance, that times its effect, and times its squared effect; then whether it contributes.
    """

    label: ClassVar[str] = "estimates of single sites"
    opens: ClassVar[tuple[Disclosure, ...]] = coarse(Quantity.SITE_EFFECTS)
    per_part: ClassVar[bool] = True
    reference: int = 0  # the category that others are compared with


class Missing(_Stage, frozen=True, tag="missing"):
    """Do incomplete rows differ from complete ones in the treatment, and in the outcome?

    Of each variable, over the rows that have it: how far its sum over incomplete rows is from the
    one expected of as many rows drawn at random; the variance of that; how many these are; and
    whether the site contributes, which needs rows of both kinds, and of a site that restricts
    small counts enough in every category.
    """

    label: ClassVar[str] = "rows left out"
    opens: ClassVar[tuple[Disclosure, ...]] = sums(Quantity.INCOMPLETE)
    per_part: ClassVar[bool] = True


Stage = Contribution | ModelSteps | ArmMeans | Variance | PerSite | Missing
STAGES = Contribution, ModelSteps, ArmMeans, Variance, PerSite, Missing
