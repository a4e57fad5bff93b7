"""A run of every algorithm and kind of evidence that takes seconds, and the data of its sites."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from followed_patients import ward
from followed_patients import wards as hospitals

from cipherdag import (
    CausalGraph,
    Describe,
    Effect,
    FedBOSS,
    FedCD,
    FedCMFS,
    FedFCI,
    FedPC,
    GraphCheck,
    Policy,
    RFcd,
    Scoring,
    Survival,
    Training,
)
from cipherdag.algorithms.parameters import parameters_of
from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.graphs.networks import asia
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.testing import Trial

SMALL = {
    "rounds": 2,
    "training": Training(epochs=1, fit_steps=20, graph_steps=5, graphs=20, hidden=8),
}


DRAWN = CausalGraph.from_edges("1234", [("1", "2"), ("4", "2"), ("2", "3")])
PLACES = {"months": "1", "died": "2", "arm": "3", "age": "4"}
FOLLOWED = Survival(time="1", event="2", by="3", adjust=("3", "4"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Often(Trial):
    """A trial that many tests run: its schema is inferred once, and each protection run once."""

    __hash__ = object.__hash__

    def federation(self, **changes):
        return Trial.federation(self, **({"schema": drafted(self)} | changes))

    def run(self, **changes):
        if changes.keys() <= {"protection"}:
            return ran(self, changes.get("protection", "masking"))
        return Trial.run(self, **changes)


@cache
def drafted(trial):
    return infer_schema([*trial.data.values()], min_cell_size=0)


class Restricted(Often):
    """Its sites restrict small counts."""

    def federation(self, **changes):
        policy = Policy(questions=QUESTION_KINDS, allow_unprotected=True, min_cell_size=11)
        return Often.federation(self, **({"policy": policy} | changes))


class Visits(Often):
    """Its rows are visits of patients, whom a column names."""

    def federation(self, **changes):
        return Often.federation(self, **({"patient": "patient"} | changes))


@cache
def ran(trial, protection):
    return Trial.run(trial, protection=protection)


@cache
def clinics(columns):
    rows = asia().sample(1500, np.random.default_rng(3))[list(asia().graph.nodes[:columns])]
    return {"north": rows[:600], "south": rows[600:1000], "west": rows[1000:]}


@cache
def wards(columns):
    """Four sites whose names are equally long, so that whoever deals says nothing by it."""
    rows = asia().sample(2400, np.random.default_rng(5))[list(asia().graph.nodes[:columns])]
    return {f"ward-{part}": rows[part::4] for part in range(4)}


@cache
def beds():
    """The same with two columns of numbers, one of which depends on a category."""
    rng = np.random.default_rng(7)
    return {
        name: own.assign(
            score=rng.normal(own.iloc[:, 1] == "yes", 1.0), other=rng.normal(40.0, 3.0, len(own))
        )
        for name, own in wards(3).items()
    }


@cache
def treated():
    rng = np.random.default_rng(4)
    whole = pd.concat(clinics(4).values(), ignore_index=True)
    done = np.where(rng.random(len(whole)) < 0.3, whole.columns[0], "")
    return {name: whole[part::3].assign(done=done[part::3]) for part, name in enumerate(clinics(4))}


@cache
def measured():
    """Categories, numbers that are not always there, and a column that is nearly constant."""
    rng = np.random.default_rng(6)
    rows = clinics(3)
    found = {}
    for name, own in rows.items():
        numbers = rng.normal(40.0, 3.0, len(own))
        numbers[rng.random(len(own)) < 0.04] = np.nan
        found[name] = own.assign(score=numbers, flag=np.arange(len(own)) < 5)
    return found


@cache
def followed():
    """Times until an event; columns are called by their places, as where only sites know names."""
    return {name: own.rename(columns=PLACES) for name, own in hospitals().items()}


@cache
def patients():
    """Three sites that treat by age and sex, and what treatment and both do to a score.

    Columns are named as sites call them where their names stay there.
    """
    rng = np.random.default_rng(7)
    found = {}
    for number, name in enumerate(("north", "south", "west"), start=2):
        age, man = rng.normal(60.0, 10.0, 150 * number), rng.integers(0, 2, 150 * number)
        given = rng.random(len(age)) < 1.0 / (1.0 + np.exp(-(age - 60.0) / 20.0 - man))
        score = 3.0 * given + age / 10.0 + man + rng.normal(size=len(age))
        found[name] = pd.DataFrame({"1": age, "2": given, "3": score, "4": np.where(man, "m", "f")})
    return found


@cache
def trial(name):
    """A run of an algorithm that takes seconds; every registered one needs an entry."""
    labels = tuple(clinics(8)["north"].columns[1:3])
    return {
        "describe": Often(algorithm=Describe(), data=measured()),
        "survival": Often(algorithm=FOLLOWED, data=followed()),
        "effect": Often(
            algorithm=Effect(treatment="2", outcome="3", adjust="1,4"), data=patients()
        ),
        "graphcheck": Often(algorithm=GraphCheck(DRAWN), data=patients()),
        "fedpc": Often(algorithm=FedPC(bootstrap=2), data=clinics(8)),
        "fedfci": Often(algorithm=FedFCI(bootstrap=2), data=clinics(8)),
        "fedcmfs": Often(algorithm=FedCMFS(k1=100, k2=100), data=clinics(8), labels=labels),
        "rfcd": Often(algorithm=RFcd(searching=Searching(beam=2)), data=clinics(4)),
        "fedboss": Often(algorithm=FedBOSS(scoring=Scoring(restarts=2)), data=clinics(8)),
        "fedcd": Often(algorithm=FedCD(**SMALL), data=treated(), interventions="done"),
    }[name]


@cache
def departing():
    """Algorithm and federation by name: every way to evidence, over sites that may leave."""
    from departures import trials

    return {name: (algorithm, federation) for name, algorithm, federation in trials(0)}


CLOSED = [
    *(f"fedpc {evidence} verdicts" for evidence in ("vote", "stratified", "fisher", "weighted_p")),
    "fedpc stratified of any columns verdicts",
    *(f"fedcmfs {evidence} verdicts" for evidence in ("weighted_p", "fisher")),
    "fedboss verdicts",
    "fedboss of any columns verdicts",
    "fedpc by patient verdicts",
    "survival verdicts",
    "describe verdicts",
]


@cache
def followed_closely():
    """Four sites of patients, whose counts are opened by comparisons alone."""
    data = {f"ward-{part}": ward(300, part).rename(columns=PLACES) for part in range(4)}
    return Restricted(algorithm=Survival(time="1", event="2", by="3"), data=data)


@cache
def followed_again():
    """Sites of patients with three rows each, which have an age and an arm in common."""
    data = {}
    for part, (name, own) in enumerate(followed().items()):
        rng = np.random.default_rng((8, part))
        whose = np.repeat(np.arange(len(own) // 3), 3)
        shared = own.iloc[: len(whose)].assign(patient=whose)
        shared[["3", "4"]] = own[["3", "4"]].to_numpy()[whose]
        data[name] = shared.iloc[rng.permutation(len(whose))]
    return Visits(algorithm=Survival(time="1", event="2", adjust=("3", "4")), data=data)


@cache
def described_closely():
    """The same sites, whose categories and marks are counted by comparisons alone."""
    return Restricted(algorithm=Describe(), data=followed_closely().data)


@cache
def wards_again():
    """Four sites whose patients have two rows each, to test by bits."""
    data = {}
    for name, own in wards(4).items():
        whose = np.arange(len(own)) // 2
        data[name] = own.assign(patient=whose)
    return Visits(algorithm=FedPC(reveal="bits"), data=data)


COUNTED = {
    "survival verdicts": followed_closely,
    "describe verdicts": described_closely,
    "survival by patient": followed_again,
    "fedpc by patient verdicts": wards_again,
}


@cache
def replayed(name):
    """A trial of an algorithm, also with another search, or of FedPC with a kind of evidence."""
    if name in ALGORITHMS:
        return trial(name)
    if name in COUNTED:
        return COUNTED[name]()
    if name == "fedfci rfci":
        return Often(algorithm=FedFCI(search="rfci"), data=clinics(8))
    if name.startswith("fedcmfs "):
        own = FedCMFS(k1=100, k2=100, evidence=name.split(" ")[1], reveal="bits")
        return Often(algorithm=own, data=wards(6), labels=tuple(wards(6)["ward-0"].columns[1:3]))
    if name.endswith(" verdicts"):
        boss = name.startswith("fedboss ")
        kind = {} if boss else {"evidence": name.split(" ")[1]}
        own = (FedBOSS if boss else FedPC)(reveal="bits", **kind)
        return Often(algorithm=own, data=beds() if "any columns" in name else wards(6))
    return Often(algorithm=FedPC(evidence=name.partition(" ")[2]), data=clinics(5))


REPLAYED = (
    [*ALGORITHMS, "fedfci rfci", "survival by patient"]
    + [
        f"fedpc {evidence}"
        for evidence in parameters_of(FedPC)["evidence"].choices
        if evidence != FedPC().evidence
    ]
    + CLOSED
)
