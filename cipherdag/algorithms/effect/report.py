"""Effect's account of a run: what makes the estimates doubtful, and what they take for granted."""

import math
from collections.abc import Iterator

from cipherdag.findings.effect import (
    AdjustedEffect,
    contrasts_after,
    left_out_p_value,
    normal_p_value,
)
from cipherdag.findings.estimated_effect import EstimatedEffect
from cipherdag.findings.finding import Note, Report

LIMITS = (
    (
        "The graph is taken for right: that what is adjusted for blocks every path from treatment "
        "to outcome but those by which the treatment acts. No number says whether it does."
    ),
    (
        "Standard errors suppose that the set was chosen before the data were seen. They are too "
        "small where the graph was learnt from the same rows. The range of the intervals by all "
        "graphs of its replicates holds the truth more often."
    ),
)
GRAPHS_DRAWN = (
    "The graphs fit the rows if nothing unmeasured causes two variables and relations are straight "
    "lines. No number says whether that is so. In how many of them there is an effect is no "
    "probability."
)
BETWEEN_PERTURBED = (
    "Mean, Q, I2 and p between sites are approximate: a site that restricts small counts changes "
    "the effect in its rows by up to a quarter of its standard error, and the error by up to a "
    "tenth."
)
UNADJUSTED = (
    "Nothing is adjusted for. What acts on both treatment and outcome is part of the effect, "
    "unless a graph says, or a lot decided, that nothing does."
)
_ESTIMATOR_LIMITS = {
    "regression": "The models take their form for right: what is adjusted for acts by main effects "
    "in each arm. Arms are not checked for similar rows. Where one has none, the models "
    "extrapolate; ipw and aipw show that by counts of propensities.",
    "ipw": "The treatment's model takes its form for right.",
    "aipw": "The models of treatment and outcome take their form for right; one of them suffices.",
    "standardise": "Effects are those over the rows in whose stratum their site has every arm.",
    "linear": "The outcome is taken to be linear in the treatment and in what is adjusted for.",
}
DIFFER = 0.01  # p-value of Q, a departure or a refutation below which it is a doubt
CURVED = 0.04  # p-value of a curve below which it is a doubt; larger, as a faint one biases already
RANDOM_CAUSE_SE = 1.0  # standard errors by which a random common cause may move an estimate


def reported(effect: EstimatedEffect) -> Report:
    """The account of a run, its doubts first."""
    doubts = [(one, said) for one in effect.sets for said in _disagreeing(one)]
    doubts += [
        (one, said)
        for one in effect.sets
        for said in (*one.doubts, *_misfit(one, effect), *_heterogeneous(one), *_refuted(one))
    ]
    doubts += [(effect.sets[0], said) for said in _incomplete_differ(effect)]
    several = len(effect.sets) > 1
    warnings = tuple(
        f"Adjusted for {', '.join(one.adjust) or 'nothing'}: {said}" if several else said
        for one, said in doubts
    )
    between = (BETWEEN_PERTURBED,) if any(one.between for one in effect.sets) else ()
    taken = LIMITS if effect.share_with_effect is None else (GRAPHS_DRAWN,)
    bare = any(one.contrasts and not one.adjust for one in effect.sets)
    limits = (_ESTIMATOR_LIMITS[effect.estimator], *taken, *between, *_left_out(effect))
    notes = (Note(UNADJUSTED),) if bare else ()
    return Report(notes=notes, limits=limits, warnings=tuple(dict.fromkeys(warnings)))


