"""A site that cannot answer names the column that is the cause and an option that works."""

import numpy as np
import pandas as pd
import pytest

from cipherdag import FedCMFS, Federation, FedPC, RFcd
from cipherdag.errors import BoundExceededError, MixedTypesError


def table(rows=300, colours=3):
    rng = np.random.default_rng(0)
    discrete = {name: rng.integers(0, colours, rows).astype(str) for name in ("hue", "shade")}
    return pd.DataFrame({**discrete, "weight": rng.normal(size=rows)})


def refused(algorithm, data, **more):
    with pytest.raises((MixedTypesError, BoundExceededError)) as caught:
        Federation.split(data, 3, device="cpu", **more).run(algorithm)
    return caught.value


@pytest.mark.parametrize("algorithm", [FedPC(evidence="vote"), RFcd()])
def test_the_column_that_is_the_cause_is_named_once(algorithm):
    error = refused(algorithm, table())
    assert error.column == "weight"
    assert (str(error) + error.remedy).count("weight") <= 1
    fewer = (
        table()
        .drop(columns="shade")
        .assign(height=np.sqrt(np.arange(300.0)), width=np.arange(300.0) / 7)
    )
    assert refused(algorithm, fewer).column == "hue"


@pytest.mark.follows("{}.")
def test_the_options_that_are_named_work():
    error = refused(FedPC(evidence="vote"), table())
    assert "--test regression" in error.remedy
    assert "kci" not in error.remedy  # which takes two categories only
    assert "kci" in refused(FedPC(evidence="vote"), table(colours=2)).remedy
    Federation.split(table(), 3, device="cpu").run(FedPC(evidence="vote", test="regression"))
    assert "--evidence glm" in refused(FedPC(evidence="pooled"), table()).remedy
    assert "--evidence glm" in refused(RFcd(), table()).remedy
    error = refused(RFcd(score="mdl"), table().drop(columns="weight"))
    assert "--score bic" in error.remedy
    Federation.split(table().drop(columns="weight"), 3, device="cpu").run(RFcd())


def test_fedcmfs_refuses_a_label_of_three_categories_with_a_remedy():
    words = table().assign(hue=lambda rows: ["rgb"[int(code)] for code in rows["hue"]])
    error = refused(FedCMFS(), words, labels=["hue"])
    assert error.column == "hue"
    assert "--evidence stratified" in error.remedy
    assert "bins" in error.remedy
    done = Federation.split(words, 3, labels=["hue"], device="cpu")
    assert set(done.run(FedCMFS(evidence="stratified")).finding.features) == {"hue"}
    remedy = refused(FedCMFS(test="g2"), table(colours=2), labels=["hue"]).remedy
    assert "regression (fedcmfs)" in remedy
    assert "'by-type'" not in str(error)


def test_no_test_is_named_that_nobody_asked_for():
    assert "the test 'auto' cannot" in str(refused(FedPC(evidence="fisher"), table()))


def test_the_default_takes_columns_of_any_kind():
    """Several numbers beside several categories, and no table is too large to be asked for."""
    rng = np.random.default_rng(1)
    data = table(900).assign(height=rng.normal(size=900))
    data["width"] = data["height"] + rng.normal(size=900)
    data["tone"] = np.where(rng.random(900) < 0.8, data["hue"], data["shade"])
    found = Federation.split(data, 3, device="cpu").run(FedPC())
    pairs = {frozenset((edge.source, edge.target)) for edge in found.finding.graph.edges}
    assert {frozenset(("height", "width")), frozenset(("hue", "tone"))} <= pairs
    assert set(found.finding.details["tests"]) == {"within sites"}


@pytest.mark.parametrize("evidence", ["pooled", "fisher", "weighted_p"])
def test_more_rows_than_declared_name_the_parameter(evidence):
    data = table().drop(columns="weight")
    error = refused(FedPC(evidence=evidence, max_rows=16), data)
    assert "max_rows = 16" in str(error)
    assert "--max-rows" in error.remedy
    Federation.split(data, 3, device="cpu").run(FedPC(evidence="fisher", max_rows=512))
