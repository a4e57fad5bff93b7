"""Refutations of an effect: its estimates after changes that should, or should not, matter.

Sources: Sharma and Kiciman, arXiv:2011.04216 (refuters); Efron and Tibshirani, An Introduction to
the Bootstrap (1993), chapter 11 (the jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from cipherdag.findings.effect import AdjustedEffect, Change, Contrast, Refutation
from cipherdag.findings.finding import Cells, Column
from cipherdag.findings.panels.forest import Estimate, Forest
from cipherdag.pages.numerals import shown

FEWEST_PARTS = 2
"""That can scatter."""
REFUTATIONS = (
    Column("set", int, "The number of the set, from 1."),
    Column("change", str, "The change, such as `placebo treatment`."),
    Column("left_out", str, "The variable, or the part of the rows, that is left out."),
    Column("arm", str, "The category of the treatment, or a unit more."),
    Column("estimate", float, "The difference after the change."),
    Column("standard_error", float, "Its standard error."),
    Column("low", float, "The lower end of its interval at 95 %."),
    Column("high", float, "The upper end."),
    Column("note", str, "Why nothing is estimated."),
)
Naming = Callable[[int | None], str]


def contrasts_after(
    refutations: Sequence[Refutation], change: Change, arm: int | None
) -> tuple[Contrast, ...]:
    """The estimates after changes of one kind, of one category of the treatment."""
    return tuple(
        one
        for changed in refutations
        if changed.change == change
        for one in changed.contrasts
        if one.arm == arm and math.isfinite(one.estimate)
    )


def normal_p_value(one: Contrast) -> float:
    """The two-sided normal p-value of a difference of 0; 1 without a positive error."""
    if not 0.0 < one.error < math.inf:
        return 1.0
    return math.erfc(abs(one.estimate) / one.error / math.sqrt(2.0))


def left_out_p_value(parts: Sequence[Contrast], error: float) -> float:
    """A test whether leave-one-out estimates scatter as the standard error predicts.

    Args:
        parts: The estimates, of parts about alike in size.
        error: The standard error of the estimate from all rows.

    Returns:
        A p-value: small where they scatter more widely. 1 of fewer than two.
    """
    from scipy.special import gammaincc

    count = len(parts)
    if count < FEWEST_PARTS or not 0.0 < error < math.inf:
        return 1.0
    mean = math.fsum(part.estimate for part in parts) / count
    squares = math.fsum((part.estimate - mean) ** 2 for part in parts)
    scatter = squares * (count - 1) ** 2 / (count * error * error)
    return float(gammaincc((count - 1) / 2.0, scatter / 2.0))


def refutation_rows(sets: tuple[AdjustedEffect, ...], arm_name: Naming) -> Cells:
    """The estimate after every change, or why there is none.

    Args:
        sets: The effect given every set.
        arm_name: What a category of the treatment is called.
    """
    rows: Cells = []
    for number, effect in enumerate(sets, start=1):
        for changed in effect.refutations:
            head = (number, changed.change, changed.left_out)
            rows += [
                (*head, arm_name(one.arm), one.estimate, one.error, one.low, one.high, "")
                for one in changed.contrasts
            ]
            if changed.why:
                rows.append((*head, "", None, None, None, None, changed.why))
    return rows


def refutation_lines(effect: AdjustedEffect, pair: Naming) -> Iterator[str]:
    """One line per refutation with its estimate; parts of the rows share one line.

    Args:
        effect: The effect given one set.
        pair: What a category of the treatment against the reference is called.
    """
    for one in effect.contrasts:
        if one.scale == "difference" and effect.refutations:
            yield f"  {pair(one.arm)}, the same difference after a change:"
            yield from _changed_lines(effect, one)
    for why in dict.fromkeys(
        f"{name(changed)}: {changed.why}" for changed in effect.refutations if changed.why
    ):
        yield f"    {why}"


def _changed_lines(effect: AdjustedEffect, one: Contrast) -> Iterator[str]:
    for changed in effect.refutations:
        for other in (other for other in changed.contrasts if other.arm == one.arm):
            line = f"    {name(changed)}: {shown(other.estimate)}"
            if changed.change == "placebo treatment":
                yield f"{line} ({shown(other.low)} to {shown(other.high)}), and 0 is expected"
            elif changed.change == "random common cause":
                shift = abs(other.estimate - one.estimate) / one.error if one.error else math.nan
                yield f"{line}, a shift of {shift:.2f} standard errors"
            elif changed.change != "rows left out":
                yield f"{line} ({shown(other.low)} to {shown(other.high)})"
    parts = contrasts_after(effect.refutations, "rows left out", one.arm)
    if parts:
        low, high = (end(part.estimate for part in parts) for end in (min, max))
        yield (
            f"    a fifth of the rows left out, each in turn: {shown(low)} to {shown(high)}; "
            f"p of their scatter {shown(left_out_p_value(parts, one.error))}"
        )


def name(changed: Refutation) -> str:
    """The name of the refutation in words."""
    if changed.change == "variable left out":
        return f"without {changed.left_out}"
    return "a fifth of the rows left out" if changed.change == "rows left out" else changed.change


def refutation_forest(
    effect: AdjustedEffect, one: Contrast, title: str, label: str
) -> Forest | None:
    """A drawing of one difference and of what it is after every change; None without any."""
    estimates = [
        Estimate(
            f"part {changed.left_out} of the rows left out"
            if changed.change == "rows left out"
            else name(changed),
            other.estimate,
            other.low,
            other.high,
        )
        for changed in effect.refutations
        for other in changed.contrasts
        if other.arm == one.arm and math.isfinite(other.low) and math.isfinite(other.high)
    ]
    if not estimates or not math.isfinite(one.low):
        return None
    whole = Estimate("as estimated", one.estimate, one.low, one.high)
    return Forest(title=title, note=f"{title}:", label=label, estimates=(whole, *estimates))
