import hashlib
import hmac
import os
import struct

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import (
    KeyAgreementError,
    OutputError,
    ParameterError,
    PolicyRefusedError,
    ProtectionError,
    SignatureError,
)
from cipherdag.privacy.keys import pairkeys
from cipherdag.privacy.keys.identity import SigningIdentity, fingerprint, verify
from cipherdag.privacy.keys.pairkeys import (
    EphemeralKeys,
    PairKey,
    agree_as_initiator,
    agree_as_responder,
    expand,
    hkdf,
    seal,
    unseal,
)
from cipherdag.privacy.wire import keyed_digest, same_digest

TRANSCRIPT = bytes(range(32))
# RFC 7748, section 7.1: the points of low order on the curve
LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


def hmac_sha256(key, message):
    """RFC 2104 step by step."""
    key = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(k ^ 0x36 for k in key) + message).digest()
    return hashlib.sha256(bytes(k ^ 0x5C for k in key) + inner).digest()


def hkdf_sha256(secret, salt, info, length):
    """RFC 5869 step by step."""
    extracted = hmac_sha256(salt, secret)
    output, block = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac_sha256(extracted, block + info + bytes([counter]))
        output += block
    return output[:length]


def prefixed(*parts):
    return b"".join(struct.pack(">Q", len(part)) + part for part in parts)


def pair(transcript=TRANSCRIPT):
    """The keys two sites agree on, as each of them sees it."""
    first, second = EphemeralKeys.generate(), EphemeralKeys.generate()
    ciphertext, at_first = agree_as_initiator(
        first, second.x25519_public, second.mlkem_public, transcript, 2, 5
    )
    at_second = agree_as_responder(second, first.x25519_public, ciphertext, transcript, 2, 5)
    return at_first, at_second


# ------------------------------------------------------------------ vectors


def test_hmac_and_hkdf_references_match_their_rfcs():
    # RFC 4231, test cases 1 and 6
    assert hmac_sha256(b"\x0b" * 20, b"Hi There").hex() == (
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    )
    long_key = b"Test Using Larger Than Block-Size Key - Hash Key First"
    assert hmac_sha256(b"\xaa" * 131, long_key).hex() == (
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    )
    # RFC 5869, test case 1
    assert hkdf_sha256(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42).hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )


@given(key=st.binary(min_size=16, max_size=80), parts=st.lists(st.binary(max_size=20), max_size=4))
@settings(derandomize=True, max_examples=50)
def test_keyed_digests_and_derived_keys_match_the_references(key, parts):
    assert keyed_digest(key, *parts) == hmac_sha256(key, prefixed(*parts))
    derived = hkdf(key, b"purpose", *parts)
    info = prefixed(b"purpose", *parts)
    assert derived == hkdf_sha256(key, b"", info, 32)
    expanded = hmac_sha256(key, info + b"\x01")
    assert expand(key, b"purpose", *parts) == expanded
    assert HKDFExpand(SHA256(), 32, info).derive(key) == expanded


def test_x25519_matches_rfc_7748():
    # section 6.1
    alice = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
    bob_public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    keys = EphemeralKeys(
        X25519PrivateKey.from_private_bytes(bytes.fromhex(alice)), MLKEM768PrivateKey.generate()
    )
    assert keys.x25519_public.hex() == (
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    )
    assert keys.exchange(bytes.fromhex(bob_public)).hex() == (
        "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    )


def test_ed25519_matches_rfc_8032():
    # section 7.1, test 1
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    identity = SigningIdentity(Ed25519PrivateKey.from_private_bytes(seed))
    assert identity.public.hex() == (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    )


# ------------------------------------------------------------------ signatures


def test_a_signature_holds_for_its_domain_and_its_parts_only():
    identity, other = SigningIdentity.generate(), SigningIdentity.generate()
    signature = identity.sign(b"domain", b"one", b"two")
    verify(identity.public, signature, b"domain", b"one", b"two")
    altered = bytes([signature[0] ^ 1]) + signature[1:]
    for public, signed, domain, parts in (
        (other.public, signature, b"domain", (b"one", b"two")),
        (identity.public, altered, b"domain", (b"one", b"two")),
        (identity.public, signature[:-1], b"domain", (b"one", b"two")),
        (identity.public, b"", b"domain", (b"one", b"two")),
        (identity.public[:-1], signature, b"domain", (b"one", b"two")),
        (identity.public, signature, b"other", (b"one", b"two")),
        (identity.public, signature, b"domain", (b"onetwo",)),
        (identity.public, signature, b"domain", (b"on", b"etwo")),
        (identity.public, signature, b"domain", (b"one", b"two", b"")),
        (identity.public, signature, b"domainone", (b"two",)),
        (identity.public, signature, b"domain", ()),
    ):
        with pytest.raises(SignatureError):
            verify(public, signed, domain, *parts)


def test_fingerprints_are_read_aloud_in_pairs():
    identity = SigningIdentity.generate()
    pairs = fingerprint(identity.public).split(":")
    assert len(pairs) == 32
    assert bytes.fromhex("".join(pairs)) == hashlib.sha256(identity.public).digest()
    with pytest.raises(SignatureError):
        fingerprint(b"short")


def test_a_private_key_file_is_the_owners_alone(tmp_path):
    identity = SigningIdentity.generate()
    path = tmp_path / "site.key"
    umask = os.umask(0)
    try:
        identity.save(path)
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = SigningIdentity.load(path)
    assert loaded.public == identity.public
    verify(identity.public, loaded.sign(b"d", b"p"), b"d", b"p")
    content = path.read_bytes()
    with pytest.raises(OutputError):
        SigningIdentity.generate().save(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644])
