import struct
import sys

import numpy as np
import pytest
from cohort import agreed_keys, bfv_site, declare, is_prime, raw_context, whole_sum

from cipherdag.errors import ProtectionError, ShareError
from cipherdag.privacy import bfvcontext
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfvcontext import PLAINTEXT_MODULI, BfvContext
from cipherdag.privacy.protection_kind import BFV

tenseal = pytest.importorskip("tenseal")

ONE = bfvcontext._CIPHERTEXT, 1
BITS = [prime.bit_length() for prime in bfvcontext._PRIMES]


@pytest.fixture(scope="module")
def context():
    return BfvContext.generate()


def test_plaintext_moduli_are_primes_that_batch():
    for modulus in PLAINTEXT_MODULI:
        assert modulus % 8192 == 1
        assert is_prime(modulus)
    assert len(set(PLAINTEXT_MODULI)) == len(PLAINTEXT_MODULI)
    assert np.prod([float(m) for m in PLAINTEXT_MODULI]) >= 2.0**107


def test_coefficient_primes_leave_128_bits_of_security():
    assert all(is_prime(prime) and prime % 8192 == 1 for prime in bfvcontext._PRIMES)
    assert sum(BITS) <= 109


def test_another_version_of_tenseal_with_other_primes_is_refused(monkeypatch):
    monkeypatch.setattr(bfvcontext, "_PRIMES", (bfvcontext._PRIMES[0], 36028797018652673 - 8192))
    with pytest.raises(ProtectionError, match="primes"):
        BfvContext.generate()


def test_the_coordinator_has_no_key_and_needs_no_tenseal(context, monkeypatch):
    declaration = declare(2, Segment(1, 1.0))
    sites = [bfv_site(own, keys, context) for own, keys in enumerate(agreed_keys(2))]
    shares = {own: site.share(np.ones(1), declaration) for own, site in enumerate(sites)}
    coordinator = BFV.coordinator()
    assert not hasattr(coordinator._carrier, "__dict__") or not vars(coordinator._carrier)
    monkeypatch.setitem(sys.modules, "tenseal", None)
    coordinator.check(shares[0], declaration)
    assert len(coordinator.combine(shares, declaration)) == len(shares[0])


def test_a_context_travels_and_opens_what_another_copy_encrypted(context):
    declaration = declare(2, Segment(3, 1.0, signed=True))
    copied = BfvContext.from_secret_bytes(context.secret_bytes())
    assert copied.secret_bytes() == context.secret_bytes()
    first, second = agreed_keys(2)
    sites = [bfv_site(0, first, context), bfv_site(1, second, copied)]
    answers = [np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.0, -1.0])]
    found = whole_sum(sites, BFV.coordinator(), answers, declaration)
    assert found.tolist() == [2.0, 0.0, 0.0]


def test_keys_and_ciphertexts_have_the_bytes_that_tenseal_writes(context):
    """Coefficient by coefficient, so that nothing of TenSEAL's form has to travel."""
    (vector,) = bfvcontext._coefficients(context.write(np.ones(1, np.uint64), (1, 0, 0)), *ONE)
    read = bfvcontext._vector(context._contexts[0], vector, 1)
    again = tenseal.bfv_vector_from(context._contexts[0], read.serialize())
    (ciphertext,) = again.ciphertext()
    assert [ciphertext[k] for k in range(8192)] == vector.tolist()
    assert again.decrypt() == [1]


def test_altered_keys_are_refused(context):
    content = context.secret_bytes()
    beyond = struct.pack("<Q", bfvcontext._PRIMES[0])[:7] + content[7:]
    for wrong in (b"", content[:7], content[:-1], content + b"\0", b"x" * 99, beyond):
        with pytest.raises(ShareError):
            BfvContext.from_secret_bytes(wrong)
    # one with reduced coefficients is another key: what it opens is noise
    other = BfvContext.from_secret_bytes(bytes([content[0] ^ 1, *content[1:]]))
    words = np.arange(4096, dtype=np.uint64)
    opened = other.read(context.write(words, (4096, 0, 0)), (4096, 0, 0))
    assert (opened == words).mean() < 0.01


def test_a_context_whose_noise_is_too_large_is_refused():
    # 42 bits leave no room for a hundred sites, 114689 is small enough
    bits42 = next(m for m in range((1 << 42) - 8191, 1 << 41, -8192) if is_prime(m))
    bfvcontext._check_noise(raw_context(114689, (54, 55)), 114689)
    with pytest.raises(ProtectionError, match="noise"):
        bfvcontext._check_noise(raw_context(bits42, (54, 55)), bits42)
    with pytest.raises(ProtectionError):
        bfvcontext._check_noise(raw_context(114689, (54, 55)), 65537)


def test_a_missing_tenseal_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(ProtectionError) as refusal:
        BfvContext.generate()
    assert "TenSEAL" in str(refusal.value)
    assert "cipherdag[bfv]" in refusal.value.remedy
