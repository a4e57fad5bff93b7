"""What a dealer that lies by itself gets of a sum: two bits, the second by risking the run."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from cipherdag.errors import AggregateRangeError
from cipherdag.privacy.comparison.accepted import Accepted
from cipherdag.privacy.comparison.batch import Comparisons
from cipherdag.privacy.comparison.keys import ComparisonKeys, deal, draw_blinds

MODULUS, MOST, NEEDED = 2**16 + 1, 30, 12


def found(total, shift):
    """The verdict on a sum whose dealer deals for what it added and ``shift`` more."""
    session = hashlib.sha256(b"session").digest()
    batch = Comparisons(session, number=1, dealer=0, holders=(1, 2), modulus=MODULUS, count=1)
    blinds = draw_blinds(batch)
    keys = deal(batch, (blinds + np.uint64(shift)) % np.uint64(MODULUS))
    blinded = (blinds + np.uint64(total)) % np.uint64(MODULUS)
    accepted = Accepted(*(np.full((1, 1), own) for own in (NEEDED, MOST)), np.full(1, MOST))
    packed = [
        np.packbits(accepted.shares(ComparisonKeys(own, keys.common, batch, holder), blinded))
        for holder, own in enumerate(keys.secrets)
    ]
    return bool(accepted.verdicts(*(own.tobytes() for own in packed))[0])


@pytest.mark.parametrize("shift", [0, 1, 5, 18])
def test_a_dealer_moves_both_thresholds_alike_and_ends_the_run_below_the_second(shift):
    for total in range(MOST + 1):
        if total < shift:
            with pytest.raises(AggregateRangeError):
                found(total, shift)
        else:
            assert found(total, shift) == (total >= NEEDED + shift)
