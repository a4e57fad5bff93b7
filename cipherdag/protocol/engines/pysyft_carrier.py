"""PySyft 0.10 brings the files of a study from one end to the other, where no drive is shared.

PySyft synchronises folders of peers over Google Drive. Each end writes into its own datasite, and
copies what the other's datasite shows into its folder of files:

    coordinator   SHARE/NAME/to-site         to  COORDINATOR/cipherdag/STUDY/NAME/to-site
    site          SHARE/NAME/to-coordinator  to  SITE/cipherdag/STUDY/NAME/to-coordinator

What a carrier does not bring is late, and what it alters is refused (`folder`). It runs as a
process of its own, which needs no file of the site but the shared folder.

Leaks:
    To PySyft and Google what `folder` leaks to whoever reads it, and the addresses of both ends.
    They keep every file.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from cipherdag.errors import SiteNotReadyError, writing
from cipherdag.protocol.durable_files import OPEN, write_whole
from cipherdag.protocol.engines.folder import MOST_BYTES, TO_COORDINATOR, TO_SITE, is_message

SYFT_LINE: Final = "0.10."
PAUSE_S: Final = 1.0
SET_UP: Final = "Run `pip install 'cipherdag[pysyft]'`: docs/engines/pysyft.md."
RULES: Final = "rules:\n- pattern: '**'\n  access: {{read: ['{reader}'], write: [], admin: []}}\n"

log = logging.getLogger("cipherdag.engine")


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of one site's messages: its address, and the site's folder in the share."""

    email: str
    folder: Path


@dataclass(frozen=True, slots=True)
class PySyftCarrier:
    """Carries the files of some sites' folders, seen from one end.

    The client is PySyft's ``SyftboxManager``, logged in, in both of its roles; ``outgoing`` is what
    this end writes: `TO_SITE` at the coordinator, `TO_COORDINATOR` at a site.
    """

    client: Any
    peers: Sequence[Peer]
    study: str
    outgoing: str

    def allow(self) -> None:
        """Let each peer alone read what is for it; OutputError if PySyft's folder is closed."""
        for peer in self.peers:
            at = self._datasite(self.client.email, peer)
            with writing(at):
                at.mkdir(parents=True, exist_ok=True)
            write_whole(at / "syft.pub.yaml", RULES.format(reader=peer.email), mode=OPEN)

    def carry(self) -> None:
        """Bring what is new to the other ends, and theirs here; what fails is tried again later."""
        try:
            ready = self._ready()
            for peer in self.peers:
                if peer.email in ready:  # PySyft never sends what changed before it knew the peer
                    sent = self._datasite(self.client.email, peer) / self.outgoing
                    mirror(peer.folder / self.outgoing, sent)
            self.client.sync()
            self._meet()
            incoming = TO_COORDINATOR if self.outgoing == TO_SITE else TO_SITE
            for peer in self.peers:
                mirror(self._datasite(peer.email, peer) / incoming, peer.folder / incoming)
        except Exception as error:  # noqa: BLE001 - whatever PySyft or Google raises passes
            log.warning("PySyft did not synchronise, trying again: %s", type(error).__name__)

    def _ready(self) -> set[str]:
        """Addresses of the peers that PySyft sends changes to."""
        met = self.client.peer_manager
        emails = [peer.email for peer in met.approved_peers]
        return set(met.get_compatible_peer_emails_for_syncing(emails)) if emails else set()

    def _meet(self) -> None:
        """Become peers: the coordinator asks, and a site agrees to its coordinator alone."""
        for peer in self.peers:
            met = self.client.peer_manager.get_cached_peer(peer.email)
            if self.outgoing == TO_SITE and met is None:
                self.client.add_peer(peer.email, sync=False, verbose=False)
            elif self.outgoing == TO_COORDINATOR and met is not None and met.is_requested_by_peer:
                self.client.approve_peer_request(peer.email, verbose=False)

    def run(self, *, stopped: Callable[[float], bool]) -> None:
        """Carry until ``stopped`` says so, which waits for some seconds."""
        self.allow()
        while not stopped(PAUSE_S):
            self.carry()

    def _datasite(self, email: str, peer: Peer) -> Path:
        named = Path("cipherdag") / self.study / peer.folder.name
        return Path(self.client.syftbox_folder) / email / named


def mirror(source: Path, target: Path) -> None:
    """Make ``target`` hold the same messages as ``source``, each written whole."""
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    there = {path.name for path in source.iterdir() if is_message(path.name)}
    here = {path.name for path in target.iterdir() if is_message(path.name)}
    for name in sorted(there - here):
        path = source / name
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_BYTES:
            temporary = target.parent / f".{name}"
            temporary.write_bytes(path.read_bytes())
            temporary.replace(target / name)
    for name in here - there:
        (target / name).unlink(missing_ok=True)


def log_in(email: str, token: Path) -> Any:
    """PySyft's manager of an account, by its token's file; or a SiteNotReadyError."""
    check_version()
    from syft.sync.login import _init_client_login
    from syft.sync.syftbox_manager import SyftboxManager

    try:
        client = SyftboxManager.for_jupyter(
            email=email, has_do_role=True, has_ds_role=True, token_path=token
        )
        return _init_client_login(client, sync=False, load_peers=True)
    except Exception as error:  # whatever PySyft or Google raises
        raise SiteNotReadyError(
            f"PySyft does not log in as {email}: {type(error).__name__}",
            remedy=f"Is {token} a token of this account, and valid? docs/engines/pysyft.md",
        ) from error


def check_version() -> None:
    """Raise SiteNotReadyError unless PySyft is installed here, of this line."""
    try:
        installed = version("syft")
    except PackageNotFoundError:
        raise SiteNotReadyError("PySyft is not installed here", remedy=SET_UP) from None
    if not installed.startswith(SYFT_LINE):
        raise SiteNotReadyError(f"PySyft {SYFT_LINE}x is needed, not {installed}", remedy=SET_UP)
