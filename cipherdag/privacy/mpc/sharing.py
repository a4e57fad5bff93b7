"""What sites and the dealer of a batch hand out: parts of vectors, and correlated randomness.

A site's vector has three parts, so that no two roles have any site's numbers:

    vector = first + dealt + rest      every word modulo the 2^k of its ring

The first part follows from a seed that goes to the first holder, the second from a seed that goes
to the dealer and its twin, and the rest goes to the second holder. So the holders' parts add up to
the sum of the sites' vectors less the dealt parts.

A test is true where one of its comparisons is: where a quadratic form F(x) + constant of the sums
x is positive (`predicates`). The dealer knows the sum t of the dealt parts, so also F(t). For every
comparison holders draw shares of a uniform v, and open F(x) + constant - 1 + r with

    r = v - F(t)

(see `holding`). So comparisons have independent masks, even where they share words, and nobody
needs shares of the products of dealt parts. The dealt keys of r (`payloads`) turn what was opened
into shares of the test's step where the form is positive, else of 0. A test's label grows by these
steps. All that a holder draws follows from its seed, which the dealer knows; so the dealer sends
keys, a correction of the first holder's shares of t, and hashes of the labels. A twin that has the
same seeds deals the same, bit by bit: it sends both holders a digest.

Leaks:
    Any two of a vector's parts say nothing; all three add up to it. The commitment says nothing of
    a random seed. The common part and one holder's seed say nothing of t, r or the labels. The
    dealer sees no number of a site but through parts that are uniform; it must never
    see a masked sum or a label.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import IntegerVector, WordMatrix, WordVector
from cipherdag.errors import BoundExceededError, ParameterError
from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, encode_position, expand
from cipherdag.privacy.keystream import Keystream
from cipherdag.privacy.mpc.batch import Batch
from cipherdag.privacy.mpc.payloads import FLAGS, Blocks, deal_payloads
from cipherdag.privacy.mpc.words import WORD_BYTES, RandomBytes, form_values, label_list, low_bits
from cipherdag.privacy.secrecy import Secret
from cipherdag.privacy.wire import same_digest, transcript

_PART = b"part of a vector"


@dataclass(slots=True, repr=False, eq=False)
class Parts(Secret):
    """The three parts of one site's vector.

    Seeds of the first holder's part, and of the dealer's and its twin's; the rest, packed words.
    """

    first: bytes
    dealt: bytes
    rest: bytes


def split_vector(batch: Batch, values: IntegerVector, random_bytes: RandomBytes) -> Parts:
    """The parts of a site's vector.

    Values are whole numbers, shape (words,). A caller keeps each within what its rows can say, so
    that the sums of all sites keep their bounds. Raises ParameterError where there is not one whole
    number for every word, and BoundExceededError where a number is beyond what the sum over all
    sites may reach.
    """
    check_words(values, batch.predicates)
    first, dealt = random_bytes(KEY_BYTES), random_bytes(KEY_BYTES)
    rest = values.view(np.uint64) - part_words(batch, first) - part_words(batch, dealt)
    return Parts(first, dealt, batch.vector.pack(rest))


def check_words(values: IntegerVector, predicates: Predicates) -> None:
    """Refuse a site's vector that does not fit what is asked of sums, as `split_vector` does."""
    if values.dtype != np.int64 or values.shape != predicates.lowest.shape:
        raise ParameterError("a site's vector has one whole number for every word of the batch")
    if (values < predicates.lowest).any() or (values > predicates.highest).any():
        raise BoundExceededError("a number of this site is beyond what all sites may add up to")


def part_words(batch: Batch, seed: bytes) -> WordVector:
    """The part that follows from a seed, uniform words, shape (words,)."""
    key = expand(seed, _PART, batch.digest)
    return Keystream(key).words(batch.predicates.n_words)


def commitment(batch: Batch, site: int, seed: bytes) -> bytes:
    """A site's commitment to its seed for the dealer and the twin, 32 bytes."""
    parts = batch.digest, encode_position(site), seed
    return hashlib.sha256(transcript(b"cipherdag dealt part", *parts)).digest()


def commits_to(said: bytes, batch: Batch, site: int, seed: bytes) -> bool:
    """Whether a commitment is that of a seed."""
    return same_digest(said, commitment(batch, site, seed))


HOLDERS = (0, 1)
_ONE = np.uint64(1)


