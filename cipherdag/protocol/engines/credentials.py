"""What one end of a connection shows the other, and what it asks of it.

Leaks:
    The certificate goes to the other end; the key stays in this process.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credentials:
    """Certificates and the key of one end, as PEM.

    Attributes:
        root: The study's authority, which issued both ends' certificates.
        certificate: This end's.
        key: Its private key; stands in no repr.
    """

    root: bytes
    certificate: bytes
    key: bytes = field(repr=False)

    def context(self, *, server: bool) -> ssl.SSLContext:
        """TLS 1.3 with both ends' certificates, each checked for what it may be used for.

        Raises:
            ssl.SSLError: They do not fit together, or cannot be read.
        """
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.verify_mode = ssl.CERT_REQUIRED
        made.verify_flags |= ssl.VERIFY_X509_STRICT
        made.load_verify_locations(cadata=self.root.decode("ascii"))
        # OpenSSL reads keys from files only; these two are pipes, so no key lies on a disk
        with _piped(self.certificate) as certificate, _piped(self.key) as key:
            made.load_cert_chain(certificate, key)
        return made


@contextlib.contextmanager
def _piped(content: bytes) -> Iterator[str]:
    reading, writing = os.pipe()
    try:
        os.write(writing, content)  # a few kilobytes, which a pipe holds
        os.close(writing)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
