"""The arithmetic of a holder (computing party): both holders open E, then D, then the labels Y.

With x the sums of the sites' vectors, t the sum of the dealt parts, and X_0 + X_1 = x - t the sums
of the parts that the holders have:

    E = X_0 + X_1, of every word that is multiplied
    D = F(E) + constant - 1 + products of E and t + v = F(x) + constant - 1 + r    (r of `sharing`)
    Y = L + (comparisons that hold) * step, of every test; and the batch's label of the range

where a product x_i x_j is E_i E_j + E_i t_j + E_j t_i + t_i t_j; r has its last term. The
highest bit of D - r is that of D, xor r's, xor [D's lower bits < r's]; the keys yield the last two
times the step. At D + 2^(k-2) the same keys say whether D - r lies in the middle half of its ring.

A holder answers each opening once. One that answers for two values of E would show 2 t, and with E
all sums: so an object of this class lives in memory alone, is not copied, and never goes back.

Leaks:
    To each holder E, D and Y, which are uniform whatever the sums are, and the bits.
"""

import numpy as np

from cipherdag.arrays import BoolVector, WordVector
from cipherdag.errors import MalformedMessageError, SpentKeyError
from cipherdag.privacy.mpc.batch import Batch
from cipherdag.privacy.mpc.payloads import evaluate_payloads
from cipherdag.privacy.mpc.sharing import CommonPart, HolderDraws, split_top
from cipherdag.privacy.mpc.words import WORD_BYTES, linear_values, product_values, read_labels
from cipherdag.privacy.secrecy import Secret

_ONE = np.uint64(1)


def label_bytes(batch: Batch) -> int:
    """Length of a holder's shares of all labels."""
    return WORD_BYTES * (batch.predicates.n_tests + 1)


class Holding(Secret):
    """One holder's shares of one batch; `mask`, `square`, `compare` and `open` follow in turn.

    ``parts`` is the sum of the sites' parts for this holder, words, shape (words,). A word or label
    that is missing or not reduced raises MalformedMessageError.
    """

    __slots__ = (
        "_batch", "_common", "_draws", "_forms", "_labels", "_multiplied", "_parts", "_second",
        "_stage",
    )  # fmt: skip

    def __init__(self, batch: Batch, holder: int, parts: WordVector) -> None:
        self._batch = batch
        self._second = bool(holder)
        self._parts = parts
        self._stage = 0

    def mask(self) -> bytes:
        """This holder's share of E, packed."""
        self._once(0)
        self._multiplied = self._parts[self._batch.multiplied]
        return self._batch.factors.pack(self._multiplied)

    def square(self, other: bytes, seed: bytes, common: bytes) -> bytes:
        """This holder's share of D, packed.

        ``other`` is the other holder's share of E, ``seed`` what the dealer sealed for this holder,
        ``common`` what the dealer sent in the clear.
        """
        self._once(1)
        batch, predicates = self._batch, self._batch.predicates
        if len(common) != batch.dealt_bytes:
            raise MalformedMessageError("the keys of secure tests are cut short or too long")
        masked = self._multiplied + batch.factors.unpack(other)
        self._draws = draws = HolderDraws(batch, seed, int(self._second))
        self._common = CommonPart(batch, common)
        dealt = draws.dealt if self._second else draws.dealt + self._common.correction
        factors = np.zeros((2, predicates.n_words), dtype=np.uint64)
        factors[:, batch.multiplied] = masked, dealt
        (opened, shared), (others, others_shared) = (
            factors[:, predicates.quadratic[:, factor]] for factor in (1, 2)
        )
        crossed = opened * others_shared + others * shared
        if not self._second:
            crossed += opened * others
        forms = product_values(predicates, crossed) + draws.masks
        forms += linear_values(predicates, self._parts)
        if not self._second:
            forms += (predicates.constants - 1).view(np.uint64)
        self._forms = forms
        return batch.forms.pack(forms)

    def compare(self, other: bytes) -> bytes:
        """This holder's shares of all labels, the range's last, from the other's share of D."""
        self._once(2)
        batch = self._batch
        holding, beyond = self._compared(self._forms + batch.forms.unpack(other))
        labels = self._draws.labels + np.add.reduceat(holding, batch.predicates.starts)
        reach = self._draws.reach + beyond.sum(dtype=np.uint64)
        self._labels = np.concatenate([labels, reach])
        return self._labels.astype("<u8", copy=False).tobytes()

    def open(self, other: bytes) -> BoolVector:
        """The bits, shape (tests,), from the other's shares of labels; raises as `read_labels`."""
        self._once(3)
        batch = self._batch
        if len(other) != label_bytes(batch):
            raise MalformedMessageError("shares of labels are cut short or too long")
        labels = self._labels + np.frombuffer(other, dtype="<u8")
        sizes, dealt = batch.predicates.sizes, self._common.labels
        return read_labels(batch.label_hash, sizes, dealt, labels[:-1], labels[-1:])

    def _compared(self, masked: WordVector) -> tuple[WordVector, WordVector]:
        """Shares of each comparison's step, or of 0: if it holds; if its form is out of range."""
        batch, steps = self._batch, self._draws.steps[self._batch.test_of]
        middle = _ONE << (batch.widths - 2).view(np.uint64)
        points, tops = split_top(np.stack([masked, masked + middle]), batch.widths)
        words = evaluate_payloads(
            batch.tree_hash, batch.widths - 1, self._draws.roots, self._common.keys, points,
            second=self._second,
        )  # fmt: skip
        # the keys yield the step where r's top bit and the borrow differ
        turned = steps - words
        top = tops.astype(bool)
        return np.where(top[0], words[0], turned[0]), np.where(top[1], turned[1], words[1])

    def _once(self, stage: int) -> None:
        """Raise SpentKeyError unless this is the next step; a step that fails is not repeated."""
        if self._stage != stage:
            self._stage = -1
            raise SpentKeyError("a computing party was asked out of turn, or twice")
        self._stage = stage + 1
