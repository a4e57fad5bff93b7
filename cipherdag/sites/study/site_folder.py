"""A site's folder: its settings, policy, keys, pinned study, ledger and log. It never leaves.

    site.toml           what the hospital fills in
    policy.toml         what the hospital allows
    keys/identity.pem   the key that signs; made here
    transport/          with FLARE, key and certificate for the connection, over files the key that
                        seals them; the private key is made here
    engine.json         the process that carries messages: when it started, what it refused
    study.json          the signed study, once activated
    ledger.jsonl        what left
    usage.json          how many tests were computed today
    sums.jsonl          which sums were opened, over whose answers
    asked.jsonl         which bits were found; see `sites.record.opened_sums`
    bits.jsonl          how many bits about every two columns
    witnessed.json      which records of the others' ledgers this site saw last
    session.jsonl       the run under way, if messages are files: it outlasts the site's process
    runs/               plans that asked for a person's approval, and what they came to
    site.log            details that are not sent to anybody

Nothing of it leaves but the request that `cipherdag.deployment.enrolment` writes to be sent.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from cipherdag.errors import CipherdagError, ParameterError, SiteNotReadyError, UnreadableDataError
from cipherdag.pages.language import Language, language
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.secrecy import open_to_others
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.site_log import SITE_LOG
from cipherdag.questions.disclosure import Disclosure
from cipherdag.sites.policy.approvals import Approvals
from cipherdag.sites.policy.parameter_rules import declared
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.private_files import Inside, make_private_folder
from cipherdag.sites.record.run_record import PLAN_FILE
from cipherdag.sites.strict_toml import convert, parse
from cipherdag.sites.study.study import (
    EngineName,
    SignedStudy,
    Study,
    check_address,
    check_site_name,
    check_study,
    check_study_name,
)
from cipherdag.sites.study.study_files import read_file
from cipherdag.sites.table.file_description import AS_USUAL, DescribedFile, FileDescription
from cipherdag.sites.table.reading import READABLE

MAX_SETTINGS_BYTES = 64 * 1024
DEVICES = ("auto", "cpu", "cuda")
COMMENTS = {
    "name": "Name of this site, as the other sites will see it.",
    "organisation": "Whose site this is; it stands in the certificate.",
    "study": "Name of the study, as the coordinator says it.",
    "host": "Host name and port of the coordinator. This site connects to it, never the reverse.",
    "port": "Its one port.",
    "data": f"The data: {READABLE}.",
    "schema": "The study's schema.toml; every site has the same one.",
    "files": "Messages are files: this site's folder in the share, with to-site, to-coordinator.",
    "device": '"cpu", "cuda" or "auto".',
}
_NO_SOURCE = """
# A file that is no UTF-8 CSV with commas and decimal points is described, for instance:
# [source]
# delimiter = ";"
# decimal = ","
# encoding = "cp1252"
"""


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that a hospital fills in; `COMMENTS` says what each is.

    Paths are relative to the site's folder unless absolute. The host is empty while unknown, and
    ``files`` unless messages are files; ``source`` is the format of the data's file.
    """

    name: str
    organisation: str = "site"
    study: str = "study"
    host: str = ""
    port: int = 8002
    data: str = "data.csv"
    schema: str = "schema.toml"
    device: str = "auto"
    files: str = ""
    source: FileDescription = AS_USUAL

    def __post_init__(self) -> None:
        check_site_name(self.name)
        check_study_name(self.organisation)
        check_study_name(self.study)
        if self.host:
            check_address(self.host, self.port)
        if self.device not in DEVICES:
            raise ParameterError(f"the device {self.device!r} is none of {', '.join(DEVICES)}")

    @property
    def engine(self) -> EngineName:
        """What carries the site's messages."""
        return "files" if self.files else "flare"

    def check_host(self, study: Study) -> None:
        """Raise SiteNotReadyError for another coordinator's address than the study's."""
        ours, signed = (self.host, self.port), (study.host, study.port)
        if study.engine == "flare" and self.host and ours != signed:
            raise SiteNotReadyError(
                f"site.toml names the coordinator {self.host}:{self.port}, the study names "
                f"{study.host}:{study.port}",
                remedy="Ask the coordinator which is right; if the study is, correct site.toml.",
            )

    def dumps(self) -> str:
        """The settings as commented TOML."""
        lines = ["# A site of a cipherdag study. This file stays here. Who may ask what stands in"]
        lines.append("# policy.toml.")
        for key, comment in COMMENTS.items():
            if key == "files" and not self.files:
                continue
            lines += ["", f"# {comment}", f"{key} = {json.dumps(getattr(self, key))}"]
        return "\n".join(lines) + "\n" + (self.source.dumps() or _NO_SOURCE)

    @classmethod
    def load(cls, path: Path) -> SiteSettings:
        """Read a ``site.toml`` strictly; raises SiteNotReadyError where it is not valid."""
        try:
            with path.open("rb") as file:
                # a longer file is cut, which leaves no valid TOML that anybody wrote
                content = file.read(MAX_SETTINGS_BYTES)
        except OSError as error:
            raise SiteNotReadyError(
                f"{path} cannot be read: {error.strerror}",
                remedy="Name a site's folder with --dir, or make one with `cipherdag site new`.",
            ) from error
        try:
            return convert(parse(content), cls)
        except (ValueError, ParameterError, UnreadableDataError) as error:
            raise SiteNotReadyError(
                f"{path} is not valid: {error}", remedy=f"Correct {path.name}."
            ) from error


