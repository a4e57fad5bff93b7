"""BFV keys, parameters and ciphertexts: the one file that touches TenSEAL.

TenSEAL is silent about inputs beyond the plaintext modulus, keys that do not match, empty bytes
and vectors longer than a ciphertext. Here every input is reduced, cut to ciphertexts, parsed
strictly and checked, and only reviewed parameters are ever used.

Leaks:
    Ciphertexts show their number; `BfvContext.public_bytes` carries no key of any kind.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cipherdag.arrays import WordVector
from cipherdag.errors import ProtectionError, ShareError
from cipherdag.privacy.draws import drawn
from cipherdag.privacy.homomorphic_mac import ROW_WORDS
from cipherdag.privacy.residues import Moduli, to_signed
from cipherdag.privacy.secrecy import Secret

MAX_SITES = 100
"""Largest cohort that the noise budget is tested for."""

_DEGREE = ROW_WORDS
_BUDGET_BITS = 5
_MAGIC = b"cdBFV\x00\x00\x01"
_MAX_PART_BYTES = 128 * 1024
# what TenSEAL and SEAL raise on bytes that they cannot read
_UNREADABLE = (ValueError, RuntimeError, IndexError, OverflowError, MemoryError)


@dataclass(frozen=True, slots=True)
class BfvParameters:
    """A parameter set of ring degree 4096 with at least 128 bits of security.

    Attributes:
        coefficient_bits: Sizes of the coefficient primes, the last one for key switching; at most
            109 bits together (Homomorphic Encryption Standard, 2018, table 1).
        moduli: Plaintext primes = 1 mod 8192, so that a ciphertext holds 4096 residues.
    """

    coefficient_bits: tuple[int, ...]
    moduli: Moduli


DEFAULT_PARAMETERS = BfvParameters((54, 55), (68719403009, 68719230977, 68719206401))
HIGH_PRECISION_PARAMETERS = BfvParameters((36, 36, 37), (18014398509309953, 18014398509293569))
REVIEWED_PARAMETERS = (DEFAULT_PARAMETERS, HIGH_PRECISION_PARAMETERS)


class BfvContext(Secret):
    """The sites' shared secret keys, one for each plaintext prime.

    One site makes it with `generate` and seals `secret_bytes` for the others.
    """

    __slots__ = ("_contexts", "moduli", "parameters")

    opened_by_site = True

    def __init__(self, parameters: BfvParameters, contexts: Sequence[Any]) -> None:
        self.parameters = parameters
        self.moduli = parameters.moduli
        self._contexts = tuple(contexts)
        for context, modulus in zip(self._contexts, parameters.moduli, strict=True):
            _check_noise(context, modulus)

    @classmethod
    def generate(cls, parameters: BfvParameters = DEFAULT_PARAMETERS) -> BfvContext:
        """Fresh keys, tested to leave 5 bits of noise budget after 100 additions.

        Raises:
            ProtectionError: TenSEAL is not installed, the parameters are not reviewed ones, or
                the test fails.
        """
        if parameters not in REVIEWED_PARAMETERS:
            raise ProtectionError("these BFV parameters are not among the reviewed ones")
        tenseal = _tenseal()
        contexts = [
            tenseal.context(
                tenseal.SCHEME_TYPE.BFV,
                poly_modulus_degree=_DEGREE,
                plain_modulus=modulus,
                coeff_mod_bit_sizes=list(parameters.coefficient_bits),
                encryption_type=tenseal.ENCRYPTION_TYPE.SYMMETRIC,
                n_threads=1,
            )
            for modulus in parameters.moduli
        ]
        return cls(parameters, contexts)

    @classmethod
    def from_secret_bytes(cls, content: bytes) -> BfvContext:
        """Undo `secret_bytes`.

        Raises:
            ShareError: The bytes are not of this kind.
            ProtectionError: The parameters are not reviewed ones, a key is missing, or the noise
                test fails.
        """
        parameters, contexts = _load_contexts(content)
        if not all(context.has_secret_key() for context in contexts):
            raise ProtectionError("a BFV context for sites lacks its secret key")
        return cls(parameters, contexts)

    def secret_bytes(self) -> bytes:
        """Parameters and secret keys: they leave a site only sealed for another site."""
        return _pack([_serialized(context, secret=True) for context in self._contexts])

    def public_bytes(self) -> bytes:
        """Parameters without any key: all that the coordinator needs to add ciphertexts.

        Raises:
            ProtectionError: The bytes would carry a key; nothing is returned then.
        """
        content = _pack([_serialized(context, secret=False) for context in self._contexts])
        BfvPublicContext(content)
        return content

    @property
    def secret_size(self) -> int:
        """Number of bytes that `secret_bytes` yields."""
        return len(self.secret_bytes())

    def write(self, words: WordVector, lengths: Sequence[int]) -> bytes:
        """Encrypt residues.

        Args:
            words: Residues, plane after plane.
            lengths: Number of words in the plane of each plaintext prime.

        Returns:
            Ciphertexts of up to 4096 residues each, about 62 kB (88 kB with high precision).
        """
        return drawn(lambda: self._encrypted(words, lengths))

    def _encrypted(self, words: WordVector, lengths: Sequence[int]) -> bytes:
        tenseal = _tenseal()
        ciphertexts = []
        start = 0
        for plane, size in _rows(lengths):
            residues = to_signed(words[start : start + size], self.parameters.moduli[plane])
            ciphertexts.append(tenseal.bfv_vector(self._contexts[plane], residues).serialize())
            start += size
        return _pack(ciphertexts)

    def read(self, content: bytes, lengths: Sequence[int]) -> WordVector:
        """Decrypt what `write` encrypted; raises ShareError where the bytes are of another form.

        Bytes that were encrypted under another key decrypt to noise.
        """
        vectors = _load_vectors(content, lengths, self._contexts)
        words = np.zeros(sum(lengths), dtype=np.uint64)
        start = 0
        for (plane, size), vector in zip(_rows(lengths), vectors, strict=True):
            residues = np.array(vector.decrypt(), dtype=np.int64)
            if residues.size != size:
                raise ShareError("a ciphertext does not hold the declared number of residues")
            words[start : start + size] = residues % self.parameters.moduli[plane]
            start += size
        return words


class BfvPublicContext:
    """Parameters without keys, to add ciphertexts with.

    Args:
        content: What `BfvContext.public_bytes` yields.

    Raises:
        ProtectionError: The parameters are not reviewed ones, or the bytes carry a key.
        ShareError: The bytes are not of this kind.
    """

    __slots__ = ("_contexts", "moduli", "parameters")

    opened_by_site = True

    def __init__(self, content: bytes) -> None:
        self.parameters, self._contexts = _load_contexts(content)
        self.moduli = self.parameters.moduli
        for context in self._contexts:
            if context.has_secret_key() or context.has_galois_keys() or context.has_relin_keys():
                raise ProtectionError("a BFV context for the coordinator carries a key")

    def check(self, share: bytes, lengths: Sequence[int]) -> None:
        """Raise ShareError for ciphertexts cut short, altered or of other parameters."""
        _load_vectors(share, lengths, self._contexts)

    def add(self, shares: Mapping[int, bytes], lengths: Sequence[int]) -> bytes:
        """The sum of encrypted residues of the given plane lengths.

        Raises:
            ShareError: Naming the share that is cut short, altered or of other parameters.
        """
        totals: list[Any] = []
        for position, share in sorted(shares.items()):
            try:
                vectors = _load_vectors(share, lengths, self._contexts)
            except ShareError as error:
                raise ShareError(f"share {position}: {error.message}") from None
            for total, vector in zip(totals, vectors, strict=bool(totals)):
                total.add_(vector)
            totals = totals or vectors
        return _pack([total.serialize() for total in totals])


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


def _serialized(context: Any, *, secret: bool) -> bytes:
    return context.serialize(
        save_public_key=False,
        save_secret_key=secret,
        save_galois_keys=False,
        save_relin_keys=False,
    )


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
    if opened.tolist() != [_centred(copies * residue, modulus) for residue in row.tolist()]:
        raise ProtectionError("a BFV context leaves too little noise budget")


def _centred(whole: int, modulus: int) -> int:
    residue = whole % modulus
    return residue - modulus if residue > modulus // 2 else residue


def _rows(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    for plane, length in enumerate(lengths):
        for start in range(0, length, _DEGREE):
            yield plane, min(_DEGREE, length - start)


def _pack(parts: Sequence[bytes]) -> bytes:
    """A header with the number of parts, then every part preceded by its length."""
    packed = [_MAGIC, struct.pack("<I", len(parts))]
    for part in parts:
        packed += [struct.pack("<I", len(part)), part]
    return b"".join(packed)


def _unpack(content: bytes, count: int) -> list[bytes]:
    """Undo `_pack` strictly; raises ShareError."""
    start = len(_MAGIC) + 4
    if content[:start] != _MAGIC + struct.pack("<I", count):
        raise ShareError("the bytes do not start like as many ciphertexts as declared")
    parts = []
    for _ in range(count):
        length = int.from_bytes(content[start : start + 4], "little")
        part = content[start + 4 : start + 4 + length]
        if not 0 < length == len(part) <= _MAX_PART_BYTES:
            raise ShareError("a ciphertext is cut short, empty or too long")
        parts.append(part)
        start += 4 + length
    if start != len(content):
        raise ShareError("bytes follow after the last ciphertext")
    return parts


def _load_vectors(content: bytes, lengths: Sequence[int], contexts: Sequence[Any]) -> list[Any]:
    tenseal = _tenseal()
    rows = list(_rows(lengths))
    vectors = []
    for (plane, size), part in zip(rows, _unpack(content, len(rows)), strict=True):
        try:
            vector = tenseal.bfv_vector_from(contexts[plane], part)
            fits = vector.size() == size and [c.size() for c in vector.ciphertext()] == [2]
        except _UNREADABLE:
            raise ShareError("a ciphertext is altered or of other parameters") from None
        if not fits:
            raise ShareError("a ciphertext does not hold the declared number of residues")
        vectors.append(vector)
    return vectors


def _load_contexts(content: bytes) -> tuple[BfvParameters, list[Any]]:
    """Contexts of one reviewed parameter set, which their number identifies."""
    tenseal = _tenseal()
    start = len(_MAGIC)
    count = int.from_bytes(content[start : start + 4], "little")
    if count not in {len(parameters.moduli) for parameters in REVIEWED_PARAMETERS}:
        raise ShareError("the bytes do not start like BFV contexts")
    parts = _unpack(content, count)
    try:
        contexts = [tenseal.context_from(part, n_threads=1) for part in parts]
        described = [_description(context) for context in contexts]
    except _UNREADABLE:
        raise ShareError("a BFV context cannot be read") from None
    for parameters in REVIEWED_PARAMETERS:
        expected = [
            ("SCHEME_TYPE.BFV", _DEGREE, parameters.coefficient_bits, modulus)
            for modulus in parameters.moduli
        ]
        if described == expected:
            return parameters, contexts
    raise ProtectionError("the BFV parameters are not among the reviewed ones")


def _description(context: Any) -> tuple[str, int, tuple[int, ...], int]:
    parameters = context.seal_context().data.key_context_data().parms()
    return (
        str(parameters.scheme()),
        int(parameters.poly_modulus_degree()),
        tuple(int(prime.value()).bit_length() for prime in parameters.coeff_modulus()),
        int(parameters.plain_modulus().value()),
    )