class HolderDraws(Secret):
    """A holder's draws from its seed; steps add up to odd ones, so labels of a test differ.

    Attributes:
        roots: Root seeds of its keys, shape (comparisons, 2).
        masks: Shares of v, shape (comparisons,).
        dealt: Shares of t, without the dealer's correction, shape (multiplied words,).
        steps: Shares of what a comparison that holds adds to its test's label, shape (tests,).
        labels: Shares of every test's label of 0, shape (tests,).
        reach: Share of the batch's label that says that all sums are in range, shape (1,).
    """

    __slots__ = ("dealt", "labels", "masks", "reach", "roots", "steps")

    def __init__(self, batch: Batch, seed: bytes, holder: int) -> None:
        predicates = batch.predicates
        count, tests = predicates.n_comparisons, predicates.n_tests
        sizes = (2 * count, count, batch.multiplied.size, tests, tests, 1)
        key = expand(seed, b"draws of a holder", batch.digest)
        words = Keystream(key).words(sum(sizes))
        parts = np.split(words, np.cumsum(sizes)[:-1])
        self.roots: Blocks = parts[0].reshape(count, 2) & ~np.array([FLAGS, 0], dtype=np.uint64)
        self.masks, self.dealt, steps, self.labels, self.reach = parts[1:]
        self.steps: WordVector = steps & ~_ONE if holder else steps | _ONE


class Dealt(Secret):
    """A deal: a part that anyone may read, and a seed for each holder."""

    __slots__ = ("common", "digest", "seeds")

    def __init__(self, common: bytes, seeds: tuple[bytes, bytes]) -> None:
        self.common = common
        self.digest = hashlib.sha256(common).digest()
        self.seeds = seeds

    def check(self, batch: Batch, holder: int) -> bytes:
        """The digest of the deal that the twin sends a holder, 32 bytes."""
        return deal_digest(batch, holder, self.seeds[holder], self.digest)


def deal_batch(batch: Batch, seed: bytes, site_seeds: Iterable[bytes]) -> Dealt:
    """Everything that is dealt for a batch, the same at the dealer and its twin.

    ``seed`` is the dealer's, 32 fresh random bytes; ``site_seeds`` are those of the dealt parts.
    One holder's seed says nothing; both together give all labels and masks.
    """
    first, second = (expand(seed, b"seed of a holder", batch.digest, bytes([i])) for i in HOLDERS)
    draws = HolderDraws(batch, first, 0), HolderDraws(batch, second, 1)
    dealt = sum_of_parts(batch, (part_words(batch, each) for each in site_seeds))
    masks = draws[0].masks + draws[1].masks - form_values(batch.predicates, dealt)
    steps = draws[0].steps + draws[1].steps
    roots = np.stack([holder.roots for holder in draws])
    correction = dealt[batch.multiplied] - draws[0].dealt - draws[1].dealt
    common = b"".join([
        _keys(batch, masks, roots, steps[batch.test_of]),
        batch.factors.pack(correction),
        label_list(
            batch.label_hash,
            batch.predicates.sizes,
            draws[0].labels + draws[1].labels,
            steps,
            draws[0].reach + draws[1].reach,
        ),
    ])  # fmt: skip
    return Dealt(common, (first, second))


def sum_of_parts(batch: Batch, parts: Iterable[WordVector]) -> WordVector:
    """The sum of the sites' parts, modulo 2**64."""
    total = np.zeros(batch.predicates.n_words, dtype=np.uint64)
    for part in parts:
        total += part
    return total


def deal_digest(batch: Batch, holder: int, seed: bytes, dealt: bytes) -> bytes:
    """Digest of all that a holder was dealt, 32 bytes, from SHA-256 of the common part."""
    parts = batch.digest, bytes([holder]), seed, dealt
    return hashlib.sha256(transcript(b"cipherdag secure deal", *parts)).digest()


class CommonPart:
    """The part of a deal that was sent in the clear, as it is read.

    The content is as long as ``batch.dealt_bytes``: words that both holders' keys have in common,
    what the first holder adds to its shares of t, and hashes of labels. Raises
    MalformedMessageError where a correction is not reduced.
    """

    __slots__ = ("correction", "keys", "labels")

    def __init__(self, batch: Batch, content: bytes) -> None:
        first, end = batch.key_bytes, batch.key_bytes + batch.factors.n_bytes
        keys = np.frombuffer(content, "<u8", first // WORD_BYTES)
        self.keys: WordVector = keys.astype(np.uint64, copy=False)
        self.correction = batch.factors.unpack(content[first:end])
        self.labels = content[end:]


def _keys(batch: Batch, masks: WordVector, roots: Blocks, payloads: WordVector) -> bytes:
    reduced, top = split_top(masks, batch.widths)
    # a form is positive where the masked sum's top bit, r's and the borrow have an even sum
    keys = deal_payloads(batch.tree_hash, batch.widths - 1, reduced, roots, payloads, top)
    return keys.astype("<u8", copy=False).tobytes()


def split_top(words: WordMatrix, widths: IntegerVector) -> tuple[WordMatrix, WordMatrix]:
    """The lower ``width - 1`` bits of every word, and the one above these."""
    return words & low_bits(widths - 1), words >> (widths - 1).view(np.uint64) & _ONE