def test_a_private_key_file_open_to_others_is_refused(tmp_path, mode):
    path = tmp_path / "site.key"
    SigningIdentity.generate().save(path)
    path.chmod(mode)
    with pytest.raises(PolicyRefusedError) as refusal:
        SigningIdentity.load(path)
    assert f"chmod 600 {path}" in refusal.value.remedy


def test_files_that_hold_no_ed25519_key_are_refused(tmp_path):
    path = tmp_path / "site.key"
    with pytest.raises(OutputError):
        SigningIdentity.load(path)
    other = X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for content in (b"", b"-----BEGIN PRIVATE KEY-----\nnonsense", other):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(SignatureError):
            SigningIdentity.load(path)
    with pytest.raises(OutputError):
        SigningIdentity.generate().save(tmp_path / "missing" / "site.key")


# ------------------------------------------------------------------ agreement


def test_two_sites_agree_and_no_two_agreements_are_alike():
    first, second = pair()
    assert first.derive(b"x") == second.derive(b"x")
    assert first.derive(b"x") != pair()[0].derive(b"x")
    assert len({first.derive(b"x"), first.derive(b"y"), first.derive(b"x", b""), b""}) == 4


def test_transcript_positions_and_ciphertext_are_bound_into_the_key():
    own, peer = EphemeralKeys.generate(), EphemeralKeys.generate()
    ciphertext, _ = agree_as_initiator(own, peer.x25519_public, peer.mlkem_public, TRANSCRIPT, 0, 1)
    altered = bytes([ciphertext[0] ^ 1]) + ciphertext[1:]
    derived = {
        agree_as_responder(peer, own.x25519_public, *arguments).derive(b"x")
        for arguments in (
            (ciphertext, TRANSCRIPT, 0, 1),
            (ciphertext, TRANSCRIPT[::-1], 0, 1),
            (ciphertext, TRANSCRIPT, 0, 2),
            (ciphertext, TRANSCRIPT, 1, 2),
            (altered, TRANSCRIPT, 0, 1),  # ML-KEM rejects implicitly: another key, no error
        )
    }
    assert len(derived) == 5


@pytest.mark.parametrize("point", LOW_ORDER)
def test_points_of_low_order_are_refused(point):
    own, peer = EphemeralKeys.generate(), EphemeralKeys.generate()
    with pytest.raises(KeyAgreementError):
        agree_as_initiator(own, point, peer.mlkem_public, TRANSCRIPT, 0, 1)
    ciphertext, _ = agree_as_initiator(peer, own.x25519_public, own.mlkem_public, TRANSCRIPT, 0, 1)
    with pytest.raises(KeyAgreementError):
        agree_as_responder(own, point, ciphertext, TRANSCRIPT, 0, 1)


