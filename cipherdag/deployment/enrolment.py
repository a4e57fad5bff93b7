"""A site's way into a study: request, activation, start, with each engine.

With NVIDIA FLARE a site's request holds a request for a certificate. Over files it holds two public
keys, and the approval holds the coordinator's answer to them.

Leaks:
    The request: a name, an organisation, public keys, versions of packages.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from cipherdag.deployment.certificates import (
    certificates_of,
    check_certificate,
    check_validity,
    load_key,
    make_key,
    request_certificate,
)
from cipherdag.deployment.shared_folder import install_answer, public_keys
from cipherdag.errors import ReplayError, SignatureError, SiteNotReadyError
from cipherdag.privacy.keys.identity import STUDY_WORDS, mismatch
from cipherdag.program.versions import package_versions, require_flare
from cipherdag.protocol.durable_files import write_whole
from cipherdag.sites.private_files import START_LOCK, is_locked
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.study.study import (
    Approval,
    Request,
    SignedStudy,
    Study,
    check_approval,
    coordinator_fingerprint,
    new_request,
    study_fingerprint,
)
from cipherdag.sites.study.study_files import read_file, write_file


@dataclass(frozen=True, slots=True)
class Activation:
    """The result of an activation: the study, and the sites added and removed by it."""

    study: Study
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the study, which should be the same at all its sites."""
        return study_fingerprint(self.study)


def request_enrolment(site: SiteFolder, out: Path | None = None) -> tuple[Path, Request]:
    """Write the request of a site; its keys are made on the first call and kept.

    It is ``NAME.request`` in the folder by default. Raises SiteNotReadyError where the settings are
    not valid, or FLARE is needed and not installed.
    """
    settings = site.settings()
    request = new_request(
        site.identity(),
        name=settings.name,
        organisation=settings.organisation,
        study=settings.study,
        certificate_request=_public_keys(site, settings),
        versions=package_versions(),
    )
    path = out or site.path / f"{settings.name}.request"
    write_file(path, request)
    return path, request


def activate(site: SiteFolder, path: Path, *, code: str, study_code: str = "") -> Activation:
    """Take part in the study of an approval, or in its newer version.

    ``code``, the coordinator's words or fingerprint, was learnt by another way than the file.
    ``study_code`` is the study's code as another site found it; if empty, it is not compared.

    Raises:
        SignatureError: The approval is another coordinator's, for another site or altered, or
            its certificate is not for this site's key, or a site's name is given to another key.
        ReplayError: The study is older than the active one.
        SiteNotReadyError: Settings and study contradict each other, a key is open to others, the
            certificate is not valid at this machine's time, or is a new one and the site is
            started.
        MalformedMessageError: It is not an approval.
    """
    settings = site.settings()
    site.check_keys()
    identity = site.identity()
    engine = settings.engine
    approval = read_file(path, Approval)
    study = check_approval(
        approval, site=settings.name, identity=identity.public, code=code, study=settings.study
    )
    if study_code:
        _compare_studies(study, study_code)
    if study.engine != engine:
        raise SiteNotReadyError(
            f"the study's engine is '{study.engine}', site.toml is made for '{engine}'",
            remedy="Make the site anew for the study's engine: with --files for 'files'.",
        )
    settings.check_host(study)
    before = _active(site, study)
    if engine == "flare":
        check_validity(certificates_of(approval.certificate, settings.name)[0], datetime.now(UTC))
        _install(site, approval.certificate, study, path)
    elif engine == "files":
        install_answer(site, approval.certificate, study)
    write_file(site.study_path, approval.signed)
    old = set(before.pinned) if before is not None else set()
    return Activation(
        study,
        added=tuple(sorted(set(study.pinned) - old)),
        removed=tuple(sorted(old - set(study.pinned))),
    )


