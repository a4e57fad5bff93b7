"""Tests over sites that measured different variables: those of the sites that can do each."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from overlapping import NAMES, having, p_values, simulated, sites_of
from scipy import stats

from cipherdag import FedFCI, FedPC
from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.evidence.options import Method
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class
from cipherdag.errors import ParameterError
from cipherdag.questions.presence import Measured

OVERLAPPING = [name for name, kind in EVIDENCE.items() if kind.overlapping]
CUT = {"numbers": (), "categories": range(12), "mixtures": range(0, 12, 2)}


def some_tests(rng, n=60):
    """Every pair, and some pairs given one to three others."""
    pairs = list(itertools.combinations(NAMES, 2))
    given = [tuple(rng.permutation(NAMES)[: 2 + k]) for k in rng.integers(1, 4, n)]
    return pairs + list({(*sorted(t[:2]), *sorted(t[2:])) for t in given})


def z_of(frame, test):
    """Fisher's z and its weight from the residuals of two regressions by statsmodels."""
    x, y, *given = (frame[name].to_numpy() for name in test)
    design = sm.add_constant(np.column_stack(given)) if given else np.ones((len(frame), 1))
    of_x, of_y = (sm.OLS(own, design).fit().resid for own in (x, y))
    return np.arctanh(np.corrcoef(of_x, of_y)[0, 1]), len(frame) - len(given) - 3


def by_scipy(frames, test):
    """Fisher's p-value over frames by SciPy."""
    told = [z_of(own, test) for own in frames]
    z, weight = map(np.array, zip(*told, strict=True))
    own = 2 * stats.norm.sf(np.abs(z) * np.sqrt(weight))
    return stats.combine_pvalues(own, method="fisher").pvalue


def test_p_values_of_numbers_are_of_the_sites_with_all_variables():
    rng = np.random.default_rng(3)
    frames, tests = sites_of(rng), some_tests(rng)
    found, n_tests_by_method = p_values(simulated(frames), FedPC(evidence="fisher"), tests)
    never = [not having(frames, test) for test in tests]
    assert (np.isnan(found) == never).all()
    assert 0 < sum(never) == n_tests_by_method[Method.NEVER_TOGETHER]
    for test, own, untold in zip(tests, found, never, strict=True):
        if not untold:
            assert own == pytest.approx(by_scipy(having(frames, test), test), abs=1e-6)


def test_p_values_of_tables_are_of_the_sites_with_all_variables():
    rng = np.random.default_rng(4)
    frames = sites_of(rng, discrete=range(12), rows=(400, 500))
    tests = [t for t in some_tests(rng) if len(t) < 4]
    found, _ = p_values(simulated(frames), FedPC(evidence="fisher", test="pearson"), tests)
    for test, own in zip(tests, found, strict=True):
        if having(frames, test):
            p_value = [table_p(frame, test) for frame in having(frames, test)]
            by_fisher = stats.combine_pvalues(p_value, method="fisher").pvalue
            assert own == pytest.approx(by_fisher, abs=1e-6)


def table_p(frame, test):
    """Pearson's chi-square over the configurations of what is given, by SciPy."""
    x, y, *given = test
    parts = [own for _, own in frame.groupby(given)] if given else [frame]
    told = [
        stats.chi2_contingency(own.groupby([x, y]).size().unstack(fill_value=0), correction=False)
        for own in parts
    ]
    return stats.chi2.sf(sum(own.statistic for own in told), sum(own.dof for own in told))


