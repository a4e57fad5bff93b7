"""What each party sees is made from the bits alone: simulators, and tests of uniformity.

A party that keeps to the protocol sees what it unseals, what it is sent in the clear, and the bits.
For each role there is a simulator that has the bits and the party's item vector, and no number of
another site: it makes messages that the party's real code accepts and goes through to the same
bits. Real and simulated views have one distribution: every word of both is uniform.
"""

import numpy as np
import pytest
from mpc_cohort import COORDINATOR, Cohort, holds, score_tests, split
from scipy import stats

from cipherdag.privacy.mpc.holding import Holding
from cipherdag.privacy.mpc.messages import Keys
from cipherdag.privacy.mpc.sharing import HolderDraws, commitment, expand, part_words
from cipherdag.privacy.mpc.words import LABEL_HASH_BYTES, hash_labels, low_bits
from cipherdag.privacy.wire import decode

SIZES = [1, 1, 2, 3, 1, 2] * 12
PREDICATES = score_tests(SIZES, scores=400, variances=160_000, constant=96)
COMPONENTS = sum(SIZES)
SURE = 1e-7
"""Least p-value that a test of uniformity passes with: about 100 are done, with fixed seeds."""


def sums_of(kind, rng):
    """Sums that a view could show: all zero, at thresholds, at both ends, or anywhere."""
    scores = rng.integers(-400, 401, COMPONENTS)
    if kind == "zero":
        return np.zeros(2 * COMPONENTS, dtype=np.int64)
    if kind == "ends":
        return np.where(np.arange(2 * COMPONENTS) % 2, PREDICATES.lowest, PREDICATES.highest)
    if kind == "threshold":
        return np.concatenate([scores, np.clip(scores**2 - 96, 0, None)])
    return rng.integers(PREDICATES.lowest, PREDICATES.highest, endpoint=True)


KINDS = ("zero", "ends", "threshold", "anywhere")


class Watched:
    """A sealing key that keeps what it unseals, by kind."""

    def __init__(self, key, seen):
        self._key, self._seen = key, seen
        self.seal = key.seal

    def unseal(self, sealed, associated):
        content = self._key.unseal(sealed, associated)
        self._seen.append((associated, content))
        return content


def watch(cohort, party):
    """Everything that a party will unseal, in order."""
    seen = []
    keys = cohort.parties[party]._keys
    for other in keys:
        keys[other] = Watched(keys[other], seen)
    return seen


def uniform(words, width=64):
    """The p-value of words being uniform, as parts of their ring."""
    parts = (np.concatenate(words) & low_bits(np.array(width))).astype(float) / 2.0**width
    return stats.kstest(parts + 0.5 / 2.0 ** min(width, 50), "uniform").pvalue


def holder_words(cohort, batch, party, seen):
    """What a holder sees as words: parts, E, D, labels, all by itself or of the other holder."""
    of_kind = {name: [] for name in ("rest", "first part", "masked sums", "masked forms", "labels")}
    for associated, content in seen:
        for name, found in of_kind.items():
            if name.encode() in associated:
                found.append(content)
    (width,) = set(batch.word_widths.tolist())  # of these forms all are equal
    holding = cohort.seats[party]._holding
    other = batch.factors.unpack(of_kind["masked sums"][0])
    forms = batch.forms.unpack(of_kind["masked forms"][0])
    words = {
        "the other's share of E": (other, width),
        "E": (other + holding._multiplied, width),
        "the other's share of D": (forms, width),
        "D": (forms + holding._forms, width),
        "the other's labels": (np.frombuffer(of_kind["labels"][0], "<u8"), 64),
        "labels": (np.frombuffer(of_kind["labels"][0], "<u8") + holding._labels, 64),
    }
    for part in of_kind["rest"]:
        words.setdefault("parts", (batch.vector.unpack(part), width))
    for seed in of_kind["first part"]:
        words.setdefault("seeds", (np.frombuffer(seed, "<u8"), 64))
    return words


# ------------------------------------------------------------------ holders