def code_of_renewal(site: SiteFolder, path: Path) -> str:
    """The coordinator's fingerprint that the site pinned, where an approval changes no study.

    Empty where the approval holds another study than the active one, so that a person has to
    compare codes. Raises MalformedMessageError where it is not an approval.
    """
    signed = read_file(path, Approval).signed
    if not site.study_path.exists() or read_file(site.study_path, SignedStudy) != signed:
        return ""
    study = site.study()
    return coordinator_fingerprint(study.coordinator, study.root)


def _compare_studies(study: Study, code: str) -> None:
    differs = mismatch(code, study_fingerprint(study), STUDY_WORDS)
    if differs:
        raise SignatureError(
            f"the study is not the one that the other site has: {differs}",
            remedy="Compare its version with the other site's; if both are the newest, stop: the "
            "coordinator gave two sites different studies.",
        )


def _active(site: SiteFolder, study: Study) -> Study | None:
    """The study that was active, if the new one may follow it."""
    if not site.study_path.exists():
        return None
    before = read_file(site.study_path, SignedStudy).study
    if (before.coordinator, before.root) != (study.coordinator, study.root):
        raise SignatureError(
            "the site belongs to another coordinator", remedy="Make a new site for a new one."
        )
    if study.version < before.version:
        raise ReplayError(
            f"the approval holds version {study.version} of the study, version {before.version} "
            "is active",
            remedy="Ask the coordinator for the newest approval.",
        )
    if study.version == before.version and study != before:
        raise SignatureError(
            "the coordinator signed two different studies of one version",
            remedy="Stop: compare the study's code with the other sites, and inform them.",
        )
    _check_names(before, study)
    return before


def _check_names(before: Study, study: Study) -> None:
    """Refuse a study that gives a known name or key to another site, or drops it unrevoked."""
    taken = [name for name, key in before.pinned.items() if study.pinned.get(name, key) != key]
    lost = {*before.pinned, *before.revoked} - {*study.pinned, *study.revoked}
    back = {*before.revoked} & {*study.pinned}
    former_names = {key: name for name, key in before.pinned.items()}
    renamed = [name for name, key in study.pinned.items() if former_names.get(key, name) != name]
    if names := sorted({*taken, *lost, *back, *renamed}):
        raise SignatureError(
            f"the study gives the name '{names[0]}' to another key, or a known key, or drops it "
            "unrevoked",
            remedy="Stop: whoever gets a name makes other sites look like those of earlier runs, "
            "whose sums then show that site's answers by subtraction. Inform the other sites.",
        )


def _public_keys(site: SiteFolder, settings: SiteSettings) -> bytes:
    """What a request says of the keys that carry messages, made on the first call and kept."""
    if settings.engine == "files":
        return public_keys(site)
    require_flare()
    key = load_key(site.tls_key) if site.tls_key.exists() else make_key(site.tls_key)
    return request_certificate(key, site=settings.name, organisation=settings.organisation)


def _install(site: SiteFolder, chain: bytes, study: Study, approval: Path) -> None:
    """Install the certificate, unless the one in use is valid now and lasts at least as long.

    One that is not valid yet is replaced, as the coordinator's clock was fast when it was issued.
    """
    require_flare()
    key = load_key(site.tls_key).public_key()
    check_certificate(chain, name=site.settings().name, key=key, root=study.root)
    given, _ = certificates_of(chain, site.settings().name)
    if site.tls_chain.exists():
        in_use = x509.load_pem_x509_certificates(site.tls_chain.read_bytes())[0]
        begun = in_use.not_valid_before_utc <= datetime.now(UTC)
        if begun and given.not_valid_after_utc <= in_use.not_valid_after_utc:
            return
        _check_stopped(site, approval)
    write_whole(site.tls_chain, chain.decode("ascii"))


def _check_stopped(site: SiteFolder, approval: Path) -> None:
    """Refuse a new certificate while the site is started: it would count from the next start."""
    if is_locked(site.path / START_LOCK):
        at = f"--dir {site.path}"
        raise SiteNotReadyError(
            "this site is started, with the certificate that it has",
            remedy=f"Stop it, run `cipherdag site activate {approval} {at}` again, then "
            f"`cipherdag site start {at}`.",
        )
