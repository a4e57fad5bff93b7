"""BagIt bags in a zip file: a payload, the SHA-512 of every file, and who signed them.

The layout is that of RFC 8493; ``signature.json`` is a tag file of ours, whose signature covers
every other file. Nothing is unpacked to disk. A zip passes only if every program that unpacks it
gets the same files: its entries follow each other without a gap, and are regular files.

Leaks:
    Whoever has a bag reads all that it holds: its files are not encrypted.
"""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha512
from unicodedata import normalize
from uuid import UUID

import msgspec

from cipherdag.errors import BundleError, SignatureError
from cipherdag.pages.files import from_json, printable
from cipherdag.privacy.keys.identity import SigningIdentity, verify

BAG = "cipherdag-bundle"
PAYLOAD = "data/"
MANIFEST = "manifest-sha512.txt"
TAG_MANIFEST = "tagmanifest-sha512.txt"
SIGNATURE_FILE = "signature.json"
_UNSIGNED = ("bagit.txt", "bag-info.txt", MANIFEST)
_TAG_FILES = {*_UNSIGNED, SIGNATURE_FILE, TAG_MANIFEST}
MAX_BYTES = 2**28  # bytes that a bundle may unpack to, with the bundles of sites within it
MAX_FILES = 10_000
_ENTRY = struct.Struct("<4s5H3I2H")  # header in front of a file of a zip
_END = struct.Struct("<4s4H2IH")  # end of a zip
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UTF_8 = 0x800  # flag of a name in UTF-8
_DOMAIN = b"cipherdag bundle"
NO_BUNDLE = "Name a file that `cipherdag audit bundle` wrote."
_UNREADABLE = (
    OSError, ValueError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class BagSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The public key that signed a bag, and its signature, in hexadecimal."""

    identity: str
    signature: str


@dataclass(frozen=True, slots=True)
class Bag:
    """A bag whose digests hold: the payload by path below ``data/``, and the key that signed it."""

    payload: Mapping[str, bytes]
    identity: bytes | None

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return sum(map(len, self.payload.values()))


def packed(
    payload: Mapping[str, bytes],
    *,
    identifier: UUID,
    written: datetime,
    identity: SigningIdentity | None = None,
) -> bytes:
    """A bag as the content of one zip file, from files by their paths below ``data/``.

    ``written`` is in UTC. Without an ``identity`` that signs it the bag has no signature.
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
        signature = identity.sign(_DOMAIN, _manifest(tags)).hex()
        signed = BagSignature(identity.public.hex(), signature)
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
    """A bag, from a zip file, whose digests hold, and whose signature does if there is one.

    It may unpack to ``most`` bytes; errors call it ``called``. BundleError where it is no bag, or a
    file is missing, additional or changed; it is named.
    """
    files = _unzipped(content, called, most)
    tags = {name: content for name, content in files.items() if not name.startswith(PAYLOAD)}
    payload = {name: content for name, content in files.items() if name.startswith(PAYLOAD)}
    for name in (TAG_MANIFEST, *_UNSIGNED):
        if name not in tags:
            raise BundleError(f"{called} holds no {name}: it is no bundle", remedy=NO_BUNDLE)
    for name in sorted(tags.keys() - _TAG_FILES):
        raise BundleError(f"{name} is in the bundle, and no bundle holds it")
    _check_digests(
        {n: tags[n] for n in tags if n != TAG_MANIFEST}, tags[TAG_MANIFEST], TAG_MANIFEST
    )
    _check_digests(payload, tags[MANIFEST], MANIFEST)
    signed = _manifest({name: tags[name] for name in _UNSIGNED})
    identity = _signer(tags[SIGNATURE_FILE], signed) if SIGNATURE_FILE in tags else None
    return Bag({name.removeprefix(PAYLOAD): content for name, content in payload.items()}, identity)


def _unzipped(content: bytes, called: str, most: int) -> dict[str, bytes]:
    """The files of a zip by their paths within its one folder."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            listed = archive.infolist()
            size = sum(info.file_size for info in listed)
            if size > most or len(listed) > MAX_FILES:
                raise BundleError(f"{called} unpacks to {len(listed)} files of {size} bytes")
            for info in listed:
                _check_entry(info, called)
            if len({_on_any_disk(info.filename) for info in listed}) != len(listed):
                raise BundleError(f"{called} names a file twice")
            if {info.filename.partition("/")[0] for info in listed} != {BAG}:
                raise BundleError(
                    f"{called} does not hold one folder {BAG}: it is no bundle", remedy=NO_BUNDLE
                )
            _check_layout(content, listed, called)
            return {_within(info.filename): _read(archive, info) for info in listed}
    except _UNREADABLE as error:
        raise BundleError(f"{called} cannot be read as a zip file", remedy=NO_BUNDLE) from error


def _check_entry(info: zipfile.ZipInfo, called: str) -> None:
    """See that an entry is a regular file whose path means the same on every system."""
    parts = info.filename.split("/")
    plain = all(part and part == part.rstrip(". ") and "\\" not in part for part in parts)
    plain = plain and info.filename.isprintable() and info.filename == info.orig_filename
    if "/" not in info.filename or not plain:
        raise BundleError(f"{called} names a file outside its folder, or not as a bundle does")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in {0, stat.S_IFREG} or info.external_attr & stat.FILE_ATTRIBUTE_DIRECTORY:
        raise BundleError(f"{_within(info.filename)} of the bundle is not a regular file")


def _on_any_disk(name: str) -> str:
    """A path as disks compare it that ignore case, or how an accent is written."""
    return normalize("NFC", normalize("NFC", name).casefold())


def _check_layout(content: bytes, listed: list[zipfile.ZipInfo], called: str) -> None:
    """See that the zip has no byte but its entries and their list, which agree.

    BundleError where programs that read either of them would not get the same files.
    """
    at = 0
    for info in listed:
        mark, _, flags, method, _, _, crc, packed_size, size, name, more = _ENTRY.unpack_from(
            content, at
        )
        said = (info.header_offset, info.flag_bits, info.compress_type, info.CRC)
        sizes = (info.compress_size, info.file_size)
        plain = flags in {0, _UTF_8} and method in _METHODS and not (more or info.extra)
        if mark != b"PK\3\4" or said != (at, flags, method, crc) or sizes != (packed_size, size):
            raise BundleError(f"{called} holds bytes outside its files: it is no bundle")
        if not plain or info.comment:
            raise BundleError(f"{called} holds more than its files: it is no bundle")
        at += _ENTRY.size + name + packed_size
    last = len(content) - _END.size
    mark, *_, size, start, comment = _END.unpack_from(content, last)
    if (mark, start, start + size, comment) != (b"PK\5\6", at, last, 0):
        raise BundleError(f"{called} holds bytes outside its files: it is no bundle")


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
            raise BundleError(f"{printable(shown)} is missing from the bundle")
        if name not in digests:
            raise BundleError(f"{shown} is in the bundle, and {called} does not list it")
        if sha512(by_name[name]).hexdigest() != digests[name]:
            raise BundleError(f"{shown} was changed: its digest is not that of {called}")


def _signer(content: bytes, manifest: bytes) -> bytes:
    """The public key whose signature stands in a file, over a manifest of the tag files."""
    try:
        signed = from_json(content, BagSignature)
        key, signature = bytes.fromhex(signed.identity), bytes.fromhex(signed.signature)
        verify(key, signature, _DOMAIN, manifest)
    except (ValueError, SignatureError) as error:
        raise BundleError(f"{SIGNATURE_FILE} is not a signature of the bundle's files") from error
    return key
