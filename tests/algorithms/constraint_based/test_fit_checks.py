"""Edges that may be due to curves are named, in a report, by one bit for each check."""

import numpy as np
import pandas as pd
import pytest

from cipherdag import FedBOSS, Federation, FedFCI, FedPC, Policy
from cipherdag.algorithms.constraint_based.fit_checks import _checks
from cipherdag.questions.disclosure import Quantity

STEPPED = ["x", "y", "s"]


def sites(world, counts=(400, 60, 60), seed=0, **more):
    rng, parts = np.random.default_rng(seed), {}
    for number, rows in enumerate(counts):
        s, t, x, y = rng.normal(size=(4, rows))
        curve = {"step": 2.0 * (s > 0.4), "line": s, "product": 0.6 * (s + t) + 1.5 * s * t}[world]
        frame = pd.DataFrame({"x": curve + 0.7 * x, "y": curve + 0.7 * y, "s": s})
        if world == "product":
            frame["t"] = t
        frame["visited"] = np.arange(rows) // 2
        if more:
            frame["s"] = np.where(s > 0.4, "high", "low")
        parts[f"clinic-{number}"] = frame
    return parts


def run(parts, algorithm=None, **more):
    frames = (
        parts if "patient" in more else {k: f.drop(columns="visited") for k, f in parts.items()}
    )
    federation = Federation.simulate(frames, device="cpu", **more)
    return federation.run(algorithm or FedPC())


def curved(result):
    return result.finding.details.get("curved_edges", [])


def standing(result):
    return [{edge.source, edge.target} for edge in result.finding.graph.edges]


def warnings(result, algorithm):
    return algorithm.report(result.finding).warnings


@pytest.mark.parametrize("algorithm", [FedPC(), FedFCI()], ids=lambda each: each.name)
def test_a_step_of_a_common_cause_is_named_with_its_edge(algorithm):
    result = run(sites("step"), algorithm)
    assert {"x", "y"} in standing(result)
    assert STEPPED in curved(result)
    (said,) = [text for text in warnings(result, algorithm) if "x and y on s is more" in text]
    assert "the edge x - y may be due to it" in said


def test_products_too_many_for_the_rows_are_named():
    result = run(sites("product", counts=(50,) * 10, seed=2))
    assert {"x", "y"} in standing(result)
    assert curved(result) == [["x", "y", "s"], ["x", "y", "t"]]


def test_straight_lines_are_not_named():
    assert [curved(run(sites("line", seed=seed))) for seed in range(3)] == [[]] * 3


def test_sums_find_the_same_edge_as_bits():
    policy = Policy(reveal="sums")
    result = run(sites("step"), FedPC(reveal="sums"), policy=policy)
    assert STEPPED in curved(result)


def test_a_check_opens_one_bit_and_says_so():
    result = run(sites("step"))
    checks, *_ = [each for each in result.rounds if "misfit-sums" in each.kind]
    assert "score-bits" in checks.kind
    assert f"One bit each over all sites: {Quantity.CURVED}." in result.disclosures
    assert Quantity.CURVED in {each.quantity for each in FedPC().disclosures()}


def test_given_in_categories_too_the_step_is_no_longer_named():
    assert curved(run(sites("step", categories=True))) == []


def test_rows_that_are_visits_have_no_check():
    result = run(sites("step"), patient="visited")
    assert not any("misfit-sums" in each.kind for each in result.rounds)


def test_scores_by_bits_name_the_edges_that_stand():
    parts = sites("step")
    for frame in parts.values():
        frame["sex"] = np.where(frame["visited"] % 2, "f", "m")
    result = run(parts, FedBOSS(reveal="bits"))
    assert all({first, second} in standing(result) for first, second, _ in curved(result))
    assert STEPPED in curved(result)


def test_no_more_is_given_than_tests_are_given():
    adjacent = ~np.eye(6, dtype=bool)
    numbers = np.array([True, True, True, True, True, False])
    checks = _checks(adjacent, numbers, 2)
    assert {len(check) for pair in checks.values() for check in pair} == {3}
    edge = {each.along for each in checks if (each.first, each.second) == (0, 1)}
    assert edge == {2, 3, 4}  # along numbers alone
    assert {len(c) for pair in _checks(adjacent, numbers, None).values() for c in pair} == {5}
