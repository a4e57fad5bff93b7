"""The files that site and coordinator exchange before a study: request, approval and study.

All three are JSON, hold nothing secret and may travel by e-mail. A request proves that its sender
holds the identity key it names. An approval is signed by the coordinator and carries the signed
study, through which every site pins the identity of every other one. Who the coordinator is, a site
learns by a fingerprint that was read aloud. A request says nothing of the site's schema: any digest
of it could be tested against guesses. That all schemas are equal is proved in every session.

Leaks:
    A request shows a name, an organisation, public keys and the versions of installed packages.
"""

import hashlib
import re
from typing import Any, Final, Literal

import msgspec

from cipherdag.errors import CohortError, MalformedMessageError, ParameterError, SignatureError
from cipherdag.privacy.keys.identity import PUBLIC_BYTES, SigningIdentity, mismatch, verify
from cipherdag.privacy.wire import transcript
from cipherdag.protocol.messages import COORDINATOR
from cipherdag.protocol.plan import COLLUDERS, MAX_SITES

EngineName = Literal["flare", "files"]

FORMAT: Final = 1
MAX_VERSIONS: Final = 2000
REQUEST_DOMAIN: Final = b"cipherdag enrolment request"
STUDY_DOMAIN: Final = b"cipherdag study"
APPROVAL_DOMAIN: Final = b"cipherdag enrolment approval"

# names stand in files and certificates, so few characters are allowed
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_STUDY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
_RESERVED = frozenset({COORDINATOR, "server", "admin", "localhost"})
_MOST_PORTS = 65535


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Strict decoding for all of them."""


class Request(_File, frozen=True):
    """A site's request to be enrolled in a study, with its Ed25519 public key (``identity``).

    ``certificate_request`` is with FLARE a request for a certificate of the site's key, PEM; over
    files the public keys that its files are sealed by. ``versions`` are of the packages that must
    fit together, and ``proof`` is the site's signature over all of it.
    """

    format: int
    name: str
    organisation: str
    study: str
    identity: bytes
    certificate_request: bytes
    versions: dict[str, str]
    proof: bytes


class StudySite(_File, frozen=True):
    """A site of a study and the identity key that every other site pins."""

    name: str
    identity: bytes


class Study(_File, frozen=True):
    """The members of a study, its coordinator, and the least that the coordinator requires."""

    format: int
    name: str
    version: int  # 1 for the first; one more whenever it changes
    issued: str  # when, in UTC (ISO 8601)
    host: str  # of the coordinator's server, as ``port``; empty and 0 where it has none
    port: int
    coordinator: bytes  # the coordinator's Ed25519 public key
    # hexadecimal: SHA-256 fingerprint of the authority's certificate, over files the coordinator's
    # identity key again
    root: str
    min_sites: int  # fewest sites of a run; a site's policy may ask for more
    protections: tuple[str, ...]
    sites: tuple[StudySite, ...]
    revoked: tuple[str, ...] = ()  # names of sites that took part and no longer do
    engine: EngineName = "flare"
    # how many sites may side with the coordinator in any run and still see sums only; the files of
    # an older study do not have it
    colluders: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def safe_against(self) -> int:
        """``colluders``; of a study that does not say, what its runs were safe against."""
        return COLLUDERS if self.colluders is msgspec.UNSET else self.colluders

    @property
    def pinned(self) -> dict[str, bytes]:
        """Identity key by site."""
        return {site.name: site.identity for site in self.sites}


class SignedStudy(_File, frozen=True):
    """A study and the coordinator's signature over it."""

    study: Study
    signature: bytes


class Approval(_File, frozen=True):
    """The coordinator's answer to one request of a ``site``, signed.

    With FLARE the certificates of site and authority, PEM; over files an answer to its public keys.
    """

    format: int
    site: str
    signed: SignedStudy
    certificate: bytes
    signature: bytes


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


def new_request(identity: SigningIdentity, **about: Any) -> Request:
    """A request with these other fields, signed with the key it names."""
    request = Request(format=FORMAT, identity=identity.public, proof=b"", **about)
    proof = identity.sign(REQUEST_DOMAIN, encoded(request))
    return msgspec.structs.replace(request, proof=proof)


def check_request(request: Request) -> None:
    """Raise SignatureError for a request without proof of its key, ParameterError for odd names."""
    check_site_name(request.name)
    check_study_name(request.organisation)
    check_study_name(request.study)
    versions = "".join(f"{name} {each}" for name, each in request.versions.items())
    if len(versions) > MAX_VERSIONS or not versions.isprintable():  # shown on a terminal
        raise ParameterError("the request names no versions of packages that can be shown")
    unproven = msgspec.structs.replace(request, proof=b"")
    try:
        verify(request.identity, request.proof, REQUEST_DOMAIN, encoded(unproven))
    except SignatureError:
        raise SignatureError(
            "the request is not signed by the identity key it names",
            site=request.name,
            remedy="It was changed on its way, or by hand: have the site send it again.",
        ) from None


def check_newcomer(request: Request, study: Study) -> None:
    """Raise CohortError for the name of a known site with another key, or the reverse."""
    for member in study.sites:
        same_name = member.name.lower() == request.name.lower()
        same_key = member.identity == request.identity
        if same_name and not same_key:
            raise CohortError(
                f"the name is taken: the study knows '{member.name}' with another key",
                site=request.name,
                remedy="If this is another hospital, have it choose another name. If it is the "
                "same one with a new folder, revoke the old entry and enrol it under a new name.",
            )
        if same_key and not same_name:
            raise CohortError(
                f"the study knows its key as '{member.name}'",
                site=request.name,
                remedy="Have it make another folder with `cipherdag site new`: a folder must "
                "not be copied, and a site that is enrolled keeps its name.",
            )


