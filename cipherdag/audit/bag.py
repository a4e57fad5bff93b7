"""BagIt bags in a zip file: a payload, the SHA-512 of every file, and who signed them.

The layout is that of RFC 8493; ``signature.json`` is a tag file of ours. Nothing is unpacked to
disk.

Leaks:
    Whoever has a bag reads all that it holds: its files are not encrypted.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha512
from pathlib import PurePosixPath
from uuid import UUID

import msgspec

from cipherdag.errors import BundleError, SignatureError
from cipherdag.privacy.keys.identity import SigningIdentity, verify

BAG = "cipherdag-bundle"
PAYLOAD = "data/"
MANIFEST = "manifest-sha512.txt"
TAG_MANIFEST = "tagmanifest-sha512.txt"
SIGNATURE_FILE = "signature.json"
MAX_BYTES = 2**30
MAX_FILES = 10_000
_DOMAIN = b"cipherdag bundle"
_UNREADABLE = (
    OSError, ValueError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class BagSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who signed a bag's payload manifest; key and signature are in hexadecimal."""

    signer: str
    identity: str
    signature: str


@dataclass(frozen=True, slots=True)
class Bag:
    """A bag whose digests hold: the payload by path below ``data/``, and who signed it."""

    payload: Mapping[str, bytes]
    signed: BagSignature | None


def packed(
    payload: Mapping[str, bytes],
    *,
    identifier: UUID,
    written: datetime,
    signer: str = "",
    identity: SigningIdentity | None = None,
) -> bytes:
    """A bag as the content of one zip file.

    Args:
        payload: Files by their paths below ``data/``.
        identifier: The bag's external identifier.
        written: When, in UTC.
        signer: Name of the party whose key signs the manifest.
        identity: That key; the bag has no signature if None.
    """
    manifest = _manifest({PAYLOAD + name: content for name, content in payload.items()})
    size = sum(map(len, payload.values()))
    about = (
        f"Bagging-Date: {written.date()}\nExternal-Identifier: {identifier.urn}\n"
        f"Payload-Oxum: {size}.{len(payload)}\n"
    )
    tags = {
        "bagit.txt": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
        "bag-info.txt": about.encode(),
        MANIFEST: manifest,
    }
    if identity is not None:
        signature = identity.sign(_DOMAIN, manifest).hex()
        signed = BagSignature(signer, identity.public.hex(), signature)
        tags[SIGNATURE_FILE] = msgspec.json.encode(signed) + b"\n"
    tags[TAG_MANIFEST] = _manifest(tags)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in tags.items():
            archive.writestr(f"{BAG}/{name}", content)
        for name, content in payload.items():
            archive.writestr(f"{BAG}/{PAYLOAD}{name}", content)
    return buffer.getvalue()


def read_bag(content: bytes, *, called: str, most: int = MAX_BYTES) -> Bag:
    """A bag whose digests hold, and whose signature does if there is one.

    Args:
        content: A zip file.
        called: What errors call it.
        most: Bytes that it may unpack to.

    Raises:
        BundleError: It is no bag, or a file is missing, additional or changed; it is named.
    """
    files = _unzipped(content, called, most)
    tags = {name: content for name, content in files.items() if not name.startswith(PAYLOAD)}
    payload = {name: content for name, content in files.items() if name.startswith(PAYLOAD)}
    for name in (TAG_MANIFEST, MANIFEST):
        if name not in tags:
            raise BundleError(f"{called} holds no {name}: it is no bundle")
    _check_digests(
        {n: tags[n] for n in tags if n != TAG_MANIFEST}, tags[TAG_MANIFEST], TAG_MANIFEST
    )
    _check_digests(payload, tags[MANIFEST], MANIFEST)
    signed = _signature(tags[SIGNATURE_FILE], tags[MANIFEST]) if SIGNATURE_FILE in tags else None
    return Bag({name.removeprefix(PAYLOAD): content for name, content in payload.items()}, signed)


def _unzipped(content: bytes, called: str, most: int) -> dict[str, bytes]:
    """The files of a zip by their paths within its one folder."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            listed = [info for info in archive.infolist() if not info.is_dir()]
            names = [info.filename for info in listed]
            size = sum(info.file_size for info in listed)
            if size > most or len(listed) > MAX_FILES:
                raise BundleError(f"{called} unpacks to {len(listed)} files of {size} bytes")
            if len(set(names)) != len(names) or not all(map(_is_inside, names)):
                raise BundleError(f"{called} names a file twice, or one outside its folder")
            if len({PurePosixPath(name).parts[0] for name in names}) != 1:
                raise BundleError(f"{called} does not hold one folder: it is no bundle")
            return {_within(info.filename): _read(archive, info) for info in listed}
    except _UNREADABLE as error:
        raise BundleError(f"{called} cannot be read as a zip file") from error


def _is_inside(name: str) -> bool:
    """Whether a path stays in the bag's folder on every system."""
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and ".." not in parts and parts[0] != "/" and "\\" not in name


def _within(name: str) -> str:
    return name.partition("/")[2]


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        return archive.read(info)
    except _UNREADABLE as error:
        raise BundleError(f"{_within(info.filename)} of the bundle cannot be read") from error


def _manifest(files: Mapping[str, bytes]) -> bytes:
    digests = {_escaped(name): sha512(content).hexdigest() for name, content in files.items()}
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode()


def _escaped(name: str) -> str:
    """A path as manifests write it (RFC 8493, section 2.1.3)."""
    return name.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _check_digests(files: Mapping[str, bytes], manifest: bytes, called: str) -> None:
    """Hold files against a manifest, which has to name each of them and no other."""
    try:
        lines = manifest.decode("utf-8").removesuffix("\n").split("\n")
        digests = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except ValueError as error:
        raise BundleError(f"{called} of the bundle is not a list of digests") from error
    by_name = {_escaped(name): content for name, content in files.items()}
    for name in sorted(digests.keys() | by_name.keys()):
        shown = name.removeprefix(PAYLOAD)
        if name not in by_name:
            raise BundleError(f"{shown} is missing from the bundle")
        if name not in digests:
            raise BundleError(f"{shown} is in the bundle, and {called} does not list it")
        if sha512(by_name[name]).hexdigest() != digests[name]:
            raise BundleError(f"{shown} was changed: its digest is not that of {called}")


def _signature(content: bytes, manifest: bytes) -> BagSignature:
    try:
        signed = msgspec.json.decode(content, type=BagSignature)
        key, signature = bytes.fromhex(signed.identity), bytes.fromhex(signed.signature)
        verify(key, signature, _DOMAIN, manifest)
    except (msgspec.DecodeError, ValueError, SignatureError) as error:
        raise BundleError(f"{SIGNATURE_FILE} is not a signature of the bundle's files") from error
    return signed
