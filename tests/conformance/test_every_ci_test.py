"""What holds for every conditional-independence test of the register, on every kind of columns."""

import re
from itertools import combinations
from typing import get_args

import msgspec
import numpy as np
import pandas as pd
import pytest

from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import MixedTypesError, ParameterError
from cipherdag.questions.ci_tests import CI_TESTS, CITestSpec, ColumnTypes, offered_tests
from cipherdag.questions.combined_evidence import SUMMED, CombinedEvidence
from cipherdag.questions.encodings import pack_blocks
from cipherdag.sites.answers.table_tests import table_test
from cipherdag.sites.compute.ci_tests import ci_test
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table.site_table import load_table

NUMBERS = {"discrete": (), "continuous": ("a", "b", "c", "d"), "mixed": ("b", "d")}
TAKEN = [(name, columns) for name, kind in CI_TESTS.items() for columns in kind.computed]
REFUSED = [
    (name, columns)
    for name, kind in CI_TESTS.items()
    for columns in get_args(ColumnTypes)
    if columns not in kind.computed
]


def frame(columns, missing=0.03):
    """Four columns that depend on the one before; those that are no numbers have two categories."""
    rng = np.random.default_rng(5)
    values = np.cumsum(rng.normal(size=(160, 4)), axis=1)
    table = pd.DataFrame(values, columns=list("abcd")).mask(rng.random(values.shape) < missing)
    for name in set("abcd") - set(NUMBERS[columns]):
        table[name] = (table[name] > 0).astype("Int64").mask(table[name].isna())
    return table


def made(name, table):
    loaded = load_table(table, infer_schema(table, min_cell_size=0))
    return table_test(loaded, CITestSpec(alpha=0.05, name=name, kernel_rows=200), device="cpu")


def p_values(test, triples):
    return test.evaluate(triples[:, 0], triples[:, 1], triples[:, 2:]).p_value


def triples(size):
    return np.array(
        [
            (x, y, *members)
            for x, y in combinations(range(4), 2)
            for members in combinations([v for v in range(4) if v not in (x, y)], size)
        ]
    )


def test_every_test_that_is_computed_is_registered_and_made():
    computed = {own for kind in CI_TESTS.values() for own in kind.computed.values()}
    for name in computed:
        assert name in CI_TESTS[name].computed.values()
        assert issubclass(ci_test.ci_test_class(name), ci_test.CachedCITest)
    assert computed == set(ci_test._CLASSES)


@pytest.mark.parametrize(("name", "columns"), TAKEN)
@pytest.mark.parametrize("size", [0, 1, 2])
def test_no_order_of_rows_columns_or_variables_counts(name, columns, size):
    table = frame(columns)
    asked = triples(size)
    found = p_values(made(name, table), asked)
    assert (found[~np.isnan(found)] <= 1).all()
    assert not np.isnan(found).all()
    turned = asked.copy()
    turned[:, :2], turned[:, 2:] = asked[:, 1::-1], asked[:, :1:-1]
    again = p_values(made(name, table), turned[::-1])[::-1]
    np.testing.assert_allclose(again, found, rtol=1e-9)
    shuffled = table.sample(frac=1.0, random_state=1)
    np.testing.assert_allclose(p_values(made(name, shuffled), asked), found, rtol=1e-6)
    np.testing.assert_array_equal(p_values(made(name, table[list("cadb")]), asked), found)


@pytest.mark.parametrize(("name", "columns"), TAKEN)
def test_dependence_is_seen_and_given_what_lies_between_it_is_gone(name, columns):
    test = made(name, frame(columns, missing=0.0))
    assert (p_values(test, np.array([[0, 1], [1, 2], [2, 3]])) < 0.001).all()
    if columns == "continuous":
        assert p_values(test, np.array([[0, 2, 1]]))[0] > 0.01


@pytest.mark.parametrize(("name", "columns"), REFUSED)
def test_columns_that_it_does_not_take_are_refused_with_tests_that_do(name, columns):
    asked = next((own for own, summed in SUMMED.items() if summed == name), name)
    with pytest.raises(MixedTypesError, match=f"'{asked}' cannot treat {columns}") as refused:
        made(name, frame(columns))
    named = [own for own in CI_TESTS if re.search(rf"\b{own}\b", refused.value.remedy)]
    assert named
    for own in named:
        assert columns in CI_TESTS[own].computed


@pytest.mark.parametrize(
    "name",
    [name for name, columns in TAKEN if columns == "mixed" and CI_TESTS[name].two_categories],
)
def test_three_categories_are_refused_where_two_are_all_it_takes(name):
    table = frame("mixed")
    table["a"] = np.arange(len(table)) % 3
    with pytest.raises(MixedTypesError, match="two categories") as refused:
        made(name, table)
    assert refused.value.column == "a"


SCORED = [name for name, own in CI_TESTS.items() if own.scored]


@pytest.mark.parametrize("name", SCORED)
def test_three_categories_count_as_the_numbers_that_they_are(name):
    table = frame("mixed")
    table["a"] = np.array([10, -3, 4])[np.arange(len(table)) % 3]
    by_scores = made(name, table)
    table["a"] = table["a"] + np.random.default_rng(0).normal(0, 1e-9, len(table))
    by_numbers = made(name, table)
    x, y, given = np.array([0]), np.array([1]), np.zeros((1, 0), dtype=np.int64)
    found, expected = by_scores.evaluate(x, y, given), by_numbers.evaluate(x, y, given)
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-4)


@pytest.mark.parametrize("name", SCORED)
def test_three_categories_in_words_are_refused_beside_numbers(name):
    table = frame("mixed")
    table["a"] = np.array(["low", "middle", "high"])[np.arange(len(table)) % 3]
    with pytest.raises(MixedTypesError, match="two categories") as refused:
        made(name, table)
    assert "--evidence stratified, or cut" in refused.value.remedy


@pytest.mark.parametrize("name", CI_TESTS)
def test_a_question_may_name_it_and_no_other(name):
    spec = CITestSpec(alpha=0.05, name=name)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=CITestSpec) == spec
    altered = msgspec.to_builtins(spec) | {"name": f"{name}-2"}
    with pytest.raises(msgspec.ValidationError, match="no test named"):
        msgspec.convert(altered, CITestSpec)
    counts, members = pack_blocks([np.array([[0, 1]], dtype=np.uint16)])
    question = {"n_variables": 3, "test": spec, "counts": counts, "members": members}
    assert CombinedEvidence(combination="fisher", **question).encodings


@pytest.mark.parametrize(("algorithm", "make"), [("fedpc", FedPC), ("fedcmfs", FedCMFS)])
def test_algorithms_offer_what_the_register_says(algorithm, make):
    offered = offered_tests(algorithm)
    votes = {"evidence": "vote"} if make is FedPC else {}
    assert tuple(make(test=name, **votes).test for name in offered) == offered
    for name in CI_TESTS.keys() - set(offered):
        with pytest.raises(ParameterError):
            make(test=name)
