"""The messages of a session's set-up, and the beacon: randomness that no site chose.

With a key for every two sites it takes three exchanges: offers, seals and a proof of the schema.
On a sparse graph it takes four, since who shares a key with whom is drawn by lot once all keys are
offered: the sites first reveal the numbers that they committed to, which give the graph, and then
link to their neighbours on it. A site's number is the same in every set-up of one cohort, and sites
with folders hold each other to the first commitment: who leaves on seeing the lot gets no other.

Leaks:
    The coordinator sees public keys, ciphertexts, the lot, and whether schemas are equal. All see
    whether a site's rows are those that an earlier run of the same sites had.
"""

from collections.abc import Sequence
from typing import Final

from cipherdag.errors import KeyAgreementError
from cipherdag.graphs.relations import Relation
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import Body, digest
from cipherdag.protocol.plan import PerSite, Plan


class ShownRecord(Body, frozen=True):
    """The last record of a site's ledger: its hash, 32 bytes, and the site's signature over it."""

    hash: bytes
    signature: bytes


class Remembered(Body, frozen=True):
    """The record that another site showed last: its position in the cohort, and `ShownRecord`."""

    site: int
    hash: bytes
    signature: bytes


class Memory(Body, frozen=True):
    """What a site remembers of others' ledgers."""

    records: tuple[Remembered, ...]


class Offer(Body, frozen=True, omit_defaults=True):
    """A site's ephemeral public keys for one session, bound to the plan it saw.

    ``commitment`` is the digest of a number that it tells once all have committed.
    ``memory`` is what it remembers of others' ledgers, an encoded `Memory`, and ``rows`` the keyed
    digest of its rows; empty of a site that keeps no record of what was asked.
    """

    plan_digest: bytes
    x25519: bytes
    mlkem: bytes
    commitment: bytes
    memory: bytes = b""
    rows: bytes = b""


class DealerKeys(Body, frozen=True):
    """The coordinator's ephemeral public keys, where it deals for two sites."""

    x25519: bytes
    mlkem: bytes


class Offers(Body, frozen=True):
    """The signed offers of the whole cohort in order, relayed as they were received.

    ``dealer`` are the keys of a coordinator that deals for two sites.
    """

    envelopes: PerSite
    dealer: DealerKeys | None = None


class Seals(Body, frozen=True, omit_defaults=True):
    """A site's ML-KEM ciphertexts for the later sites, and what the first site seals for them."""

    transcript: bytes  # digest of all offers
    ciphertexts: PerSite  # one per later site in cohort order
    # the random number that the site committed to; of all of them the `beacon` is made
    chance: bytes
    secrets: PerSite = ()  # from the first site only, one sealed `SharedSecrets` per later site
    content: bytes = b""  # from the first site only, the sealed `SharedContent`, once for all
    dealer: bytes = b""  # of two sites the ciphertext for the coordinator that deals
    last_record: bytes = b""  # the last record of the site's ledger, an encoded `ShownRecord`


class SharedSecrets(Body, frozen=True):
    """Keys that all sites know and the coordinator does not; they travel sealed, site to site."""

    alignment_key: bytes
    context_key: bytes
    sum_key: bytes


class SharedContent(Body, frozen=True):
    """The BFV keys, if any, and the study's schema; they travel under the sites' context key."""

    context: bytes
    schema: bytes


class Sealed(Body, frozen=True):
    """The signed seals of the whole cohort in order, relayed as they were received."""

    envelopes: PerSite


class Commitments(Body, frozen=True):
    """The signed offers of the whole cohort, relayed before the graph of keys is drawn by lot."""

    envelopes: PerSite


class Chance(Body, frozen=True, omit_defaults=True):
    """The random number that a site committed to, revealed once it has seen all commitments.

    ``transcript`` is the digest of all offers; of all numbers the `beacon` is made.
    ``last_record`` is the last record of the site's ledger, an encoded `ShownRecord`.
    """

    transcript: bytes
    chance: bytes
    last_record: bytes = b""


class Chances(Body, frozen=True):
    """The signed numbers of the whole cohort in order, relayed as they were received."""

    envelopes: PerSite


class Links(Body, frozen=True):
    """A site's links to its neighbours on the sparse graph."""

    # for each later neighbour, in cohort order, an ML-KEM ciphertext and a tag under the key of the
    # two, which shows that nobody altered it. The first site links to all others.
    links: PerSite
    secrets: PerSite = ()  # from the first site only, one sealed `SharedSecrets` per later site
    content: bytes = b""  # from the first site only, the sealed `SharedContent`, once for all


class Linked(Body, frozen=True):
    """The links of earlier sites to one, in order, and what the first seals for any other."""

    links: PerSite
    secrets: bytes
    content: bytes


class Ready(Body, frozen=True, omit_defaults=True):
    """A site is set up: its keyed schema digest and the number of aligned variables.

    ``labels`` are the positions of a multi-label study's labels, where the algorithm needs them,
    and ``relations`` say which variables follow from others, by position.
    """

    schema_digest: bytes
    n_variables: int
    labels: tuple[int, ...] = ()
    relations: tuple[Relation[int], ...] = ()


CHANCE_BYTES: Final = 32


def lasting_chance(identity: SigningIdentity, plan: Plan) -> bytes:
    """A site's number for the beacon of a cohort, the same in every set-up of it, 32 bytes.

    Were it drawn anew, a coordinator would set up again until colluders have the roles they want.
    """
    return identity.draw_key()(digest(b"chance", plan.cohort_digest))


def commitment(plan: Plan, site: int, chance: bytes) -> bytes:
    """A site's commitment to its number, 32 bytes."""
    return digest(b"commitment", plan.cohort_digest, site.to_bytes(4, "big"), chance)


def beacon_of(plan: Plan, commitments: Sequence[bytes], chances: Sequence[bytes]) -> bytes:
    """Randomness that no site chose, revealed once all committed to it; or a KeyAgreementError."""
    for site, (committed, chance) in enumerate(zip(commitments, chances, strict=True)):
        if len(chance) != CHANCE_BYTES or commitment(plan, site, chance) != committed:
            raise KeyAgreementError(
                "it told another random number than it committed to", site=plan.cohort[site].name
            )
    return digest(b"beacon", *chances)
