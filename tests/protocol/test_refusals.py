"""What the coordinator says of a refusal that names an error and no more."""

import subprocess
import sys

import pytest

from cipherdag import errors
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.messages import Refusal

SAYS_WHY = errors.PrivacyError
"""Errors whose own text leaves a site; of any other only the name does."""


def tree(root):
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


EVERY = list(tree(errors.CipherdagError))


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_error_without_a_text_is_told_by_the_summary_of_its_class(kind):
    assert len(kind.summary) > 15
    assert not kind.summary.endswith((".", ";"))
    assert issubclass(kind, SAYS_WHY) or "summary" in vars(kind)
    error = refusal_error(Refusal(error=kind.__name__, message=""), "north")
    assert (type(error), error.message, error.site) == (kind, kind.summary, "north")
    told = refusal_error(Refusal(error=kind.__name__, message="its own words"), "north")
    assert (told.message, told.remedy) == ("its own words", kind.default_remedy)


@pytest.mark.parametrize(
    "text",
    ["\x1b[2J\x1b[Hcipherdag: all sites agreed.", "one line\r\nanother", "\x1b]52;c;eA\x07",
     "\x9b2J", "\u202edesrever", "x" * 501],
)  # fmt: skip
def test_a_refusal_that_would_steer_the_terminal_is_its_summary(text):
    error = refusal_error(Refusal(error="CohortError", message=text), "north")
    assert (type(error), error.message) == (errors.CohortError, errors.CohortError.summary)
    assert refusal_error(Refusal(error=text, message=text), "north").message.isprintable()
    whole = "x" * 500
    assert refusal_error(Refusal(error="CohortError", message=whole), "north").message == whole


def test_no_two_errors_that_a_site_names_are_told_alike():
    told = [kind.summary for kind in EVERY if not issubclass(kind, SAYS_WHY)]
    assert len(set(told)) == len(told) > 25


def test_the_texts_do_not_depend_on_docstrings():
    script = (
        "from cipherdag.protocol.cohort_channel import refusal_error\n"
        "from cipherdag.protocol.messages import Refusal\n"
        "error = refusal_error(Refusal('EmptyDataError', ''), 'north')\n"
        "print(refusal_error.__doc__, error, sep='|')"
    )
    run = subprocess.run([sys.executable, "-OO", "-c", script], capture_output=True, check=True)
    assert run.stdout.decode().strip() == "None|site 'north': The file has no row of data"
