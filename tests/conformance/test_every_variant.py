"""Whatever is chosen of an algorithm: one set of sums under every protection and in any order."""

from functools import cache

import pytest
from variants import VARIANTS

from cipherdag.privacy.protections import DEFAULT, PROTECTIONS
from cipherdag.testing import _found, _sums, order_changes_nothing


@cache
def run(name, protection=DEFAULT):
    return VARIANTS[name].run(protection=protection)


@pytest.mark.parametrize("protection", [own for own in PROTECTIONS if own != DEFAULT])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_protection_finds_the_same_from_the_same_sums(name, protection):
    if protection == "bfv":
        pytest.importorskip("tenseal")
    one, other = run(name), run(name, protection)
    assert _sums(one) == _sums(other)
    assert _found(one) == _found(other)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_order_of_sites_and_of_columns_changes_nothing(name):
    order_changes_nothing(VARIANTS[name])


@pytest.mark.parametrize("name", [name for name in VARIANTS if name.startswith("fedpc glm")])
def test_regressions_are_what_decides_there(name):
    found = run(name)
    assert found.finding.graph.edges
    assert list(found.finding.details["tests"]) == ["regression"]
    assert found.parameters["evidence"] in name
