"""Survival's account of a run: its curves, and what to know of them."""

from collections.abc import Iterator

import numpy as np

from cipherdag.findings.axes import MOST_SERIES, Curves, Series
from cipherdag.findings.effect import normal_p_value
from cipherdag.findings.finding import Report
from cipherdag.findings.survival import GroupCurve, SurvivalAnalysis
from cipherdag.questions.estimation.survival import FEWEST_GROUPS
from cipherdag.statistics.survival import ratio_trend

TITLE = "Survival curves"
CHANGES = 0.01
"""p-value below which ratios of hazards are said to change, or to differ; of all of a model."""
TOO_LITTLE = "one ratio, or a test of equal rates, says too little. Look at the curves."
LIMITS = (
    (
        "Times are counted in bins: a curve is estimated at their upper edges only, and a median "
        "no better than to the bin it lies in. For the curve, rows that end without the event in a "
        "bin are at risk in half of it, as in actuarial life tables. Its interval covers whenever "
        "in the bin they end. With censored after, they are at risk in the whole bin, as Kaplan "
        "and Meier take times that are edges. For tests in bins they are, too."
    ),
    (
        "Where some site restricts small counts, counts of all sites are disclosed in whole "
        "units of the largest min_cell_size, and no site is left out of a curve. Intervals of "
        "curves reach from one of as many events and other ends as there can be to one of as few. "
        "The test stratified by site has exact times. Its "
        "expected events are rounded to a sixteenth, and such a site changes variances by up to a "
        "fifth."
    ),
    (
        "Whether the event comes faster in a group says nothing of a cause, unless groups were "
        "drawn by lot: whoever is in it may differ in other ways, and sites may differ, too."
    ),
)

OF_PATIENTS = (
    "Rows are visits of patients. There are no curves and no test of groups, which would take each "
    "for a person. Intervals of ratios, and the test of the model, count patients. Of fewer than "
    "about 100, or where few have most of the rows, intervals are somewhat too narrow. A time is "
    "taken to begin anew with each row, and a ratio is between rows, whoever's they are."
)
IN_UNITS = " Counts are ranges, and the intervals cover them."
PROPORTIONAL = (
    "A Cox model takes ratios of hazards to be the same at all times and sites, and the logarithm "
    "of a hazard to be linear in numbers. {} That rows end without the event for reasons which "
    "foretell it is not looked at."
)
COMPARED = (
    "Of the former two, what sites with events enough tell alone is compared, and a site that "
    "restricts small counts changes it by up to a quarter of its standard error."
)
NOT_COMPARED = "Neither is looked at with one hazard of all sites, or where too few sites tell."
NO_MODEL = (
    "Too few sites tell of the Cox model: each needs events, a min_cell_size of them, and no "
    "smaller count in a table of two among the event and the model's columns of categories."
)
FEW_HAVE = "too few sites have rows of these categories, or of two of them:"
JOIN_CATEGORIES = "Join them with others in the data, or leave their rows or columns out."
COARSE = (
    "Bins of time are too coarse: when rows end within them without the event is withheld, which "
    "more than doubles the width of some interval of"
)
FINER = "Give more edges."
FEW_OF_ALL = "too few sites, or fewer than half of those of a curve, tell of all groups"
JOIN = (
    "Join groups of few rows in the data, or leave their rows out, or ask sites whether they can "
    "lower their min_cell_size."
)


def reported(analysis: SurvivalAnalysis) -> Report:
    """Curves, and what makes them doubtful."""
    ratios = () if analysis.model is None else analysis.model.ratios
    limits, compared = [*LIMITS], any(one.between or one.over_time for one in ratios)
    if not analysis.curves:
        limits = [OF_PATIENTS, LIMITS[-1]]
    if analysis.model is not None:
        limits.append(PROPORTIONAL.format(COMPARED if compared else NOT_COMPARED))
    said = _warnings(analysis) if analysis.curves else _model_warnings(analysis)
    return Report(panels=tuple(_panels(analysis)), limits=tuple(limits), warnings=tuple(said))


def _panels(analysis: SurvivalAnalysis) -> Iterator[Curves]:
    if not analysis.curves:
        return
    names = analysis.group_names
    curves = [(name, one) for name, one in zip(names, analysis.curves, strict=True) if one.reported]
    yield Curves(
        title=TITLE,
        note=_note(len(curves)) + IN_UNITS * (analysis.rounded_to > 1),
        x_label=analysis.time,
        y_label="share without the event",
        series=tuple(_series(name, one, analysis.edges) for name, one in curves[:MOST_SERIES]),
        steps=True,
    )


def _note(groups: int) -> str:
    shown = f"The first {MOST_SERIES} of {groups} groups; all" if groups > MOST_SERIES else "All"
    return f"With 95 % intervals at each edge of a bin. {shown} numbers stand in curves.csv."


def _series(name: str, curve: GroupCurve, edges: tuple[float, ...]) -> Series:
    points, band = [(0.0, 1.0)], [(0.0, 1.0, 1.0)]
    for x, y, low, high in zip(edges, curve.survival, curve.low, curve.high, strict=True):
        if y is not None and low is not None and high is not None:
            points.append((x, y))
            band.append((x, low, high))
    return Series(name, tuple(points), tuple(band))


