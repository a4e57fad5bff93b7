"""Every segment of every question: honest answers lie in its range, below 0 where it says so."""

from collections import defaultdict
from functools import cache, partial
from itertools import product

import driving
import numpy as np
import pandas as pd
from driving import parts, plain_verdicts, within

from cipherdag import (
    CausalGraph,
    Describe,
    Effect,
    FedBOSS,
    FedCD,
    FedCMFS,
    Federation,
    FedFCI,
    FedPC,
    GraphCheck,
    RFcd,
    Scoring,
    Survival,
    Training,
)
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedcd.algorithm import Averaging
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.graphs.networks import asia
from cipherdag.questions.question import Bundle, question_kinds
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.answers.site_view import SiteView

# what an honest site may answer below 0, segment by segment
SIGNED = {
    ("Suppressed", ""): {0, 1, 2, 3, 5},
    ("Columns", ""): {2, 3, 5},
    ("Moments", ""): {1, 2},
    ("RegressionSteps", ""): {0},
    ("FamilyRegrets", ""): {0},
    ("LogLikelihoods", ""): {0},
    ("ColumnSums", ""): {1},
    ("SurvivalCounts", ""): {5},
    ("LogRankSums", ""): {1, 2},
    ("HazardSteps", ""): {0},
    ("HazardSums", ""): {1},
    ("EffectSums", ""): {0, 2},
    ("LocalBeliefs", "code"): {0},
}
LEAST = {"followed": 0, "still": 0, "counted": 0}
"""Smallest count of a federation where it is not 5: exact counts need sites that restrict none."""
ONLY_COVERED = {"RaoSums", "Misfits"}
"""Of which nothing is asked but inside another question."""
SHORT = {
    "rounds": 1,
    "training": Training(epochs=1, fit_steps=4, graph_steps=4, batch=16, graphs=8, hidden=4),
}


def federations():
    """Sites of categories, of numbers, almost constant or not, of both, and with experiments."""
    rng = np.random.default_rng(0)
    rows = asia().sample(600, rng)
    numbers = pd.DataFrame(rng.normal(size=(150, 4)) * 0.1, columns=list("abcd"))
    numbers["b"] += numbers["a"]
    numbers["d"] -= 1.0
    grade = pd.Categorical.from_codes(
        rng.permutation(np.arange(150) % 3), list("xyz"), ordered=True
    )
    trial = pd.DataFrame(rng.integers(0, 3, (300, 3)), columns=list("abc"))
    trial["experiment"] = np.repeat(["", "a", "b", "c"], 75)
    # a column that varies by less than rounding has a size and no spread
    still = numbers.assign(d=0.1 + rng.integers(0, 2, 150) * 2.0**-56)
    followed = pd.DataFrame({"a": rng.exponential(3.0, 300), "b": rng.integers(0, 2, 300)})
    followed["c"], followed["d"] = rng.integers(0, 3, 300), rng.normal(size=300)
    return {
        "followed": Federation.split(followed, 3, seed=0),
        "few followed": Federation.split(followed, 3, seed=0),
        "still": Federation.split(still, 3, seed=0),
        "discrete": Federation.split(rows, 3, seed=0, labels=tuple(rows.columns[:2])),
        "counted": Federation.split(rows, 3, seed=0),
        "numbers": Federation.split(numbers, 3, seed=0),
        "mixed": Federation.split(numbers.assign(grade=grade), 3, seed=0),
        "nominal": Federation.split(numbers.assign(kind=grade.astype(str)), 3, seed=0),
        "trial": Federation.split(trial, 3, interventions="experiment", device="cpu"),
    }


