import numpy as np
import pytest
import torch

from cipherdag.sites.compute.ci_tests.mixed import LikelihoodRatioTest
from cipherdag.statistics import threads


@pytest.fixture
def two_threads():
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(usual)


def spied(monkeypatch, owner, name):
    """How many threads torch had at every call."""
    original, seen = getattr(owner, name), []

    def spying(*given, **named):
        seen.append(torch.get_num_threads())
        return original(*given, **named)

    monkeypatch.setattr(owner, name, spying)
    return seen


def everything(columns):
    x, y = np.triu_indices(columns, k=1)
    return x, y, np.zeros((len(x), 0), dtype=np.int64)


def test_small_regressions_are_fitted_on_one_thread(monkeypatch, two_threads):
    seen = spied(monkeypatch, LikelihoodRatioTest, "_outcomes")
    values = np.random.default_rng(0).integers(0, 2, (300, 6)).astype(float)
    LikelihoodRatioTest(values, np.full(6, fill_value=True)).evaluate(*everything(6))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


def test_threads_change_no_bit(two_threads, monkeypatch):
    values = np.random.default_rng(0).integers(0, 2, (300, 6)).astype(float)
    found = []
    for fewest in (1, 1 << 40):  # as torch chooses, and one
        monkeypatch.setattr(threads, "FEWEST_SHARED", fewest)
        test = LikelihoodRatioTest(values, np.full(6, fill_value=True))
        found.append(test.evaluate(*everything(6)).statistic.tobytes())
    assert found[0] == found[1]
