"""A site's answers from models of its rows: regressions, likelihoods, scores, effects, survival."""

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.descriptions import ValueCounts
from cipherdag.questions.estimation.effect_stages import Missing
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.estimation.hazards import HazardSteps, HazardSums
from cipherdag.questions.estimation.rounded_totals import LARGEST_UNIT, CellSizes, RoundedTotals
from cipherdag.questions.estimation.survival import LogRankSums, SurvivalCounts
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.questions.scores.likelihoods import LogLikelihoods, ScoreComparisons
from cipherdag.questions.scores.score_sums import Misfits, RaoSums
from cipherdag.sites.answers.registry import answers, check_visits
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.effect_answer import effect_answer
from cipherdag.sites.compute.models.set_likelihoods import SetLikelihoods
from cipherdag.sites.compute.models.steps import regression_steps
from cipherdag.sites.compute.models.survival_rows import check_study, counts_up_to, survival_answer
from cipherdag.sites.compute.patients import Patients
from cipherdag.sites.compute.score_tests.site_scores import SiteScores
from cipherdag.statistics.regression_models import Regression


@answers(RegressionSteps)
def steps(question: RegressionSteps, view: SiteView) -> FloatVector:
    view.check_min_rows()
    view.spend(len(question.models))
    if view.min_cell_size > 1:
        _check_models(question.models, view)
    if view.parent is None:
        key = question.origins, question.units
        expand = view.remember(
            "expansions", key, lambda: Expansion.of_question(question, view.column, view.device)
        )
    else:
        expand = Expansion.of_question(question, view.column, view.device)
    answer = regression_steps(question, expand)
    expand.forget_columns()
    return answer


def _check_models(models: tuple[Regression, ...], view: SiteView) -> None:
    """Refuse models whose discrete variables have a table with small counts."""
    named = {tuple(sorted({m.response, *m.predictors, *m.complete_in})) for m in models}
    sets = {tuple(v for v in variables if view.categories[v]) for variables in named} - {()}
    for size in {len(variables) for variables in sets}:
        block = np.array([each for each in sets if len(each) == size], dtype=np.int64)
        view.check_tables(view.withheld(block))


@answers(RaoSums)
def scores(question: RaoSums, view: SiteView) -> FloatVector:
    view.spend(question.n_tests)
    return _site_scores(view).answer(question)


@answers(Misfits)
def misfits(question: Misfits, view: SiteView) -> FloatVector:
    view.spend(question.n_tests)
    return _site_scores(view).misfits(question)


def _site_scores(view: SiteView) -> SiteScores:
    """Score tests over the site's rows."""
    return view.remember(
        "scores",
        None,
        lambda: SiteScores(
            view.categories,
            view.raw_column,
            lambda: view.all_counts,
            view.device,
            None if view.patients is None else Patients(view.patients),
        ),
    )


@answers(LogLikelihoods)
def likelihoods(question: LogLikelihoods, view: SiteView) -> FloatVector:
    if view.min_cell_size > 1:
        raise PolicyRefusedError("log likelihoods of sets leave this site in comparisons only")
    view.spend(sum(question.counts))
    return _of_sets(view).answer(question.sets(), question.discount)


@answers(ScoreComparisons)
def compared_scores(question: ScoreComparisons, view: SiteView) -> IndexArray:
    sets = question.question
    view.spend(sum(sets.counts))
    return question.words(_of_sets(view).answer(sets.sets(), sets.discount))


def _of_sets(view: SiteView) -> SetLikelihoods:
    """Likelihoods of the site's rows."""
    return view.remember(
        "likelihoods",
        None,
        lambda: SetLikelihoods(view.open_rows, view.device, drawn=view.parent is not None),
    )


@answers(EffectSums)
def effects(question: EffectSums, view: SiteView) -> FloatVector:
    if view.parent is not None:
        raise MalformedMessageError("an effect is not estimated from resampled rows")
    view.spend(1)
    every = isinstance(question.stage, Missing)
    return effect_answer(
        question,
        view.all_rows if every else view.open_rows,
        min_cell_size=view.min_cell_size,
        blur=view.cell_keys,
        device=view.device,
    )


@answers(SurvivalCounts)
@answers(LogRankSums)
@answers(HazardSteps)
@answers(HazardSums)
def survival(
    question: SurvivalCounts | LogRankSums | HazardSteps | HazardSums, view: SiteView
) -> FloatVector:
    view.spend(1)
    about = view.categories, view.column, view.min_cell_size, view.noise
    return survival_answer(question, *about, view.open_rows.patients)


@answers(CellSizes)
def cell_sizes(question: CellSizes, view: SiteView) -> FloatVector:
    if view.unit > LARGEST_UNIT:
        raise PolicyRefusedError(
            f"counts would be in units of {view.unit} rows, as a patient has that many visits",
            remedy=f"Take fewer rows of each patient, so that none has more than "
            f"{LARGEST_UNIT // view.min_cell_size}.",
        )
    return question.answer_of(view.unit)


@answers(RoundedTotals)
def rounded_counts(question: RoundedTotals, view: SiteView) -> IndexArray:
    if question.unit < view.unit:
        raise PolicyRefusedError("counts in smaller units than the site's min_cell_size")
    check_visits(question.question, view.visits)
    view.spend(1)
    counted = question.question
    if isinstance(counted, ValueCounts):
        return question.words(view.described.totals(counted))
    check_study(counted, view.categories, view.column)
    return question.words(counts_up_to(counted, view.column))
