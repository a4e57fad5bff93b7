"""Every registered algorithm keeps every law, has its options, and goes on after a crash."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import adversary
import click
import numpy as np
import pandas as pd
import pytest
import replaying
import simulated_view
from followed_patients import wards as hospitals
from scipy import stats

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
    RFcd,
    Survival,
)
from cipherdag.algorithms.parameters import parameters_of
from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class, make_algorithm, title_of
from cipherdag.cli.main import cli
from cipherdag.errors import ParameterError
from cipherdag.graphs.networks import asia
from cipherdag.protocol.messages import content_digest
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.session import handshake
from cipherdag.testing import LAWS, Trial, check_algorithm

SMALL = {"rounds": 2, "epochs": 1, "fit_steps": 20, "graph_steps": 5, "graphs": 20, "hidden": 8}


DRAWN = CausalGraph.from_edges("1234", [("1", "2"), ("4", "2"), ("2", "3")])
FOLLOWED = Survival(time="1", event="2", by="3", adjust=("3", "4"))


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
    places = {"months": "1", "died": "2", "arm": "3", "age": "4"}
    return {name: own.rename(columns=places) for name, own in hospitals().items()}


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
        "describe": Trial(algorithm=Describe(), data=measured()),
        "survival": Trial(algorithm=FOLLOWED, data=followed()),
        "effect": Trial(
            algorithm=Effect(treatment="2", outcome="3", adjust="1,4", refute=True),
            data=patients(),
        ),
        "graphcheck": Trial(algorithm=GraphCheck(DRAWN), data=patients()),
        "fedpc": Trial(algorithm=FedPC(bootstrap=2), data=clinics(8)),
        "fedfci": Trial(algorithm=FedFCI(bootstrap=2), data=clinics(8)),
        "fedcmfs": Trial(algorithm=FedCMFS(k1=100, k2=100), data=clinics(8), labels=labels),
        "rfcd": Trial(algorithm=RFcd(beam=2), data=clinics(4)),
        "fedboss": Trial(algorithm=FedBOSS(restarts=2), data=clinics(8)),
        "fedcd": Trial(algorithm=FedCD(**SMALL), data=treated(), interventions="done"),
    }[name]


CLOSED = [
    *(f"fedpc {evidence} verdicts" for evidence in ("vote", "stratified", "fisher", "weighted_p")),
    "fedpc stratified of any columns verdicts",
    *(f"fedcmfs {evidence} verdicts" for evidence in ("weighted_p", "fisher")),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", [*ALGORITHMS, *CLOSED])
def test_it_keeps_the_law(name, law):
    law(replayed(name))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_name_is_the_registered_one_and_the_default_policy_allows_it(name):
    assert algorithm_class(name).name == name
    assert title_of(name) == algorithm_class(name).title
    assert name in Policy().algorithms


@pytest.mark.parametrize("group", [("run",), ("simulate",), ("coordinator", "run")], ids=" ".join)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_commands_have_the_defaults_of_the_class(name, group):
    found = cli
    for word in (*group, name):
        found = found.get_command(None, word)
    options = {option.name: option for option in found.params}
    own = algorithm_class(name)
    for parameter in parameters_of(own).values():
        option = options[parameter.name]
        default = parameter.written(parameter.default)
        if default != "":  # of knowledge, which no file stands for
            shown = option.get_default(click.Context(found))
            assert shown == (
                (default,) if option.multiple and isinstance(default, str) else default
            )
        assert parameter.help in option.help
    assert make_algorithm(name, {}) == own()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_value_of_a_parameter_that_cannot_be_is_named(name):
    own = algorithm_class(name)
    for parameter in parameters_of(own).values():
        wrong = "no such choice" if parameter.choices else object()
        with pytest.raises(ParameterError, match=parameter.name):
            own(**{parameter.name: wrong})
        if parameter.range is not None:
            with pytest.raises(ParameterError, match=parameter.name):
                own(**{parameter.name: parameter.kind(parameter.range.low - 1)})
    with pytest.raises(ParameterError, match="no parameter 'nonsense'"):
        make_algorithm(name, {"nonsense": 1})


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_goes_on_after_a_crash_of_the_coordinator(name, tmp_path):
    own = trial(name)
    whole = own.run()
    crashed = adversary.crash_and_resume(
        own, tmp_path / "journal.jsonl", after=len(whole.rounds) // 2
    )
    assert [report.aggregate for report in crashed.rounds] == [
        report.aggregate for report in whole.rounds
    ]


# replay: what a site computes for itself is what the coordinator computes


@cache
def replayed(name):
    """A trial of an algorithm, also with another search, or of FedPC with a kind of evidence."""
    if name in ALGORITHMS:
        return trial(name)
    if name == "fedfci rfci":
        return Trial(algorithm=FedFCI(search="rfci"), data=clinics(8))
    if name.startswith("fedcmfs "):
        own = FedCMFS(k1=100, k2=100, evidence=name.split(" ")[1], reveal="verdicts")
        return Trial(algorithm=own, data=wards(6), labels=tuple(wards(6)["ward-0"].columns[1:3]))
    if name.endswith(" verdicts"):
        own = FedPC(evidence=name.split(" ")[1], reveal="verdicts")
        return Trial(algorithm=own, data=beds() if "any columns" in name else wards(6))
    return Trial(algorithm=FedPC(evidence=name.partition(" ")[2]), data=clinics(5))


@cache
def run_apart(name, protection):
    """A run of it whose sites each have a program of their own."""
    with tempfile.TemporaryDirectory() as folder:
        return replaying.run_apart(replayed(name), Path(folder) / "journal.jsonl", protection)


REPLAYED = (
    [*ALGORITHMS, "fedfci rfci"]
    + [
        f"fedpc {evidence}"
        for evidence in parameters_of(FedPC)["evidence"].choices
        if evidence != FedPC().evidence
    ]
    + CLOSED
)


@pytest.mark.parametrize("protection", ["masking", "bfv"])
@pytest.mark.parametrize("name", REPLAYED)
def test_sites_with_programs_of_their_own_come_to_the_coordinator_s_result(name, protection):
    if protection == "bfv":
        pytest.importorskip("tenseal")
    own, run = replayed(name), run_apart(name, protection)
    assert len(run.programs) == len(own.data)
    assert len({id(program.replay) for program in run.programs}) == len(own.data)
    assert all(program.replay.ended for program in run.programs)
    assert run.told == dict.fromkeys(own.data, run.expected())
    # a simulation, whose parties share one run, has the very same sums
    shared = own.run(protection=protection)
    assert [r.aggregate for r in run.rounds] == [r.aggregate for r in shared.rounds]


@pytest.mark.parametrize("name", REPLAYED)
def test_it_replays_alike_on_another_processor_with_other_threads(name, tmp_path):
    saved = replaying.saved(run_apart(name, "masking"), tmp_path / "run.msgpack")
    here = replaying.replayed_digest(saved)
    older = replaying.in_process_of_its_own(saved, 1, older=True)
    assert [older, replaying.in_process_of_its_own(saved, 2)] == [here, here]


# the view: what the coordinator receives follows from plan and opened sums


@contextmanager
def same_chance():
    """Sites draw the same numbers for who deals: whoever simulates a view knows them, too."""
    numbers = itertools.count()

    def chance():
        return sha256(str(next(numbers)).encode()).digest()

    with patch.object(handshake, "new_chance", chance):
        yield


@cache
def views(name, protection):
    """A real run, and what a simulator makes of its plan and its sums without any site."""
    own = replayed(name)
    with tempfile.TemporaryDirectory() as folder, same_chance():
        path = Path(folder) / "journal.jsonl"
        real = replaying.run_apart(own, path, protection, adversary.RecordingEngine)
    with same_chance():
        made = simulated_view.simulated(
            real.plan,
            opened(real),
            n_variables=real.facts.n_variables,
            labels=real.facts.labels,
            schema_bytes=schema_bytes(own),
            make=own.algorithm,
        )
    return real, made


def schema_bytes(own):
    return len(own.federation().sites[0].table.schema.canonical())


def opened(real):
    return [np.frombuffer(entry.values, dtype="<f8") for entry in real.summed]


def received(engine):
    """Every message: who sends it, in which order, every number in it, how long the rest is."""
    return [
        (operation, simulated_view.outline(reply), len(reply))
        for operation, _, reply in engine.received
    ]


def told(rounds):
    names = ("number", "kind", "label", "values", "n_sites", "aggregate")
    return [[getattr(report, name) for name in names] for report in rounds]


@pytest.mark.parametrize("name", REPLAYED)
def test_the_coordinator_s_view_follows_from_the_plan_and_the_opened_sums(name):
    real, made = views(name, "masking")
    assert received(real.engine) == received(made.engine)
    assert simulated_view.asked(real.engine) == simulated_view.asked(made.engine)
    assert told(real.rounds) == told(made.rounds)
    own = real.algorithm
    found = own.conclude(real.outcome, real.facts).decisions
    assert own.conclude(made.outcome, made.facts).decisions == found
    # what all sites say at the end is a digest of plan, opened sums and decisions
    assert set(real.told.values()) == {real.expected()}
    assert len(set(made.told.values())) == 1


def test_how_long_the_schema_is_can_be_told_from_what_is_sealed():
    """The one thing of a site that the view above has beside plan and sums; its text is sealed."""
    real, made = views("fedpc", "masking")
    longer = simulated_view.simulated(
        real.plan,
        opened(real),
        n_variables=real.facts.n_variables,
        labels=(),
        schema_bytes=1 + schema_bytes(replayed("fedpc")),
        make=real.algorithm,
    )
    assert received(longer.engine) != received(made.engine)


@pytest.mark.parametrize("name", REPLAYED)
def test_the_plan_s_generator_over_the_opened_sums_asks_what_was_asked(name):
    real, _ = views(name, "masking")
    asked, outcome = simulated_view.questions(
        real.plan, dataclasses.replace(real.facts), opened(real), real.algorithm
    )
    contents = [content_digest(question) for question in asked]
    assert contents == [entry.content for entry in real.summed]
    lengths = [sum(encoding.length for encoding in question.encodings) for question in asked]
    assert lengths == [len(sums) for sums in opened(real)]
    decisions = real.algorithm.conclude(outcome, real.facts).decisions
    assert decisions == real.algorithm.conclude(real.outcome, real.facts).decisions


@pytest.mark.parametrize("name", REPLAYED)
def test_shares_are_uniform_alone_and_together_in_real_and_simulated_runs(name):
    real, made = views(name, "masking")
    asked, _ = simulated_view.questions(
        real.plan, dataclasses.replace(real.facts), opened(real), real.algorithm
    )
    samples = []
    for engine, plan in ((real.engine, real.plan), (made.engine, made.plan)):
        words = list(simulated_view.masked_words(engine, asked, plan).values())
        pairs = [(a + b) % 1.0 for a, b in itertools.combinations(words, 2)]
        samples.append([*words, *pairs, sum(words) % 1.0])
    for truly, simulated in zip(*samples, strict=True):
        assert len(truly) == len(simulated) > 20
        assert stats.kstest(truly, "uniform").pvalue > 1e-6
        assert stats.ks_2samp(truly, simulated).pvalue > 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent(FedPC):
    """An algorithm that does not say who learns what."""

    def disclosures(self):
        return ()


def test_an_algorithm_that_is_silent_about_what_it_leaks_fails():
    silent = Trial(algorithm=Silent(), data=clinics(4))
    with pytest.raises(AssertionError, match="its docstring has no Leaks: section"):
        LAWS[0](silent)
    with pytest.raises(AssertionError, match="nothing with reveal=sums"):
        LAWS[1](silent)
    with pytest.raises(AssertionError, match="says_what_it_is_and_leaks: "):
        check_algorithm(Silent(), clinics(4))
