"""The engine of a study; for the engine "files" also the keys that encrypt the files.

A site's request holds two public keys, X25519 and ML-KEM-768. The coordinator answers in the
approval with an X25519 key and a ciphertext; both have one key then (`privacy.keys.pairkeys`). The
request is signed by the site's identity and the approval by the coordinator's, whose codes people
read to each other.

    transport/folder.key       at the site: the private halves; mode 0600
    transport/folder.answer    at the site: the coordinator's answer
    sites/NAME.key             at the coordinator: its private half and the ciphertext; mode 0600

Leaks:
    What the engine leaks: operation names, opaque message bytes and who answered; over files
    numbers, times and lengths alone. Public keys and a ciphertext travel. The keys last as long as
    the enrolment: whoever gets one later can read recorded files of that site. Of what sites
    protect this discloses no more than the coordinator reads.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cipherdag.errors import (
    MalformedMessageError,
    ParameterError,
    PolicyRefusedError,
    SiteNotReadyError,
    writing,
)
from cipherdag.privacy.keys.pairkeys import (
    MLKEM_CIPHERTEXT_BYTES,
    SECRET_KEY_BYTES,
    X25519_BYTES,
    EphemeralKeys,
    PairKey,
    agree_as_initiator,
    agree_as_responder,
)
from cipherdag.privacy.secrecy import fresh_bytes, open_to_others, recorded, repeated
from cipherdag.privacy.wire import transcript
from cipherdag.program.versions import require_flare
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.engines.engine import Engine
from cipherdag.protocol.engines.files import FilesEngine
from cipherdag.protocol.engines.folder import TO_COORDINATOR, TO_SITE
from cipherdag.sites.private_files import locked
from cipherdag.sites.study.checks import CheckResult
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.study.study import Request, Study
from cipherdag.sites.study.study_files import read_file

MLKEM_PUBLIC_BYTES: Final = 1184
REQUEST_BYTES: Final = X25519_BYTES + MLKEM_PUBLIC_BYTES
ANSWER_BYTES: Final = X25519_BYTES + MLKEM_CIPHERTEXT_BYTES
NUMBERS: Final = ".numbers"
COORDINATOR, SITE = 0, 1  # parties of the key agreement
CHECK: Final = "shared folder"


# at the site


def public_keys(site: SiteFolder) -> bytes:
    """The public keys of a site's request; the private ones are made on the first call and kept."""
    if not site.folder_key.exists():
        site.folder_key.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(site.folder_key, fresh_bytes(SECRET_KEY_BYTES).hex())
    keys = EphemeralKeys.from_secret(_read(site.folder_key))
    return keys.x25519_public + keys.mlkem_public


def install_answer(site: SiteFolder, answer: bytes, study: Study) -> None:
    """Keep the coordinator's answer of an approval; MalformedMessageError if it is none."""
    if len(answer) != ANSWER_BYTES:
        raise MalformedMessageError(
            "the approval holds no key for a shared folder",
            remedy="Ask the coordinator to approve a new request of this site.",
        )
    _site_key(site, answer, study)
    write_whole(site.folder_answer, answer.hex())


def site_key(site: SiteFolder, study: Study) -> PairKey:
    """The key that a site shares with the coordinator; SiteNotReadyError if it has none yet."""
    if not (site.folder_key.exists() and site.folder_answer.exists()):
        raise SiteNotReadyError(
            "the site has no key of its study",
            remedy="Run `cipherdag site request`, send the file, and activate the answer.",
        )
    return _site_key(site, _read(site.folder_answer), study)


def folder_checks(site: SiteFolder) -> Iterator[CheckResult]:
    """Check the shared folder, if the site has one."""
    settings = site.settings()
    if settings.engine != "files":
        return
    share, enrolled = site.path / settings.files, site.folder_answer.exists()
    state, fix = "fail", "Mount it, or correct files in site.toml."
    if not enrolled:
        state, fix = "warn", f"Not needed before the approval; then: {fix}"
    try:
        next((share / TO_SITE).iterdir(), None)
        with tempfile.TemporaryFile(dir=share / TO_COORDINATOR, prefix=".check-"):
            pass
    except OSError as error:
        detail = f"{share} cannot be used: {error.strerror}"
        yield CheckResult(CHECK, state, detail, fix)  # type: ignore[arg-type]
        return
    yield CheckResult(CHECK, "ok", f"{share}: {TO_SITE} is readable, {TO_COORDINATOR} writable")


