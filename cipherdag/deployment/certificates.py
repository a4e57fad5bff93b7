"""The study's certificate authority: what the server and the sites show each other under FLARE.

Every key is made where it stays. A certificate says what it may be used for, and TLS checks it: a
site's opens connections, the server's accepts them, and neither issues another one.

Leaks:
    Certificates and requests for them are public: a name, an organisation, a public key.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificatePublicKeyTypes,
    PublicKeyTypes,
)
from cryptography.x509 import Certificate, CertificateSigningRequest
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cipherdag.errors import MalformedMessageError, SignatureError, SiteNotReadyError
from cipherdag.privacy.keys.identity import same_fingerprint
from cipherdag.protocol.answering import AUTHORITY_OF
from cipherdag.protocol.durable_files import write_whole
from cipherdag.sites.study.study import Request

AUTHORITY_DAYS = 1825
SERVER_DAYS = 1095
SLACK = timedelta(minutes=5)
"""How far the clocks of two parties may differ when a certificate is new."""

_USAGE = {"content_commitment", "data_encipherment", "key_agreement", "encipher_only"}
_USAGE |= {"decipher_only", "key_encipherment"}
AGAIN = "Have the site run `cipherdag site request` again and send the new file."
MAX_PEM_BYTES = 16 * 1024


def make_authority(folder: Path, *, study: str, host: str) -> str:
    """Make the authority's key and certificate, and those of the server.

    ``authority/`` and ``server/`` are made in the coordinator's folder. Returned is the study's
    root, the fingerprint of the authority's certificate, hexadecimal.
    """
    issuer_key = make_key(folder / "authority" / "root.key")
    named = _named(study, AUTHORITY_OF)
    root = _sign(
        named, issuer_key.public_key(), named, issuer_key, days=AUTHORITY_DAYS, purpose=None
    )
    make_key(folder / "server" / "server.key")
    write_whole(folder / "authority" / "root.crt", _pem(root))
    write_whole(folder / "server" / "root.crt", _pem(root))
    certify_server(folder, host=host)
    return root.fingerprint(hashes.SHA256()).hex()


def certify_server(folder: Path, *, host: str) -> None:
    """Issue the server's certificate, for the key that it has."""
    issuer_key, root, left = _authority(folder)
    signed = _sign(
        _named(host, AUTHORITY_OF),
        load_key(folder / "server" / "server.key").public_key(),
        root.subject,
        issuer_key,
        days=min(SERVER_DAYS, left),
        purpose=ExtendedKeyUsageOID.SERVER_AUTH,
        hosts=x509.SubjectAlternativeName([_reached_at(host)]),
    )
    write_whole(folder / "server" / "server.crt", _pem(signed))


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, Certificate, int]:
    """The authority's key and certificate, and the days that it is still valid."""
    issuer_key = load_key(folder / "authority" / "root.key")
    root = x509.load_pem_x509_certificate((folder / "authority" / "root.crt").read_bytes())
    return issuer_key, root, (root.not_valid_after_utc - datetime.now(UTC)).days


def make_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A new key on the curve P-256, written to a file that its owner alone may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode("ascii")
    write_whole(path, text)
    return key


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key in a file; SiteNotReadyError if there is none, or it is not one of `make_key`."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SiteNotReadyError(
            f"the key {path} cannot be read", remedy=f"Restore {path} from a copy."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SiteNotReadyError(
            f"the key {path} is of another kind", remedy=f"Restore {path} from a copy."
        )
    return key


def request_certificate(key: ec.EllipticCurvePrivateKey, *, site: str, organisation: str) -> bytes:
    """A site's request for a certificate, PEM; it holds no secret."""
    asked = x509.CertificateSigningRequestBuilder().subject_name(_named(site, organisation))
    signed = asked.sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    return signed.public_bytes(serialization.Encoding.PEM)


def certify_site(folder: Path, asked: CertificateSigningRequest, *, days: int) -> bytes:
    """Sign a checked request of a site.

    Its sender and name were checked. The certificate is valid for ``days``, at most as long as the
    authority's, which follows it; both are PEM.
    """
    issuer_key, root, left = _authority(folder)
    signed = _sign(
        asked.subject,
        asked.public_key(),
        root.subject,
        issuer_key,
        days=min(days, left),
        purpose=ExtendedKeyUsageOID.CLIENT_AUTH,
    )
    return (_pem(signed) + _pem(root)).encode("ascii")


