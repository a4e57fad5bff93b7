"""The masks of one round, and the seeds that strip from a sum what does not cancel by itself.

Site i of the sites asked masks its words with

    PRG(b_i) + sum_{j > i} PRG(s_ij) - sum_{j < i} PRG(s_ij)

where b_i is fresh and s_ij follows from the key of the pair and the question's digest. Among the
survivors of a round the pairwise streams cancel. What is left are the survivors' b_i and their
s_id with every dropped site d: of a survivor the b is released, of a dropped site the s, and never
both of one site, since then its answer would lie open (Bonawitz et al., CCS 2017, section 4).

That is kept by answering for one set of survivors a round. Every site must also know that the
others were told the same set: whoever calls `RoundMasks.unmask` has the survivors' word.

A site's b_i also goes, in pieces sealed for each of the others, to the coordinator, so that
``threshold`` of them can recover it if the site leaves before it could release it.

Leaks:
    The seeds of a round open the sum over its survivors and nothing else: a pair key, and the
    seeds of other rounds, do not follow from them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cipherdag.errors import CohortError, OpeningRefusedError, ReplayError, ShareError
from cipherdag.privacy.keystream import apply_masks
from cipherdag.privacy.pairkeys import KEY_BYTES, PairKey
from cipherdag.privacy.sealing import seal, unseal
from cipherdag.privacy.secrecy import Secret
from cipherdag.privacy.secretsharing import SECRET_BYTES, check_share, combine, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.privacy.aggregation import Declaration, WordVector
    from cipherdag.privacy.residues import Moduli

_POSITION_BYTES = 4
_ENTRY_BYTES = _POSITION_BYTES + SECRET_BYTES
_PURPOSE = b"self mask"


class RoundMasks(Secret):
    """A site's masks: drawn once for a digest, released for one set of survivors.

    Args:
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every other position.

    Raises:
        CohortError: There is no other site, or not one key for each.
    """

    __slots__ = (
        "_declaration",
        "_escrow",
        "_index",
        "_pair_keys",
        "_self_seed",
        "_shared",
        "_survivors",
    )

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey]) -> None:
        if not pair_keys or set(pair_keys) | {index} != set(range(len(pair_keys) + 1)):
            raise CohortError("a site needs one pair key for every other site of its cohort")
        self._index = index
        self._pair_keys = dict(pair_keys)
        self._shared: set[bytes] = set()
        self._declaration: Declaration | None = None
        self._self_seed = b""
        self._escrow: tuple[bytes, ...] = ()
        self._survivors: tuple[int, ...] = ()

    @property
    def secret_size(self) -> int:
        """Of all pair keys and the seed of the current round together."""
        return KEY_BYTES * len(self._pair_keys) + len(self._self_seed)

    def check(self, declaration: Declaration) -> None:
        """Refuse a declaration that this site must not mask for.

        Raises:
            CohortError: It leaves this site out, names unknown sites, or contradicts itself.
            ReplayError: This site already masked something for its digest.
        """
        sites = declaration.sites
        if not _ascending(sites) or declaration.cohort_size != len(sites):
            raise CohortError("the declaration is for a cohort of another size or order")
        if self._index not in sites or not set(sites) <= {self._index, *self._pair_keys}:
            raise CohortError("the declaration leaves this site out or names an unknown one")
        if not 1 <= declaration.threshold < len(sites):
            raise CohortError("no number of other sites could recover this site's mask")
        if declaration.digest in self._shared:
            raise ReplayError("this question was answered before; a mask is never used twice")

    def mask(
        self, words: WordVector, lengths: Sequence[int], moduli: Moduli, declaration: Declaration
    ) -> None:
        """Mask words in place for a new digest; the seed of the digest before is forgotten.

        Args:
            words: Residues, plane after plane.
            lengths: Number of words of each plane.
            moduli: Modulus of each plane.
            declaration: What they are for.

        Raises:
            CohortError: As `check`.
            ReplayError: As `check`.

        Leaks:
            Nothing: every masked word is uniform, whatever it was before.
        """
        self.check(declaration)
        self._shared.add(declaration.digest)
        self._declaration = declaration
        self._self_seed = os.urandom(SECRET_BYTES)
        self._escrow, self._survivors = (), ()
        peers = [peer for peer in declaration.sites if peer != self._index]
        seeds = {peer: self._pair_seed(peer, declaration) for peer in peers}
        apply_masks(
            words,
            lengths,
            moduli,
            added=[self._self_seed, *(seeds[peer] for peer in peers if peer > self._index)],
            subtracted=[seeds[peer] for peer in peers if peer < self._index],
        )

    def escrow(self, declaration: Declaration) -> tuple[bytes, ...]:
        """A sealed piece of b_i for each of the other sites asked, in their order.

        Asked again it returns the same pieces.

        Raises:
            OpeningRefusedError: The question is not the last one.

        Leaks:
            Nothing to fewer than ``declaration.threshold`` of the other sites together.
        """
        self._require_current(declaration)
        if not self._escrow:
            peers = [peer for peer in declaration.sites if peer != self._index]
            points = [peer + 1 for peer in peers]
            pieces = split(self._self_seed, points, declaration.threshold)
            bound_to = declaration.digest + _position(self._index)
            self._escrow = tuple(
                seal(self._pair_keys[peer], _PURPOSE, piece, bound_to + _position(peer))
                for peer, piece in zip(peers, pieces, strict=True)
            )
        return self._escrow

    def unmask(self, survivors: Sequence[int], declaration: Declaration) -> bytes:
        """This site's seeds that the sum over the survivors needs.

        Asked again for the same survivors it returns the same bytes.

        Args:
            survivors: Positions that the sum covers, ascending; all of them agreed to it.
            declaration: What this site shared last.

        Returns:
            b_i, then for every dropped site its position and s_id, ascending.

        Raises:
            OpeningRefusedError: The question is not the last one, the survivors are not a part of
                the sites asked that includes this site and another, or others were agreed before.

        Leaks:
            With all other survivors' seeds, the sum over the survivors.
        """
        self._require_current(declaration)
        chosen = tuple(survivors)
        if not _ascending(chosen) or not {self._index} < set(chosen) <= set(declaration.sites):
            raise OpeningRefusedError(
                "the survivors are not a part of the sites asked that has this site and another"
            )
        if self._survivors and self._survivors != chosen:
            raise OpeningRefusedError("seeds were released for other survivors before")
        self._survivors = chosen
        dropped = [site for site in declaration.sites if site not in chosen]
        pairs = [_position(site) + self._pair_seed(site, declaration) for site in dropped]
        return self._self_seed + b"".join(pairs)

    def recover(self, vanished: int, piece: bytes, declaration: Declaration) -> bytes:
        """This site's piece of the self mask of a survivor that left before it released it.

        Args:
            vanished: Position of that survivor.
            piece: What it had sealed for this site.
            declaration: What this site shared last.

        Returns:
            A share of `secretsharing`, 66 bytes.

        Raises:
            OpeningRefusedError: This site released no seeds for this question yet, or the site is
                not another one among its survivors.
            KeyAgreementError: The piece was altered, or sealed for another site or question.
            ShareError: The site had sealed something else.

        Leaks:
            With ``declaration.threshold - 1`` others' pieces, the b that the sum needs anyway.
        """
        if vanished == self._index or vanished not in self.agreed(declaration):
            raise OpeningRefusedError("only the mask of another survivor is ever recovered")
        bound_to = declaration.digest + _position(vanished) + _position(self._index)
        share = unseal(self._pair_keys[vanished], _PURPOSE, piece, bound_to)
        check_share(share)
        return share

    def agreed(self, declaration: Declaration) -> tuple[int, ...]:
        """The survivors that this site released its seeds for.

        Raises:
            OpeningRefusedError: There are none yet, or the question is not the last one.
        """
        self._require_current(declaration)
        if not self._survivors:
            raise OpeningRefusedError("this site released no seeds for this question yet")
        return self._survivors

    def _require_current(self, declaration: Declaration) -> None:
        if self._declaration is None or declaration != self._declaration:
            raise OpeningRefusedError("this is not the question that the site answered last")

    def _pair_seed(self, peer: int, declaration: Declaration) -> bytes:
        return self._pair_keys[peer].derive(b"round", declaration.digest)


def strip_masks(
    words: WordVector,
    lengths: Sequence[int],
    moduli: Moduli,
    *,
    seeds: Mapping[int, bytes],
    declaration: Declaration,
) -> None:
    """Take from a sum over survivors, in place, the masks that do not cancel in it.

    Args:
        words: The sum of the survivors' masked words, reduced, plane after plane.
        lengths: Number of words of each plane.
        moduli: Modulus of each plane.
        seeds: What each survivor's `RoundMasks.unmask` returned, by position.
        declaration: What was shared.

    Raises:
        ShareError: The survivors are none or were not asked, or a survivor's seeds are malformed
            or for other survivors.

    Leaks:
        The sum over the survivors, to whoever has all their seeds.
    """
    survivors = check_positions(seeds, declaration)
    dropped = [site for site in declaration.sites if site not in seeds]
    added, subtracted = [], []
    for survivor in survivors:
        own, pairs = _read_seeds(seeds[survivor], survivor, dropped)
        subtracted.append(own)
        subtracted += [seed for site, seed in pairs.items() if site > survivor]
        added += [seed for site, seed in pairs.items() if site < survivor]
    apply_masks(words, lengths, moduli, added=added, subtracted=subtracted)


def rebuild_seeds(pieces: Mapping[int, bytes], declaration: Declaration) -> bytes:
    """The seeds of a survivor that left, from the pieces that others recovered, by position.

    They are complete if every site asked is a survivor; the pair seeds with a dropped site are
    lost, and `strip_masks` refuses the seeds without them.

    Raises:
        ShareError: There are fewer pieces than the threshold, or one is malformed or altered.

    Leaks:
        The b of that site, which the sum over the survivors needs.
    """
    check_positions(pieces, declaration)
    return combine(
        {position + 1: piece for position, piece in pieces.items()}, declaration.threshold
    )


def check_positions(given: Mapping[int, bytes], declaration: Declaration) -> tuple[int, ...]:
    """The positions of what was given, ascending; ShareError if none, or one was not asked."""
    positions = tuple(sorted(given))
    if not positions or not set(positions) <= set(declaration.sites):
        raise ShareError("nothing came, or something of a site that was not asked")
    return positions


def _read_seeds(
    content: bytes, survivor: int, dropped: Sequence[int]
) -> tuple[bytes, dict[int, bytes]]:
    """The b of a survivor, and its s by dropped site; raises ShareError."""
    if len(content) != SECRET_BYTES + _ENTRY_BYTES * len(dropped):
        raise ShareError(f"the seeds of site {survivor} are cut short, too long or incomplete")
    pairs = {}
    for count, site in enumerate(dropped):
        start = SECRET_BYTES + _ENTRY_BYTES * count
        if content[start : start + _POSITION_BYTES] != _position(site):
            raise ShareError(f"the seeds of site {survivor} are for other survivors")
        pairs[site] = content[start + _POSITION_BYTES : start + _ENTRY_BYTES]
    return content[:SECRET_BYTES], pairs


def _position(site: int) -> bytes:
    return site.to_bytes(_POSITION_BYTES, "big")


def _ascending(positions: Sequence[int]) -> bool:
    return list(positions) == sorted(set(positions))
