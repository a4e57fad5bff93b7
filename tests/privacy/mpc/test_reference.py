"""The fast kernel against the plain one: frozen vectors, and batches drawn anew."""

import json

import numpy as np
import pytest
import secure_test_cases as plain
from hypothesis import given, settings
from hypothesis import strategies as st
from mpc_cohort import Comparison, spelled_out

from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.holding import Holding
from cipherdag.privacy.mpc.sharing import deal_batch, part_words, split_vector, sum_of_parts

GOLDEN = json.loads(plain.GOLDEN.read_text("utf-8"))


def batch_of(case):
    tests = [
        [
            Comparison(
                tuple(map(tuple, item["quadratic"])),
                tuple(map(tuple, item["linear"])),
                item["constant"],
            )
            for item in test
        ]
        for test in case["tests"]
    ]
    return Batch(
        bytes.fromhex(case["session"]),
        bytes.fromhex(case["question"]),
        case["number"],
        case["attempt"],
        tuple(case["sites"]),
        Roles(case["dealer"], case["twin"], tuple(case["holders"])),
        spelled_out(case["lowest"], case["highest"], tests),
    )


def said(case):
    """What the package's parties say, as `plain.ran` has it."""
    batch = batch_of(case)
    seeds = [[bytes.fromhex(item) for item in pair] for pair in case["seeds"]]
    parts = []
    for vector, pair in zip(case["vectors"], seeds, strict=True):
        drawn = iter(pair)
        parts.append(
            split_vector(
                batch, np.array(vector, dtype=np.int64), lambda n, drawn=drawn: next(drawn)
            )
        )
    dealt = deal_batch(batch, bytes.fromhex(case["dealer_seed"]), [dealt for _, dealt in seeds])
    sums = (
        sum_of_parts(batch, (part_words(batch, first) for first, _ in seeds)),
        sum_of_parts(batch, (batch.vector.unpack(item.rest) for item in parts)),
    )
    holders = [Holding(batch, which, item) for which, item in enumerate(sums)]
    masked = [item.mask() for item in holders]
    forms = [
        item.square(masked[1 - h], dealt.seeds[h], dealt.common) for h, item in enumerate(holders)
    ]
    labels = [item.compare(forms[1 - h]) for h, item in enumerate(holders)]
    bits = [item.open(labels[1 - h]).tolist() for h, item in enumerate(holders)]
    assert bits[0] == bits[1]
    return {
        "digest": batch.digest.hex(),
        "widths": batch.widths.tolist(),
        "rests": [item.rest.hex() for item in parts],
        "common": dealt.common.hex(),
        "holder_seeds": [item.hex() for item in dealt.seeds],
        "masked": [item.hex() for item in masked],
        "forms": [item.hex() for item in forms],
        "labels": [item.hex() for item in labels],
        "bits": bits[0],
    }


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda item: item["case"]["question"][:8])
def test_the_golden_file_is_what_both_say(golden):
    assert plain.ran(golden["case"]) == golden["said"]
    assert said(golden["case"]) == golden["said"]


def test_the_golden_file_is_of_the_cases_and_has_both_bits():
    assert [item["case"] for item in GOLDEN] == list(plain.cases())
    bits = [bit for item in GOLDEN for bit in item["said"]["bits"]]
    assert {True, False} <= set(bits)
    assert {9, 20, 64} <= {width for item in GOLDEN for width in item["said"]["widths"]}


@st.composite
def drawn(draw):
    """A case of small forms with every number of sites that changes who deals."""
    n_words = draw(st.integers(1, 3))
    pairs = [(i, j) for i in range(n_words) for j in range(i, n_words)]
    coefficient = st.integers(-9, 9).filter(bool)
    tests = []
    for _ in range(draw(st.integers(1, 3))):
        tests.append([])
        for _ in range(draw(st.integers(1, 3))):
            chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2))
            words = draw(st.lists(st.integers(0, n_words - 1), unique=True, max_size=2))
            quadratic = [(i, j, draw(coefficient)) for i, j in sorted(chosen)]
            linear = [(j, draw(coefficient)) for j in sorted(words)]
            tests[-1].append(plain.form(quadratic, linear, draw(st.integers(-40, 40))))
    name = str(draw(st.integers(0, 2**32)))
    bounds = [(-draw(st.integers(0, 30)), draw(st.integers(0, 30))) for _ in range(n_words)]
    return plain.one_case(name, draw(st.sampled_from([2, 3, 4, 6])), tests, bounds, 5)


@given(drawn())
@settings(max_examples=40)
def test_both_say_the_same_of_any_batch(case):
    vectors = np.array(case["vectors"])
    sums = vectors.sum(axis=0)
    inside = (np.array(case["lowest"]) <= sums) & (sums <= np.array(case["highest"]))
    case["vectors"] = np.where(inside, vectors, 0).tolist()
    assert said(case) == plain.ran(case)
