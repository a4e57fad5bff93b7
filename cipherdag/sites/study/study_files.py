"""Requests, approvals and studies as files: JSON, read strictly and no further than a limit."""

from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from cipherdag.errors import MalformedMessageError
from cipherdag.pages.files import from_json
from cipherdag.protocol.durable_files import OPEN, write_whole
from cipherdag.sites.study.study import FORMAT, Approval, Request, SignedStudy

MAX_REQUEST_BYTES: Final = 64 * 1024
MAX_STUDY_BYTES: Final = 1024 * 1024
FileType = TypeVar("FileType", Request, SignedStudy, Approval)
_KINDS: Final[dict[type[Request | SignedStudy | Approval], str]] = {
    Request: "a site's request",
    SignedStudy: "a signed study",
    Approval: "a coordinator's approval",
}
_WHICH_FILE = (
    "A site sends the .request that `cipherdag site request` writes to the coordinator; what comes "
    "back from `cipherdag coordinator approve` and is activated is its .approval."
)


def write_file(path: Path, content: Request | SignedStudy | Approval) -> None:
    """Write one of the files as indented JSON; raises OutputError."""
    text = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    write_whole(path, text, mode=OPEN)


def read_file(path: Path, kind: type[FileType]) -> FileType:
    """Read one strictly; MalformedMessageError if it is unreadable, too large or another file."""
    limit = MAX_REQUEST_BYTES if kind is Request else MAX_STUDY_BYTES
    content = read_limited(path, limit)
    try:
        decoded = from_json(content, kind)
    except ValueError:
        raise _other_file(path, content, kind) from None
    version = decoded.study.format if isinstance(decoded, SignedStudy) else decoded.format
    if version != FORMAT:
        raise MalformedMessageError(f"{path} has format {version}, this side reads {FORMAT}")
    return decoded


def _other_file(
    path: Path, content: bytes, kind: type[Request | SignedStudy | Approval]
) -> MalformedMessageError:
    """The fault of a file that is of another kind than expected."""
    for other, said in _KINDS.items():
        with suppress(ValueError):
            from_json(content, other)
            return MalformedMessageError(
                f"{path} is {said}, not {_KINDS[kind]}", remedy=_WHICH_FILE
            )
    return MalformedMessageError(
        f"{path} is not {_KINDS[kind]}",
        remedy="It is another file, or was cut short or changed on its way: have it sent again, as "
        "an attachment. Both sides need the same version of cipherdag.",
    )


def read_limited(path: Path, limit: int) -> bytes:
    """A file's bytes, up to a limit; raises MalformedMessageError beyond it, or if unreadable."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise MalformedMessageError(
            f"{path} cannot be read: {error.strerror}", remedy=_WHICH_FILE
        ) from error
    if len(content) > limit:
        raise MalformedMessageError(f"{path} is larger than {limit} bytes", remedy=_WHICH_FILE)
    return content