def _site_key(site: SiteFolder, answer: bytes, study: Study) -> PairKey:
    keys = EphemeralKeys.from_secret(_read(site.folder_key))
    about = _about(study, site.settings().name, keys.x25519_public + keys.mlkem_public)
    x25519, ciphertext = answer[:X25519_BYTES], answer[X25519_BYTES:]
    return agree_as_responder(keys, x25519, ciphertext, about, COORDINATOR, SITE)


# at the coordinator


def check_public_keys(request: Request) -> None:
    """Refuse a request without public keys for a shared folder; ParameterError if it has none."""
    if len(request.certificate_request) != REQUEST_BYTES:
        raise ParameterError(
            "the request is not for a study over files",
            site=request.name,
            remedy="Have the site make its folder anew with `cipherdag site new --files`.",
        )


def answer_request(folder: Path, share: Path, request: Request, study: Study) -> bytes:
    """Agree on a key with a site and make its folder in the share; the answer for the approval.

    OutputError where the share is not there, or not to be written into.
    """
    made = share / request.name
    with writing(made):
        made.mkdir(exist_ok=True)
        for name in (TO_SITE, TO_COORDINATOR):
            (made / name).mkdir(exist_ok=True)
    draws: list[bytes] = []
    with recorded(draws):
        answer, _ = _agreed(request, study)
    write_whole(_secret_path(folder, request.name), b"".join(draws).hex())
    return answer


@contextlib.contextmanager
def files_engine(folder: Path, share: Path, study: Study) -> Iterator[FilesEngine]:
    """The engine with a link to every site; one process at a time has it.

    SiteNotReadyError where another process uses the folder, or a key is gone; PolicyRefusedError
    where others can read a key.
    """
    with locked(folder / f"{NUMBERS}.lock"):
        keys = {site.name: _coordinator_key(folder, site.name, study) for site in study.sites}
        yield FilesEngine(share, keys, study=study.name, numbers=folder / NUMBERS)


def _coordinator_key(folder: Path, name: str, study: Study) -> PairKey:
    drawn = _read(_secret_path(folder, name))
    request = read_file(folder / "sites" / f"{name}.request", Request)
    with repeated((drawn[:SECRET_KEY_BYTES], drawn[SECRET_KEY_BYTES:])):
        return _agreed(request, study)[1]


def _agreed(request: Request, study: Study) -> tuple[bytes, PairKey]:
    public = request.certificate_request
    keys, about = EphemeralKeys.generate(), _about(study, request.name, public)
    peers = public[:X25519_BYTES], public[X25519_BYTES:]
    ciphertext, key = agree_as_initiator(keys, *peers, about, COORDINATOR, SITE)
    return keys.x25519_public + ciphertext, key


def _secret_path(folder: Path, name: str) -> Path:
    return folder / "sites" / f"{name}.key"


# at both


def _about(study: Study, site: str, public: bytes) -> bytes:
    named = study.coordinator, study.name.encode(), site.encode()
    return transcript(b"cipherdag shared folder", *named, public)


def _read(path: Path) -> bytes:
    """A private file's content; SiteNotReadyError, or PolicyRefusedError if open to others."""
    try:
        mode, content = path.stat().st_mode, bytes.fromhex(path.read_text("ascii"))
    except (OSError, ValueError) as error:
        raise SiteNotReadyError(
            f"the key {path} cannot be read", remedy="Enrol the site anew."
        ) from error
    if open_to_others(mode):
        raise PolicyRefusedError(
            f"the key {path} is open to other users",
            remedy=f"Run `chmod 600 {path}`; if others could read it, enrol the site anew.",
        )
    return content


GREETING_S = 10.0  # to wait for sites' answers


@contextlib.contextmanager
def study_engine(folder: Path, study: Study, share: Path, *, start_s: float) -> Iterator[Engine]:
    """The engine that the study names, with a link to every site.

    Server and sites may take ``start_s`` seconds to come up; over files there is a shared folder.
    Raises SiteNotReadyError where the engine's package is not installed here, or a key is gone, and
    SiteUnreachableError where the coordinator's server does not answer.
    """
    if study.engine == "files":
        with files_engine(folder, share, study) as files:
            yield files
        return
    require_flare()
    from cipherdag.protocol.engines.flare_engine import FlareEngine

    names = [site.name for site in study.sites]
    yield FlareEngine(folder, sites=names, start_s=start_s)


def connected_sites(folder: Path, study: Study, share: Path) -> set[str]:
    """The sites that are connected to the server, or answer a greeting, now."""
    if study.engine == "files":
        with files_engine(folder, share, study) as files:
            return files.present(timeout_s=GREETING_S)
    from cipherdag.protocol.engines.flare_engine import connected_sites as at_server

    return set(at_server(folder))
