"""FedFCI with the site as a variable: sound under an oracle, and right and quiet on data."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from driving import drive
from evidence_sites import gaussian_site
from oracle import OracleTest, random_dag
from scipy import stats
from test_fedfci import ancestors_of, true_pag

from cipherdag import Federation, FedFCI, Knowledge, PAGResult
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.site_differences import SiteDifference
from cipherdag.algorithms.fedfci.context import DISCLOSED, WithSite, of_site
from cipherdag.errors import MixedTypesError, ParameterError
from cipherdag.findings.mechanisms import DETAIL
from cipherdag.graphs.ancestral.marks import ARROW, CIRCLE, NONE, TAIL
from cipherdag.questions.coverage import Contributors, Covered
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import CITestSpec
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.questions.site_differences import SiteDifferences

AS_CONTEXT = {"context": "site", "max_cond_size": None}
CONTEXT = FedFCI(**AS_CONTEXT)


class WithinOracle:
    """Tests of the first variables of a DAG within the sites: given its last variable, too."""

    def __init__(self, dag, kinds):
        self.tally, self.kinds, self.doubted = {}, kinds, None
        self.oracle, self.site = OracleTest(dag), len(dag) - 1

    def p_values(self, tests):
        yield from ()
        return [
            np.array([self.oracle.separated(x, y, [*s, self.site]) for x, y, *s in rows.tolist()])
            * 1.0
            for rows in tests
        ]

    def left_undone(self, triplets):
        return np.zeros(len(triplets), dtype=bool)

    def effect(self, test):
        return None


class SiteOracle(WithSite):
    """The site is the last variable of the DAG."""

    def _compare(self, sets):
        yield from ()
        oracle, site = self._source.oracle, self._source.site
        for v, given in sets:
            p_value = 1.0 * oracle.separated(v, site, given)
            self._known[v, given] = SiteDifference(v, given, p_value)


def with_site(seed, *, largest=9):
    """A DAG of observed variables, hidden ones, and last the site, which causes one to three."""
    rng = np.random.default_rng(seed)
    observed, hidden = int(rng.integers(4, largest)), int(rng.integers(0, 3))
    p = observed + hidden
    dag = np.zeros((p + 1, p + 1), dtype=bool)
    dag[:p, :p] = random_dag(p, float(rng.uniform(1.5, 3.0)), rng)
    dag[p, rng.permutation(observed)[: rng.integers(1, 4)]] = True
    return dag, observed


def under_oracle(dag, observed, algorithm=CONTEXT, names=()):
    none = np.zeros(observed)
    kinds = ColumnKinds(9, none.astype(int), none, none, none, none > 0, False, none > 0)
    settings = EvidenceSettings(spec=CITestSpec(alpha=0.01), n_variables=observed)
    facts = Facts(observed, 3, names)
    known = (algorithm.knowledge or Knowledge()).over(facts.names)
    tests = SiteOracle(WithinOracle(dag, kinds), settings)
    asking = of_site(tests, known, facts, algorithm._skeleton, algorithm._orient)
    return drive(asking, [])[0]


@pytest.mark.parametrize("colliders", ["joining", "majority", "conservative", "sepset"])
def test_marks_and_arrows_of_the_site_are_true_under_an_oracle(colliders):
    """Neighbours of the site are what no set separates from it, and every mark is true."""
    gained = 0
    for seed in range(120 if colliders == "joining" else 30):
        dag, observed = with_site(seed)
        site = len(dag) - 1
        order = [*range(observed), site, *range(observed, site)]
        moved = dag[np.ix_(order, order)]
        true = true_pag(moved, observed + 1, site - observed)
        outcome = under_oracle(dag, observed, FedFCI(**{**AS_CONTEXT, "colliders": colliders}))
        assert ((outcome.marks == NONE) == (true[:-1, :-1] == NONE)).all(), seed
        joined = [own.variable for own in outcome.mechanisms if own.differs]
        assert joined == np.flatnonzero(true[-1, :-1]).tolist()
        above = [ancestors_of(dag, {v}) for v in range(len(dag))]
        for a, b in np.argwhere(outcome.marks).tolist():
            assert outcome.marks[a, b] != (ARROW if b in above[a] else TAIL)
        known = (true[:-1, :-1] == ARROW) | (true[:-1, :-1] == TAIL)
        assert (outcome.marks[known] == true[:-1, :-1][known]).all(), seed
        assert not outcome.ambiguous
        order = [*range(observed), *range(observed, site)]
        plain = true_pag(dag[np.ix_(order, order)], observed, site - observed)
        gained += int(((outcome.marks != CIRCLE) & (plain == CIRCLE)).sum())
    assert gained > 15 or colliders != "joining"


def test_what_is_known_holds_beside_the_site():
    dag = np.zeros((4, 4), dtype=bool)
    dag[0, 1] = dag[1, 2] = dag[3, 2] = True
    knowledge = Knowledge(required=(("a", "b"),))
    algorithm = FedFCI(**AS_CONTEXT, knowledge=knowledge)
    outcome = under_oracle(dag, 3, algorithm, ("a", "b", "c"))
    assert outcome.marks[0, 1] == ARROW
    assert outcome.marks[1, 0] == TAIL
    assert outcome.known.required.shape == (3, 3)
    assert [own.differs for own in outcome.mechanisms] == [False, False, True]


def hospitals(seed, changed=(), *, n_sites=4, rows=500, by=0.6):
    """a --> b --> c <-- d at every site; some of them lie elsewhere at each."""
    rng = np.random.default_rng(seed)
    frames = {}
    for k in range(n_sites):
        noise = dict(zip("abcd", rng.normal(size=(4, rows)), strict=True))
        for name in changed:
            noise[name] = noise[name] + by * (k - (n_sites - 1) / 2)
        b = 0.8 * noise["a"] + noise["b"]
        c = 0.8 * b + 0.8 * noise["d"] + noise["c"]
        frames[f"site{k}"] = pd.DataFrame({"a": noise["a"], "b": b, "c": c, "d": noise["d"]})
    return frames


def arrows(result):
    return {own["variable"] for own in result.details[DETAIL] if own["differs"]}


@pytest.mark.parametrize("name", "abcd")
def test_the_mechanism_that_differs_is_named_and_no_other(name):
    """Its effects differ at the sites, too, but not given what causes them."""
    others = 0
    for seed in range(12):
        result = Federation.simulate(hospitals(seed, (name,))).run(FedFCI(context="site"))
        found = arrows(result)
        assert name in found
        others += len(found - {name})
    # three variables in twelve runs, each wrong in one of a hundred
    assert others <= stats.binom.isf(1e-4, 36, 0.01)


def test_sites_that_are_alike_have_no_arrow():
    found = [
        len(arrows(Federation.simulate(hospitals(seed, rows=200)).run(FedFCI(context="site"))))
        for seed in range(40)
    ]
    assert sum(found) <= stats.binom.isf(1e-4, 160, 0.01)


@pytest.mark.parametrize("seed", range(3))
def test_another_scale_and_another_slope_differ_too(seed):
    frames = hospitals(seed, rows=1000)
    frames["site1"]["d"] *= 2.0
    assert arrows(Federation.simulate(frames).run(FedFCI(context="site"))) >= {"d"}
    frames = hospitals(seed, rows=1000)
    frames["site2"]["c"] -= 1.6 * frames["site2"]["b"]
    frames["site2"]["c"] += 1.0  # else what d leaves of c is distributed as elsewhere
    assert arrows(Federation.simulate(frames).run(FedFCI(context="site"))) == {"c"}


def test_an_arrow_of_the_site_directs_an_edge_that_nothing_else_does(tmp_path):
    federation = Federation.simulate(hospitals(0, ("a",)))
    plain, result = federation.run(FedFCI()), federation.run(FedFCI(context="site"))
    assert "a o-o b" in map(str, plain.graph.edges)
    assert "a --> b" in map(str, result.graph.edges)
    assert DETAIL not in plain.details
    again = PAGResult.load(result.save(tmp_path / "run"))
    assert again.details[DETAIL] == result.details[DETAIL]
    told = re.sub(r"\s+", " ", "\n".join(again.lines()))
    assert "Mechanisms that differ between the sites (site --> variable): a" in told
    assert "site --&gt; a" in (tmp_path / "run" / "report.html").read_text("utf-8")
    # given nothing all that a causes differs, too
    assert {own["variable"] for own in result.details["site_differences"] if own["differs"]} == {
        "a",
        "b",
        "c",
    }


def test_no_order_decides_anything():
    frames = hospitals(5, ("b",))
    found = []
    for columns in ("abcd", "dbca"):
        turned = {name: own[list(columns)] for name, own in frames.items()}
        found.append(Federation.simulate(turned).run(FedFCI(context="site")))
    one, other = ({own["variable"]: own["p_value"] for own in r.details[DETAIL]} for r in found)
    assert one == pytest.approx(other)
    assert arrows(found[0]) == arrows(found[1])
    assert set(found[0].compare(found[1])["same"]) == {True}


def opened_by(asked):
    """The questions whose sums are opened; counts of who contributes are not among them."""
    for question in asked:
        for own in parts_of(question):
            if not isinstance(own, Contributors):
                yield own.question if isinstance(own, Covered) else own


def test_nothing_is_compared_twice_and_nothing_else_is_opened():
    """Blurs of two askings would average out; what is asked is what the plan and its words say."""
    frames = [own.to_numpy() for own in hospitals(1, ("a", "d")).values()]
    facts = Facts(4, 4, fewest=3)
    plain = drive(FedFCI().ask(facts), [gaussian_site(own) for own in frames])[1]
    _, asked = drive(FedFCI(context="site").ask(facts), [gaussian_site(own) for own in frames])
    opened = [*opened_by(asked)]
    assert {type(own) for own in opened} == {*map(type, opened_by(plain)), RegressionSteps}
    sets = [
        tuple(row)
        for own in opened
        if isinstance(own, SiteDifferences)
        for rows in own.sets()
        for row in rows.tolist()
    ]
    assert len(sets) == len({*sets}) > 6
    models = [
        (model.response, *model.predictors)
        for own in opened
        if isinstance(own, RegressionSteps)
        for model in own.models
    ]
    assert sorted(models) == sorted(own for own in sets if len(own) > 1)
    assert DISCLOSED in FedFCI(context="site").disclosures()
    assert DISCLOSED not in FedFCI().disclosures()


@pytest.mark.parametrize(
    "choices",
    [
        {"evidence": "pooled"},
        {"reveal": "verdicts"},
        {"search": "rfci"},
        {"compare_sites": False},
        {"bootstrap": 2},
        {"integrate": 5},
    ],
)
def test_what_it_cannot_take_is_refused(choices):
    with pytest.raises(ParameterError, match="context site needs evidence stratified"):
        FedFCI(context="site", **choices)


def test_sites_that_lack_variables_are_refused():
    with pytest.raises(ParameterError, match="context site cannot be told"):
        CONTEXT.check_measured(Measured(((0,),) * 3 + ((1,),) * 3))


def test_categories_are_refused():
    frames = hospitals(0, rows=100)
    for own in frames.values():
        own["a"] = np.where(own["a"] > 0, "high", "low")
    with pytest.raises(MixedTypesError, match="some columns are categories"):
        Federation.simulate(frames).run(FedFCI(context="site"))
