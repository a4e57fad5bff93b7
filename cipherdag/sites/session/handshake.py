"""A site's side of a session's set-up: keys with other sites, agreed through the coordinator.

`SetUp` is what every set-up has; `sparse_setup` holds that of a sparse graph of keys. Where every
two sites share a key it takes three exchanges: every site signs an offer of fresh X25519 and
ML-KEM-768 keys; the earlier site of each pair answers with an ML-KEM ciphertext, and the first site
seals for the others what only sites may know; every site then proves by a keyed digest that its
schema is the same.

Leaks:
    The coordinator sees public keys, ciphertexts, equality of schemas and the number of variables.
    The sites learn the first site's schema, which is the study's.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

import msgspec

from cipherdag.errors import KeyAgreementError, SchemaMismatchError
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.privacy.homomorphic_mac import MacKey
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.keys.pairkeys import (
    AgreementKeys,
    EphemeralKeys,
    PairKey,
    agree_as_initiator,
    agree_as_responder,
    seal,
    unseal,
)
from cipherdag.privacy.mpc.batch import COORDINATOR, TWO_SITES
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.privacy.secrecy import drawn, fresh_bytes
from cipherdag.privacy.sums import SiteAggregation
from cipherdag.privacy.wire import decode, encode, keyed_digest
from cipherdag.protocol.asked import Context
from cipherdag.protocol.plan import Plan, check_lacking
from cipherdag.protocol.secure_tests import SecureTests, context_of
from cipherdag.protocol.set_up_messages import (
    Chance,
    DealerKeys,
    Offer,
    Offers,
    Ready,
    Sealed,
    Seals,
    SharedContent,
    SharedSecrets,
    commitment,
    lasting_chance,
)
from cipherdag.protocol.states import State
from cipherdag.sites.record.witnesses import Witness
from cipherdag.sites.session.reading import ALONE, Reading

SHARED_KEY_BYTES = 32
SECRETS_PURPOSE = b"shared secrets"
CONTENT_PURPOSE = b"shared content"

log = logging.getLogger("cipherdag.site")

Kind = TypeVar("Kind", Offer, Seals, Chance)


@dataclass(frozen=True, slots=True)
class SiteProfile:
    """A site's identity, and the pinned public identity keys of others, 32 bytes each.

    By the schema ``labels`` are the positions of the labels, ``determined`` says which variables
    follow from others, and ``lacking`` which ones a site lacks, for sites that lack some.
    ``witness`` remembers the others' ledgers. ``rows_digest`` is keyed; by it bits that were found
    of the same rows are not asked again. A site in memory has neither of the two.
    """

    name: str
    identity: SigningIdentity
    coordinator: bytes
    pinned: Mapping[str, bytes]
    schema: bytes
    rows: int
    labels: tuple[int, ...] = ()
    determined: Determined = NOTHING
    lacking: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    witness: Witness | None = None
    rows_digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The outcome of a set-up: the keys' uses, the transcript's digest, and the graph.

    A site alone has no part in secure tests.
    """

    aggregation: SiteAggregation = field(repr=False)
    agreement: AgreementKeys = field(repr=False)
    secure_tests: SecureTests | None
    transcript: bytes
    graph: KeyGraph