def _sign(
    subject: x509.Name,
    key: CertificatePublicKeyTypes,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    days: int,
    purpose: x509.ObjectIdentifier | None,
    hosts: x509.SubjectAlternativeName | None = None,
) -> Certificate:
    """A certificate for one purpose; without one it is the authority's."""
    now = datetime.now(UTC)
    usage = dict.fromkeys(_USAGE, False) | {
        "digital_signature": purpose is not None,
        "key_cert_sign": purpose is None,
        "crl_sign": False,
    }
    issues = x509.BasicConstraints(ca=purpose is None, path_length=0 if purpose is None else None)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(issues, critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if purpose is not None:
        made = made.add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
    if hosts is not None:
        made = made.add_extension(hosts, critical=False)
    return made.sign(issuer_key, hashes.SHA256())


def _named(name: str, organisation: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
        ]
    )


def _reached_at(host: str) -> x509.GeneralName:
    """The subject alternative name of a host: an IP address is no DNS name for TLS."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")


def check_certificate_request(request: Request) -> x509.CertificateSigningRequest:
    """A request for a certificate of just this site.

    Raises MalformedMessageError where it cannot be read, and SignatureError where it is for another
    name, asks for more than a name, is not signed by its key, or its key is not on the curve P-256.
    """
    if len(request.certificate_request) > MAX_PEM_BYTES:
        raise MalformedMessageError(
            "the certificate request is longer than one can be", remedy=AGAIN
        )
    try:
        asked = x509.load_pem_x509_csr(request.certificate_request)
        key = asked.public_key()
        signed = asked.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise MalformedMessageError(
            "the certificate request cannot be read", remedy=AGAIN
        ) from None
    strong = isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)
    names = {attribute.oid: attribute.value for attribute in asked.subject}
    expected = {NameOID.COMMON_NAME: request.name, NameOID.ORGANIZATION_NAME: request.organisation}
    if names != expected or len(asked.subject) != len(expected) or len(asked.extensions):
        raise SignatureError(
            "the certificate request is for another name or organisation than the request",
            site=request.name,
            remedy=AGAIN,
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

    The chain is the site's certificate and the authority's, PEM; the root a fingerprint,
    hexadecimal; the key the one that the site asked a certificate for. Raises SignatureError where
    the certificate is for another name or key, or of another root.
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


def check_validity(certificate: x509.Certificate, now: datetime, *, remedy: str = "") -> None:
    """Refuse a certificate that is not valid at a time, which one of two clocks may get wrong.

    It is a site's certificate; for the server's a ``remedy`` is given. Raises SiteNotReadyError
    where it is not valid yet, or not any more.
    """
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        raise SiteNotReadyError(
            f"the certificate is valid from {begins:%Y-%m-%d %H:%M} UTC on, and this machine's "
            f"clock says {now:%Y-%m-%d %H:%M}",
            remedy=remedy
            or "Set this machine's clock; if it is right, the coordinator's is fast: have it "
            "set and the request approved again.",
        )
    if now > ends:
        raise SiteNotReadyError(
            f"the certificate expired on {ends:%Y-%m-%d %H:%M} UTC, and this machine's clock says "
            f"{now:%Y-%m-%d %H:%M}",
            remedy=remedy
            or "Set this machine's clock; if it is right, have the coordinator run `cipherdag "
            "coordinator renew`, and activate the new approval that it sends.",
        )


def certificates_of(chain: bytes, name: str) -> tuple[x509.Certificate, x509.Certificate]:
    """The certificate of a site and its authority's, unchecked; SignatureError without both."""
    try:
        if len(chain) > MAX_PEM_BYTES:
            raise ValueError  # noqa: TRY301 - as whatever is no chain
        certificate, authority = x509.load_pem_x509_certificates(chain)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SignatureError(f"the approval holds no certificate for '{name}'") from None
    return certificate, authority


def common_name(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The one common name of a certificate or a request for one; empty if it is not one."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def _bytes_of(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
