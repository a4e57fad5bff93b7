"""The coordinator's folder: its key, its certificate authority, the study and the sites' approvals.

    coordinator.toml    name of the study, address, minimum and protections
    keys/identity.pem   the key that signs studies and messages
    authority/          with FLARE, key and certificate of the study's authority
    server/             with FLARE, key and certificate of the server that the sites connect to
    sites/NAME.key      over files, the key that encrypts the files of a site
    root                fingerprint of the authority; over files, public half of identity.pem
    sites/              what was approved: request and certificate of every site
    study.json          the signed study, in its newest version
    approvals/          one file per site, to be sent
    server.log          who connected, and what the server refused
    runs/               journals and transcripts of runs

Leaks:
    Approvals show every site the names, public keys and address of the study.
"""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from cipherdag.deployment.certificates import (
    certify_server,
    certify_site,
    check_certificate_request,
    make_authority,
)
from cipherdag.deployment.shared_folder import answer_request, check_public_keys
from cipherdag.errors import (
    CohortError,
    ParameterError,
    PolicyRefusedError,
    SignatureError,
    SiteNotReadyError,
)
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.protections import PROTECTING, PROTECTIONS
from cipherdag.program.versions import require_flare
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.plan import COLLUDERS
from cipherdag.sites.private_files import Inside, locked, make_private_folder
from cipherdag.sites.study.study import (
    FORMAT,
    EngineName,
    Request,
    SignedStudy,
    Study,
    StudySite,
    approve,
    check_address,
    check_colluders,
    check_newcomer,
    check_request,
    check_study,
    check_study_name,
    coordinator_fingerprint,
    sign_study,
)
from cipherdag.sites.study.study_files import read_file, write_file

VALID_DAYS = 90


