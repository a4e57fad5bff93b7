"""What a hospital fills in for the PySyft engine: the table ``[datasite]`` of its ``site.toml``."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import msgspec

from cipherdag.errors import ParameterError
from cipherdag.protocol.addresses import check_datasite_url
from cipherdag.sites.study.study_names import check_port


class DatasiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site's PySyft Datasite.

    Attributes:
        url: Where the coordinator reaches it.
        port: Its port on this machine's loopback interface.
        python: The interpreter of PySyft's environment; relative to the site's folder unless
            absolute.
    """

    url: str
    port: int = 8101
    python: str

    def __post_init__(self) -> None:
        check_datasite_url(self.url)
        check_port(self.port)
        parts = urlsplit(self.url)
        if parts.scheme == "http" and parts.port != self.port:
            raise ParameterError(
                f"the Datasite listens on port {self.port}, and its address '{self.url}' without "
                "a proxy names another one"
            )
        if not self.python:
            raise ParameterError("the interpreter of PySyft's environment is not named")

    def dumps(self) -> str:
        """The settings as a commented TOML table."""
        lines = ["", "# This site's PySyft Datasite: the coordinator connects to it.", "[datasite]"]
        for key, comment in _COMMENTS.items():
            lines += [f"# {comment}", f"{key} = {json.dumps(getattr(self, key))}"]
        return "\n".join(lines) + "\n"


_COMMENTS = {
    "url": "Where the coordinator reaches it: https, or http://127.0.0.1 on one machine.",
    "port": "Its port on the loopback interface, where the TLS proxy finds it.",
    "python": "The interpreter of PySyft's environment.",
}
