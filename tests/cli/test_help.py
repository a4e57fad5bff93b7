"""Help: short first, everything on request, an example that parses for every command."""

import shlex

import click
import pytest

from cipherdag.algorithms.parameters import options_of
from cipherdag.algorithms.registry import ALGORITHMS, algorithm_class
from cipherdag.cli.main import cli

MOST_LINES = 40


def commands(group, words=()):
    """Every command that is no group, with the words that lead to it."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from commands(command, (*words, name))
            else:
                yield (*words, name)


@pytest.mark.parametrize("words", list(commands(cli)), ids=" ".join)
def test_every_command_has_an_example_whose_options_it_has(call, words):
    code, text, _ = call(*words, "--help")
    assert code == 0
    line = text.partition("Example:\n")[2].strip().splitlines()[0]
    first, *given = shlex.split(line)
    assert first == "cipherdag"
    assert given[: len(words)] == list(words)
    whole = call(*words, "--help-all")[1] if "--help-all" in text else text
    for option in (word for word in given if word.startswith("--")):
        assert f"{option} " in whole, f"{words} takes {option}"


@pytest.mark.parametrize("words", [("run",), ("run", "fedpc"), ("simulate", "fedpc")])
def test_the_first_help_fits_on_a_screen(call, words):
    assert len(call(*words, "--help")[1].splitlines()) <= MOST_LINES


def test_options_for_experts_stand_behind_a_flag_of_the_last_line(call):
    _, text, _ = call("run", "fedpc", "--help")
    assert "--help-all" in text.splitlines()[-1]
    assert "--vote-share" not in text
    _, whole, _ = call("run", "fedpc", "--help-all")
    assert "--max-rows" in whole.partition("For experts:")[2]
    assert "--vote-share" in whole.partition("For experts:")[2]
    assert "--alpha" in whole.partition("For experts:")[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_usual_parameters_exist_and_a_sentence_says_what_it_is_for(name):
    cls = algorithm_class(name)
    assert set(cls.usual or ()) <= set(options_of(cls))
    assert cls.use.endswith(".")


@pytest.mark.parametrize("words", [("run",), ("simulate",), ("coordinator", "run")])
def test_without_an_algorithm_the_choices_are_named_and_the_default(call, words):
    code, _, error = call(*words)
    assert code == 2
    assert all(f"  {name} " in error for name in ALGORITHMS)
    assert ("The default" in error) == (words != ("coordinator", "run"))


@pytest.mark.parametrize("group", ["run", "simulate"])
def test_a_wrong_algorithm_s_name_suggests_the_near_one(call, group):
    code, _, error = call(group, "fedbos", "north.csv")
    assert code == 2
    assert f"Did you mean 'cipherdag {group} fedboss'?" in error


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("describe", "'cipherdag run describe' or 'cipherdag simulate describe'"),
        ("survial", "'cipherdag run survival' or 'cipherdag simulate survival'"),
        ("run schema", "'cipherdag schema'"),
        ("run infer", "'cipherdag schema infer'"),
        ("infer", "'cipherdag schema infer'"),
        ("coordinator run fedpcc", "'cipherdag coordinator run fedpc'"),
        ("schema infere", "'cipherdag schema infer'"),
        ("shcema", "'cipherdag schema'"),
        ("audit new", "'cipherdag coordinator new' or 'cipherdag site new'"),
        ("north.csv", "'cipherdag run north.csv'"),
    ],
)
def test_a_command_elsewhere_is_suggested_whole(call, words, meant):
    code, _, error = call(*words.split(), "north.csv")
    assert code == 2
    assert f"Did you mean {meant}?" in error


def test_a_usage_error_without_an_algorithm_names_none(call):
    code, _, error = call("run", "no-such-file.csv")
    assert code == 2
    assert "run chosen" not in error