class _Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``coordinator.toml``."""

    study: str
    host: str
    port: int
    min_sites: int
    protections: tuple[str, ...]
    engine: EngineName = "flare"
    files: str = ""
    colluders: int | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class CoordinatorFolder:
    """Paths of a coordinator's folder, as the module lists them, and what they hold."""

    path: Path

    identity_path = Inside("keys", "identity.pem")
    study_path = Inside("study.json")
    runs = Inside("runs")

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        study: str,
        host: str = "",
        port: int = 0,
        min_sites: int = 3,
        protections: Sequence[str] = PROTECTING,
        engine: EngineName = "flare",
        files: str = "",
        colluders: int | None = None,
    ) -> Self:
        """Make a coordinator: its keys and authority, and a study without sites.

        ``localhost`` as the host binds the loopback. The engine ``files`` takes a shared folder,
        and no address. Up to ``colluders`` sites may side with the coordinator in any run and still
        see sums only; by default one, or as many as runs of ``min_sites`` can bear.

        Raises:
            ParameterError: A name, the address, the shared folder, the minimum, a protection or
                the number of colluding sites cannot be used.
            OutputError: The folder exists and is not empty.
            SiteNotReadyError: FLARE is not installed.
        """
        check_study_name(study)
        if engine == "flare":
            require_flare()
            check_address(host, port)
        if engine == "files" and not Path(files).is_dir():
            raise ParameterError(
                f"the shared folder {files} is not there", remedy="Mount it first."
            )
        if min_sites < 2:  # noqa: PLR2004
            raise ParameterError(
                "the sum over one site is that site's own answer",
                remedy="Choose 3: then sums hide each site's part from the others, too.",
            )
        if not protections or not set(protections) <= set(PROTECTIONS):
            raise ParameterError(f"a study needs one or more of {', '.join(PROTECTIONS)}")
        used = tuple(sorted(set(protections)))
        most = min(COLLUDERS, min_sites - 2) if colluders is None else colluders
        check_colluders(most, min_sites=min_sites)
        share = str(Path(files).absolute()) if files else ""
        settings = _Settings(study, host, port, min_sites, used, engine, share, most)
        folder = cls(path)
        folder._make_files(settings)
        if engine == "flare":
            root = make_authority(path, study=study, host=host)
        else:
            root = folder.identity().public.hex()
        (path / "root").write_text(root + "\n", "utf-8")
        folder._issue(sites=(), revoked=(), version=1)
        return folder

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the coordinator, which sites learn over a second channel."""
        study = self.study()
        return coordinator_fingerprint(study.coordinator, study.root)

    @property
    def share(self) -> Path:
        """Over files, the shared folder."""
        return Path(self._settings().files)

    def identity(self) -> SigningIdentity:
        """The coordinator's signing key."""
        return SigningIdentity.load(self.identity_path)

    def study(self) -> Study:
        """The newest study.

        SiteNotReadyError where the folder is no coordinator's, SignatureError where the study was
        altered.
        """
        if not self.study_path.exists():
            raise SiteNotReadyError(
                f"{self.path} is no coordinator's folder",
                remedy="Name one with --dir, or make one with `cipherdag coordinator new`.",
            )
        study = check_study(read_file(self.study_path, SignedStudy))
        if study.coordinator != self.identity().public:
            raise SignatureError("the study is signed by another coordinator")
        return study

    def read_request(self, path: Path) -> Request:
        """A request that proves its key and could be approved.

        Raises:
            MalformedMessageError: It is not a request.
            SignatureError: It does not prove its key, or the certificate is for another name.
            ParameterError: A name in it cannot be used.
            CohortError: Its key is that of another site.
            PolicyRefusedError: The site was revoked, or enrolled with other keys.
        """
        request = read_file(path, Request)
        check_request(request)
        study = self.study()
        if request.study != study.name:
            raise SignatureError(
                f"the request is for the study '{request.study}', this one is '{study.name}'",
                site=request.name,
                remedy="Have the site correct study in site.toml, run `cipherdag site request` "
                "again and send the new file.",
            )
        if study.engine == "flare":
            check_certificate_request(request)
        else:
            check_public_keys(request)
        if request.name.lower() in {name.lower() for name in study.revoked}:
            raise PolicyRefusedError(
                "the site was revoked",
                site=request.name,
                remedy="Enrol it under another name, from a new folder.",
            )
        check_newcomer(request, study)
        return request

    def approve(self, paths: Sequence[Path], *, valid_days: int = VALID_DAYS) -> dict[str, Path]:
        """Enrol the sites of some requests; known ones renew certificates or keys.

        The senders of the files were checked by another way. Returned is the approval to send, for
        every site of the study: all of them change with it. PrivacyError as in `read_request`;
        nothing changes then.
        """
        requests = [self.read_request(path) for path in paths]
        if len({request.name.lower() for request in requests}) != len(requests):
            raise CohortError(
                "two requests have the same name",
                remedy="Enrol it under another name, from a new folder.",
            )
        with locked(self.path / ".lock"):
            study = self.study()
            new = [request for request in requests if request.name not in study.pinned]
            for request in requests:
                self._certify(request, study, valid_days)
                write_file(self.path / "sites" / f"{request.name}.request", request)
            sites = (*study.sites, *(StudySite(r.name, r.identity) for r in new))
            if new:
                self._issue(sites=sites, revoked=study.revoked, version=study.version + 1)
            return self._approvals()

    def renew(self, *, valid_days: int = VALID_DAYS) -> dict[str, Path]:
        """Issue new certificates for the keys that all sites and the server have.

        Returned is the approval to send, for every site. Raises ParameterError where over files
        there are no certificates.
        """
        self.study()
        with locked(self.path / ".lock"):
            study = self.study()
            if study.engine != "flare":
                raise ParameterError(
                    "a study over files has no certificates",
                    remedy="There is nothing to renew: its keys do not expire.",
                )
            for site in study.sites:
                request = read_file(self.path / "sites" / f"{site.name}.request", Request)
                check_request(request)
                self._certify(request, study, valid_days)
            certify_server(self.path, host=study.host)
            return self._approvals()

    def revoke(self, name: str) -> dict[str, Path]:
        """Revoke a site; a server that runs closes its connection.

        Returned is the new approval to send, for every remaining site. Raises ParameterError where
        there is no such site.
        """
        self.study()
        with locked(self.path / ".lock"):
            study = self.study()
            if name not in study.pinned:
                raise ParameterError(
                    f"the study has no site '{name[:80]}'",
                    remedy=f"It has {', '.join(study.pinned) or 'none yet'}.",
                )
            self._issue(
                sites=tuple(site for site in study.sites if site.name != name),
                revoked=(*study.revoked, name),
                version=study.version + 1,
            )
            for gone in (f"approvals/{name}.approval", f"sites/{name}.key"):
                (self.path / gone).unlink(missing_ok=True)
            return self._approvals()

    def _make_files(self, settings: _Settings) -> None:
        lines = ["# A coordinator of a cipherdag study. A change takes effect with the next"]
        lines.append("# `coordinator approve` or `revoke`; the address cannot be changed.")
        named = msgspec.structs.asdict(settings)
        lines += [f"{key} = {json.dumps(value)}" for key, value in named.items()]
        make_private_folder(
            self.path,
            folders=("keys", "sites", "approvals", "runs"),
            files={"coordinator.toml": "\n".join(lines) + "\n"},
        )
        SigningIdentity.generate().save(self.identity_path)

    def _settings(self) -> _Settings:
        path = self.path / "coordinator.toml"
        try:
            return msgspec.convert(tomllib.loads(path.read_text("utf-8")), _Settings)
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(
                f"{path} is not valid: {error}", remedy=f"Correct {path}."
            ) from error

    def _issue(
        self, *, sites: tuple[StudySite, ...], revoked: tuple[str, ...], version: int
    ) -> None:
        settings = self._settings()
        identity = self.identity()
        study = Study(
            format=FORMAT,
            name=settings.study,
            version=version,
            issued=datetime.now(UTC).isoformat(timespec="seconds"),
            host=settings.host,
            port=settings.port,
            coordinator=identity.public,
            root=(self.path / "root").read_text("utf-8").strip(),
            min_sites=settings.min_sites,
            protections=settings.protections,
            sites=sites,
            revoked=revoked,
            engine=settings.engine,
            colluders=settings.colluders,
        )
        signed = sign_study(identity, study)
        check_study(signed)
        write_file(self.study_path, signed)

    def _certify(self, request: Request, study: Study, valid_days: int) -> None:
        """Issue a site's certificate, or over files answer its public keys."""
        if study.engine == "files":
            issued = answer_request(self.path, self.share, request, study)
        else:
            asked = check_certificate_request(request)
            issued = certify_site(self.path, asked, days=valid_days)
        write_whole(self.path / "sites" / f"{request.name}.crt", issued)

    def _approvals(self) -> dict[str, Path]:
        signed = read_file(self.study_path, SignedStudy)
        identity = self.identity()
        written: dict[str, Path] = {}
        for site in signed.study.sites:
            chain = self.path / "sites" / f"{site.name}.crt"
            certificate = chain.read_bytes()
            written[site.name] = self.path / "approvals" / f"{site.name}.approval"
            approval = approve(identity, site=site.name, signed=signed, certificate=certificate)
            write_file(written[site.name], approval)
        return written
