"""Options made from an algorithm's fields: one that is said again is not dropped."""

import click
import pytest

from cipherdag.cli.parameters import parameter_options, taken


def values(name, *said):
    command = click.Command(name, params=parameter_options(name))
    return taken(name, command.make_context(name, [*said]).params)


@pytest.mark.parametrize(
    ("said", "adjust"),
    [
        ((), ""),
        (("--adjust", "age"), "age"),
        (("--adjust", "age,sex"), "age,sex"),
        (("--adjust", "age", "--adjust", "sex"), "age,sex"),
    ],
)
def test_what_is_adjusted_for_adds_up(said, adjust):
    assert values("effect", *said)["adjust"] == adjust


def test_text_keeps_its_default():
    assert values("survival")["time"] == "time"
    assert values("survival", "--time", "months")["time"] == "months"
