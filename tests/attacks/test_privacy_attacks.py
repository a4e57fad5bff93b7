"""Attacks that succeed on lesser designs, run against ours: every one must end in noise."""

import copy
import io
import logging
import pickle
import traceback

import numpy as np
import pytest
from cohort import (
    agreed_keys,
    bfv_site,
    bfv_sites,
    declare,
    masking_site,
    masking_sites,
    pair_stream,
    partial_sum,
    seeds_of,
    shares_of,
    streams,
    values_of,
    words_of,
)
from scipy import stats

from cipherdag.errors import (
    AggregateRangeError,
    CipherdagError,
    KeyAgreementError,
    OpeningRefusedError,
    ReplayError,
    ShareError,
)
from cipherdag.privacy import bfvcontext
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfvcontext import PLAINTEXT_MODULI, BfvContext
from cipherdag.privacy.fixedpoint import encode, plane_lengths, words_to_bytes
from cipherdag.privacy.homomorphic_mac import MacKey
from cipherdag.privacy.keys.identity import DrawKey, SigningIdentity
from cipherdag.privacy.keys.pairkeys import (
    AgreementKeys,
    EphemeralKeys,
    PairKey,
    agree_as_initiator,
    agree_as_responder,
    seal,
    unseal,
)
from cipherdag.privacy.keystream import Keystream, apply_masks
from cipherdag.privacy.protection_kind import BFV, MASKING
from cipherdag.privacy.residues import WORD_MODULI, add, subtract, to_signed
from cipherdag.privacy.roundmasks import RoundMasks, strip_masks

tenseal = pytest.importorskip("tenseal")

LENGTH = 20_000
WORDS = WORD_MODULI[0]
PRIME = PLAINTEXT_MODULI[0]


@pytest.fixture(scope="module")
def context():
    return BfvContext.generate()


def recovers(words, answer, modulus):
    """Whether words, read as a fixed-point sum, show anything of the answer."""
    signed = to_signed(values_of(words, modulus), modulus).astype(float)
    return abs(np.corrcoef(signed, answer)[0, 1]) > 0.05


def uniform(words, modulus):
    counts = np.bincount((words / (modulus / 64)).astype(int), minlength=64)
    return stats.chisquare(counts).pvalue > 1e-8


# ------------------------------------------------------------------ masking


def test_masking_a_sum_short_of_the_sites_asked_is_noise():
    declaration = declare(5, Segment(LENGTH, 1.0, 40, signed=True))
    answers = [np.random.default_rng(site).uniform(-1, 1, LENGTH) for site in range(5)]
    sites = masking_sites(5)
    shares = shares_of(sites, answers, declaration)
    with pytest.raises(ShareError, match="missing of a site asked"):
        MASKING.coordinator().combine({k: shares[k] for k in (0, 1, 2, 4)}, declaration)
    everyone = words_of(MASKING.coordinator().combine(shares, declaration))
    assert uniform(everyone, WORDS)
    assert not recovers(everyone, np.sum(answers, axis=0), WORDS)
    seeds = seeds_of(sites, declaration)
    total = np.zeros_like(everyone)
    for site in range(5):
        own = words_of(shares[site]).copy()
        apply_masks(own, [own.size, 0], WORD_MODULI, added=[], subtracted=streams([seeds[site]]))
        add(total, own, WORDS)
        if site < 4:
            assert uniform(total, WORDS)
            assert not any(recovers(total, answer, WORDS) for answer in answers)
    assert recovers(total, np.sum(answers, axis=0), WORDS)


def test_masking_colluders_learn_only_the_sum_of_two_or_more_others():
    declaration = declare(4, Segment(LENGTH, 1.0, 40, signed=True))
    keys = agreed_keys(4)
    answer = np.random.default_rng(0).uniform(-1, 1, LENGTH)
    victim = masking_site(0, keys[0])
    stripped = words_of(victim.share(answer, declaration)).copy()
    # the victim released its own seed; sites 2 and 3 know theirs; the one with site 1 stays
    known = streams([victim.unmask(declaration)])
    known += [pair_stream(keys[peer][0], declaration) for peer in (2, 3)]
    missing = pair_stream(keys[1][0], declaration)
    for masks, opens in ((known, False), ([missing], True)):
        apply_masks(stripped, [stripped.size, 0], WORD_MODULI, added=[], subtracted=masks)
        assert uniform(stripped, WORDS) != opens
        assert recovers(stripped, answer, WORDS) == opens


