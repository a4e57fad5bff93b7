"""A plan: the program that coordinator and sites run together, fixed before the first round.

The coordinator signs it when it invites; every site checks it against its policy, and a person
there may have to approve it. From then on no question travels: whoever has the plan and the sums
opened so far knows the next question (`replay`). A plan is carried out once: its session is named
after it.

Leaks:
    Everyone who is invited sees all of it. It holds public parameters only.
"""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from math import ceil
from operator import index
from pathlib import Path
from typing import Annotated, Any, Final, Self

import msgspec

from cipherdag.errors import CohortError, KeyAgreementError, MalformedMessageError, ParameterError
from cipherdag.pages.files import from_json
from cipherdag.privacy.key_graph import COMPLETE_UP_TO, KeyBounds
from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.privacy.wire import Body, digest, encode
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import MOST_VISITS

PLAN_FORMAT: Final = 1
SESSION_BYTES: Final = 16
NONCE_BYTES: Final = 16
COLLUDERS: Final = 1  # how many sites may collude in a run that does not say otherwise
MIN_CONTRIBUTORS: Final = 3
"""How many sites have to contribute to a test, in a run that does not say otherwise."""
SPARSE: Final = "masking"  # the protection whose keys may lie on a sparse graph
LEAVING: Final = Fraction(1, 20)  # the share of sites that may leave a run over a sparse graph
MAX_SITES: Final = 4096  # most sites of a study, and so of a cohort
MAX_TEXT: Final = 2000  # characters of the purpose, and of the requester

Protection = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{'|'.join(PROTECTIONS)})\Z")]
"""The name of a protection; a message with any other is malformed."""
_DIGITS = re.compile(r"[0-9a-f]{8,32}")
_SHOWN = 200  # characters of why a text is no plan
_Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
_Name = Annotated[str, msgspec.Meta(max_length=200)]  # ledgers and logs repeat it
PerSite = Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MAX_SITES)]
"""One value for each of several sites; a longer tuple is refused before it takes memory."""


class Member(Body, frozen=True, omit_defaults=True):
    """One site of a cohort, its pinned Ed25519 public key (32 bytes), and what it did not measure.

    ``lacking`` are positions of variables, ascending; the schema says the same to every site.
    ``visits`` is above 1 where its rows are visits of patients: as many of each at most.
    """

    name: _Name
    identity: bytes
    lacking: tuple[int, ...] = ()
    visits: Annotated[int, msgspec.Meta(ge=1, le=MOST_VISITS)] = 1


