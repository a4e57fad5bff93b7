import sys

import numpy as np
import pytest
from cohort import agreed_keys, bfv_site, declare, is_prime, raw_context, whole_sum

from cipherdag.errors import ProtectionError, ShareError
from cipherdag.privacy import bfvcontext
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfv import BFV
from cipherdag.privacy.bfvcontext import (
    DEFAULT_PARAMETERS,
    HIGH_PRECISION_PARAMETERS,
    BfvContext,
    BfvParameters,
    BfvPublicContext,
    _pack,
    _unpack,
)
from cipherdag.privacy.fixedpoint import plane_lengths

tenseal = pytest.importorskip("tenseal")

PARAMETERS = [DEFAULT_PARAMETERS, HIGH_PRECISION_PARAMETERS]


@pytest.fixture(scope="module", params=PARAMETERS, ids=["default", "high"])
def context(request):
    return BfvContext.generate(request.param)


@pytest.fixture(scope="module")
def default_context():
    return BfvContext.generate()


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_plaintext_moduli_are_primes_that_batch(parameters):
    for modulus in parameters.moduli:
        assert modulus % 8192 == 1
        assert is_prime(modulus)
    assert len(set(parameters.moduli)) == len(parameters.moduli)
    assert sum(parameters.coefficient_bits) <= 109
    assert np.prod([float(m) for m in parameters.moduli]) >= 2.0**107


def test_parameters_that_were_not_reviewed_are_refused():
    for parameters in (
        BfvParameters((54, 55), (DEFAULT_PARAMETERS.moduli[0],)),
        BfvParameters((49, 60), DEFAULT_PARAMETERS.moduli),
    ):
        with pytest.raises(ProtectionError):
            BfvContext.generate(parameters)


def test_the_coordinator_gets_no_key_of_any_kind(context):
    public = context.public_bytes()
    assert len(public) < 400
    assert len(context.secret_bytes()) > 50_000 * len(context.parameters.moduli)
    for part in _unpack(public, len(context.parameters.moduli)):
        loaded = tenseal.context_from(part)
        assert not loaded.is_private()
        assert not loaded.has_secret_key()
        assert not loaded.has_galois_keys()
        assert not loaded.has_relin_keys()
        for attempt in (loaded.secret_key, lambda: tenseal.bfv_vector(loaded, [1])):  # noqa: B023
            with pytest.raises((ValueError, RuntimeError)):
                attempt()
    declaration = declare(2, Segment(1, 1.0))
    share = bfv_site(0, agreed_keys(2)[0], context).share(np.zeros(1), declaration)
    public_context = BfvPublicContext(public)
    lengths = plane_lengths(declaration, context.moduli)
    vectors = bfvcontext._load_vectors(share, lengths, public_context._contexts)
    with pytest.raises((ValueError, RuntimeError)):
        vectors[0].decrypt()


def test_every_combination_of_keys_is_accepted_or_refused_as_it_must_be(monkeypatch):
    contexts = [
        raw_context(modulus, DEFAULT_PARAMETERS.coefficient_bits, symmetric=False)
        for modulus in DEFAULT_PARAMETERS.moduli
    ]
    for context in contexts:
        context.generate_galois_keys()

    def content(**kept):
        keys = dict.fromkeys(
            ("save_public_key", "save_secret_key", "save_galois_keys", "save_relin_keys"), False
        )
        return [context.serialize(**(keys | kept)) for context in contexts]

    monkeypatch.setattr(bfvcontext, "_MAX_PART_BYTES", 1 << 26)
    for kept in ({"save_secret_key": True}, {"save_galois_keys": True, "save_public_key": True}):
        with pytest.raises(ProtectionError):
            BFV.coordinator(_pack(content(**kept)))
    for kept in ({}, {"save_public_key": True}):
        with pytest.raises(ProtectionError):
            BfvContext.from_secret_bytes(_pack(content(**kept)))


def test_a_context_travels_and_opens_what_another_copy_encrypted(context):
    declaration = declare(2, Segment(3, 1.0, signed=True))
    copied = BfvContext.from_secret_bytes(context.secret_bytes())
    first, second = agreed_keys(2)
    sites = [bfv_site(0, first, context), bfv_site(1, second, copied)]
    answers = [np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.0, -1.0])]
    found = whole_sum(sites, BFV.coordinator(context.public_bytes()), answers, declaration)
    assert found.tolist() == [2.0, 0.0, 0.0]


def test_contexts_of_foreign_parameters_are_refused(default_context):
    moduli, sizes = DEFAULT_PARAMETERS.moduli, DEFAULT_PARAMETERS.coefficient_bits

    def packed(contexts, secret):
        return _pack([bfvcontext._serialized(context, secret=secret) for context in contexts])

    for contexts in (
        [raw_context(m, (49, 60)) for m in moduli],
        [raw_context(m, sizes) for m in reversed(moduli)],
        [raw_context(m, sizes) for m in moduli[:2]],
        [raw_context(114689, sizes), *(raw_context(m, sizes) for m in moduli[1:])],
        [raw_context(None, sizes, scheme="CKKS") for _ in moduli],
    ):
        with pytest.raises((ProtectionError, ShareError)):
            BFV.coordinator(packed(contexts, secret=False))
        with pytest.raises((ProtectionError, ShareError)):
            BfvContext.from_secret_bytes(packed(contexts, secret=True))


def test_altered_contexts_are_refused(default_context):
    for content, load in (
        (default_context.public_bytes(), BFV.coordinator),
        (default_context.secret_bytes(), BfvContext.from_secret_bytes),
    ):
        for wrong in (b"", content[:7], content[:12], content[:-1], content + b"\0", b"x" * 99):
            with pytest.raises((ShareError, ProtectionError)):
                load(wrong)


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