class SetUp:
    """One set-up at one site, from the plan to the keyring; `protocol.states` has its states.

    KeyAgreementError where by the plan a site lacks other variables than by the schema.
    """

    state: State

    def __init__(self, profile: SiteProfile, plan: Plan, read: Reading = ALONE) -> None:
        self._names = plan.names
        check_lacking(plan, profile.lacking)
        self.index = self._names.index(profile.name)
        self._profile = profile
        self.plan = plan
        self._read = read
        self._keys = EphemeralKeys.generate()
        self._chance = lasting_chance(profile.identity, plan)
        self._witness = profile.witness
        self._memory = b""
        if self._witness is not None:
            self._witness.check_complete()
            self._memory = drawn(partial(self._witness.memory, plan.cohort, self.index))
        self._pair_keys: dict[int, PairKey] = {}
        self._drawn_secrets: SharedSecrets | None = None
        self._transcript = b""
        self._offers: Sequence[Offer] = ()

    def offer(self) -> Offer:
        """Fresh public keys, bound to the plan this site saw."""
        return Offer(
            plan_digest=self.plan.digest,
            x25519=self._keys.x25519_public,
            mlkem=self._keys.mlkem_public,
            commitment=commitment(self.plan, self.index, self._chance),
            memory=self._memory,
            rows=self._profile.rows_digest,
        )

    def _opened_offers(self, envelopes: tuple[bytes, ...]) -> tuple[Sequence[Offer], bytes]:
        """The offers of all sites, and their digest.

        KeyAgreementError where one is missing, doubled, swapped, without rows, or for another plan,
        SignatureError where one is not signed by the pinned identity.
        """
        opened, transcript = self._opened(envelopes, Offer, self.plan.digest)
        if any(offer.plan_digest != self.plan.digest for offer in opened):
            raise KeyAgreementError("a site answered another plan than this one")
        if opened[self.index] != self.offer():
            raise KeyAgreementError("this site's own offer was altered")
        for keys in ([offer.x25519 for offer in opened], [offer.mlkem for offer in opened]):
            if len(set(keys)) != len(keys):
                raise KeyAgreementError("two sites offer the same key")
        if self._witness is not None:
            self._witness.check([offer.memory for offer in opened], self.index)
            self._witness.hold(self.plan, opened)
            if without := [
                n for n, offer in zip(self._names, opened, strict=True) if not offer.rows
            ]:
                raise KeyAgreementError(f"'{without[0]}' shows no digest of its rows")
        return opened, transcript

    def _last_record(self) -> bytes:
        """The last record of this site's ledger, for the others to remember."""
        return b"" if self._witness is None else drawn(self._witness.last_record)

    def _remember(self, shown: Sequence[bytes]) -> None:
        if self._witness is not None:
            self._witness.remember(self.plan.cohort, shown)

    def _opened(
        self, envelopes: tuple[bytes, ...], kind: type[Kind], before: bytes
    ) -> tuple[Sequence[Kind], bytes]:
        """The messages of all sites, and what their digests are bound to from then on."""
        count, cohort = len(envelopes), self.plan.cohort
        if count != len(cohort):
            raise KeyAgreementError(f"{count} messages were relayed for {len(cohort)} sites")
        bodies, transcript = self._read.relayed(envelopes, kind, cohort, self.plan.session, before)
        return cast("Sequence[Kind]", bodies), transcript

    def _initiated(self, other: int, offer: Offer | DealerKeys) -> bytes:
        """The ciphertext for a later site, or for the coordinator; its key is kept."""
        ciphertext, self._pair_keys[other] = agree_as_initiator(
            self._keys, offer.x25519, offer.mlkem, self._transcript, self.index, other
        )
        return ciphertext

    def _responded(self, earlier: int, ciphertext: bytes) -> PairKey:
        """The key with an earlier site, from its ciphertext; it is kept."""
        x25519, at = self._offers[earlier].x25519, (earlier, self.index)
        key = agree_as_responder(self._keys, x25519, ciphertext, self._transcript, *at)
        self._pair_keys[earlier] = key
        return key

    def _beacon_of(self, chances: Sequence[bytes]) -> bytes:
        """The beacon of all sites' numbers; KeyAgreementError if a site committed to another."""
        return self._read.beacon(self.plan, [offer.commitment for offer in self._offers], chances)

    def _sealed_secrets(self) -> tuple[tuple[bytes, ...], bytes]:
        """The first site's secrets, sealed: small keys for each later site, the context once."""
        context = drawn(PROTECTIONS[self.plan.protection].shared)
        self._drawn_secrets = SharedSecrets(
            alignment_key=fresh_bytes(SHARED_KEY_BYTES),
            context_key=fresh_bytes(SHARED_KEY_BYTES),
            sum_key=fresh_bytes(SHARED_KEY_BYTES),
        )
        content = encode(SharedContent(context=context, schema=self._profile.schema))
        plaintext = encode(self._drawn_secrets)
        sealed = tuple(
            seal(self._pair_keys[later], SECRETS_PURPOSE, plaintext, self._transcript)
            for later in range(1, len(self._names))
        )
        key = PairKey(self._drawn_secrets.context_key)
        return sealed, seal(key, CONTENT_PURPOSE, content, self._transcript)

    def _shared(self, sealed: bytes, content: bytes) -> tuple[SharedSecrets, SharedContent]:
        secrets = self._drawn_secrets
        if secrets is None:
            plaintext = unseal(self._pair_keys[0], SECRETS_PURPOSE, sealed, self._transcript)
            secrets = decode(plaintext, SharedSecrets)
        opened = unseal(PairKey(secrets.context_key), CONTENT_PURPOSE, content, self._transcript)
        return secrets, decode(opened, SharedContent)

    def _agreed(
        self,
        secrets: SharedSecrets,
        content: SharedContent,
        transcript: bytes,
        beacon: bytes,
        graph: KeyGraph,
    ) -> tuple[Keyring, Ready]:
        """The keyring, and the proof of an equal schema; SchemaMismatchError if it is another."""
        if content.schema != self._profile.schema:
            log.error("this site's schema differs from the study's: %s", self._difference(content))
            raise SchemaMismatchError("the site's schema is not the one of the first site")
        proof = keyed_digest(
            secrets.alignment_key, b"schema", self.plan.session, self._profile.schema
        )
        n_sites, sum_key = len(self._names), MacKey(secrets.sum_key)
        keys = {site: self._pair_keys[site] for site in graph.neighbours(self.index)}
        tests = None
        if n_sites >= TWO_SITES:
            roles, rows = self._read.roles(beacon, range(n_sites)), [o.rows for o in self._offers]
            context = context_of(self.plan, transcript, roles, rows)
            tests = SecureTests(context, self._party(context))
        kind = PROTECTIONS[self.plan.protection]
        keyring = Keyring(
            kind.site(self.index, keys, sum_key, content.context, n_sites),
            AgreementKeys(self.index, keys),
            tests,
            transcript,
            graph,
        )
        return keyring, Ready(schema_digest=proof, n_variables=0)

    def _party(self, context: Context) -> Party:
        """This site's part in secure tests, and its keys: with sites that have a role, or all.

        KeyAgreementError where the coordinator, which deals for two sites, offered no keys.
        """
        roles = context.roles
        needed = {roles.dealer, *roles.sites} - {self.index}
        if self.index in roles.sites:
            needed |= set(self._pair_keys)
        if not needed <= set(self._pair_keys):
            raise KeyAgreementError("a key with one that has a role in secure tests is missing")
        keys = {site: self._pair_keys[site] for site in needed}
        return Party(context.session, self.index, keys, roles, self._names, self._profile.identity)

    def _difference(self, content: SharedContent) -> str:
        """The lines that only one of the two schemas has, for the site's own screen."""
        here = set(self._profile.schema.decode("utf-8", "replace").splitlines())
        theirs = set(content.schema.decode("utf-8", "replace").splitlines())
        return f"only here {sorted(here - theirs)}, only in the study {sorted(theirs - here)}"


