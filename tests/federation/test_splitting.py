"""Uneven splits: a partition, a least size for every site, and the same split for the same seed."""

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import Effect, Federation, FedFCI, FedPC, Policy
from cipherdag.errors import ParameterError, PolicyRefusedError
from cipherdag.federation.site import split_rows
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.graphs.networks import asia

sizes = st.integers(1, 20).flatmap(lambda n: st.tuples(st.integers(2 * n, 50 * n), st.just(n)))


@given(sizes, st.integers(0, 2**32), st.booleans())
def test_split_is_a_partition_with_a_least_size(size, seed, shuffle):
    n_rows, n_sites = size
    parts = split_rows(n_rows, n_sites, rng=np.random.default_rng(seed), shuffle=shuffle)
    assert len(parts) == n_sites
    assert sorted(np.concatenate(parts).tolist()) == list(range(n_rows))
    assert min(map(len, parts)) >= n_rows // (2 * n_sites)
    again = split_rows(n_rows, n_sites, rng=np.random.default_rng(seed), shuffle=shuffle)
    assert all(np.array_equal(one, two) for one, two in zip(parts, again, strict=True))
    if not shuffle:
        assert np.concatenate(parts).tolist() == list(range(n_rows))


def test_sizes_are_uneven_and_shuffling_mixes_rows():
    parts = split_rows(5000, 5, rng=np.random.default_rng(0))
    assert len({len(part) for part in parts}) > 1
    assert all(2000 < part.mean() < 3000 for part in parts)


def test_first_size_is_uniform_over_its_range():
    rng = np.random.default_rng(1)
    first = [len(split_rows(30, 3, rng=rng, shuffle=False)[0]) for _ in range(3000)]
    counts = np.bincount(first, minlength=16)[5:16]  # from 30 / 6 to 30 / 2
    expected = 3000 / 11
    assert sum(counts) == 3000
    assert ((counts - expected) ** 2 / expected).sum() < 29.6  # 0.999 quantile, 10 degrees


@pytest.mark.parametrize(("n_rows", "n_sites"), [(10, 0), (10, -1), (5, 3), (0, 1), (1, 1)])
def test_impossible_splits(n_rows, n_sites):
    with pytest.raises(ParameterError) as caught:
        split_rows(n_rows, n_sites, rng=np.random.default_rng(0))
    assert caught.value.exit_code == 2


def test_a_negative_seed_is_named():
    table = asia().sample(60, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="seed"):
        Federation.split(table, 3, seed=-1)


@pytest.mark.parametrize("n_sites", ["3", 3.0, None])
def test_a_number_of_sites_is_whole(n_sites):
    with pytest.raises(ParameterError, match="a number of sites is a whole number, not "):
        Federation.split(pd.DataFrame({"a": range(9), "b": range(9)}), n_sites)


def test_parameters_may_be_scalars_of_numpy():
    chosen = FedPC(
        alpha=np.float32(0.5), max_cond_size=np.int64(1), test=np.str_("g2"), evidence="fisher",
        knowledge=Knowledge(tiers=[list(np.array(["a"]))]),
    )  # fmt: skip
    own = FedPC(
        alpha=0.5, max_cond_size=1, test="g2", evidence="fisher",
        knowledge=Knowledge(tiers=(("a",),)),
    )  # fmt: skip
    assert msgspec.json.encode(chosen) == msgspec.json.encode(own)
    assert FedFCI(selection=np.bool_(False)) == FedFCI()
    with pytest.raises(ParameterError, match="max_cond_size must be of type int"):
        FedPC(max_cond_size=np.float64(1))


def test_an_algorithm_is_one_or_the_name_of_one():
    federation = Federation.split(pd.DataFrame({"a": [0.0, 1.0, 3.0, 2.0] * 9}), 3)
    with pytest.raises(ParameterError, match="an algorithm or its name is needed, not 3"):
        federation.run(3)


@pytest.mark.parametrize("made", ["simulated", "split"])
def test_a_policy_that_names_no_questions_allows_what_none_does(made):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(60.0, 9.0, 600), "arm": rng.choice(["a", "b"], 600)})
    rows["cost"] = rows["age"] + (rows["arm"] == "b") + rng.normal(size=600)
    asked = Effect(treatment="arm", outcome="cost", adjust="age")

    def over(**limits):
        if made == "split":
            return Federation.split(rows, 3, device="cpu", **limits).run(asked).finding
        data = {name: rows[k::3] for k, name in enumerate("xyz")}
        return Federation.simulate(data, device="cpu", **limits).run(asked).finding

    assert over(policy=Policy(min_cell_size=1)).sets[0].contrasts
    assert over(policy=Policy()).decisions == over().decisions
    named = Policy(min_cell_size=1, questions=Policy().questions - {"edge-votes"})
    with pytest.raises(PolicyRefusedError, match="effect-sums"):
        over(policy=named)
