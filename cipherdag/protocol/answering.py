"""Who answers at an address, by the certificate that it shows, and which process holds a port.

Leaks:
    Whoever answers sees a connection that shows no certificate and ends after the handshake.
"""

import contextlib
import socket
import ssl

from cryptography import x509
from cryptography.x509.oid import NameOID

HANDSHAKE_S = 3.0
MOST_LETTERS = 64
AUTHORITY_OF = "coordinator"  # the organisation that a study's authority names in its certificates


def shown_certificate(connection: socket.socket) -> bytes:
    """Whoever answers' certificate, DER, unverified; empty without TLS. Closes the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection.settimeout(HANDSHAKE_S)
    try:
        with context.wrap_socket(connection) as tls:
            return tls.getpeercert(binary_form=True) or b""
    except (OSError, ValueError):
        return b""


def study_of(certificate: bytes) -> str:
    """The study whose authority issued a certificate (DER, unverified), by its word; or empty."""
    try:
        issuer = x509.load_der_x509_certificate(certificate).issuer
        (organisation,) = issuer.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        (study,) = issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    if organisation.value != AUTHORITY_OF:
        return ""
    return "".join(filter(str.isprintable, str(study.value)))[:MOST_LETTERS]


def holder_of(host: str, port: int) -> str:
    """Who listens on a port of this machine, in words."""
    study = ""
    with contextlib.suppress(OSError):
        connection = socket.create_connection((host, port), timeout=HANDSHAKE_S)
        study = study_of(shown_certificate(connection))
    process = _process_on(port)
    if study:
        return f"the server of the study '{study}' ({process})"
    return process


def _process_on(port: int) -> str:
    import psutil

    try:
        numbers = {
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr.port == port
        }
        for number in sorted(filter(None, numbers)):
            return f"process {number}, {psutil.Process(number).name()}"
    except psutil.Error:
        pass
    return "a process of another user"
