"""Addresses of PySyft Datasites: encrypted, or on the same machine."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from cipherdag.errors import ParameterError

MAX_URL = 200
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+/?")


def check_datasite_url(url: str) -> str:
    """The address, if nothing sent there can be read on its way.

    Args:
        url: ``https://HOST[:PORT]``, or ``http://127.0.0.1:PORT`` on the same machine.

    Raises:
        ParameterError: It is neither.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or len(url) > MAX_URL or not _URL.fullmatch(url):
        raise ParameterError(f"'{url[:MAX_URL]}' is neither https nor loopback", remedy=_REMEDY)
    if parts.scheme != "https" and not is_loopback(host):
        raise ParameterError(f"'{url}' is neither https nor loopback", remedy=_REMEDY)
    return url


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, written as a number."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_REMEDY = (
    "Write https://HOST[:PORT] and put the TLS proxy of docs/engines/syft-proxy.conf in front of "
    "the site."
)