def sign_study(identity: SigningIdentity, study: Study) -> SignedStudy:
    """The study with the coordinator's signature."""
    return SignedStudy(study=study, signature=identity.sign(STUDY_DOMAIN, encoded(study)))


def check_study(signed: SignedStudy) -> Study:
    """The study, if it is sound and signed by the coordinator it names, else SignatureError.

    CohortError where a site or an identity is named twice, or a revoked site is named;
    ParameterError where a name, the address, the minimum or the number of colluding sites cannot be
    used.
    """
    study = signed.study
    verify(study.coordinator, signed.signature, STUDY_DOMAIN, encoded(study))
    check_study_name(study.name)
    if study.engine == "flare":
        check_address(study.host, study.port)
    names = [check_site_name(site.name).lower() for site in study.sites]
    keys = [site.identity for site in study.sites] + [study.coordinator]
    if len(set(names)) != len(names) or len(set(keys)) != len(keys):
        raise CohortError("the study names a site or an identity twice")
    if any(len(key) != PUBLIC_BYTES for key in keys) or len(names) > MAX_SITES:
        raise CohortError("the study holds an identity that is none, or too many sites")
    if set(names) & {name.lower() for name in study.revoked}:
        raise CohortError("the study names a site that is revoked")
    if study.min_sites < 2 or not study.protections:  # noqa: PLR2004
        raise ParameterError("a study needs two sites or more and a protection")
    if study.colluders is not msgspec.UNSET:
        check_colluders(study.colluders, min_sites=study.min_sites)
    return study


def check_colluders(colluders: int, *, min_sites: int) -> None:
    """Raise ParameterError unless a run of ``min_sites`` sites then has two honest ones."""
    if not 0 <= colluders <= min_sites - 2:
        raise ParameterError(
            f"runs of {min_sites} sites cannot be safe against {colluders} colluding ones: two "
            "honest sites are needed for a sum to hide either",
            remedy=f"Tolerate at most {max(min_sites - 2, 0)}, or ask for more sites in each run.",
        )


def approve(
    identity: SigningIdentity, *, site: str, signed: SignedStudy, certificate: bytes
) -> Approval:
    """The signed approval for one site."""
    approval = Approval(
        format=FORMAT, site=site, signed=signed, certificate=certificate, signature=b""
    )
    signature = identity.sign(APPROVAL_DOMAIN, encoded(approval))
    return msgspec.structs.replace(approval, signature=signature)


def check_approval(
    approval: Approval, *, site: str, identity: bytes, code: str, study: str
) -> Study:
    """The study of an approval, if it is for this site and from the expected coordinator.

    ``code`` is the coordinator's code of words or fingerprint, learnt by another way than the file.
    SignatureError for another coordinator or site, an altered file, or another identity key;
    ParameterError where ``code`` is neither; and as `check_study`.
    """
    claimed = approval.signed.study
    differs = mismatch(code, coordinator_fingerprint(claimed.coordinator, claimed.root))
    if differs:
        raise SignatureError(
            f"the approval is not from the coordinator with this code: {differs}",
            remedy="Ask the coordinator by telephone to read it aloud again; if it still differs, "
            "someone replaced the file on its way: do not activate it, and tell the coordinator.",
        )
    unsigned = msgspec.structs.replace(approval, signature=b"")
    try:
        verify(claimed.coordinator, approval.signature, APPROVAL_DOMAIN, encoded(unsigned))
        approved = check_study(approval.signed)
    except SignatureError:
        raise SignatureError(
            "the approval is not as the coordinator signed it",
            remedy="It was changed on its way, or by hand: have the coordinator send it again.",
        ) from None
    if approval.site != site:
        raise SignatureError(
            f"the approval is for '{approval.site}', not for '{site}'",
            remedy=f"Activate {site}.approval; this one belongs to the other site.",
        )
    if approved.name != study:
        raise SignatureError(
            f"the approval is for the study '{approved.name}', not for '{study}'",
            remedy="Ask the coordinator for the study's name; if it is that of the approval, "
            "correct study in site.toml and send a new request.",
        )
    if approved.pinned.get(site) != identity:
        raise SignatureError(
            "the study names another identity key for this site than its own",
            remedy="Is this the folder whose request was approved? If it was made anew since, "
            "send its request, under another name.",
        )
    return approved


def coordinator_fingerprint(identity: bytes, root: str) -> str:
    """A fingerprint of key and root, 32 pairs; MalformedMessageError for a root that is none."""
    try:
        certificate = bytes.fromhex(root)
    except ValueError:
        certificate = b""
    if len(certificate) != hashlib.sha256().digest_size:
        raise MalformedMessageError("the root certificate's fingerprint is not one")
    return _pairs(b"cipherdag coordinator fingerprint", identity, certificate)


def study_fingerprint(study: Study) -> str:
    """A fingerprint of everything in a study; two sites that compare it have the same one."""
    return _pairs(STUDY_DOMAIN, encoded(study))


def encoded(content: msgspec.Struct) -> bytes:
    """The bytes that a signature covers."""
    return msgspec.json.encode(content, order="deterministic")


def _pairs(*parts: bytes) -> str:
    return hashlib.sha256(transcript(*parts)).digest().hex(":").upper()