def test_masking_repeated_pair_masks_are_refused():
    keys = agreed_keys(3)[0]
    declaration = declare(3, Segment(LENGTH, 1.0, 40, signed=True))
    again = declare(3, *declaration.segments, label="2")
    one, other = np.random.default_rng(0).uniform(-1, 1, (2, LENGTH))

    def without_self_mask(answer, declaration):
        # a new object with the same keys stands for a site that forgot what it answered
        site = masking_site(0, keys)
        words = words_of(site.share(answer, declaration)).copy()
        own = site.unmask(declaration)
        apply_masks(words, [words.size, 0], WORD_MODULI, added=[], subtracted=streams([own]))
        return words

    reused = [without_self_mask(answer, declaration) for answer in (one, other)]
    fresh = without_self_mask(other, again)
    of_the_same, of_another = reused[0].copy(), reused[0].copy()
    subtract(of_the_same, reused[1], WORDS)
    assert recovers(of_the_same, one - other, WORDS)
    subtract(of_another, fresh, WORDS)
    assert not recovers(of_another, one - other, WORDS)
    assert uniform(of_another, WORDS)
    site = masking_site(0, keys)
    site.share(one, declaration)
    with pytest.raises(ReplayError):
        site.share(other, declaration)


def test_masking_sites_that_were_asked_different_questions_give_noise():
    honest, altered = (
        declare(3, Segment(LENGTH, 1.0, 40, signed=True), label=name) for name in "ab"
    )
    answers = [np.random.default_rng(site).uniform(-1, 1, LENGTH) for site in range(3)]
    sites = masking_sites(3)
    asked = {0: altered, 1: honest, 2: honest}
    shares = {k: sites[k].share(answers[k], question) for k, question in asked.items()}
    seeds = {k: sites[k].unmask(question) for k, question in asked.items()}
    total = words_of(MASKING.coordinator().combine(shares, honest)).copy()
    combined = words_to_bytes(total)
    lengths = [total.size, 0]
    strip_masks(total, lengths, WORD_MODULI, seeds=seeds, declaration=honest)
    assert uniform(total, WORDS)
    assert not any(recovers(total, answer, WORDS) for answer in answers)
    with pytest.raises(AggregateRangeError):
        MASKING.coordinator().open(combined, seeds, honest)


def test_keys_swapped_by_the_coordinator_open_nothing():
    first, second, attacker = (EphemeralKeys.generate() for _ in range(3))
    ciphertext, at_first = agree_as_initiator(
        first, second.x25519_public, attacker.mlkem_public, b"t" * 32, 0, 1
    )
    # the attacker replaced one of the two key types: it still lacks the other's secret
    at_second = agree_as_responder(second, first.x25519_public, ciphertext, b"t" * 32, 0, 1)
    forged = agree_as_responder(attacker, first.x25519_public, ciphertext, b"t" * 32, 0, 1)
    sealed = seal(at_first, b"p", b"shared secrets", b"")
    for key in (at_second, forged):
        with pytest.raises(KeyAgreementError):
            unseal(key, b"p", sealed, b"")


# ------------------------------------------------------------------ BFV


@pytest.fixture(scope="module")
def bfv_run(context):
    """Shares of five sites, the same without masks, and a colluder's copy of the key."""
    declaration = declare(5, Segment(LENGTH, 1.0, 28, signed=True))
    answers = [np.random.default_rng(site).uniform(-1, 1, LENGTH) for site in range(5)]
    sites = bfv_sites(context, 5)
    shares = shares_of(sites, answers, declaration)
    seeds = seeds_of(sites, declaration)
    lengths = plane_lengths(declaration, PLAINTEXT_MODULI)
    unmasked = {
        site: context.write(encode(answer, declaration, PLAINTEXT_MODULI), lengths)
        for site, answer in enumerate(answers)
    }
    return declaration, answers, sites, shares, seeds, unmasked, lengths


def decrypted(context, content, seeds, lengths):
    """What a colluder with the key opens, and strips of the self masks that were released."""
    words = context.read(content, lengths)
    apply_masks(words, lengths, PLAINTEXT_MODULI, added=[], subtracted=streams(seeds))
    return words


def subtracted(minuend, subtrahends, lengths):
    """Ciphertext arithmetic as anyone can do it, without a key."""
    count, primes = len(list(bfvcontext._rows(lengths))), bfvcontext._CIPHERTEXT
    total = bfvcontext._coefficients(minuend, primes, count)
    for content in subtrahends:
        total += np.uint64(primes[0]) - bfvcontext._coefficients(content, primes, count)
    return bfvcontext._bytes(total % np.uint64(primes[0]))


def test_bfv_a_key_holder_opens_noise_from_a_single_ciphertext(context, bfv_run):
    _, answers, _, shares, seeds, unmasked, lengths = bfv_run
    assert recovers(context.read(unmasked[0], lengths), answers[0], PRIME)
    for released in ([], [seeds[0]]):
        words = decrypted(context, shares[0], released, lengths)
        assert uniform(words, PRIME)
        assert not recovers(words, answers[0], PRIME)


