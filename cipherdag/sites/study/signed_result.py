"""A result as the coordinator sends it to the sites: by identifier, with a signature.

Leaks:
    The learnt graph, or the features of every label, by identifier; the names are put back at the
    site alone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from cipherdag.errors import MalformedMessageError, SchemaMismatchError, SignatureError
from cipherdag.privacy.identity import SigningIdentity, verify
from cipherdag.sites.study.study import encoded, read_limited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cipherdag.sites.study.study import Study

RESULT_DOMAIN = b"cipherdag result"
MAX_RESULT_BYTES = 64 * 1024 * 1024


class ResultEdge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """An edge between two identifiers, counted from 1."""

    source: int
    target: int
    mark: Literal["-->", "---"]


class ResultFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A label, one of its features, both counted from 1, and how strongly they depend."""

    label: int
    feature: int
    strength: float
    p_value: float


class SharedResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run found: the edges of a CPDAG, or the features of every label, strongest first.

    ``version`` is the study's; ``rounds`` and ``variables`` are numbers of them, and ``finished``
    is in UTC (ISO 8601).
    """

    study: str
    version: int
    finished: str
    algorithm: str
    protection: str
    sites: tuple[str, ...]
    rounds: int
    variables: int
    edges: tuple[ResultEdge, ...] = ()
    features: tuple[ResultFeature, ...] = ()


class SignedResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A result and the coordinator's signature over it."""

    result: SharedResult
    signature: bytes


def sign_result(
    identity: SigningIdentity,
    *,
    study: Study,
    algorithm: str,
    protection: str,
    rounds: int,
    variables: int,
    edges: tuple[ResultEdge, ...] = (),
    features: tuple[ResultFeature, ...] = (),
) -> SignedResult:
    """A result of a study, signed by its coordinator."""
    result = SharedResult(
        study=study.name,
        version=study.version,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        algorithm=algorithm,
        protection=protection,
        sites=tuple(study.pinned),
        rounds=rounds,
        variables=variables,
        edges=edges,
        features=features,
    )
    return SignedResult(result=result, signature=identity.sign(RESULT_DOMAIN, encoded(result)))


def read_result(path: Path, study: Study) -> SharedResult:
    """A result that the study's coordinator signed.

    Raises:
        MalformedMessageError: It cannot be read, is too large or not a result.
        SignatureError: It is not signed by the coordinator, or of another study.
    """
    content = read_limited(path, MAX_RESULT_BYTES)
    try:
        signed = msgspec.json.decode(content, type=SignedResult)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise MalformedMessageError(f"{path} is not a signed result") from None
    verify(study.coordinator, signed.signature, RESULT_DOMAIN, encoded(signed.result))
    if signed.result.study != study.name:
        raise SignatureError(f"the result is of the study '{signed.result.study}'")
    return signed.result


def named_edges(result: SharedResult, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """The edges with this site's own names.

    Raises:
        SchemaMismatchError: The result has another number of variables than the site.
        MalformedMessageError: An edge names no variable.
    """
    _check_identifiers(result, names, [(edge.source, edge.target) for edge in result.edges])
    return [(names[edge.source - 1], names[edge.target - 1], edge.mark) for edge in result.edges]


def named_features(result: SharedResult, names: Sequence[str]) -> list[tuple[str, str, float]]:
    """Label, feature and strength with this site's own names, in the order of the result.

    Raises:
        SchemaMismatchError: The result has another number of variables than the site.
        MalformedMessageError: A feature or a label names no variable.
    """
    _check_identifiers(result, names, [(own.label, own.feature) for own in result.features])
    return [(names[own.label - 1], names[own.feature - 1], own.strength) for own in result.features]


def _check_identifiers(
    result: SharedResult, names: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> None:
    if result.variables != len(names):
        raise SchemaMismatchError(
            f"the result has {result.variables} variables, this site's schema {len(names)}"
        )
    if not all(0 < identifier <= len(names) for pair in pairs for identifier in pair):
        raise MalformedMessageError("the result names a variable that there is not")