@pytest.mark.parametrize("columns", CUT)
@pytest.mark.parametrize("kind", OVERLAPPING)
def test_every_kind_gives_what_a_run_over_these_sites_alone_gives(kind, columns):
    if kind != "stratified" and columns == "mixtures":
        algorithm = FedPC(evidence=kind, test="regression")
    else:
        algorithm = FedPC(evidence=kind)
    rng = np.random.default_rng(5)
    frames = sites_of(rng, discrete=CUT[columns])
    tests = some_tests(rng, 30)
    found, _ = p_values(simulated(frames), algorithm, tests)
    for group in (frames[:3], frames[3:], frames):
        alike = [t for t in tests if len(having(frames, t)) == len(having(group, t)) == len(group)]
        shared = sorted(set.intersection(*(set(own.columns) for own in group)))
        alone = simulated([own[shared] for own in group])
        again, _ = p_values(alone, algorithm, alike)
        asked = [tests.index(test) for test in alike]
        assert len(alike) > 5
        if kind != "stratified":
            assert np.array_equal(found[asked], again, equal_nan=True)
            continue
        # what the sites' own tests are compared with is a line over the number of all sites
        assert (np.isnan(found[asked]) == np.isnan(again)).all()
        scores = (stats.norm.isf(np.maximum(own / 2, 1e-300)) for own in (found[asked], again))
        np.testing.assert_allclose(*scores, rtol=0.08, atol=0.15)


@pytest.mark.parametrize(
    ("kind", "cut"), [("fisher", "numbers"), *(("stratified", own) for own in CUT)]
)
def test_bits_are_those_of_the_sites_with_all_variables(kind, cut):
    rng = np.random.default_rng(12)
    rows = (150, 260) if cut == "numbers" else (400, 500)
    frames, tests = sites_of(rng, discrete=CUT[cut], rows=rows), some_tests(rng)
    federation, algorithm = simulated(frames), FedPC(evidence=kind)
    opened, _ = p_values(federation, algorithm, tests)
    closed, n_tests_by_method = p_values(federation, replace(algorithm, reveal="bits"), tests)
    never = [not having(frames, test) for test in tests]
    assert 0 < sum(never) == n_tests_by_method[Method.NEVER_TOGETHER]
    assert (np.isnan(opened) == np.isnan(closed)).all()
    told = ~np.isnan(opened)
    assert set(closed[told]) == {0.0, 1.0}
    assert ((opened > algorithm.alpha) == (closed > 0))[told].mean() > 0.97


@pytest.mark.parametrize("algorithm", [FedPC, FedFCI])
def test_a_run_by_bits_over_partial_columns_learns_the_graph_of_sums(algorithm):
    federation = simulated(sites_of(np.random.default_rng(3)))
    opened, closed = (federation.run(algorithm(reveal=own), seed=0) for own in ("sums", "bits"))
    pairs = [
        {frozenset((e.source, e.target)) for e in own.finding.graph.edges}
        for own in (opened, closed)
    ]
    assert pairs[0] == pairs[1]
    assert opened.finding.details["untested_edges"] == closed.finding.details["untested_edges"]


@pytest.mark.parametrize("algorithm", [FedPC, FedFCI])
@pytest.mark.parametrize("kind", [name for name in EVIDENCE if name not in OVERLAPPING])
def test_evidence_that_needs_all_of_every_site_is_refused_by_name(algorithm, kind):
    federation = simulated(sites_of(np.random.default_rng(6)))
    with pytest.raises(ParameterError, match=f"sites lack variables.*{kind} cannot"):
        federation.run(algorithm(evidence=kind))


def test_choices_that_take_untested_edges_for_granted_are_refused():
    federation = simulated(sites_of(np.random.default_rng(6)))
    for algorithm in (
        FedFCI(search="rfci"),
        FedPC(evidence="vote"),
        FedPC(evidence="weighted_p", reveal="bits"),
        "rfcd",
        "fedcmfs",
    ):
        with pytest.raises(ParameterError, match=r"lack|needs every variable") as caught:
            federation.run(algorithm)
        assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ALGORITHMS)
def test_sites_that_lack_variables_are_refused_by_most_algorithms(name):
    own = algorithm_class(name)
    check, bare = own.check_measured, object.__new__(own)
    check_everywhere = Algorithm.check_measured
    check_everywhere(bare, Measured(((),) * 6))
    if not own.takes_overlap:
        with pytest.raises(ParameterError, match=f"^{own.title} needs every variable"):
            check(bare, Measured(((0,),) * 6))
    else:
        assert check is not check_everywhere
