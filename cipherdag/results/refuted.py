"""What refutations of an effect say: rows of a table, lines of words, a drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from cipherdag.findings.effect import AdjustedEffect, Contrast, Refutation
from cipherdag.findings.forest import Estimate, Forest
from cipherdag.findings.refutation import found_by, left_out_p_value
from cipherdag.pages.numerals import shown

Naming = Callable[[int | None], str]

COLUMNS = (
    "set", "change", "left_out", "arm", "estimate", "standard_error", "low", "high", "note",
)  # fmt: skip


def refutation_rows(sets: tuple[AdjustedEffect, ...], arm_name: Naming) -> list[tuple[Any, ...]]:
    """The estimate after every change, or why there is none.

    Args:
        sets: The effect given every set.
        arm_name: What a category of the treatment is called.
    """
    rows: list[tuple[Any, ...]] = []
    for number, own in enumerate(sets, start=1):
        for one in own.refutations:
            head = (number, one.change, one.left_out)
            rows += [
                (*head, arm_name(found.arm), found.estimate, found.error, found.low, found.high, "")
                for found in one.contrasts
            ]
            if one.why:
                rows.append((*head, "", None, None, None, None, one.why))
    return rows


def refutation_lines(own: AdjustedEffect, pair: Naming) -> Iterator[str]:
    """What was changed, and what the estimate is then; parts of the rows in one line.

    Args:
        own: The effect given one set.
        pair: What a category of the treatment against the reference is called.
    """
    for one in own.contrasts:
        if one.scale == "difference" and own.refutations:
            yield f"  {pair(one.arm)}, difference, where something is changed:"
            yield from _told(own, one)
    for why in dict.fromkeys(f"{name(one)}: {one.why}" for one in own.refutations if one.why):
        yield f"    {why}"


def _told(own: AdjustedEffect, one: Contrast) -> Iterator[str]:
    for found in own.refutations:
        for other in (other for other in found.contrasts if other.arm == one.arm):
            said = f"    {name(found)}: {shown(other.estimate)}"
            if found.change == "placebo treatment":
                yield f"{said} ({shown(other.low)} to {shown(other.high)}), and 0 is expected"
            elif found.change == "random common cause":
                moved = abs(other.estimate - one.estimate) / one.error if one.error else math.nan
                yield f"{said}, moved by {moved:.2f} standard errors"
            elif found.change != "rows left out":
                yield f"{said} ({shown(other.low)} to {shown(other.high)})"
    parts = found_by(own.refutations, "rows left out", one.arm)
    if parts:
        low, high = (end(part.estimate for part in parts) for end in (min, max))
        yield (
            f"    a fifth of the rows left out, each in turn: {shown(low)} to {shown(high)}; "
            f"p of their scatter {shown(left_out_p_value(parts, one.error))}"
        )


def name(own: Refutation) -> str:
    """What was changed, in words."""
    if own.change == "variable left out":
        return f"without {own.left_out}"
    return "a fifth of the rows left out" if own.change == "rows left out" else own.change


def refutation_forest(own: AdjustedEffect, one: Contrast, title: str, label: str) -> Forest | None:
    """A drawing of one difference and of what it is after every change; None without any."""
    told = [
        Estimate(
            f"part {found.left_out} of the rows left out"
            if found.change == "rows left out"
            else name(found),
            other.estimate,
            other.low,
            other.high,
        )
        for found in own.refutations
        for other in found.contrasts
        if other.arm == one.arm and math.isfinite(other.low) and math.isfinite(other.high)
    ]
    if not told or not math.isfinite(one.low):
        return None
    whole = Estimate("as estimated", one.estimate, one.low, one.high)
    return Forest(
        title=title,
        note=f"{title}:",
        label=label,
        estimates=(whole, *told),
    )
