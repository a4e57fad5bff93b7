"""Checks of certificates and of requests for them, before anything is signed or used.

Leaks:
    Nothing: a certificate and a request for one are public.
"""

from __future__ import annotations

from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import NameOID

from cipherdag.errors import MalformedMessageError, SignatureError, SiteNotReadyError
from cipherdag.privacy.keys.pairing import same_fingerprint
from cipherdag.sites.study.study import Request

MAX_PEM_BYTES = 16 * 1024


def check_certificate_request(request: Request) -> x509.CertificateSigningRequest:
    """A request for a certificate of just this site.

    Raises:
        MalformedMessageError: It cannot be read.
        SignatureError: It is for another name, asks for more than a name, is not signed by its
            key, or its key is not on the curve P-256.
    """
    if len(request.certificate_request) > MAX_PEM_BYTES:
        raise MalformedMessageError("the certificate request is longer than one can be")
    try:
        asked = x509.load_pem_x509_csr(request.certificate_request)
        key = asked.public_key()
        signed = asked.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise MalformedMessageError("the certificate request cannot be read") from None
    strong = isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)
    names = {attribute.oid: attribute.value for attribute in asked.subject}
    expected = {
        NameOID.COMMON_NAME: request.name,
        NameOID.ORGANIZATION_NAME: request.organisation,
    }
    if names != expected or len(asked.subject) != len(expected) or len(asked.extensions):
        raise SignatureError(
            "the certificate request is for another name or organisation than the request",
            site=request.name,
            remedy="Have the site run `cipherdag site request` again and send the new file.",
        )
    if not signed or not strong:
        raise SignatureError(
            "the certificate request is not signed by its key, or the key is of another kind",
            site=request.name,
            remedy="Have the site make a new folder with this version of cipherdag.",
        )
    return asked


def check_certificate(chain: bytes, *, name: str, key: PublicKeyTypes, root: str) -> None:
    """Refuse a certificate that is another site's, or of another root.

    Args:
        chain: The site's certificate and the authority's, PEM.
        name: The site's name.
        key: The public key that the site asked a certificate for.
        root: Expected fingerprint of the root certificate, hexadecimal.

    Raises:
        SignatureError: The certificate is for another name or key, or of another root.
    """
    certificate, authority = certificates_of(chain, name)
    if not same_fingerprint(authority.fingerprint(hashes.SHA256()).hex(), root):
        raise SignatureError("the certificate's root is not the one of the study")
    if common_name(certificate) != name or _bytes_of(certificate.public_key()) != _bytes_of(key):
        raise SignatureError(
            "the certificate is for another name or key than this site's",
            remedy="Run `cipherdag site request` and send the new file.",
        )
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 - whatever does not verify is not issued by it
        raise SignatureError("the certificate is not issued by the study's root") from None


def check_validity(certificate: x509.Certificate, now: datetime) -> None:
    """Refuse a certificate that is not valid at a time, which one of two clocks may get wrong.

    Raises:
        SiteNotReadyError: It is not valid yet, or not any more.
    """
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        raise SiteNotReadyError(
            f"the certificate is valid from {begins:%Y-%m-%d %H:%M} UTC on, and this machine's "
            f"clock says {now:%Y-%m-%d %H:%M}",
            remedy="Set this machine's clock; if it is right, the coordinator's is fast: have it "
            "set and the request approved again.",
        )
    if now > ends:
        raise SiteNotReadyError(
            f"the certificate expired on {ends:%Y-%m-%d}",
            remedy="Send the file of `cipherdag site request` again: the coordinator renews the "
            "certificate with `cipherdag coordinator approve`.",
        )


def certificates_of(chain: bytes, name: str) -> tuple[x509.Certificate, x509.Certificate]:
    """The certificate of a site and that of its authority, unchecked.

    Raises:
        SignatureError: There are not these two.
    """
    try:
        if len(chain) > MAX_PEM_BYTES:
            raise ValueError  # noqa: TRY301 - as whatever is no chain
        certificate, authority = x509.load_pem_x509_certificates(chain)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SignatureError(f"the approval holds no certificate for '{name}'") from None
    return certificate, authority


def common_name(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The one common name of a certificate or a request for one; empty if it is not one."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _bytes_of(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
