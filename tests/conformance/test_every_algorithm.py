"""Every registered algorithm keeps every law, has its options, and goes on after a crash."""

import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import adversary
import click
import pytest
import replaying
from trials import CLOSED, REPLAYED, clinics, replayed, trial

from cipherdag import FedPC
from cipherdag.algorithms.parameters import grouped, options_of
from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class, make_algorithm, title_of
from cipherdag.cli.main import cli
from cipherdag.errors import ParameterError
from cipherdag.sites.policy.policy import Policy
from cipherdag.testing import LAWS, Trial, check_algorithm


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", [*ALGORITHMS, *CLOSED])
def test_it_keeps_the_law(name, law):
    law(replayed(name))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_name_is_registered_and_the_default_policy_allows_it(name):
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
    varied = set().union(*(each.varied for each in own.published.values()))
    for parameter in options_of(own).values():
        if parameter.preset and parameter.name not in varied:
            assert parameter.name not in options
            continue
        option = options[parameter.name]
        default = parameter.written(parameter.default)
        if default != "":  # of knowledge, which no file stands for
            shown = option.get_default(click.Context(found))
            assert shown == (
                (default,) if option.multiple and isinstance(default, str) else default
            )
        assert parameter.help in option.help
    assert make_algorithm(name, {}) == own()


def beyond_of(parameter):
    """The nearest values beyond both ends of a range, and what is no number."""
    if (within := parameter.range) is None:
        return
    yield parameter.kind(within.low if within.above else within.low - 1)
    if math.isfinite(within.high):
        yield parameter.kind(within.high if within.below else within.high + 1)
    if parameter.kind is float:
        yield math.nan


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_value_of_a_parameter_that_cannot_be_is_named(name):
    own = algorithm_class(name)
    for parameter in options_of(own).values():
        wrong = "no such choice" if parameter.choices else object()
        with pytest.raises(ParameterError, match=parameter.name):
            own(**grouped(own, {parameter.name: wrong}))
        for beyond in beyond_of(parameter):
            with pytest.raises(ParameterError, match=parameter.name):
                own(**grouped(own, {parameter.name: beyond}))
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
def run_apart(name, protection):
    """A run of it whose sites each have a program of their own."""
    with tempfile.TemporaryDirectory() as folder:
        return replaying.run_apart(replayed(name), Path(folder) / "journal.jsonl", protection)


ENCRYPTED = ("fedpc", "fedcd", "describe", "fedpc stratified verdicts")
"""Sums of tests and of resampled rows, of beliefs, of counts; and bits."""


@pytest.mark.parametrize(
    ("name", "protection"),
    [*((name, "masking") for name in REPLAYED), *((name, "bfv") for name in ENCRYPTED)],
)
def test_sites_with_other_programs_come_to_the_same_result(name, protection):
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


def test_all_replay_alike_on_another_processor_with_other_threads(tmp_path):
    saved = {
        name: replaying.saved(run_apart(name, "masking"), tmp_path / name) for name in REPLAYED
    }
    here = {name: replaying.replayed_digest(path) for name, path in saved.items()}
    assert replaying.in_process_of_its_own(saved, 1, older=True) == here
    assert replaying.in_process_of_its_own(saved, 2) == here


def test_planning_approving_and_reading_load_no_computing_library():
    """Of a second and a half that such a command takes, torch would be one."""
    script = (
        "import sys; from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class;"
        "[algorithm_class(name) for name in ALGORITHMS];"
        "print([m for m in ('torch', 'pandas', 'nvflare') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert run.stdout.decode().strip() == "[]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent(FedPC):
    """An algorithm that does not say who learns what."""

    def disclosures(self):
        return ()


def test_an_algorithm_that_is_silent_about_what_it_leaks_fails():
    silent = Trial(algorithm=Silent(), data=clinics(4))
    with pytest.raises(AssertionError, match="its docstring has no Leaks: section"):
        LAWS[0](silent)
    with pytest.raises(AssertionError, match="nothing with reveal=auto"):
        LAWS[1](silent)
    with pytest.raises(AssertionError, match="says_what_it_is_and_leaks: "):
        check_algorithm(Silent(), clinics(4))
