"""Every registered algorithm keeps every law, has its options, and goes on after a crash."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import adversary
import click
import numpy as np
import pandas as pd
import pytest

from cipherdag import FedCD, FedCMFS, FedPC, RFcd
from cipherdag.algorithms.parameters import parameters_of
from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class, make_algorithm, title_of
from cipherdag.cli.main import cli
from cipherdag.errors import ParameterError
from cipherdag.graphs.networks import asia
from cipherdag.sites.policy.policy import Policy
from cipherdag.testing import LAWS, Trial, check_algorithm

SMALL = {"rounds": 2, "epochs": 1, "fit_steps": 20, "graph_steps": 5, "graphs": 20, "hidden": 8}


@cache
def clinics(columns):
    rows = asia().sample(1500, np.random.default_rng(3))[list(asia().graph.nodes[:columns])]
    return {"north": rows[:600], "south": rows[600:1000], "west": rows[1000:]}


@cache
def treated():
    rng = np.random.default_rng(4)
    whole = pd.concat(clinics(4).values(), ignore_index=True)
    done = np.where(rng.random(len(whole)) < 0.3, whole.columns[0], "")
    return {name: whole[part::3].assign(done=done[part::3]) for part, name in enumerate(clinics(4))}


@cache
def trial(name):
    """A run of an algorithm that takes seconds; every registered one needs an entry."""
    labels = tuple(clinics(8)["north"].columns[1:3])
    return {
        "fedpc": Trial(algorithm=FedPC(bootstrap=2), data=clinics(8)),
        "fedcmfs": Trial(algorithm=FedCMFS(k1=100, k2=100), data=clinics(8), labels=labels),
        "rfcd": Trial(algorithm=RFcd(beam=2), data=clinics(4)),
        "fedcd": Trial(algorithm=FedCD(**SMALL), data=treated(), interventions="done"),
    }[name]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_keeps_the_law(name, law):
    law(trial(name))


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
            assert option.get_default(click.Context(found)) == default
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent(FedPC):
    """An algorithm that does not say who learns what."""

    def disclosures(self):
        return ()


def test_an_algorithm_that_is_silent_about_what_it_leaks_fails():
    silent = Trial(algorithm=Silent(), data=clinics(4))
    with pytest.raises(AssertionError, match="its docstring has no Leaks: section"):
        LAWS[0](silent)
    with pytest.raises(AssertionError, match="nothing with evidence=vote"):
        LAWS[1](silent)
    with pytest.raises(AssertionError, match="says_what_it_is_and_leaks: "):
        check_algorithm(Silent(), clinics(4))