def test_bfv_a_key_holder_opens_noise_from_any_subset(context, bfv_run):
    _, answers, _, shares, seeds, _, lengths = bfv_run
    public = BFV.coordinator()._carrier
    for subset in ([0, 1], [0, 1, 2, 3], [1, 2, 3, 4], [0, 0, 1, 2, 3]):
        total = public.add(dict(enumerate(shares[k] for k in subset)), lengths)
        for released in ([], [seeds[k] for k in subset]):
            words = decrypted(context, total, released, lengths)
            assert uniform(words, PRIME)
            assert not any(recovers(words, answer, PRIME) for answer in answers)
    everyone = decrypted(context, public.add(shares, lengths), seeds.values(), lengths)
    assert recovers(everyone, np.sum(answers, axis=0), PRIME)


def test_bfv_a_colluder_that_subtracts_does_not_isolate_a_victim(context, bfv_run):
    declaration, answers, sites, shares, seeds, unmasked, lengths = bfv_run
    coordinator = BFV.coordinator()
    # site 4 submits its own ciphertext minus those of sites 1, 2 and 3
    for ciphertexts, isolates in ((unmasked, True), (shares, False)):
        others = [ciphertexts[site] for site in (1, 2, 3)]
        rigged = subtracted(ciphertexts[4], others, lengths)
        total = coordinator.combine({**ciphertexts, 4: rigged}, declaration)
        # what stays of the self masks in it are those of the victim and the colluder
        released = [] if isolates else [seeds[0], seeds[4]]
        words = decrypted(context, total, released, lengths)
        assert recovers(words, answers[0], PRIME) == isolates
        assert uniform(words, PRIME) != isolates
    with pytest.raises(OpeningRefusedError):
        sites[0].open(total, seeds, declaration)


def test_bfv_an_honest_site_is_no_oracle_for_single_ciphertexts(context, bfv_run):
    declaration, answers, _, _, _, _, _ = bfv_run
    sites = bfv_sites(context, 5, seed=3)
    shares = shares_of(sites, answers, declaration)
    seeds = seeds_of(sites, declaration)
    for site in sites:
        with pytest.raises(OpeningRefusedError):
            site.open(shares[0], seeds, declaration)


def test_bfv_a_rigged_comparison_is_not_opened(context):
    # every word is a valid answer to a comparison: only the check word tells
    declaration = declare(3, Segment(1, 1.0, comparison=True))
    sites = bfv_sites(context, 3)
    shares = shares_of(sites, [np.zeros(1)] * 3, declaration)
    seeds = seeds_of(sites, declaration)
    coordinator = BFV.coordinator()
    for rigged in (shares[1], partial_sum(coordinator, (0, 1), shares, declaration)):
        with pytest.raises(OpeningRefusedError):
            sites[0].open(rigged, seeds, declaration)


# ------------------------------------------------------------------ why CKKS is not offered


