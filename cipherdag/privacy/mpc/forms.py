"""The forms of a batch's tests in shares: modulo 2**64, which is a homomorphism to any ring of it.

Leaks:
    Nothing: a party computes them of its own shares.
"""

from __future__ import annotations

import hashlib

import numpy as np

from cipherdag.arrays import IntegerMatrix, WordVector
from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.keyed import transcript


def predicates_digest(predicates: Predicates) -> bytes:
    """SHA-256 over all of them."""
    return hashlib.sha256(transcript(b"cipherdag predicates", *predicates.packed)).digest()


def form_values(predicates: Predicates, words: WordVector) -> WordVector:
    """Every form without its constant, modulo 2**64, shape (comparisons,)."""
    quadratic = predicates.quadratic
    products = words[quadratic[:, 1]] * words[quadratic[:, 2]]
    return summed(predicates, quadratic, products) + linear_values(predicates, words)


def linear_values(predicates: Predicates, words: WordVector) -> WordVector:
    """The linear terms of every form, modulo 2**64, shape (comparisons,)."""
    return summed(predicates, predicates.linear, words[predicates.linear[:, 1]])


def summed(predicates: Predicates, terms: IntegerMatrix, factors: WordVector) -> WordVector:
    """Coefficients times factors of some terms, added up by comparison, modulo 2**64."""
    total = np.zeros(predicates.n_comparisons, dtype=np.uint64)
    if len(terms):
        owner = terms[:, 0]
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        total[owner[first]] = np.add.reduceat(terms[:, -1].view(np.uint64) * factors, first)
    return total