@pytest.mark.parametrize("n_sites", [2, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_every_word_that_a_holder_sees_is_uniform(n_sites, kind):
    rng = np.random.default_rng((n_sites, KINDS.index(kind)))
    for which in (0, 1):
        found = {}
        for number in range(12):
            cohort = Cohort(n_sites, random_bytes=rng.bytes)
            party = cohort.roles.holders[which]
            seen = watch(cohort, party)
            batch = cohort.batch(PREDICATES, number=number)
            cohort.run(batch, split(rng, PREDICATES, sums_of(kind, rng), n_sites))
            for name, (words, width) in holder_words(cohort, batch, party, seen).items():
                found.setdefault((name, width), []).append(words)
        assert len(found) == 7
        for (name, width), words in found.items():
            assert uniform(words, width) > SURE, name


class SimulatedHolder:
    """Stands in the place of one holder, knows the bits and what the dealer dealt, and no sum."""

    def __init__(self, cohort, batch, which, bits, rng):
        self.cohort, self.batch, self.which = cohort, batch, which
        self.bits, self.rng = bits, rng
        self._share = cohort.seats[cohort.roles.holders[which]]._sent  # sent before: of zeros

    def square(self, other, seed, common):
        self._other, self._common = other, common
        self._forms = self.rng.integers(0, 2**63, COMPONENTS, dtype=np.uint64)
        self._drawn = self.batch.forms.pack(self._forms)
        return self._drawn

    def compare(self, other):
        """Labels that open to the bits, whatever the real holder's shares are."""
        batch, dealer = self.batch, self.cohort.seats[self.cohort.roles.dealer]
        seeds = [
            expand(dealer._seed, b"seed of a holder", batch.digest, bytes([h])) for h in (0, 1)
        ]
        draws = [HolderDraws(batch, seed, h) for h, seed in enumerate(seeds)]
        steps, labels = (draws[0].steps + draws[1].steps, draws[0].labels + draws[1].labels)
        holding = self.rng.integers(1, batch.predicates.sizes, endpoint=True) * self.bits
        opened = labels + holding.astype(np.uint64) * steps
        opened = np.append(opened, draws[0].reach + draws[1].reach)
        real = self.cohort.seats[self.cohort.roles.holders[1 - self.which]]._holding
        again = Holding(batch, 1 - self.which, real._parts)
        again.mask()
        again.square(self._share, seeds[1 - self.which], self._common)
        share = np.frombuffer(again.compare(self._drawn), "<u8")
        self._labels = opened - share
        return self._labels.astype("<u8").tobytes()

    def open(self, other):
        return self.bits


@pytest.mark.parametrize("n_sites", [2, 3, 4])
@pytest.mark.parametrize("which", [0, 1])
def test_a_holders_view_is_made_from_the_bits_and_its_own_vector(n_sites, which):
    rng = np.random.default_rng((n_sites, which))
    found, places = {}, {"real": [], "simulated": []}
    for number, kind in enumerate(KINDS * 3):
        sums = sums_of(kind, rng)
        vectors = split(rng, PREDICATES, sums, n_sites)
        bits = holds(PREDICATES, sums)
        real = Cohort(n_sites, random_bytes=rng.bytes)
        batch = real.batch(PREDICATES, number=number)
        party = real.roles.holders[which]
        assert (real.run(batch, vectors) == bits).all()
        places["real"].append(label_places(real, batch, party))

        simulated = Cohort(n_sites, random_bytes=rng.bytes)
        seen = watch(simulated, party)
        mine = np.zeros_like(vectors)
        mine[party] = vectors[party]  # of the other sites nothing: they have zeros
        other = simulated.roles.holders[1 - which]

        def inward(step, item, message, cohort=simulated, batch=batch, other=other, bits=bits):
            if (step, item) == ("square", other):
                cohort.seats[other]._holding = SimulatedHolder(cohort, batch, 1 - which, bits, rng)
            return message

        assert (simulated.run(batch, mine, inward=inward) == bits).all()
        signed = simulated.seats[party]._holding
        assert (signed._labels.size, signed._forms.size) == (len(SIZES) + 1, COMPONENTS)
        places["simulated"].append(label_places(simulated, batch, party))
        for name, (words, width) in holder_words(simulated, batch, party, seen).items():
            found.setdefault((name, width), []).append(words)
    for (name, width), words in found.items():
        assert uniform(words, width) > SURE, name
    first, second = (np.concatenate(places[name]) for name in ("real", "simulated"))
    for item in (first, second):
        # which of three hashes of 1 fitted, where a test of three comparisons has the bit 1
        assert stats.chisquare(np.bincount(item, minlength=3)).pvalue > SURE


def label_places(cohort, batch, party):
    """Where in its list the opened label of every test of three was found, where it says 1."""
    holders = [cohort.seats[item]._holding for item in cohort.roles.holders]
    labels = (holders[0]._labels + holders[1]._labels)[:-1]
    found = hash_labels(batch.label_hash, labels, np.arange(labels.size))
    dealt = cohort.seats[party]._holding._common.labels
    hashes = np.frombuffer(dealt, np.uint8).reshape(-1, LABEL_HASH_BYTES)
    sizes = batch.predicates.sizes
    first = np.cumsum(sizes + 1) - (sizes + 1)
    places = []
    for test in np.flatnonzero(sizes == 3):
        fits = (hashes[first[test] : first[test] + 4] == found[test]).all(axis=1)
        assert fits.sum() == 1
        if not fits[0]:
            places.append(int(fits.argmax()) - 1)
    return np.array(places, dtype=np.int64)


# ------------------------------------------------------------------ dealer, twin and relay


@pytest.mark.parametrize("n_sites", [2, 3, 4, 6])
def test_the_dealers_and_the_twins_views_do_not_depend_on_any_number(n_sites):
    # with the same random bytes, every vector gives the very same view: nothing to simulate from
    views = []
    for kind in ("zero", "ends", "anywhere"):
        rng = np.random.default_rng(9)
        cohort = Cohort(n_sites, random_bytes=rng.bytes)
        batch = cohort.batch(PREDICATES)
        watched = [item for item in (cohort.roles.dealer, cohort.roles.twin) if item is not None]
        seen = {item: watch(cohort, item) for item in watched}
        kept = {}

        def hook(step, party, message, kept=kept):
            kept[step, party] = message
            return message

        vectors = np.zeros((n_sites, 2 * COMPONENTS), dtype=np.int64)
        vectors[0] = sums_of(kind, np.random.default_rng(1))
        cohort.run(batch, vectors, hook)
        common = decode(kept["prepare", cohort.roles.dealer], Keys).common
        others = {item: [content for _, content in seen[item]] for item in watched}
        views.append((common, others))
    assert views[0] == views[1] == views[2]
    parts = [item for view in views[0][1].values() for item in view]
    assert all(len(item) == 32 for item in parts)
    assert len(parts) in (n_sites, n_sites - 1, 2 * n_sites - 1)


def test_commitments_are_of_seeds_alone():
    cohort = Cohort(4)
    batch = cohort.batch(PREDICATES)
    seeds = [bytes([k]) * 32 for k in range(50)]
    found = {commitment(batch, site, seed) for seed in seeds for site in range(4)}
    assert len(found) == 200


@pytest.mark.parametrize("n_sites", [2, 3, 4, 10])
def test_the_relay_sees_lengths_that_follow_from_the_question_alone(n_sites):
    seen = []
    for kind in ("zero", "ends", "threshold"):
        rng = np.random.default_rng(3)
        cohort, lengths = Cohort(n_sites), []

        def hook(step, party, message, lengths=lengths):
            lengths.append((step, party, len(message)))
            return message

        cohort.run(
            cohort.batch(PREDICATES), split(rng, PREDICATES, sums_of(kind, rng), n_sites), hook
        )
        seen.append(lengths)
    assert seen[0] == seen[1] == seen[2]


def test_what_is_dealt_in_the_clear_is_uniform():
    rng = np.random.default_rng(4)
    words = []
    for number in range(10):
        cohort = Cohort(4)
        batch = cohort.batch(PREDICATES, number=number)
        cohort.run(batch, split(rng, PREDICATES, sums_of("threshold", rng), 4))
        words.append(cohort.seats[2]._holding._common.keys)
    assert uniform(words) > SURE


def test_only_parties_with_dealer_or_verifier_have_a_site_s_vector():
    # three parts: any two of them leave the third, which is uniform, between them and the vector
    rng = np.random.default_rng(5)
    left = {name: [] for name in ("first", "dealt", "rest")}
    for number in range(40):
        cohort = Cohort(4, random_bytes=rng.bytes)
        batch = cohort.batch(PREDICATES, number=number)
        seen = {item: watch(cohort, item) for item in (0, 2, 3)}
        vectors = split(rng, PREDICATES, sums_of("ends", rng), 4)
        cohort.run(batch, vectors)
        first = of_site_1(seen[2], b"first part")
        dealt = of_site_1(seen[0], b"dealt part")
        rest = batch.vector.unpack(of_site_1(seen[3], b"rest"))
        first, dealt = part_words(batch, first), part_words(batch, dealt)
        x = vectors[1].view(np.uint64)
        assert ((first + dealt + rest - x) & low_bits(batch.word_widths) == 0).all()
        left["first"].append(x - dealt - rest)
        left["dealt"].append(x - first - rest)
        left["rest"].append(x - first - dealt)
    for words in left.values():
        assert uniform(words, int(batch.word_widths[0])) > SURE


def of_site_1(seen, kind):
    """What a party unsealed that site 1 sent."""
    (content,) = [
        item
        for associated, item in seen
        if kind in associated and (1).to_bytes(4, "big") == sender(associated, kind)
    ]
    return content


def sender(associated, kind):
    at = associated.index(kind) + len(kind) + 8
    return associated[at : at + 4]


def test_the_coordinator_that_deals_is_sent_dealt_parts_alone():
    cohort = Cohort(2)
    seen = watch(cohort, COORDINATOR)
    rng = np.random.default_rng(6)
    cohort.run(cohort.batch(PREDICATES), split(rng, PREDICATES, sums_of("ends", rng), 2))
    assert [len(content) for _, content in seen] == [32, 32]
