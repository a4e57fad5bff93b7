"""The bits of a batch as every site reads them: what both holders signed.

Leaks:
    The bits, which are what a batch opens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from cipherdag.arrays import BoolVector
from cipherdag.errors import CipherdagError, ForgedSumError, MalformedMessageError, SignatureError
from cipherdag.privacy.bodies import decode
from cipherdag.privacy.fixedpoint import DIGEST_BYTES
from cipherdag.privacy.keys.identity import SIGNATURE_BYTES, SigningIdentity, verify
from cipherdag.privacy.mpc.batch import Batch
from cipherdag.privacy.mpc.messages import Signed, Verdicts, most_bytes

_DOMAIN = b"cipherdag secure verdicts"


def sign_bits(batch: Batch, bits: BoolVector, common: bytes, identity: SigningIdentity) -> Signed:
    """A holder's word for the bits.

    Leaks:
        The bits. Nothing that follows from a masked sum is signed: the dealer could try which fits.
    """
    packed, dealt = np.packbits(bits).tobytes(), hashlib.sha256(common).digest()
    return Signed(packed, dealt, identity.sign(_DOMAIN, batch.digest, packed, dealt))


def check_signed(batch: Batch, said: Signed | Verdicts) -> None:
    """Raise MalformedMessageError for bits of another number, or a digest of another length."""
    count = batch.predicates.n_tests
    if len(said.bits) != -(-count // 8) or len(said.dealt) != DIGEST_BYTES:
        raise MalformedMessageError("the bits of secure tests are cut short or too long")
    if np.unpackbits(np.frombuffer(said.bits, dtype=np.uint8))[count:].any():
        raise MalformedMessageError("there are bits beyond the last secure test")


def read_verdicts(content: bytes, batch: Batch, holders: Sequence[bytes]) -> BoolVector:
    """The bits, shape (tests,), that both holders signed for this very batch.

    Args:
        content: `Verdicts`, as the coordinator relays it.
        batch: What was asked of whom, as this site derived it.
        holders: Pinned public keys of the first and the second holder.

    Raises:
        MalformedMessageError: It is no such message.
        ForgedSumError: A holder did not sign these bits, for this batch, after this deal.
    """
    said = decode(content, Verdicts, most_bytes(batch, Verdicts))
    check_signed(batch, said)
    for public, signature in zip(holders, said.signatures, strict=True):
        try:
            if len(signature) != SIGNATURE_BYTES:
                raise SignatureError("the signature is cut short or too long")
            verify(public, signature, _DOMAIN, batch.digest, said.bits, said.dealt)
        except CipherdagError as error:
            raise ForgedSumError(
                f"the bits of secure tests are not what both holders found: {error.message}"
            ) from None
    packed = np.frombuffer(said.bits, dtype=np.uint8)
    return np.unpackbits(packed, count=batch.predicates.n_tests).astype(bool)
