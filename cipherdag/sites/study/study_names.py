"""Names that studies, sites and their hosts may have.

They stand in files and certificates, so few characters are allowed.
"""

import re

from cipherdag.errors import ParameterError
from cipherdag.protocol.messages import COORDINATOR

_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_STUDY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
_RESERVED = frozenset({COORDINATOR, "server", "admin", "localhost"})
_MOST_PORTS = 65535


def check_site_name(name: str) -> str:
    """The name, if it can name a site, a file and a certificate; else ParameterError."""
    # from Python a name may be a number, such as a group's
    if not isinstance(name, str) or not _SITE.fullmatch(name) or name.lower() in _RESERVED:
        raise ParameterError(
            f"{name!r:.80} cannot name a site",
            remedy="Use a text of 1 to 63 letters A to Z, digits, '_' or '-', no reserved word.",
        )
    return name


def check_study_name(name: str) -> str:
    """The name, if it can name a study or an organisation; else ParameterError."""
    if not _STUDY.fullmatch(name):
        raise ParameterError(
            f"{name[:80]!r} cannot name a study or an organisation",
            remedy="Use a letter first, then at most 62 letters, digits, '_' or '-'.",
        )
    return name


def check_address(host: str, port: int) -> None:
    """Raise ParameterError for what is no host name or no port."""
    if not _HOST.fullmatch(host):
        raise ParameterError(f"{host[:80]!r} is not a host name")
    if not 0 < port <= _MOST_PORTS:
        raise ParameterError(f"{port} is not a port")