def _warnings(analysis: SurvivalAnalysis) -> list[str]:
    said, left, rounded = [], analysis.unreported, analysis.rounded_to > 1
    if left:
        test = "the test leaves it out" if analysis.test else "no test of the groups"
        few = f"All sites together have fewer than {analysis.rounded_to} rows"
        curve = f"so there is no curve of it, and {test}."
        said.append(
            f"{few if rounded else 'Too few sites tell'} of {', '.join(left)}, {curve} {JOIN}"
        )
    if analysis.not_compared:
        others = ", ".join(analysis.not_compared)
        said.append(f"The test leaves out {others}, as {FEW_OF_ALL}. {JOIN}")
    if analysis.test is None and sum(one.reported for one in analysis.curves) >= FEWEST_GROUPS:
        said.append(f"There is no test of the groups stratified by site, as {FEW_OF_ALL}. {JOIN}")
    if analysis.test is not None and analysis.test.sites < analysis.n_sites and rounded:
        said.append(
            "Some sites take no part in the test, as they have too few rows with the event, or "
            "without, in a group that is compared."
        )
    elif any(one.reported and one.sites < analysis.n_sites for one in analysis.curves):
        said.append(
            "Some sites tell nothing of some groups, as they have no rows in these or in a group "
            "that they are compared with: the result is of the others."
        )
    if coarse := [
        n for n, one in zip(analysis.group_names, analysis.curves, strict=True) if one.coarse
    ]:
        said.append(f"{COARSE} {', '.join(coarse)}. {FINER}")
    if not any(one.ended[0] for one in analysis.curves):
        few = (
            f"Fewer than {analysis.rounded_to} rows of each group have" if rounded else "No row has"
        )
        said.append(f"{few} the event within the bins of time: nothing can be compared.")
    said += _changing_ratios(analysis)
    return [*said, *_model_warnings(analysis)]


def _changing_ratios(analysis: SurvivalAnalysis) -> Iterator[str]:
    """Where the ratio of hazards of a group and all others goes with the logarithm of time.

    A score test on exact counts of bins (Grambsch and Therneau, Biometrika 81 (1994) 515-526).
    """
    if analysis.rounded_to > 1:
        return
    reported = [k for k, one in enumerate(analysis.curves) if one.reported]
    counts = np.array([[analysis.curves[k].events, analysis.curves[k].at_risk] for k in reported])
    if len(reported) < FEWEST_GROUPS:
        return
    edges = np.array(analysis.edges)
    weights = np.log((edges + np.append(0.0, edges[:-1])) / 2.0)[: counts.shape[2]]
    events, at_risk = counts.sum(axis=0)
    for k, (own, exposed) in zip(reported, counts, strict=True):
        p_value = ratio_trend(own, exposed, events, at_risk, weights)
        if p_value < CHANGES:
            yield (
                f"The ratio of hazards of {analysis.group_names[k]} and the others changes over "
                f"time (p {p_value:.2g}): {TOO_LITTLE} Sites that differ in hazards and in groups "
                "may do it, too."
            )
            if len(reported) == FEWEST_GROUPS:
                return


def _model_warnings(analysis: SurvivalAnalysis) -> list[str]:
    model = analysis.model
    if model is None:
        return []
    if model.few:
        named = ", ".join(
            f"{one} {analysis.dictionary.category(one, code)}" for one, code in model.few
        )
        return [f"There is no Cox model, as {FEW_HAVE} {named}. {JOIN_CATEGORIES}"]
    if not model.sites:
        return [NO_MODEL]
    said = []
    for name, one in zip(analysis.ratio_names, model.ratios, strict=True):
        if one.fault == "not determined":
            said.append(
                f"{name} follows from the other columns of the Cox model, or nobody with an event "
                "differs in it: no ratio of hazards can be given."
            )
        elif one.fault:
            ends = "all" if one.fault.endswith("up") else "none"
            said.append(
                f"The likelihood of {name} rises without end, as where {ends} of those with the "
                "event have it: no ratio of hazards can be given, and no test of the model."
            )
    said += _of_sites(analysis)
    if 0 < model.sites < analysis.n_sites:
        said.append(
            f"{analysis.n_sites - model.sites} of {analysis.n_sites} sites tell nothing of the Cox "
            "model, as some of their counts are too small"
            + (", or a time is below 0." if not analysis.curves else ".")
        )
    return said


def _of_sites(analysis: SurvivalAnalysis) -> Iterator[str]:
    """Where ratios of hazards differ between sites, or change over time, beyond chance."""
    assert analysis.model is not None, "only a Cox model has ratios of hazards"
    ratios = analysis.model.ratios
    for name, one in zip(analysis.ratio_names, ratios, strict=True):
        if one.between is not None and one.between.p_value < CHANGES / len(ratios):
            yield (
                f"The ratios of hazards of {name} that each site's rows tell alone differ by more "
                f"than chance: {one.between.i2:.0%} of their scatter (Cochran's Q "
                f"{one.between.q:.1f} of {one.between.sites} sites). The ratio given may be that "
                "of no site."
            )
        if one.over_time is None or (p := normal_p_value(one.over_time)) >= CHANGES / len(ratios):
            continue
        turns = "grows" if one.over_time.estimate > 0.0 else "falls"
        yield f"The ratio of hazards of {name} {turns} over time (p {p:.2g}): {TOO_LITTLE}"
