"""The five worst pitfalls of secure tests: each attack as it would work, and what stops it."""

import copy
import hashlib
import pickle

import msgspec
import numpy as np
import pytest
from mpc_cohort import COORDINATOR, Cohort, holds, score_tests, split

from cipherdag.errors import CipherdagError, ForgedSumError, ReplayError, ShareError, SpentKeyError
from cipherdag.privacy.mpc.holding import Holding
from cipherdag.privacy.mpc.messages import Collected, Contributed, Passed, Relay
from cipherdag.privacy.mpc.sharing import HolderDraws, deal_batch, part_words, split_vector
from cipherdag.privacy.mpc.words import low_bits

STEPS = ("prepare", "square", "compare", "open")


def world(seed=0, n_sites=4, sizes=(1, 2, 3)):
    rng = np.random.default_rng(seed)
    predicates = score_tests(sizes, scores=400, variances=160_000, constant=96)
    sums = rng.integers(predicates.lowest, predicates.highest, endpoint=True)
    return predicates, sums, split(rng, predicates, sums, n_sites)


def shared(batch, vectors, random_bytes):
    """The dealt part and both holders' sums of parts, outside all seats."""
    parts = [split_vector(batch, vector, random_bytes) for vector in vectors]
    first = sum(part_words(batch, item.first) for item in parts)
    rest = sum(batch.vector.unpack(item.rest) for item in parts)
    return [item.dealt for item in parts], (first, rest)


# ------------------------------------------------------------------ 1: a holder that is rewound


def test_a_holder_that_answers_twice_would_show_every_sum():
    predicates, sums, vectors = world()
    cohort = Cohort(4)
    batch = cohort.batch(predicates)
    rng = np.random.default_rng(1)
    dealt_seeds, (first, rest) = shared(batch, vectors, rng.bytes)
    dealt = deal_batch(batch, rng.bytes(32), dealt_seeds)
    seen = []
    for shift in (0, 1):  # the same first holder, restarted from a snapshot
        holder = Holding(batch, 0, first)
        masked = batch.factors.unpack(holder.mask())
        lie = rest[batch.multiplied] + np.uint64(shift)
        share = holder.square(batch.factors.pack(lie), dealt.seeds[0], dealt.common)
        seen.append(batch.forms.unpack(share))
    # the second holder: difference is 2 E + 1 + 2 [t]_0, and it has E and [t]_1
    opened = masked + rest[batch.multiplied]
    its_share = HolderDraws(batch, dealt.seeds[1], 1).dealt
    twice = seen[1] - seen[0] - 1 + np.uint64(2) * its_share
    mask = low_bits(batch.widths)
    assert (twice & mask == (2 * sums[:6]).view(np.uint64) & mask).all()
    assert not (opened & mask == sums[:6].view(np.uint64) & mask).all()


@pytest.mark.parametrize("again", STEPS)
def test_no_step_of_a_holder_is_answered_twice(again):
    predicates, _, vectors = world()
    cohort = Cohort(4)
    batch = cohort.batch(predicates)

    def inward(step, party, message):
        if step == again and party == 2:
            getattr(cohort.seats[2], step)(message)  # the coordinator asks once more, first
        return message

    with pytest.raises(ReplayError, match="twice"):
        cohort.run(batch, vectors, inward=inward)
    for step in ("share", *STEPS):  # and nothing afterwards
        with pytest.raises(ReplayError):
            getattr(cohort.seats[2], step)(b"" if step != "share" else vectors[2])


def test_a_step_that_failed_is_not_repeated():
    predicates, _, vectors = world()
    cohort = Cohort(4)
    good = []

    def inward(step, party, message):
        if step == "square" and party == 3:
            good.append(message)
            return message[:-1]
        return message

    with pytest.raises(CipherdagError):
        cohort.run(cohort.batch(predicates), vectors, inward=inward)
    with pytest.raises(ReplayError):
        cohort.seats[3].square(good[0])


def test_shares_and_keys_are_never_written_down_or_copied():
    predicates, _, vectors = world()
    cohort = Cohort(4)
    cohort.run(cohort.batch(predicates), vectors)
    for item in (cohort.parties[2], cohort.seats[2], cohort.seats[2]._holding):
        assert not hasattr(item, "__dict__")
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="holds a secret"):
                attempt(item)
        assert "a secret" in repr(item)


def test_a_holding_goes_forward_alone():
    predicates, _, vectors = world()
    batch = Cohort(4).batch(predicates)
    _, (first, _) = shared(batch, vectors, np.random.default_rng(2).bytes)
    holder = Holding(batch, 0, first)
    holder.mask()
    with pytest.raises(SpentKeyError):
        holder.mask()
    with pytest.raises(SpentKeyError):
        holder.square(b"", b"", b"")