class Plan(Body, frozen=True, kw_only=True, dict=True):
    """A run's program, parameters and cohort, and for whom it is done."""

    algorithm: _Name  # its name, as registries and policies know it
    parameters: dict[str, Any]  # as JSON has them
    seed: int  # seed of everything that it draws at random
    # SHA-256 of the program's sources, in hexadecimal; empty where it has none, which only sites of
    # the same process accept
    program: str
    versions: dict[str, str]  # of each library that it computes with; a site logs where its differ
    cohort: tuple[Member, ...]  # the sites in order; the first one makes what the sites share
    protection: Protection
    min_survivors: int  # fewest sites that a sum may cover; each site's policy may ask for more
    colluders: int  # sites that may collude with the coordinator without learning more than sums
    min_contributors: int  # how many sites have to contribute to a test whose sums are disclosed
    purpose: _Text  # what the result is for, in words
    requester: _Text  # who asks for it
    created: _Name  # when it was made, in UTC
    nonce: bytes  # 16 random bytes, so that no two plans are equal
    format: int = PLAN_FORMAT

    def __post_init__(self) -> None:
        try:  # whatever has no digest is no plan: msgpack may name a parameter by no text
            encode(self)
        except OverflowError:
            raise ValueError("a number of the plan has more than 64 bits") from None

    @cached_property
    def digest(self) -> bytes:
        """The digest that a person approves, 32 bytes; it covers every field."""
        return digest(b"plan", encode(self))

    @cached_property
    def measured(self) -> Measured:
        """The variables that the sites measured."""
        return measured_by(self.cohort)

    @property
    def visits(self) -> int:
        """Most rows of a patient at any site; 1 where every row is a person."""
        return max((member.visits for member in self.cohort), default=1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the cohort's sites, in order."""
        return tuple([member.name for member in self.cohort])

    @cached_property
    def cohort_digest(self) -> bytes:
        """The digest of its sites, their keys and their order, 32 bytes: the same in every plan."""
        each = [part for member in self.cohort for part in (member.name.encode(), member.identity)]
        return digest(b"cohort", *each)

    @cached_property
    def key_bounds(self) -> KeyBounds | None:
        """The bounds of a sparse key graph; None for a complete one, ParameterError if none."""
        n_sites = len(self.cohort)
        if self.protection != SPARSE or n_sites <= COMPLETE_UP_TO:
            return None
        return KeyBounds.fewest(n_sites, self.colluders, max(n_sites - self.min_survivors, 0))

    @property
    def keys_sentence(self) -> str:
        """A sentence for people on who shares keys with whom; empty where every two sites do."""
        return "" if self.key_bounds is None else self.key_bounds.sentence()

    def check_keys(self) -> None:
        """Raise CohortError where no graph of keys is safe against what the plan declares."""
        try:
            _ = self.key_bounds
        except ParameterError as error:
            raise CohortError(error.message) from None

    @property
    def session(self) -> bytes:
        """The identifier of the one session that carries it out, 16 bytes."""
        return self.digest[:SESSION_BYTES]

    def dumps(self) -> str:
        """The plan as JSON for people and files; `loads` reads it back as an equal plan."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    @classmethod
    def loads(cls, text: str) -> Self:
        """Undo `dumps`; raises MalformedMessageError, which names the field that is wrong."""
        try:
            return from_json(text, cls)
        except ValueError as error:
            raise MalformedMessageError(f"the text is not a plan{_why(error)}") from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """The plan of a file that `dumps` wrote, or a MalformedMessageError."""
        try:
            return from_json(path.read_text("utf-8"), cls)
        except (OSError, ValueError) as error:
            raise MalformedMessageError(
                f"{path} holds no plan{_why(error)}",
                remedy="`cipherdag coordinator plan --out` writes one.",
            ) from None

    def check(self, session: bytes) -> None:
        """Raise MalformedMessageError at another format, another session, or unprintable text."""
        if self.format != PLAN_FORMAT or len(self.nonce) != NONCE_BYTES:
            raise MalformedMessageError(
                f"the plan has format {self.format}, this side knows {PLAN_FORMAT}"
            )
        texts = (self.algorithm, self.purpose, self.requester, self.created)
        names = (expected.name for expected in self.cohort)
        if not all(map(str.isprintable, (*texts, *names))):  # a person reads them on a screen
            raise MalformedMessageError("a text of the plan cannot be printed on one line")
        if session != self.session:
            raise MalformedMessageError("the session is not that of the plan")


def whole_number(value: object, what: str = "a seed") -> int:
    """A whole number as an integer of Python; raises ParameterError where it is none."""
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ParameterError(f"{what} is a whole number, not {value!r:.80}") from None


def _why(error: Exception) -> str:
    """Says what is wrong with a plan's text, such as which field; it may come from anybody."""
    said = str(error.strerror if isinstance(error, OSError) else error)[:_SHOWN]
    return f": {said}" if said.isprintable() else ""  # it is shown on a terminal


def make_plan(
    cohort: Sequence[Member],
    *,
    algorithm: str,
    protection: Protection,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    program: str = "",
    versions: Mapping[str, str] | None = None,
    colluders: int = COLLUDERS,
    min_contributors: int = MIN_CONTRIBUTORS,
    purpose: str = "",
    requester: str = "",
) -> Plan:
    """A new plan over a cohort, dated now.

    With more than `COMPLETE_UP_TO` sites under masking, keys lie on a sparse graph, and a twentieth
    of the sites may leave. CohortError where too few sites lack the same variables. ParameterError
    where too many sites would collude for a sparse graph, or all but none, or fewer than none;
    where purpose or requester is longer than 2,000 characters or more than a line, the seed has
    more than 64 bits, or a parameter cannot be written as JSON.
    """
    n_sites = len(cohort)
    if not 0 <= colluders < max(n_sites, 2):
        raise ParameterError(
            f"a run of {n_sites} sites cannot be safe against {colluders} colluding ones",
            remedy="Declare fewer colluding sites.",
        )
    if max(len(purpose), len(requester)) > MAX_TEXT:
        raise ParameterError(f"purpose and requester have at most {MAX_TEXT} characters")
    if not (purpose + requester).isprintable():
        raise ParameterError("purpose and requester are one line each, without control characters")
    seed = whole_number(seed)
    if not -(2**63) <= seed < 2**64:
        raise ParameterError("the seed of a run has at most 64 bits")
    colluders = min(colluders, max(n_sites - 1, 0))
    min_contributors = min_group_size(n_sites, colluders, min_contributors)
    check_group_sizes(cohort, min_contributors)
    fewest = _fewest_left(cohort, colluders, min_contributors)
    if protection == SPARSE and n_sites > COMPLETE_UP_TO:
        leaving = min(n_sites - fewest, ceil(n_sites * LEAVING))
        if KeyBounds.fewest(n_sites, colluders, leaving) is not None:
            fewest = n_sites - leaving
    return Plan(
        algorithm=algorithm,
        parameters=_as_json(parameters or {}),
        seed=seed,
        program=program,
        versions=dict(versions or {}),
        cohort=tuple(cohort),
        protection=protection,
        min_survivors=fewest,
        colluders=colluders,
        min_contributors=min_contributors,
        purpose=purpose,
        requester=requester,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        nonce=os.urandom(NONCE_BYTES),
    )


def measured_by(cohort: Sequence[Member]) -> Measured:
    """The variables that the sites of a cohort measured."""
    return Measured(tuple(member.lacking for member in cohort))


def check_group_sizes(cohort: Sequence[Member], fewest: int) -> None:
    """Raise CohortError if fewer than ``fewest`` sites lack the same: sums would expose them."""
    measured = measured_by(cohort)
    for group in () if measured.everywhere else measured.groups(range(len(cohort))):
        if len(group) < fewest:
            names = " and ".join(f"'{cohort[site].name}'" for site in group)
            sites = ",".join(member.name for member in cohort)
            raise CohortError(
                f"{names} measured other columns than the rest, and differences of sums would "
                f"tell of fewer than {fewest} such sites",
                remedy="Let every site take a schema that leaves out what too few of them "
                f"measured: `cipherdag schema overlap schema.toml --sites {sites} --min-sites "
                f"{max(fewest, 3)} --out shared.toml` writes it.",
            )


def check_lacking(plan: Plan, lacking: Mapping[str, tuple[int, ...]]) -> None:
    """Raise KeyAgreementError where by the plan a site lacks others than by this site's schema."""
    for member in plan.cohort:
        if member.lacking != lacking.get(member.name, ()):
            raise KeyAgreementError(
                f"by the plan '{member.name}' measured other variables than by the schema",
                remedy="Plan with --lacking as `cipherdag schema overlap` prints it.",
            )


def min_group_size(n_sites: int, colluders: int, contributors: int) -> int:
    """The least number of sites whose sum is opened, and that lack the same variables.

    They are ``contributors`` at least, and two of them do not collude: these two learn only a sum
    of each other. Where one is enough and none colludes, a site alone consents (`as_published`).
    """
    if contributors <= 1 and not colluders:
        return 1
    return min(n_sites, max(contributors, colluders + 2))


def _fewest_left(cohort: Sequence[Member], colluders: int, contributors: int) -> int:
    """Fewest sites that a sum may cover: all that leave may be of one group."""
    measured, n_sites = measured_by(cohort), len(cohort)
    usual = fewest_survivors(n_sites, colluders)
    if measured.everywhere:
        return usual
    spare = measured.smallest_group(range(n_sites)) - contributors
    return max(usual, n_sites - spare)


def _as_json(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as both JSON and msgpack give them back, so that equal plans are equal."""
    try:
        written = msgspec.json.decode(msgspec.json.encode(parameters), type=dict[str, Any])
        if written == msgspec.msgpack.decode(msgspec.msgpack.encode(parameters)):
            return written
    except (TypeError, OverflowError, ValueError):
        pass
    raise ParameterError("a parameter is no number, text or list that can be written as JSON")


def check_session_digits(session: str) -> None:
    """Raise ParameterError unless these are 8 to 32 hexadecimal digits, which name a session."""
    if not _DIGITS.fullmatch(session):
        raise ParameterError(
            "a session is named by 8 to 32 hexadecimal digits",
            remedy="See `cipherdag site status`, which lists them; type more digits of one.",
        )


def fewest_survivors(n_sites: int, colluders: int) -> int:
    """Fewest sites that a sum may cover: max(c + 2, floor((N + c) / 2) + 1), at most N.

    Any two such sets share more than ``colluders`` sites, hence an honest one, and a site that
    helped to open a question never answers it again: no two of them can be played off against each
    other (docs/adr/0012).
    """
    return min(n_sites, max(colluders + 2, (n_sites + colluders) // 2 + 1))
