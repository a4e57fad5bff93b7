"""Cohorts of sites with agreed keys, and questions to share, for the tests of the privacy layer."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.homomorphic_mac import ROW_WORDS, MacKey, head_words
from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.privacy.keystream import Keystream
from cipherdag.privacy.protection_kind import MASKING, UNPROTECTED
from cipherdag.privacy.roundmasks import RoundMasks
from cipherdag.privacy.sums import SiteAggregation

SUM_KEY = MacKey(bytes(range(32)))
"""What all sites of all cohorts share, and no coordinator has."""


def agreed_keys(n_sites, seed=0):
    """Pair keys of every site by peer, as after an honest key agreement."""
    contents = pair_contents(n_sites, seed)
    return [{peer: PairKey(content) for peer, content in own.items()} for own in contents]


def pair_contents(n_sites, seed=0):
    """The bytes of `agreed_keys`."""
    rng = np.random.default_rng(seed)
    keys = [{} for _ in range(n_sites)]
    for i in range(n_sites):
        for j in range(i + 1, n_sites):
            keys[i][j] = keys[j][i] = rng.bytes(32)
    return keys


def pair_stream(key, declaration):
    """What two sites with this key mask with for one declaration."""
    start = key.derive(b"round", declaration.digest)[:16]
    return Keystream(key.derive(b"mask")).restarted(start)


def streams(seeds):
    """The streams of self masks."""
    return [Keystream(seed) for seed in seeds]


def is_prime(number):
    """Miller and Rabin, with witnesses that are decisive below 2**81."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        squares = [pow(witness, odd << k, number) for k in range(twos)]
        if squares[0] != 1 and number - 1 not in squares:
            return False
    return True


def masking_site(index, pair_keys):
    return MASKING.site(index, pair_keys, SUM_KEY, b"")


def bfv_site(index, pair_keys, context):
    """A site with a context that is not read from bytes, so that its noise is not tested anew."""
    return SiteAggregation(RoundMasks(index, pair_keys), SUM_KEY, context)


def plain_site():
    return UNPROTECTED.site(0, {}, SUM_KEY, b"")


def plain_sites(n_sites):
    return [plain_site() for _ in range(n_sites)]


def masking_sites(n_sites, seed=0):
    return [masking_site(i, keys) for i, keys in enumerate(agreed_keys(n_sites, seed))]


def bfv_sites(context, n_sites, seed=0):
    return [bfv_site(i, keys, context) for i, keys in enumerate(agreed_keys(n_sites, seed))]


def raw_context(modulus, sizes, *, symmetric=True, scheme="BFV"):
    """A TenSEAL context of any parameters, as nobody should make one."""
    tenseal = pytest.importorskip("tenseal")
    kind = tenseal.ENCRYPTION_TYPE.SYMMETRIC if symmetric else tenseal.ENCRYPTION_TYPE.ASYMMETRIC
    return tenseal.context(
        tenseal.SCHEME_TYPE[scheme],
        4096,
        modulus,
        coeff_mod_bit_sizes=list(sizes),
        encryption_type=kind,
        n_threads=1,
    )


def shares_of(sites, answers, declaration):
    """What every site asked sends, by position; sites and answers are those of the cohort."""
    return {site: sites[site].share(answers[site], declaration) for site in declaration.sites}


def seeds_of(sites, declaration):
    """What every site asked releases for the sum, by position."""
    return {site: sites[site].unmask(declaration) for site in declaration.sites}


def only(some, shares):
    return {site: shares[site] for site in some}


def partial_sum(coordinator, some, shares, declaration):
    """What a coordinator combines that leaves some of the sites asked out."""
    return coordinator.combine(only(some, shares), replace(declaration, participants=some))


def declare(n_sites, *segments, label="question", participants=(), threshold=1):
    digest = hashlib.sha256(label.encode()).digest()
    return Declaration(digest, n_sites, tuple(segments), participants, threshold)


def opened_sum(sites, coordinator, answers, declaration):
    """The aggregate over the sites asked, through every step of a round."""
    combined = coordinator.combine(shares_of(sites, answers, declaration), declaration)
    seeds = seeds_of(sites, declaration)
    if coordinator.opened_by_site:
        combined = sites[declaration.sites[-1]].open(combined, seeds, declaration)
    return coordinator.open(combined, seeds, declaration)


def whole_sum(sites, coordinator, answers, declaration):
    """The sum over the sites asked: what the coordinator reads, and every site accepts."""
    aggregate = opened_sum(sites, coordinator, answers, declaration)
    for site in declaration.sites:
        accepted = sites[site].accept(aggregate.content, declaration)
        assert accepted.tobytes() == aggregate.values.tobytes()
    return aggregate.values


def masked_sum(sites, answers, declaration):
    return whole_sum(sites, MASKING.coordinator(), answers, declaration)


def plain_sum(answers, declaration):
    return whole_sum(plain_sites(len(answers)), UNPROTECTED.coordinator(), answers, declaration)


def words_of(share):
    return np.frombuffer(share, dtype="<u8")


def values_of(words, modulus):
    """The words of one plane that stand for values: all but the heads of its rows."""
    head = head_words(modulus)
    return np.concatenate([words[:0], *(
        words[start + head : start + ROW_WORDS] for start in range(0, len(words), ROW_WORDS)
    )])  # fmt: skip


@st.composite
def questions(draw, min_sites=2, max_sites=12):
    """A declaration and one answer per site: several segments, some empty, some wide."""
    n_sites = draw(st.integers(min_sites, max_sites))
    segments = tuple(draw(st.lists(_segments(), max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    declaration = declare(n_sites, *segments, label=repr(segments))
    answers = [
        np.concatenate([np.zeros(0), *(_values(segment, rng) for segment in segments)])
        for _ in range(n_sites)
    ]
    return declaration, answers


def _segments():
    lengths = st.integers(0, 40)
    comparisons = st.builds(lambda n: Segment(n, 1.0, comparison=True), lengths)
    bounds = st.sampled_from([0.0, 0.3, 1.0, 7.5, 1e-9, 2.0**20, 2.0**36, 2.0**52, 1e18])
    grids = st.integers(0, 40)
    return comparisons | st.builds(Segment, lengths, bounds, grids, signed=st.booleans())


def _values(segment, rng):
    if segment.comparison:
        return rng.integers(0, 2, segment.length).astype(float)
    lowest = -segment.bound if segment.signed else 0.0
    values = rng.uniform(lowest, segment.bound, segment.length)
    edge = rng.random(segment.length)
    values[edge < 0.1] = segment.bound
    values[edge > 0.9] = lowest
    return values