def test_a_party_repeats_a_question_once_over_equal_sites_and_tests():
    predicates, sums, vectors = world(n_sites=6)
    cohort = Cohort(6)
    stopped = []

    def fails(step, party, message):
        if step == "compare":
            stopped.append(party)
            raise ShareError("the network failed")
        return message

    with pytest.raises(ShareError):
        cohort.run(cohort.batch(predicates), vectors, fails)
    holder = cohort.parties[2]
    others = score_tests((1, 2, 3), scores=401, variances=160_000, constant=96)
    for wrong in (
        cohort.batch(predicates),
        cohort.batch(predicates, attempt=1, sites=range(5)),
        cohort.batch(others, attempt=1),
    ):
        with pytest.raises(ReplayError):
            holder.begin(wrong)
    found = cohort.run(cohort.batch(predicates, attempt=1), vectors)
    assert (found == holds(predicates, sums)).all()
    with pytest.raises(ReplayError, match="found once"):
        holder.begin(cohort.batch(predicates, attempt=2))
    with pytest.raises(ReplayError):
        holder.begin(cohort.batch(predicates, number=0))
    found = cohort.run(cohort.batch(predicates, number=2), vectors)
    assert (found == holds(predicates, sums)).all()


def test_an_early_failure_does_not_undo_the_attempt_before():
    predicates, sums, vectors = world(n_sites=6)
    cohort = Cohort(6)

    def fails(step, party, message):
        if step == "square":
            raise ShareError("the network failed")
        return message

    with pytest.raises(ShareError):
        cohort.run(cohort.batch(predicates), vectors, fails)
    for party in cohort.parties.values():
        party.begin(cohort.batch(predicates, attempt=1))  # and nothing was shared
    for holder in (cohort.parties[2], cohort.parties[3]):
        with pytest.raises(ReplayError, match="same sites"):
            holder.begin(cohort.batch(predicates, attempt=2, sites=range(5)))
    found = cohort.run(cohort.batch(predicates, attempt=2), vectors)
    assert (found == holds(predicates, sums)).all()
    with pytest.raises(ReplayError, match="found once"):
        cohort.parties[2].begin(cohort.batch(predicates, attempt=3))


def test_before_masked_sums_left_a_site_may_leave():
    predicates, _, vectors = world(n_sites=6)
    cohort = Cohort(6)
    for party in cohort.parties.values():
        party.begin(cohort.batch(predicates)).share(vectors[0])
    left = cohort.batch(predicates, attempt=1, sites=range(5))
    assert cohort.run(left, vectors).shape == (3,)


# ------------------------------------------------------------------ 2: sets or E that differ


def test_holders_that_were_shown_different_sets_find_nothing():
    predicates, _, vectors = world(n_sites=6)
    cohort = Cohort(6)
    everyone, fewer = cohort.batch(predicates), cohort.batch(predicates, sites=range(5))
    assert everyone.digest != fewer.digest
    seats = {item: party.begin(everyone) for item, party in cohort.parties.items()}
    shares = {item: seat.share(vectors[item]) for item, seat in seats.items()}
    requests = Relay(everyone, cohort.names).prepare(shares)
    said = msgspec.msgpack.decode(requests[3], type=Collected)
    without = msgspec.msgpack.encode(Collected(said.parts[:-1]))
    with pytest.raises(ShareError, match="all other sites"):
        seats[3].prepare(without)
    # a holder that believes in the smaller set cannot read the parts of the larger one
    other = cohort.party(3).begin(fewer)
    other.share(vectors[3])
    with pytest.raises(ShareError, match="another batch"):
        other.prepare(without)


def test_holders_that_were_shown_different_masked_sums_find_nothing():
    predicates, _, vectors = world()
    rng = np.random.default_rng(7)
    for _ in range(100):
        cohort = Cohort(4)
        batch = cohort.batch(predicates)
        shift = rng.integers(1, 2 ** int(batch.widths.min()), 6, dtype=np.uint64)

        def lie(step, party, message, cohort=cohort, factors=batch.factors, shift=shift):
            def shifted(content):
                return factors.pack(factors.unpack(content) + shift)

            if (step, party) == ("prepare", 2):  # it goes on with its true share itself
                return cohort.resealed(step, party, message, shifted)
            return message

        with pytest.raises(ShareError, match="masked forms"):
            cohort.run(batch, vectors, lie)


def test_the_digest_binds_everything_public():
    predicates, _, _ = world(n_sites=6)
    cohort = Cohort(6)
    base = cohort.batch(predicates)
    others = [
        cohort.batch(predicates, number=2),
        cohort.batch(predicates, attempt=1),
        cohort.batch(predicates, sites=range(5)),
        cohort.batch(score_tests((2, 1, 3), scores=400, variances=160_000, constant=96)),
        with_other(base, session=hashlib.sha256(b"another").digest()),
        with_other(base, question=hashlib.sha256(b"another").digest()),
    ]
    assert len({item.digest for item in (base, *others)}) == 1 + len(others)


