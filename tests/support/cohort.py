"""Cohorts of sites with agreed keys, and questions to share, for the tests of the privacy layer."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.masking import MASKING
from cipherdag.privacy.pairkeys import PairKey
from cipherdag.privacy.roundmasks import RoundMasks
from cipherdag.privacy.sums import SiteAggregation
from cipherdag.privacy.unprotected import UNPROTECTED


def agreed_keys(n_sites, seed=0):
    """Pair keys of every site by peer, as after an honest key agreement."""
    rng = np.random.default_rng(seed)
    keys = [{} for _ in range(n_sites)]
    for i in range(n_sites):
        for j in range(i + 1, n_sites):
            content = rng.bytes(32)
            keys[i][j], keys[j][i] = PairKey(content), PairKey(content)
    return keys


def masking_site(index, pair_keys):
    return MASKING.site(index, pair_keys, b"")


def bfv_site(index, pair_keys, context):
    """A site with a context that is not read from bytes, so that its noise is not tested anew."""
    return SiteAggregation(RoundMasks(index, pair_keys), context)


def plain_sites(n_sites):
    return [UNPROTECTED.site(0, {}, b"") for _ in range(n_sites)]


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


def whole_sum(sites, coordinator, answers, declaration):
    """The sum over the sites asked, through every step of a round."""
    combined = coordinator.combine(shares_of(sites, answers, declaration), declaration)
    seeds = seeds_of(sites, declaration)
    if coordinator.opened_by_site:
        combined = sites[declaration.sites[-1]].open(combined, seeds, declaration)
    return coordinator.open(combined, seeds, declaration).values


def masked_sum(sites, answers, declaration):
    return whole_sum(sites, MASKING.coordinator(b""), answers, declaration)


def plain_sum(answers, declaration):
    return whole_sum(plain_sites(len(answers)), UNPROTECTED.coordinator(b""), answers, declaration)


def words_of(share):
    return np.frombuffer(share, dtype="<u8")


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
    return comparisons | st.builds(Segment, lengths, bounds, grids)


def _values(segment, rng):
    if segment.comparison:
        return rng.integers(0, 2, segment.length).astype(float)
    values = rng.uniform(-segment.bound, segment.bound, segment.length)
    edge = rng.random(segment.length)
    values[edge < 0.1] = segment.bound
    values[edge > 0.9] = -segment.bound
    return values