def _misfit(adjusted: AdjustedEffect, effect: EstimatedEffect) -> Iterator[str]:
    """Warn where the treatment's model is wrong about rows below a value, or lacks a curve."""
    for one in adjusted.departures:
        arm = effect.arm_name(one.arm)
        if one.p_value < DIFFER / len(adjusted.departures):
            often = "more" if one.z > 0.0 else "less"
            yield (
                f"Rows with {one.variable} below {one.below:.4g} have {arm} {often} often than "
                f"the treatment's model says (p {one.p_value:.2g}): some rows have no like in "
                "another arm, or the model is wrong."
            )
        elif one.p_of_square < CURVED / len(adjusted.departures):
            yield (
                f"How often rows have {arm} follows {one.variable} along a curve "
                f"that the treatment's model lacks (p {one.p_of_square:.2g}): if the outcome does, "
                f"too, the interval may not hold. Adjust for {one.variable} in categories as well."
            )


def _left_out(effect: EstimatedEffect) -> Iterator[str]:
    taken = "It is taken that the others are like them."
    fewest = min((one.rows for one in effect.sets if one.contrasts), default=effect.all_rows)
    if fewest < effect.all_rows:
        yield (
            f"{effect.all_rows - fewest:,} of {effect.all_rows:,} rows are not in it: they miss a "
            f"value, or their site or stratum is left out. {taken}"
        )
    elif effect.left_out:
        most = max(effect.left_out, key=lambda one: one.rows)
        yield f"{most.rows:,} rows of {most.sites} sites miss a value and are not in it. {taken}"


def _disagreeing(effect: AdjustedEffect) -> Iterator[str]:
    """The warning where the pooled effect and the weighted mean of sites' effects differ.

    The test supposes them independent. They share rows, so it warns too seldom, never too often.
    """
    for between in effect.between:
        for one in effect.contrasts:
            if one.scale == "difference" and one.arm == between.arm:
                error = math.hypot(one.error, between.error)
                difference = abs(one.estimate - between.estimate)
                chance = math.erfc(difference / error / math.sqrt(2.0)) if error > 0.0 else 1.0
                if chance < DIFFER:
                    yield (
                        f"The effect over all rows, {one.estimate:.4g}, and the mean of those that "
                        f"each site's rows tell alone, {between.estimate:.4g}, disagree beyond "
                        f"chance (p {chance:.2g}): do not rely on either before you see what "
                        "differs between sites."
                    )


def _incomplete_differ(effect: EstimatedEffect) -> Iterator[str]:
    for one in effect.left_out:
        if one.p_value < DIFFER:
            name = effect.outcome if one.of == "outcome" else effect.treatment
            yield (
                f"Which rows miss a value, and are left out, goes with the {one.of} {name} by more "
                f"than chance (p {one.p_value:.2g}): the rows that are in it are not like the "
                "others, and what is adjusted for may not mend that."
            )


def _heterogeneous(effect: AdjustedEffect) -> Iterator[str]:
    for one in effect.between:
        if one.p_value < DIFFER:
            yield (
                f"The effects that each site's rows tell alone differ by more than chance: "
                f"{one.i2:.0%} of their scatter (Cochran's Q {one.q:.1f} of {one.sites} sites). "
                "The effect given is that over all rows, and may be that of no site."
            )


def _refuted(effect: AdjustedEffect) -> Iterator[str]:
    for one in effect.contrasts:
        if one.scale != "difference":
            continue
        for placebo in contrasts_after(effect.refutations, "placebo treatment", one.arm):
            if (chance := normal_p_value(placebo)) < DIFFER:
                yield (
                    f"A placebo, dealt out by chance at every site, seems to act (p {chance:.2g}): "
                    "sites differ in treatment and outcome for other reasons than what is "
                    "adjusted for, or the model is wrong."
                )
        for changed in contrasts_after(effect.refutations, "random common cause", one.arm):
            if abs(changed.estimate - one.estimate) > RANDOM_CAUSE_SE * one.error:
                yield "A random number that is adjusted for, too, moves the estimate."
        parts = contrasts_after(effect.refutations, "rows left out", one.arm)
        if (chance := left_out_p_value(parts, one.error)) < DIFFER:
            yield (
                "Without a fifth of the rows the estimate changes by more than its standard error "
                f"says (p {chance:.2g}): a few rows decide it."
            )