def with_other(batch, **changed):
    """A batch with another attribute; `replace` would carry its digest over."""
    names = ("session", "question", "number", "attempt", "sites", "roles", "predicates")
    return type(batch)(**({name: getattr(batch, name) for name in names} | changed))


# ------------------------------------------------------------------ 3: seeds from keys and numbers


def test_two_attempts_at_one_question_have_nothing_in_common():
    predicates, _, vectors = world()
    seen = []
    for _ in range(2):  # the very same keys, numbers and values: the process was started again
        cohort = Cohort(4)
        batch = cohort.batch(predicates)
        kept = {}

        def hook(step, party, message, kept=kept):
            kept[step, party] = message
            return message

        cohort.run(batch, vectors, hook)
        dealer = cohort.seats[0]
        holding = cohort.seats[2]._holding
        seen.append((dealer._seed, *kept.values(), holding._parts.tobytes()))
        assert len(dealer._seed) == 32
    assert not set(seen[0][:-5]) & set(seen[1][:-5])
    assert seen[0][-1] != seen[1][-1]


# ------------------------------------------------------------------ 4: a holder that rushes


def test_a_holder_that_saw_the_label_cannot_turn_it():
    predicates, _, vectors = world(sizes=(1,) * 6)
    for trial in range(90):
        cohort = Cohort(4)

        def rush(step, party, message, cohort=cohort, trial=trial):
            if (step, party) != ("compare", 3):
                return message
            rushing, honest = (cohort.seats[item]._holding for item in (3, 2))
            item, other = rushing._labels, honest._labels  # it was sent the other's first
            steps, labels = rushing._draws.steps, rushing._draws.labels
            test = slice(trial % 6, trial % 6 + 1)
            known = steps[test], labels[test], item[test], other[test], item[test] + other[test]
            added = known[trial % 5] * np.uint64(1 + trial % 3)
            forged = item.copy()
            forged[test] += added if trial % 2 else np.uint64(0) - added
            return cohort.resealed(step, party, message, lambda _: forged.tobytes())

        with pytest.raises(ForgedSumError, match=r"none that was dealt .*site-0.*site-2.*site-3"):
            cohort.run(cohort.batch(predicates), vectors, rush)


def test_the_dealer_is_sent_parts_and_nothing_after():
    predicates, _, vectors = world()
    cohort, asked = Cohort(4), []

    def inward(step, party, message):
        asked.append((step, party))
        return message

    cohort.run(cohort.batch(predicates), vectors, inward=inward)
    assert {item for item in asked if item[1] in (0, 1)} == {("prepare", 0), ("prepare", 1)}
    # what is sealed between the holders is no use to the dealer: it has no key of theirs
    assert set(cohort.keys[0]) == {1, 2, 3}
    with pytest.raises(ReplayError):
        cohort.seats[0].square(msgspec.msgpack.encode(Passed(b"")))


# ------------------------------------------------------------------ 5: opening seeds, asking again


def test_the_dealers_seed_would_show_every_score_to_a_holder():
    predicates, sums, vectors = world()
    cohort = Cohort(4)
    batch = cohort.batch(predicates)
    rng = np.random.default_rng(6)
    dealt_seeds, (first, rest) = shared(batch, vectors, rng.bytes)
    opened = (first + rest)[batch.multiplied]
    dealt = sum(part_words(batch, item) for item in dealt_seeds)[batch.multiplied]
    mask = low_bits(batch.word_widths)[batch.multiplied]
    assert ((opened + dealt) & mask == sums[:6].view(np.uint64) & mask).all()
    # which is why no verb yields it, in the clear, to anyone, and a holder has no key to read it
    cohort.run(batch, vectors)
    seed = cohort.seats[0]._seed
    said = msgspec.msgpack.decode(cohort.party(0).begin(batch).share(vectors[0]), type=Contributed)
    assert seed not in (said.seed, said.again)
    assert len(said.seed) == 60
    verbs = [name for name in dir(cohort.seats[0]) if not name.startswith("_")]
    assert verbs == [
        "batch",
        "compare",
        "end",
        "masked",
        "open",
        "prepare",
        "share",
        "signed",
        "square",
    ]


def test_a_question_is_not_asked_again_with_other_thresholds():
    predicates, _, vectors = world()
    cohort = Cohort(4)
    cohort.run(cohort.batch(predicates), vectors)
    others = score_tests((1, 2, 3), scores=400, variances=160_000, constant=97)
    for item in (2, 3):
        with pytest.raises(ReplayError):
            cohort.parties[item].begin(cohort.batch(others))
        with pytest.raises(ReplayError, match="found once"):
            cohort.parties[item].begin(cohort.batch(others, attempt=1))


def test_the_coordinator_deals_for_two_sites_alone():
    assert Cohort(2).roles.dealer == COORDINATOR
    assert Cohort(3).roles.dealer != COORDINATOR