def test_ckks_two_opened_sums_give_the_whole_secret_key_away(tmp_path):
    """Li and Micciancio (Eurocrypt 2021) with real slots: exact linear algebra, 4096 of 4096.

    An opened sum shows m + e, and c0 + c1 s = m + e. The real parts of the slots show the half of
    m + e that X -> 1/X leaves alone, so two sums determine s.
    """
    import tenseal.sealapi as seal_api

    degree, scale, sizes = 4096, 2.0**40, [54, 55]
    keys = tenseal.context(tenseal.SCHEME_TYPE.CKKS, degree, coeff_mod_bit_sizes=sizes, n_threads=1)
    keys.global_scale = scale
    parameters = seal_api.EncryptionParameters(seal_api.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(degree)
    parameters.set_coeff_modulus(seal_api.CoeffModulus.Create(degree, sizes))
    ring = seal_api.SEALContext(parameters, True, seal_api.SEC_LEVEL_TYPE.TC128)
    q = int(keys.seal_context().data.first_context_data().parms().coeff_modulus()[0].value())
    rng = np.random.default_rng(0)
    equations = []
    for _ in range(2):
        parts = [tenseal.ckks_vector(keys, rng.uniform(-1, 1, 2048).tolist()) for _ in range(3)]
        total = parts[0] + parts[1] + parts[2]
        total.ciphertext()[0].save(str(tmp_path / "sum"))
        ciphertext = seal_api.Ciphertext(ring)
        ciphertext.load(ring, str(tmp_path / "sum"))
        flat = [ciphertext[k] for k in range(2 * degree)]
        c0, c1 = flat[:degree], flat[degree:]
        opened = transformed(symmetric_part(total.decrypt(), degree, scale), q)
        # in this order of the transform X -> 1/X reverses a polynomial
        right = [(u - a - b) % q for u, a, b in zip(opened, c0, c0[::-1], strict=True)]
        equations.append(list(zip(c1, c1[::-1], right, strict=True)))
    recovered = [
        (u * d - b * v) * pow(a * d - b * c, -1, q) % q
        for (a, b, u), (c, d, v) in zip(*equations, strict=True)
    ]
    keys.secret_key().data.save(str(tmp_path / "key"))
    secret = seal_api.SecretKey()
    secret.load(ring, str(tmp_path / "key"))
    content = secret.data()
    assert recovered == [content[k] for k in range(degree)]


def symmetric_part(opened, degree, scale):
    """Coefficients of p(X) + p(1/X), p being the plaintext with the opened real slots."""
    values = np.zeros(degree)
    exponent = 1
    for value in opened:
        values[(exponent - 1) // 2] = values[(2 * degree - exponent - 1) // 2] = value
        exponent = 3 * exponent % (2 * degree)
    twist = np.exp(-1j * np.pi * np.arange(degree) / degree)
    coefficients = 2 * scale * (np.fft.fft(values) / degree * twist).real
    assert np.abs(coefficients - np.rint(coefficients)).max() < 0.01
    return [int(c) for c in np.rint(coefficients)]


def transformed(coefficients, q):
    """The negacyclic number-theoretic transform in the bit-reversed order that SEAL keeps."""
    n = len(coefficients)
    exponent = (q - 1) // (2 * n)
    candidates = (pow(generator, exponent, q) for generator in range(2, 99))
    root = next(candidate for candidate in candidates if pow(candidate, n, q) == q - 1)
    square, candidate, smallest = root * root % q, root, root
    for _ in range(n):
        smallest, candidate = min(smallest, candidate), candidate * square % q
    bits = n.bit_length() - 1
    roots = [pow(smallest, int(f"{k:0{bits}b}"[::-1], 2), q) for k in range(n)]
    values, width, groups = [c % q for c in coefficients], n, 1
    while groups < n:
        width //= 2
        for group in range(groups):
            factor = roots[groups + group]
            for k in range(2 * group * width, (2 * group + 1) * width):
                one, other = values[k], values[k + width] * factor % q
                values[k], values[k + width] = (one + other) % q, (one - other) % q
        groups *= 2
    return values


# ------------------------------------------------------------------ secrets stay inside


def secret_objects(context):
    key = PairKey(b"TOPSECRET-PAIRKEY-TOPSECRET-PAIR")
    return [
        key,
        EphemeralKeys.generate(),
        SigningIdentity.generate(),
        SigningIdentity.generate().draw_key(),
        DrawKey(b"TOPSECRET-DRAWING-TOPSECRET-DRAW"),
        AgreementKeys(0, {1: key}),
        Keystream(b"TOPSECRET-PAIRKEY-TOPSECRET-PAIR"),
        MacKey(b"TOPSECRET-SUM-KEY-TOPSECRET-SUM-"),
        RoundMasks(0, {1: key}),
        masking_site(0, {1: key}),
        bfv_site(0, {1: key}, context),
        context,
    ]


def test_secrets_are_not_shown_copied_or_pickled(context):
    for secret in secret_objects(context):
        assert repr(secret).startswith(f"<{type(secret).__name__}, ")
        assert repr(secret).endswith(", a secret>")
        assert not hasattr(secret, "__dict__")
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError) as refusal:
                leak(secret)
            assert "TOPSECRET" not in str(refusal.value)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError):
                pickle.dumps(secret, protocol)


def test_errors_carry_neither_keys_nor_answers(context):
    key = PairKey(b"TOPSECRET-PAIRKEY-TOPSECRET-PAIR")
    declaration = declare(2, Segment(1, 1.0))
    attempts = [
        lambda: masking_site(0, {1: key}).share(np.array([987654.321]), declaration),
        lambda: bfv_site(0, {1: key}, context).share(np.array([987654.321]), declaration),
        lambda: masking_site(5, {1: key}),
        lambda: PairKey(b"TOPSECRET"),
        lambda: MacKey(b"TOPSECRET"),
        lambda: unseal(key, b"p", b"x" * 40, b"a"),
        lambda: EphemeralKeys.generate().exchange(b"987654.321"),
        lambda: BfvContext.from_secret_bytes(context.secret_bytes()[:-1]),
    ]
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    try:
        for attempt in attempts:
            with pytest.raises(CipherdagError) as refusal:
                attempt()
            shown = "".join(traceback.format_exception_only(refusal.value))
            shown += repr(refusal.value) + repr(refusal.value.args) + refusal.value.remedy
            assert refusal.value.__cause__ is None
            for secret in ("TOPSECRET", "987654", "544f50534543524554"):
                assert secret not in shown
    finally:
        logging.getLogger().removeHandler(handler)
    assert not written.getvalue()