RUNS = [
    *(
        (FedPC(evidence=kind, alpha=0.3), "discrete")
        for kind in ("vote", *sorted(kind for kind in EVIDENCE if not kind.startswith("glm")))
    ),
    *((FedPC(evidence=kind, alpha=0.3), "numbers") for kind in ("vote", *EVIDENCE)),
    *(
        (FedPC(evidence="vote", voting=Voting(sepset=kind), alpha=0.5), "discrete")
        for kind in ("max", "mean", "vote")
    ),
    *(
        (FedPC(evidence=kind, reveal="bits", alpha=0.3), data)
        for kind, data in product(("vote", "fisher", "weighted_p"), ("discrete", "numbers"))
    ),
    *((FedPC(reveal="bits", alpha=0.3), kind) for kind in ("discrete", "numbers", "mixed")),
    *(
        (FedCMFS(evidence=kind, reveal="bits", alpha=0.3), "discrete")
        for kind in ("weighted_p", "fisher")
    ),
    *((FedPC(evidence=kind, alpha=0.3), "mixed") for kind in ("stratified", "glm")),
    (FedPC(alpha=0.3), "nominal"),
    *((FedPC(reveal=kind, alpha=0.9), "numbers") for kind in ("sums", "bits")),
    (FedPC(evidence="vote", bootstrap=2, max_cond_size=0), "discrete"),
    (FedPC(evidence="vote", test="kci"), "numbers"),
    (FedFCI(alpha=0.3), "discrete"),
    (FedFCI(search="rfci", alpha=0.3), "numbers"),
    *((Describe(), kind) for kind in ("discrete", "numbers", "mixed", "still")),
    *(
        (Survival(time="a", event="b", by="c", adjust=("c", "d"), site_effect=own), "followed")
        for own in (False, True)
    ),
    (Survival(time="a", event="b", by="c"), "few followed"),
    *(
        (
            Effect(treatment="e", outcome="a", adjust="b,c", estimator=own, refute=own != "ipw"),
            "mixed",
        )
        for own in ("regression", "ipw", "aipw", "linear")
    ),
    (Effect(treatment="e", outcome="a", adjust="b,c", site_effect=False), "mixed"),
    (Effect(treatment="e", outcome="a", estimator="standardise", refute=True), "mixed"),
    (GraphCheck(CausalGraph.from_edges("abcd", [("a", "b"), ("b", "c")])), "discrete"),
    (FedBOSS(within_sites=False, scoring=Scoring(restarts=1)), "counted"),
    (FedBOSS(reveal="bits"), "discrete"),
    (FedBOSS(reveal="sums", scoring=Scoring(restarts=1)), "counted"),
    *((FedBOSS(within_sites=own), "numbers") for own in (False, True)),
    (FedCMFS(reveal="sums"), "discrete"),
    (FedCMFS(evidence="fisher", reveal="sums"), "discrete"),
    *(
        (RFcd(objective=kind, searching=Searching(beam=1)), "discrete")
        for kind in ("graph", "nodewise", "sum")
    ),
    (RFcd(objective="sum", searching=Searching(beam=1)), "numbers"),
    *((FedCD(**SHORT, averaging=Averaging(reference=own)), "trial") for own in ("paper", "code")),
    (FedCD(**SHORT, averaging=Averaging(aggregation="naive")), "trial"),
    (FedCD(**SHORT, method="dcdi-dsf"), "trial"),
]


def variant(part):
    """What of a question decides which segments it has."""
    part = part.question if isinstance(part, Suppressed | ContributorCounts) else part
    return getattr(part, "combination", getattr(part, "reference", getattr(part, "score", "")))


@cache
def answered():
    """The encodings and answers of every segment, by kind and variant, from whole runs."""
    found = defaultdict(list)
    sites = {
        name: [
            SiteView.of_table(s.table, min_cell_size=LEAST.get(name, 5), device="cpu")
            for s in own.sites
        ]
        for name, own in federations().items()
    }
    for (algorithm, name), min_contributors in product(RUNS, (1, 2)):
        names = tuple(chr(97 + k) for k in range(sites[name][0].n_variables))
        facts = Facts(len(names), 3, names=names, labels=(0, 1), min_contributors=min_contributors)
        driving.answered(algorithm.ask(facts), partial(summed, found, sites[name]))
    return dict(found)


def summed(found, sites, question):
    """The sum of the sites' answers, which are noted."""
    answers = np.array([site.answer(question) for site in sites])
    if question.opens_bits:
        found.update({(name, -1): [] for name in closed_kinds(question)})
        return plain_verdicts(question, answers)  # refuses words beyond their bounds
    keep(found, question, answers)
    total = answers.sum(axis=0)
    for encoding, place in parts(question):
        if encoding.comparison:
            total[place] = total[place] > 0
    return total


def closed_kinds(question):
    """The kinds of questions that find verdicts, as keys of what was asked."""
    asked = question.parts if isinstance(question, Bundle) else (question,)
    return {(type(part).__name__, variant(part)) for part in asked}


def keep(found, question, answers):
    start = 0
    for part in question.parts if isinstance(question, Bundle) else (question,):
        if part.opens_bits:  # of these words `plain_verdicts` checks the bounds
            found.setdefault(((type(part).__name__, ""), 0), [])
            continue
        key = type(part).__name__, variant(part)
        for number, (encoding, place) in enumerate(parts(part)):
            values = answers[:, start + place.start : start + place.stop]
            found[key, number].append((encoding, values))
        start += part.n_values


def test_every_kind_of_question_was_asked():
    kinds = {name for (name, _), _ in answered()}
    assert kinds | ONLY_COVERED == {kind.__name__ for kind in question_kinds().values()}
    assert SIGNED.keys() <= {key for key, _ in answered()}


def test_honest_answers_lie_in_their_ranges():
    for (key, number), asked in answered().items():
        for encoding, values in asked:
            assert within(encoding, values), (key, number)


def test_what_may_lie_below_0_is_declared_so_and_nothing_else():
    declared = defaultdict(set)
    below = defaultdict(set)
    for (key, number), asked in answered().items():
        if any(encoding.signed for encoding, _ in asked):
            declared[key].add(number)
        if any((values < 0.0).any() for _, values in asked):
            below[key].add(number)
    assert declared == SIGNED
    assert below == SIGNED
