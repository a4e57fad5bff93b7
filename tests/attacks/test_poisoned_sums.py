"""Sums that the cohort could produce and no honest one would: a result or an error by name.

One site that lies can move every sum anywhere within its range. What it can do to the result is
said elsewhere; here nobody's program may stop for a reason without a name.
"""

import warnings

import numpy as np
import pytest
from driving import plain_sum
from evidence_sites import discrete_codes, discrete_site, gaussian_site, gaussian_values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedcd.algorithm import Averaging, FedCD
from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.algorithms.parameters import grouped
from cipherdag.algorithms.rfcd.algorithm import RFcd, Searching
from cipherdag.errors import AggregateRangeError, CipherdagError

N_VARIABLES, N_SITES = 4, 3
MOST_ROUNDS, MOST_VALUES = 60, 200_000
ROWS = 1 << 10

FEDPC = {
    "evidence": ("vote", *EVIDENCE),
    "sepset": ("max", "mean", "vote", "search"),
    "colliders": ("sepset", "conservative", "majority"),
    "reference": ("auto", "paper", "code"),
    "test": ("auto", "g2", "pearson", "fisherz"),
    "bootstrap": (0, 1),
}


def allowed(kind, **settings):
    """The algorithm, or None where the choices do not go together."""
    try:
        return kind(**grouped(kind, settings))
    except CipherdagError:
        return None


def some(kind, choices, **fixed):
    drawn = st.fixed_dictionaries({name: st.sampled_from(own) for name, own in choices.items()})
    return drawn.map(lambda own: allowed(kind, **own, **fixed)).filter(bool)


def fitting(evidence):
    """What FedPC's other choices may be with a kind of evidence, so that few are thrown away."""
    fits = {"evidence": (evidence,)}
    if evidence != "vote":
        fits |= {"reference": ("auto",), "sepset": ("max", "search")}
    if evidence == "stratified":
        fits |= {"test": ("auto", "fisherz")}
    return fits


ALGORITHMS = st.one_of(
    *(
        some(FedPC, FEDPC | fitting(evidence), max_rows=ROWS, max_cond_size=2)
        for evidence in FEDPC["evidence"]
    ),
    some(
        FedCMFS,
        {
            "evidence": ("weighted_p", "fisher", "stratified"),
            "retrieval": ("interchangeable", "paper"),
        },
        max_rows=ROWS,
        k1=50.0,
        k2=50.0,
    ),
    some(
        RFcd,
        {
            "objective": ("graph", "nodewise", "sum"),
            "searching": [Searching(search=search, beam=2) for search in ("auto", "beam")],
        },
    ),
    some(
        FedCD,
        {
            "averaging": [
                Averaging(reference=followed, aggregation=mean)
                for followed in ("paper", "code")
                for mean in ("proximity", "naive")
            ]
        },
        rounds=2,
    ),
)


YES = (0.0, 0.1, 0.5, 0.9, 1.0)
"""How often a comparison says that a site exceeds."""


def poisoned(question, rng, manner):
    """A sum in the range that the question declares for the cohort, on its grid."""
    parts = []
    for own in (encoding for part in question.parts for encoding in part.encodings):
        if own.comparison:
            parts.append((rng.random(own.length) < rng.choice(YES)).astype(np.float64))
            continue
        step = 2.0**-own.resolution_bits
        most = N_SITES * own.bound
        least = -most if own.signed else 0.0
        drawn = {
            "anything": lambda own=own, least=least, most=most: rng.uniform(
                least, most, own.length
            ),
            "extremes": lambda own=own, least=least, most=most: rng.choice(
                [least, 0.0, most], own.length
            ),
            "nothing": lambda own=own: np.zeros(own.length),
            "least": lambda own=own, step=step: rng.integers(0, 4, own.length) * step,
            "small": lambda own=own: rng.integers(0, 7, own.length).astype(np.float64),
            "counts": lambda own=own: rng.integers(0, 400, own.length).astype(np.float64),
        }[manner]()
        parts.append(np.clip(np.rint(drawn / step) * step, least, most))
    return np.concatenate([np.zeros(0), *parts])


MANNERS = ("anything", "extremes", "nothing", "least", "small", "counts")


