"""What a hospital fills in for the PySyft engine: the table ``[datasite]`` of its ``site.toml``."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cipherdag.errors import ParameterError
from cipherdag.protocol.addresses import check_datasite_url

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_PORTS = 65535


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasiteSettings:
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
        if not 0 < self.port <= _MOST_PORTS:
            raise ParameterError(f"{self.port} is not a port")
        parts = urlsplit(self.url)
        if parts.scheme == "http" and parts.port != self.port:
            raise ParameterError(
                f"the Datasite listens on port {self.port}, and its address '{self.url}' without "
                "a proxy names another one"
            )
        if not self.python:
            raise ParameterError("the interpreter of PySyft's environment is not named")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> DatasiteSettings:
        """The settings of a TOML table, read strictly.

        Raises:
            ParameterError: A key is unknown or missing, or a value is wrong.
        """
        types = {item.name: int if item.name == "port" else str for item in fields(cls)}
        for key, value in table.items():
            if key not in types:
                raise ParameterError(f"unknown key {key!r} in [datasite]")
            if type(value) is not types[key]:
                raise ParameterError(f"datasite.{key} is not a {types[key].__name__}")
        for key in ("url", "python"):
            if key not in table:
                raise ParameterError(f"datasite.{key} is missing")
        return cls(**table)

    def dumps(self) -> str:
        """The settings as a commented TOML table."""
        lines = ["", "# This site's PySyft Datasite: the coordinator connects to it."]
        lines.append("[datasite]")
        for item in fields(self):
            lines += [f"# {_COMMENTS[item.name]}"]
            lines.append(f"{item.name} = {json.dumps(getattr(self, item.name))}")
        return "\n".join(lines) + "\n"


_COMMENTS = {
    "url": "Where the coordinator reaches it: https, or http://127.0.0.1 on one machine.",
    "port": "Its port on the loopback interface, where the TLS proxy finds it.",
    "python": "The interpreter of PySyft's environment.",
}
