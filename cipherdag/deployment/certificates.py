"""Checks of FLARE's certificate archives before FLARE itself opens them.

Leaks:
    Nothing: a certificate and a request for one are public.
"""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import NameOID

from cipherdag.errors import MalformedMessageError, SignatureError, SiteNotReadyError
from cipherdag.privacy.keys.pairing import same_fingerprint

if TYPE_CHECKING:
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

    from cipherdag.sites.study.study import Request

MAX_MEMBER_BYTES = 64 * 1024
MIN_KEY_BITS = 2048


def check_certificate_request(request: Request) -> None:
    """Refuse a certificate request that asks for anything but this site's client certificate.

    Raises:
        MalformedMessageError: The archive is not FLARE's, or cannot be read.
        SignatureError: It is for another name or role, not signed by its key, or the key is weak.
    """
    members = read_archive(request.certificate_request)
    if set(members) != {"request.json", "site.yaml", f"{request.name}.csr"}:
        raise MalformedMessageError("the certificate request holds other files than its own")
    try:
        asked = x509.load_pem_x509_csr(members[f"{request.name}.csr"])
        about = msgspec.json.decode(members["request.json"], type=dict[str, str | None])
    except ValueError:
        raise MalformedMessageError("the certificate request cannot be read") from None
    wanted = {
        "name": request.name,
        "org": request.organisation,
        "project": request.study,
        "kind": "site",
        "cert_type": "client",
        "cert_role": None,
    }
    if any(about.get(key, "") != value for key, value in wanted.items()):
        raise SignatureError(
            "the certificate request is for another name, study or role than the request",
            site=request.name,
            remedy="Have the site run `cipherdag site request` again and send the new file.",
        )
    key = asked.public_key()
    strong = isinstance(key, RSAPublicKey) and key.key_size >= MIN_KEY_BITS
    if common_name(asked) != request.name or not asked.is_signature_valid or not strong:
        raise SignatureError(
            "the certificate request is for another name, not signed by its key, or its key is "
            "weak",
            site=request.name,
        )


def check_certificate(archive: bytes, *, name: str, key: PublicKeyTypes, root: str) -> None:
    """Refuse an archive whose certificate is another site's, or of another root.

    Args:
        archive: FLARE's archive with the signed certificate.
        name: The site's name.
        key: The public key that the site asked a certificate for.
        root: Expected fingerprint of the root certificate, hexadecimal.

    Raises:
        SignatureError: The certificate is for another name or key, or of another root.
        MalformedMessageError: It is not such an archive.
    """
    certificate, authority = certificates_of(archive, name)
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


def certificates_of(archive: bytes, name: str) -> tuple[x509.Certificate, x509.Certificate]:
    """The certificate of a site and that of its authority, unchecked.

    Raises:
        SignatureError: The archive lacks one.
        MalformedMessageError: It is not such an archive.
    """
    members = read_archive(archive)
    try:
        certificate = x509.load_pem_x509_certificate(members[f"{name}.crt"])
        authority = x509.load_pem_x509_certificate(members["rootCA.pem"])
    except (KeyError, ValueError):
        raise SignatureError(f"the approval holds no certificate for '{name}'") from None
    return certificate, authority


def read_archive(archive: bytes) -> dict[str, bytes]:
    """The files of an archive by name: few, small, and none outside of it.

    Raises:
        MalformedMessageError: It is not such an archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            members = opened.infolist()
            names = [member.filename for member in members]
            if (
                len(names) > 8  # noqa: PLR2004 - FLARE's archives have three or five files
                or len(set(names)) != len(names)
                or any(not _plain_name(n) for n in names)
                or any(member.file_size > MAX_MEMBER_BYTES for member in members)
            ):
                raise MalformedMessageError("the archive holds files that do not belong there")
            return {name: opened.open(name).read(MAX_MEMBER_BYTES) for name in names}
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError, ValueError):
        raise MalformedMessageError("the archive cannot be read") from None


def common_name(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The one common name of a certificate or a request for one; empty if it is not one."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _plain_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and not set(name) & set("/\\:\0")


def _bytes_of(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
