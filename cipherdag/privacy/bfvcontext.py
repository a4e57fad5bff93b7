"""BFV keys and ciphertexts: the one file that touches TenSEAL.

TenSEAL is silent about inputs beyond the plaintext modulus, keys that do not match, empty bytes
and vectors longer than a ciphertext; and altered bytes can end the process that reads them. So
keys and ciphertexts travel as their coefficients alone, which are checked one by one; a site then
writes TenSEAL's format around them. The coordinator adds coefficients without TenSEAL.

Leaks:
    The number of ciphertexts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cipherdag.arrays import WordMatrix, WordVector
from cipherdag.errors import ProtectionError, ShareError
from cipherdag.privacy.homomorphic_mac import ROW_WORDS
from cipherdag.privacy.residues import Moduli, add, to_signed
from cipherdag.privacy.secrecy import Secret, drawn

MAX_SITES = 100  # largest cohort that the noise budget is tested for
PLAINTEXT_MODULI: Moduli = (68719403009, 68719230977, 68719206401)
"""Plaintext primes, 1 modulo 8192, so that a ciphertext holds 4096 residues."""

_DEGREE = ROW_WORDS
_PRIMES = (18014398509309953, 36028797018652673)
"""Coefficient primes, the last one for key switching: 109 bits together, which with ring degree
4096 is 128 bits of security (Homomorphic Encryption Standard, 2018, table 1)."""
_WIDTH = 7  # bytes of a coefficient
_CIPHERTEXT, _KEY = (_PRIMES[0],) * 2, _PRIMES
"""The primes of the polynomials of a ciphertext and of a secret key."""
_BUDGET_BITS = 5
# what TenSEAL and SEAL raise on keys and ciphertexts that they cannot use
_UNREADABLE = (ValueError, RuntimeError, IndexError, OverflowError, MemoryError)


class BfvContext(Secret):
    """The sites' secret keys, one for each plaintext prime: one site makes and seals them."""

    __slots__ = ("_contexts",)

    opened_by_site = True
    moduli = PLAINTEXT_MODULI

    def __init__(self, contexts: Sequence[Any]) -> None:
        self._contexts = tuple(contexts)
        for context, modulus in zip(self._contexts, PLAINTEXT_MODULI, strict=True):
            _check_noise(context, modulus)

    @classmethod
    def generate(cls) -> BfvContext:
        """Fresh keys, with 5 bits of noise budget after 100 additions; or a ProtectionError."""
        return cls([_fresh(modulus) for modulus in PLAINTEXT_MODULI])

    @classmethod
    def from_secret_bytes(cls, content: bytes) -> BfvContext:
        """Undo `secret_bytes`; raises ShareError, and ProtectionError as `generate` does."""
        keys = _coefficients(content, _KEY, len(PLAINTEXT_MODULI))
        fresh = (_fresh(modulus) for modulus in PLAINTEXT_MODULI)
        return cls([_with_key(context, key) for context, key in zip(fresh, keys, strict=True)])

    def secret_bytes(self) -> bytes:
        """The secret keys: they leave a site only sealed for another site."""
        keys = (context.secret_key().data.data() for context in self._contexts)
        return b"".join(_packed(key, _KEY) for key in keys)

    def write(self, words: WordVector, lengths: Sequence[int]) -> bytes:
        """Encrypt residues, plane after plane, of these lengths; 4096 of them make 57 kB."""
        return drawn(lambda: self._encrypted(words, lengths))

    def _encrypted(self, words: WordVector, lengths: Sequence[int]) -> bytes:
        tenseal = _tenseal()
        ciphertexts = []
        start = 0
        for plane, size in _rows(lengths):
            residues = to_signed(words[start : start + size], PLAINTEXT_MODULI[plane])
            (ciphertext,) = tenseal.bfv_vector(self._contexts[plane], residues).ciphertext()
            ciphertexts.append(_packed(ciphertext, _CIPHERTEXT))
            start += size
        return b"".join(ciphertexts)

    def read(self, content: bytes, lengths: Sequence[int]) -> WordVector:
        """Decrypt what `write` encrypted, under another key to noise; ShareError for odd bytes."""
        rows = list(_rows(lengths))
        ciphertexts = _coefficients(content, _CIPHERTEXT, len(rows))
        words = np.zeros(sum(lengths), dtype=np.uint64)
        start = 0
        for (plane, size), ciphertext in zip(rows, ciphertexts, strict=True):
            residues = np.array(_vector(self._contexts[plane], ciphertext, size).decrypt())
            words[start : start + size] = residues.astype(np.int64) % PLAINTEXT_MODULI[plane]
            start += size
        return words


class BfvCiphertexts:
    """The coordinator's end: it adds ciphertexts, has no key, and does not need TenSEAL."""

    opened_by_site = True
    moduli = PLAINTEXT_MODULI

    def check(self, share: bytes, lengths: Sequence[int]) -> None:
        """Raise ShareError for ciphertexts cut short, or with a coefficient that is not reduced."""
        _coefficients(share, _CIPHERTEXT, len(list(_rows(lengths))))

    def add(self, shares: Mapping[int, bytes], lengths: Sequence[int]) -> bytes:
        """The sum of encrypted residues of these plane lengths; a ShareError names a bad share."""
        count = len(list(_rows(lengths)))
        total = np.zeros((count, len(_CIPHERTEXT) * _DEGREE), dtype=np.uint64)
        for position, share in sorted(shares.items()):
            try:
                add(total, _coefficients(share, _CIPHERTEXT, count), _CIPHERTEXT[0])
            except ShareError as error:
                raise ShareError(f"share {position}: {error.message}") from None
        return _bytes(total)