def test_malformed_and_reflected_keys_are_refused():
    own, peer = EphemeralKeys.generate(), EphemeralKeys.generate()
    x25519, mlkem = peer.x25519_public, peer.mlkem_public
    for bad_x25519, bad_mlkem in (
        (b"", mlkem),
        (x25519[:-1], mlkem),
        (x25519 + b"\0", mlkem),
        (x25519, b""),
        (x25519, mlkem[:-1]),
        (x25519, mlkem + b"\0"),
        (x25519, b"\xff" * len(mlkem)),  # coefficients beyond the modulus
        (own.x25519_public, mlkem),
        (x25519, own.mlkem_public),
    ):
        with pytest.raises(KeyAgreementError):
            agree_as_initiator(own, bad_x25519, bad_mlkem, TRANSCRIPT, 0, 1)
    ciphertext, _ = agree_as_initiator(own, x25519, mlkem, TRANSCRIPT, 0, 1)
    for bad_x25519, bad_ciphertext in (
        (own.x25519_public[:-1], ciphertext),
        (peer.x25519_public, ciphertext),
        (own.x25519_public, b""),
        (own.x25519_public, ciphertext[:-1]),
    ):
        with pytest.raises(KeyAgreementError):
            agree_as_responder(peer, bad_x25519, bad_ciphertext, TRANSCRIPT, 0, 1)
    for i, j in ((1, 1), (2, 1), (-1, 0)):
        with pytest.raises(KeyAgreementError):
            agree_as_initiator(own, x25519, mlkem, TRANSCRIPT, i, j)
    with pytest.raises(KeyAgreementError):
        PairKey(b"short")


def test_a_build_without_mlkem_is_named(monkeypatch):
    class Missing:
        @staticmethod
        def from_seed_bytes(_seed):
            raise pairkeys.UnsupportedAlgorithm("no")

    monkeypatch.setattr(pairkeys, "MLKEM768PrivateKey", Missing)
    with pytest.raises(ProtectionError, match="ML-KEM"):
        EphemeralKeys.generate()


# ------------------------------------------------------------------ seals and digests


def test_what_is_sealed_opens_only_unaltered_at_the_other_site():
    first, second = pair()
    sealed = seal(first, b"purpose", b"the secret", TRANSCRIPT)
    assert unseal(second, b"purpose", sealed, TRANSCRIPT) == b"the secret"
    assert sealed != seal(first, b"purpose", b"the secret", TRANSCRIPT)
    for key, purpose, content, associated in (
        (pair()[0], b"purpose", sealed, TRANSCRIPT),
        (second, b"another", sealed, TRANSCRIPT),
        (second, b"purpose", sealed, TRANSCRIPT[1:]),
        (second, b"purpose", sealed[:-1], TRANSCRIPT),
        (second, b"purpose", sealed[:12], TRANSCRIPT),
        (second, b"purpose", sealed[:3], TRANSCRIPT),
        (second, b"purpose", b"", TRANSCRIPT),
        (second, b"purpose", sealed + b"\0", TRANSCRIPT),
    ):
        with pytest.raises(KeyAgreementError) as refusal:
            unseal(key, purpose, content, associated)
        assert "secret" not in str(refusal.value)
    for position in range(len(sealed)):
        altered = bytearray(sealed)
        altered[position] ^= 1
        with pytest.raises(KeyAgreementError):
            unseal(second, b"purpose", bytes(altered), TRANSCRIPT)


def test_empty_texts_can_be_sealed():
    first, second = pair()
    assert unseal(second, b"p", seal(first, b"p", b"", b""), b"") == b""


def test_keyed_digests_depend_on_key_parts_and_borders():
    digests = {
        keyed_digest(key, *parts)
        for key in (b"k" * 32, b"l" * 32)
        for parts in ((), (b"",), (b"ab",), (b"a", b"b"), (b"", b"ab"), (b"ab", b""))
    }
    assert len(digests) == 12
    assert {len(digest) for digest in digests} == {32}
    assert same_digest(keyed_digest(b"k" * 32, b"a"), keyed_digest(b"k" * 32, b"a"))
    assert not same_digest(keyed_digest(b"k" * 32, b"a"), keyed_digest(b"k" * 32, b"b"))
    with pytest.raises(ParameterError):
        keyed_digest(b"too short", b"a")


def test_what_is_drawn_follows_from_the_identity_by_hkdf_and_hmac():
    private = bytes(range(32))
    own = SigningIdentity(Ed25519PrivateKey.from_private_bytes(private))
    again = SigningIdentity(Ed25519PrivateKey.from_private_bytes(private))
    extracted = hmac.digest(bytes(32), private, "sha256")
    label = (15).to_bytes(8, "big") + b"cipherdag draws"
    key = hmac.digest(extracted, label + b"\x01", "sha256")
    seed = hmac.digest(key, (4).to_bytes(8, "big") + b"rows", "sha256")
    assert own.draw_key()(b"rows") == again.draw_key()(b"rows") == seed
    assert own.draw_key()(b"others") != seed
    assert SigningIdentity.generate().draw_key()(b"rows") != seed


# ------------------------------------------------------------------ secrecy