def run(algorithm, facts, answer):
    """Go through a run's rounds, as far as a test wants to; the error that ended it, if any."""
    asking = algorithm.ask(facts)
    try:
        question = next(asking)
        for number in range(MOST_ROUNDS):
            if question.n_values > MOST_VALUES:
                return None
            question = asking.send(answer(number, question))
    except StopIteration as finished:
        algorithm.conclude(finished.value, facts)
    except CipherdagError as error:
        return error
    return None


def facts_of(seed):
    return Facts(N_VARIABLES, N_SITES, labels=(0, 1), seed=seed)


@pytest.fixture(autouse=True)
def _numbers_may_overflow():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


LENIENT = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@LENIENT
@given(ALGORITHMS, st.integers(0, 2**32 - 1), st.sampled_from(MANNERS))
def test_any_sums_end_in_a_result_or_an_error_by_name(algorithm, seed, manner):
    rng = np.random.default_rng(seed)
    run(algorithm, facts_of(seed), lambda number, question: poisoned(question, rng, manner))


def sites(kind):
    rng = np.random.default_rng(0)
    if kind == "discrete":
        codes = discrete_codes(rng, 240, (2, 3, 2, 2))
        return [discrete_site(own, (2, 3, 2, 2)) for own in np.split(codes, N_SITES)]
    values = gaussian_values(rng, 240, N_VARIABLES)
    return [gaussian_site(own) for own in np.split(values, N_SITES)]


HONEST = {kind: sites(kind) for kind in ("discrete", "continuous")}


@LENIENT
@given(
    st.one_of(
        *(
            some(
                FedPC,
                FEDPC | {"evidence": (kind,), "bootstrap": (0,), "test": ("auto",)},
                max_rows=ROWS,
                max_cond_size=2,
            )
            for kind in FEDPC["evidence"]
        )
    ),
    st.integers(0, 2**32 - 1),
    st.sampled_from(MANNERS),
    st.integers(0, 6),
    st.sampled_from([0.02, 0.3, 1.0]),
    st.sampled_from(["discrete", "continuous"]),
)
def test_one_sum_among_honest_ones_ends_a_run_by_name_too(
    algorithm, seed, manner, poison, share, kind
):
    rng = np.random.default_rng(seed)

    def answer(number, question):
        honest = plain_sum(question, HONEST[kind])
        if number != poison:
            return honest
        return np.where(rng.random(honest.size) < share, poisoned(question, rng, manner), honest)

    run(algorithm, facts_of(seed), answer)


def ending(algorithm, kind, number, place, value):
    """The error that ends an honest run in which one sum of one round is another."""

    def answer(asked, question):
        sums = plain_sum(question, HONEST[kind])
        if asked == number:
            sums[place] = value
        return sums

    return run(algorithm, facts_of(0), answer)


COUNTED = FedPC(evidence="pooled", max_rows=ROWS)


@pytest.mark.parametrize(
    ("kind", "number", "place", "value", "said"),
    [
        ("discrete", 0, 0, 0.0, "'kinds of 4 variables, and where numbers lie': no site answered"),
        (
            "discrete",
            0,
            2,
            7.0,
            "'kinds of 4 variables, and where numbers lie': sites differ in categories",
        ),
        (
            "continuous",
            0,
            6,
            3000.0,
            "'kinds of 4 variables, and where numbers lie': values that are no numbers",
        ),
        ("discrete", 1, 0, 3.0 * ROWS, "'4 tables of up to 1 variables': too many rows"),
        ("discrete", 2, 5, 3.0 * ROWS, "'6 tables of up to 2 variables': too many rows"),
        ("continuous", 1, 0, 3.0 * ROWS, "'moments of 4 variables': too many rows"),
    ],
)
def test_the_error_says_which_question_was_answered_so(kind, number, place, value, said):
    error = ending(COUNTED, kind, number, place, value)
    assert isinstance(error, AggregateRangeError)
    assert error.message == f"no answers add up to the sums of {said}"


def test_more_cells_than_any_site_counts_are_not_asked_for():
    """Honest columns of many categories, in a run whose sites restrict small counts."""
    levels = (300, 300, 300, 300)
    codes = discrete_codes(np.random.default_rng(0), 600, levels)
    respondents = [discrete_site(own, levels, min_cell_size=5) for own in np.split(codes, N_SITES)]
    outcome = run(
        FedPC(evidence="glm", max_cond_size=1, max_rows=ROWS),
        facts_of(0),
        lambda number, question: plain_sum(question, respondents),
    )
    assert outcome is None