def _tenseal() -> Any:
    try:
        import tenseal
        import tenseal.sealapi  # registers the type of the parameters' primes
    except ImportError:
        raise ProtectionError(
            "homomorphic encryption needs TenSEAL, which is not installed",
            remedy="Run `pip install 'cipherdag[bfv]'`, or choose masking.",
        ) from None
    return tenseal


def _check_noise(context: Any, modulus: int) -> None:
    """Add the largest cohort's worth of ciphertexts, then use up the spare budget, and open."""
    tenseal = _tenseal()
    half = modulus // 2
    row = np.linspace(-half, half, _DEGREE).astype(np.int64)
    copies = MAX_SITES << _BUDGET_BITS
    try:
        doubled = tenseal.bfv_vector(context, row)
        total = doubled
        for bit in bin(copies)[3:]:
            total = total + total
            if bit == "1":
                total = total + doubled
        opened = np.array(total.decrypt(), dtype=np.int64)
    except _UNREADABLE:
        raise ProtectionError("a BFV context cannot encrypt and decrypt") from None
    expected = [(copies * residue + half) % modulus - half for residue in row.tolist()]
    if opened.tolist() != expected:
        raise ProtectionError("a BFV context leaves too little noise budget")


def _fresh(modulus: int) -> Any:
    """A TenSEAL context with keys of its own."""
    tenseal = _tenseal()
    context = tenseal.context(
        tenseal.SCHEME_TYPE.BFV,
        poly_modulus_degree=_DEGREE,
        plain_modulus=modulus,
        coeff_mod_bit_sizes=[prime.bit_length() for prime in _PRIMES],
        encryption_type=tenseal.ENCRYPTION_TYPE.SYMMETRIC,
        n_threads=1,
    )
    primes = context.seal_context().data.key_context_data().parms().coeff_modulus()
    if tuple(int(prime.value()) for prime in primes) != _PRIMES:
        raise ProtectionError("this version of TenSEAL has other coefficient primes")
    return context


def _with_key(context: Any, key: WordVector) -> Any:
    """A context of the same parameters with this secret key."""
    level = struct.pack("<4Q", *context.seal_context().data.key_parms_id())
    body = level + struct.pack("<Qd", key.size, 1.0) + _array(context, key)
    fields = _parameters(context) + _field(3, _field(1, _framed(context, body)))
    try:
        return _tenseal().context_from(fields, n_threads=1)
    except _UNREADABLE:
        raise ProtectionError("TenSEAL cannot read a BFV key") from None


def _vector(context: Any, ciphertext: WordVector, size: int) -> Any:
    """A ciphertext as TenSEAL's vector of ``size`` residues; raises ShareError."""
    level = struct.pack("<4Q", *context.seal_context().data.first_parms_id())
    # not transformed, two polynomials, of this degree, one prime, scale, correction factor
    form = struct.pack("<?QQQdQ", False, 2, _DEGREE, 1, 1.0, 1)
    body = level + form + _array(context, ciphertext)
    fields = _field(1, _varint(size)) + _field(2, _framed(context, body))
    try:
        return _tenseal().bfv_vector_from(context, fields)
    except _UNREADABLE:
        raise ShareError("a ciphertext cannot be read") from None


def _array(context: Any, coefficients: WordVector) -> bytes:
    content = coefficients.astype("<u8").tobytes()
    return _framed(context, struct.pack("<Q", coefficients.size) + content)


def _framed(context: Any, body: bytes) -> bytes:
    """SEAL's header of 16 bytes and the body, not compressed."""
    ours = _parameters(context)
    kind = ours[2:7]  # of any SEAL object, here the parameters: magic, size of a header, version
    return kind + struct.pack("<BHQ", 0, 0, 16 + len(body)) + body


def _parameters(context: Any) -> bytes:
    """A context without keys, as TenSEAL writes it."""
    return context.serialize(
        save_public_key=False, save_secret_key=False, save_galois_keys=False, save_relin_keys=False
    )


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes in a protocol buffer, which TenSEAL packs its objects in."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last byte have the highest bit set."""
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _size(primes: Sequence[int]) -> int:
    return len(primes) * _DEGREE * _WIDTH


def _packed(polynomials: Any, primes: Sequence[int]) -> bytes:
    """The coefficients of an object of SEAL, which holds polynomial after polynomial."""
    count = len(primes) * _DEGREE
    return _bytes(np.fromiter(map(polynomials.__getitem__, range(count)), np.uint64, count))


def _bytes(coefficients: WordVector | WordMatrix) -> bytes:
    digits = coefficients.astype("<u8").reshape(-1, 1).view(np.uint8)
    return digits[:, :_WIDTH].tobytes()


def _coefficients(content: bytes, primes: Sequence[int], count: int) -> WordMatrix:
    """The coefficients of ``count`` keys or ciphertexts, a row each; raises ShareError."""
    if len(content) != count * _size(primes):
        raise ShareError("the bytes are not as many ciphertexts or keys as declared")
    digits = np.zeros((len(content) // _WIDTH, 8), dtype=np.uint8)
    digits[:, :_WIDTH] = np.frombuffer(content, dtype=np.uint8).reshape(-1, _WIDTH)
    coefficients = digits.view("<u8").reshape(count, len(primes) * _DEGREE).astype(np.uint64)
    if (coefficients >= np.repeat(np.array(primes, dtype=np.uint64), _DEGREE)).any():
        raise ShareError("altered: a coefficient is not reduced")
    return coefficients


def _rows(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The plane of each ciphertext and how many residues it holds."""
    for plane, length in enumerate(lengths):
        for start in range(0, length, _DEGREE):
            yield plane, min(_DEGREE, length - start)