class Handshake(SetUp):
    """The set-up where every two sites share a key."""

    state = State.OFFERED

    def seals(self, offers: Offers) -> Seals:
        """Keys with every later site, and all that is shared; raises as `_opened_offers`."""
        self._offers, self._transcript = self._opened_offers(offers.envelopes)
        self.state = State.SEALED
        later = range(self.index + 1, len(self._names))
        ciphertexts = tuple(self._initiated(other, self._offers[other]) for other in later)
        seals = Seals(
            transcript=self._transcript,
            ciphertexts=ciphertexts,
            chance=self._chance,
            dealer=self._with_dealer(offers),
            last_record=self._last_record(),
        )
        if self.index:
            return seals
        sealed, content = self._sealed_secrets()
        return msgspec.structs.replace(seals, secrets=sealed, content=content)

    def _with_dealer(self, offers: Offers) -> bytes:
        """The ciphertext for the coordinator, where it deals for two sites; its key is kept."""
        if (offers.dealer is not None) != (len(self._names) == TWO_SITES):
            raise KeyAgreementError("the coordinator deals for two sites, and for no others")
        return b"" if offers.dealer is None else self._initiated(COORDINATOR, offers.dealer)

    def finish(self, sealed: Sealed) -> tuple[Keyring, Ready]:
        """Keys with every earlier site, the shared secrets, and the proof of an equal schema.

        The reply's ``n_variables`` is left at 0 for the runtime to fill in. KeyAgreementError where
        a ciphertext is missing or belongs to other offers, or a site tells another random number
        than it committed to; SchemaMismatchError where the first site's schema is another one.
        """
        seals, transcript = self._opened_seals(sealed)
        beacon = self._beacon_of([each.chance for each in seals])
        for earlier in range(self.index):
            self._responded(earlier, seals[earlier].ciphertexts[self.index - earlier - 1])
        first = seals[0]
        sealed_secrets = first.secrets[self.index - 1] if self.index else b""
        secrets, content = self._shared(sealed_secrets, first.content)
        graph = KeyGraph.complete(len(self._names))
        return self._agreed(secrets, content, transcript, beacon, graph)

    def _opened_seals(self, sealed: Sealed) -> tuple[Sequence[Seals], bytes]:
        opened, transcript = self._opened(sealed.envelopes, Seals, self._transcript)
        for position, seals in enumerate(opened):
            if seals.transcript != self._transcript:
                raise KeyAgreementError("the sites were not shown the same offers")
            if len(seals.ciphertexts) != len(self._names) - position - 1:
                raise KeyAgreementError("a site's key ciphertexts are not complete")
        if len(opened[0].secrets) != len(self._names) - 1:
            raise KeyAgreementError("the first site's sealed secrets are not complete")
        self._remember([seals.last_record for seals in opened])
        return opened, transcript
