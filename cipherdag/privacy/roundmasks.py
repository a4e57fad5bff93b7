"""The masks of one round, and the seeds that strip from a sum what does not cancel by itself.

Site i of the sites asked masks its words with

    PRG(b_i) + sum_{j > i} PRG(s_ij) - sum_{j < i} PRG(s_ij)

over the sites j that share a key with it, all others or those of a `key_graph`; b_i is fresh and
PRG(s_ij) is the stream of a key of the pair, from a counter on that follows from their pair key and
the question's digest. In a sum over all sites asked the pairwise streams cancel, and each site
releases its b_i for it. In any other sum an s_ij is left, which no site ever releases: a round
without the share of a site asked opens nothing. (Bonawitz et al., CCS 2017, section 4, release the
s_ij of sites that dropped out and then must never release both seeds of one site.)

Every site must also know that the others were asked the same: whoever calls `RoundMasks.unmask`
has their word.

A site's b_i also goes, in pieces sealed for each of those that share a key with it, to the
coordinator, so that ``threshold`` of them can recover it if the site leaves before it could release
it; with a threshold of 0 no piece goes anywhere.

Leaks:
    The seeds of a round open the sum over all sites asked and nothing else: a pair key, and the
    seeds of other rounds, do not follow from them.
"""

from collections.abc import Mapping, Sequence

from cipherdag.arrays import WordVector
from cipherdag.errors import CohortError, OpeningRefusedError, ReplayError, ShareError
from cipherdag.privacy.aggregation import Declaration
from cipherdag.privacy.keys.pairkeys import (
    PairKey,
    derive_each,
    encode_position,
    seal_each,
    sealing_keys,
)
from cipherdag.privacy.keys.secretsharing import SECRET_BYTES, check_share, combine, split
from cipherdag.privacy.keystream import COUNTER_BYTES, Keystream, apply_masks
from cipherdag.privacy.residues import Moduli
from cipherdag.privacy.secrecy import Secret, fresh_bytes

_PURPOSE = b"self mask"