@dataclass(frozen=True, slots=True)
class SiteFolder:
    """Paths of a site's folder, as the module lists them, and what they hold."""

    path: Path

    settings_path = Inside("site.toml")
    policy_path = Inside("policy.toml")
    identity_path = Inside("keys", "identity.pem")
    tls_key = Inside("transport", "site.key")
    tls_chain = Inside("transport", "site.crt")
    folder_key = Inside("transport", "folder.key")
    folder_answer = Inside("transport", "folder.answer")
    numbers_path = Inside(".numbers")
    engine_path = Inside("engine.json")
    study_path = Inside("study.json")
    ledger_path = Inside("ledger.jsonl")
    usage_path = Inside("usage.json")
    sums_path = Inside("sums.jsonl")
    asked_path = Inside("asked.jsonl")
    bits_path = Inside("bits.jsonl")
    session_path = Inside("session.jsonl")
    witnessed_path = Inside("witnessed.json")
    runs = Inside("runs")
    log_path = Inside(SITE_LOG)

    @classmethod
    def create(cls, path: Path, settings: SiteSettings, policy: Policy | None = None) -> Self:
        """Make the folder, its files and the identity key; OutputError where it is not empty."""
        folder = cls(path)
        files = {"site.toml": settings.dumps(), "policy.toml": (policy or Policy()).dumps()}
        make_private_folder(path, folders=("keys", "runs"), files=files)
        SigningIdentity.generate().save(folder.identity_path)
        return folder

    @property
    def private_keys(self) -> tuple[Path, ...]:
        """Every private key in the folder."""
        keys = (self.identity_path, self.tls_key, self.folder_key)
        return tuple(key for key in keys if key.exists())

    def protected(self, settings: SiteSettings) -> tuple[Path, ...]:
        """The paths that only the site's process may open: its files, and the data."""
        files = (self.settings_path, self.policy_path, self.identity_path, self.tls_key)
        records = (
            self.ledger_path,
            self.study_path,
            self.usage_path,
            self.sums_path,
            self.asked_path,
        )
        data = (self.data_path(settings), self.schema_path(settings))
        return tuple(path.absolute() for path in (*files, *records, *data))

    def settings(self) -> SiteSettings:
        """The content of ``site.toml``."""
        return SiteSettings.load(self.settings_path)

    def approvals(self) -> Approvals:
        """The plans that asked for approval, with what people decided on them."""
        return Approvals(self.runs, self.identity().public)

    def declared(self, session: str) -> frozenset[Disclosure]:
        """What a run declared; nothing is known where its plan cannot be read."""
        with suppress(CipherdagError):
            plan = Plan.read(self.runs / session / PLAN_FILE)
            return declared(plan.algorithm, plan.parameters)
        return frozenset()

    def policy(self) -> Policy:
        """The content of ``policy.toml``."""
        return Policy.load(self.policy_path)

    def language(self, code: str | None = None) -> Language:
        """The language of a code, or the one that the policy names."""
        return language(code or self.policy().language)

    def policy_in(self, study: Study) -> Policy:
        """The policy, or the study's rules where these are stricter."""
        return self.policy().stricter(
            min_sites=study.min_sites, protections=study.protections, colluders=study.safe_against
        )

    def identity(self) -> SigningIdentity:
        """The site's signing key."""
        return SigningIdentity.load(self.identity_path)

    def data_path(self, settings: SiteSettings) -> Path:
        """The path of the data."""
        return self.path / settings.data

    def data_source(self, settings: SiteSettings) -> DescribedFile:
        """The data, and how their file is written."""
        return DescribedFile(self.data_path(settings), settings.source)

    def schema_path(self, settings: SiteSettings) -> Path:
        """The path of the schema."""
        return self.path / settings.schema

    def study(self) -> Study:
        """The active study, signature checked; SiteNotReadyError if it does not name this site."""
        name = self.settings().name
        if not self.study_path.exists():
            raise SiteNotReadyError(
                "the site is not activated",
                remedy="Send the file of `cipherdag site request` to the coordinator, then run "
                "`cipherdag site activate` with the answer.",
            )
        study = check_study(read_file(self.study_path, SignedStudy))
        if study.pinned.get(name) != self.identity().public:
            raise SiteNotReadyError(
                "the active study does not name this site and its key",
                remedy="Run `cipherdag site request`, send the file, and activate the answer.",
            )
        return study

    def check_keys(self) -> None:
        """Raise SiteNotReadyError for private keys that other users of the machine may read."""
        for key in self.private_keys:
            if open_to_others(key.stat().st_mode):
                raise SiteNotReadyError(
                    f"the private key {key} is open to other users",
                    remedy=f"Run `chmod 600 {key}`; if others could read it, make a new site.",
                )
