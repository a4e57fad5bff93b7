import pytest
import torch

from cipherdag.sites.compute.device import FEWEST_SHARED, threads_for


@pytest.fixture
def two_threads():
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(usual)


def test_what_is_small_is_computed_on_one_thread(two_threads):
    with threads_for(FEWEST_SHARED - 1):
        assert torch.get_num_threads() == 1
    with threads_for(FEWEST_SHARED):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 2