class RoundMasks(Secret):
    """A site's masks, drawn once for a digest.

    ``index`` is its position. By default the cohort is this site and those with a pair key. Raises
    CohortError where there is no other site, or a key for none of the cohort.
    """

    __slots__ = (
        "_declaration", "_escrow", "_index", "_n_sites", "_pair_keys", "_released", "_seals",
        "_self_seed", "_shared", "_streams",
    )  # fmt: skip

    def __init__(
        self, index: int, pair_keys: Mapping[int, PairKey], n_sites: int | None = None
    ) -> None:
        self._n_sites = len(pair_keys) + 1 if n_sites is None else n_sites
        in_cohort = index not in pair_keys and {index, *pair_keys} <= set(range(self._n_sites))
        if not pair_keys or not in_cohort:
            raise CohortError("a site needs pair keys, with other sites of its cohort")
        self._index = index
        self._pair_keys = dict(pair_keys)
        streams = map(Keystream, derive_each(pair_keys.values(), b"mask"))
        self._streams = dict(zip(pair_keys, streams, strict=True))
        self._seals = dict(zip(pair_keys, sealing_keys(pair_keys.values(), _PURPOSE), strict=True))
        self._shared: set[bytes] = set()
        self._declaration: Declaration | None = None
        self._self_seed = b""
        self._escrow: tuple[bytes, ...] = ()
        self._released = False

    def check(self, declaration: Declaration) -> None:
        """Refuse a declaration that this site must not mask for.

        CohortError where it leaves this site out, names unknown sites, or contradicts itself,
        ReplayError where this site already masked something for its digest.
        """
        sites = declaration.sites
        if list(sites) != sorted(set(sites)) or declaration.cohort_size != len(sites):
            raise CohortError("the declaration is for a cohort of another size or order")
        if self._index not in sites or not 0 <= sites[0] <= sites[-1] < self._n_sites:
            raise CohortError("the declaration leaves this site out or names an unknown one")
        if not 0 <= declaration.threshold <= len(self._peers(declaration)) > 0:
            raise CohortError("more pieces than other sites with a key should recover a mask")
        if declaration.digest in self._shared:
            raise ReplayError("this question was answered before; a mask is never used twice")

    def mask(
        self, words: WordVector, lengths: Sequence[int], moduli: Moduli, declaration: Declaration
    ) -> None:
        """Mask words in place for a new digest; the seed of the digest before is forgotten.

        Words are residues, plane after plane; every masked one is uniform. Raises as `check`.
        """
        self.check(declaration)
        self._shared.add(declaration.digest)
        self._declaration = declaration
        self._self_seed = fresh_bytes(SECRET_BYTES)
        self._escrow, self._released = (), False
        peers = self._peers(declaration)
        drawn = derive_each([self._pair_keys[k] for k in peers], b"round", declaration.digest)
        streams = [
            self._streams[peer].restarted(start[:COUNTER_BYTES])
            for peer, start in zip(peers, drawn, strict=True)
        ]
        earlier = sum(peer < self._index for peer in peers)
        self_mask = Keystream(self._self_seed)
        apply_masks(
            words,
            lengths,
            moduli,
            added=[self_mask, *streams[earlier:]],
            subtracted=streams[:earlier],
        )

    def escrow(self, declaration: Declaration) -> tuple[bytes, ...]:
        """A sealed piece of b_i for each of the sites asked that share a key, in their order.

        Asked again it returns the same pieces; with a threshold of 0 there are none.
        OpeningRefusedError where the question is not the last one.

        Leaks:
            Nothing to fewer than ``declaration.threshold`` of the other sites together.
        """
        self._require_current(declaration)
        if declaration.threshold and not self._escrow:
            peers = self._peers(declaration)
            points = [peer + 1 for peer in peers]
            pieces = split(self._self_seed, points, declaration.threshold)
            bound_to = declaration.digest + encode_position(self._index)
            bound = [bound_to + encode_position(peer) for peer in peers]
            self._escrow = seal_each([self._seals[peer] for peer in peers], pieces, bound)
        return self._escrow

    def unmask(self, declaration: Declaration) -> bytes:
        """The seed of this site's self mask, b_i: 32 bytes, the same whenever it is asked.

        OpeningRefusedError where the question is not the last one.

        Leaks:
            With the seeds of all other sites asked, the sum.
        """
        self._require_current(declaration)
        self._released = True
        return self._self_seed

    def recover(self, vanished: int, piece: bytes, declaration: Declaration) -> bytes:
        """This site's piece of the self mask of a site that left before it released it, 52 bytes.

        ``piece`` is what that site had sealed for this one: a share of `secretsharing`, else
        ShareError; KeyAgreementError where it was altered, or sealed for another site or question.
        OpeningRefusedError where this site released no seed for this question yet, or the site is
        not another one that was asked.

        Leaks:
            With ``declaration.threshold - 1`` others' pieces, the b that the sum needs anyway.
        """
        self.require_released(declaration)
        if vanished not in self._peers(declaration):
            raise OpeningRefusedError("only the mask of another site that was asked is recovered")
        bound_to = declaration.digest + encode_position(vanished) + encode_position(self._index)
        share = self._seals[vanished].unseal(piece, bound_to)
        check_share(share)
        return share

    def require_released(self, declaration: Declaration) -> None:
        """Raise OpeningRefusedError unless this site released its seed for this question."""
        self._require_current(declaration)
        if not self._released:
            raise OpeningRefusedError("this site released no seed for this question yet")

    def _peers(self, declaration: Declaration) -> list[int]:
        """The other sites asked that share a key with this one, in their order."""
        return [peer for peer in declaration.sites if peer in self._pair_keys]

    def _require_current(self, declaration: Declaration) -> None:
        if self._declaration is None or declaration != self._declaration:
            raise OpeningRefusedError("this is not the question that the site answered last")


def strip_masks(
    words: WordVector,
    lengths: Sequence[int],
    moduli: Moduli,
    *,
    seeds: Mapping[int, bytes],
    declaration: Declaration,
) -> None:
    """Take from a sum over the sites asked, in place, the masks that do not cancel in it.

    Words are reduced, plane after plane; seeds are those of `RoundMasks.unmask`, by position.
    ShareError where they are not those of the sites asked, or one is malformed.

    Leaks:
        The sum, to whoever has all seeds.
    """
    asked = require_all(seeds, declaration)
    for site in asked:
        if len(seeds[site]) != SECRET_BYTES:
            raise ShareError(f"the seed of site {site} is cut short or too long")
    streams = [Keystream(seeds[site]) for site in asked]
    apply_masks(words, lengths, moduli, added=(), subtracted=streams)


def rebuild_seed(pieces: Mapping[int, bytes], declaration: Declaration) -> bytes:
    """The seed of a site that left, from the pieces that others recovered, by position.

    ShareError where there are fewer pieces than the threshold, or one is malformed, altered, or of
    a site that was not asked.

    Leaks:
        The b of that site, which the sum needs.
    """
    if not set(pieces) <= set(declaration.sites):
        raise ShareError("a piece came of a site that was not asked")
    return combine(
        {position + 1: piece for position, piece in pieces.items()}, declaration.threshold
    )


def require_all(given: Mapping[int, bytes], declaration: Declaration) -> tuple[int, ...]:
    """The sites asked; ShareError unless something was given of each, and of no other."""
    if set(given) != set(declaration.sites):
        raise ShareError("something is missing of a site asked, or came of one that was not")
    return declaration.sites
