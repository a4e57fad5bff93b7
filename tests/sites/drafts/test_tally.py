"""Numbers of a data frame are drafted as the same numbers in a text file are."""

import numpy as np
import pandas as pd
import pytest

from cipherdag.errors import NotNumericError
from cipherdag.sites.drafts.inference import infer_columns


def columns(rng, n):
    """Numbers of many kinds, some that look like mistakes, shape (n,) each."""
    some = np.where(rng.random(n) < 0.2, np.nan, 1.0)
    return {
        "bell": rng.standard_normal(n),
        "gaps": some * rng.standard_normal(n),
        "large": rng.standard_normal(n) * 10.0 ** rng.integers(-300, 300),
        "few": rng.integers(0, 12, n),
        "many": rng.integers(0, 14, n).astype(float),
        "few with gaps": some * rng.integers(0, 5, n),
        "all different": np.arange(n) + 10 ** int(rng.integers(0, 16)),
        "beyond whole": np.arange(n) * 2.0**54,
        "marked": np.where(rng.random(n) < 0.1, -999.0, rng.normal(50.0, 3.0, n)),
        "zeros": np.where(rng.random(n) < 0.2, -0.0, np.round(30.0 * rng.standard_normal(n))),
        "far": np.where(np.arange(n) == 0, 1e6, rng.random(n)),
        "days": rng.integers(20000101, 20000131, n),
        "one": np.full(n, 2.5),
        "none": np.full(n, np.nan),
    }


@pytest.mark.parametrize("n", [4, 30, 400])
def test_numbers_are_drafted_as_their_texts_are(n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        frame = pd.DataFrame(columns(rng, n))
        texts = frame.map(lambda own: "" if np.isnan(own) else repr(own)).astype(object)
        assert infer_columns([frame]) == infer_columns([texts])
        part = frame.iloc[: n // 2]
        rest = texts.iloc[n // 2 :]
        assert infer_columns([part, rest]) == infer_columns([texts])
        assert infer_columns([part, frame.iloc[n // 2 :]]) == infer_columns([texts])


def test_infinite_numbers_are_refused_whatever_they_stand_among():
    values = np.append(np.random.default_rng(0).standard_normal(50), np.inf)
    with pytest.raises(NotNumericError):
        infer_columns([pd.DataFrame({"v": values})])
