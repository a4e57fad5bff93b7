"""A free port, and a study over NVIDIA FLARE on this machine: certificates, server and sites."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509

from cipherdag.deployment.certificates import (
    certify_site,
    make_authority,
    make_key,
    request_certificate,
)
from cipherdag.deployment.engine_checks import split_chain
from cipherdag.protocol.engines.channel import Address, Credentials
from cipherdag.protocol.engines.engine_process import EngineProcess
from cipherdag.protocol.engines.flare_relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class LoopbackStudy:
    """A study on this machine.

    Attributes:
        folder: Holds the coordinator's folder and one of each site.
        sites: Names of the sites that are certified, and admitted by the server.
        port: The server's.
    """

    folder: Path
    sites: tuple[str, ...]
    port: int

    @classmethod
    def make(cls, folder: Path, sites: tuple[str, ...], *, port: int | None = None):
        """Make the authority, and a key and certificate for every site."""
        study = cls(folder, sites, port or free_port())
        make_authority(study.coordinator, study="study", host="localhost")
        for name in sites:
            (folder / name).mkdir(parents=True)
            study.certify(name)
        return study

    @property
    def coordinator(self) -> Path:
        """The coordinator's folder."""
        return self.folder / "coordinator"

    def certify(self, name: str) -> None:
        """Give a site, which need not be admitted, a key and a certificate."""
        key = make_key(self.folder / name / "site.key")
        asked = request_certificate(key, site=name, organisation="site")
        chain = certify_site(self.coordinator, x509.load_pem_x509_csr(asked), days=90)
        (self.folder / name / "site.crt").write_bytes(chain)

    def credentials(self, name: str) -> Credentials:
        """Of a site, or of the server under ``server``."""
        if name == "server":
            files = ("root.crt", "server.crt", "server.key")
            return Credentials(*((self.coordinator / name / own).read_bytes() for own in files))
        certificate, root = split_chain((self.folder / name / "site.crt").read_bytes())
        return Credentials(root, certificate, (self.folder / name / "site.key").read_bytes())

    def relay(self) -> Relay:
        """The coordinator's server."""
        return Relay(
            self.coordinator,
            host="localhost",
            port=self.port,
            credentials=self.credentials("server"),
            admitted=lambda: self.sites,
        )

    def site(
        self,
        name: str,
        handler: Callable[[str, bytes], bytes],
        record: Callable[..., None] = lambda _: None,
        protected: tuple[str, ...] = (),
    ) -> EngineProcess:
        """The engine's process of a site whose own process is this one."""
        own = self.credentials(name)
        address = Address(
            name, "localhost", self.port, own.root, own.certificate, own.key, protected
        )
        console = self.folder / name / "engine.log"
        return EngineProcess(address, handler, record, console=console)
