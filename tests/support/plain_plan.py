"""The bytes and the digest of a plan, written out by hand from the formats, and slowly.

msgpack (github.com/msgpack/msgpack/blob/master/spec.md): the smallest form of every number, fields
in the order of the type, keys of tables in alphabetical order. Run it to make the vector anew.
"""

import hashlib
import json
import struct
from pathlib import Path

VECTOR = Path(__file__).parent / "golden" / "plan.json"
FIELDS = (
    "algorithm", "parameters", "seed", "program", "versions", "cohort", "protection",
    "min_survivors", "colluders", "min_contributors",
    "purpose", "requester", "created", "nonce", "format",
)  # fmt: skip
WIDTHS = (1, 2, 4, 8)


def example():
    """A plan with every kind of value, as JSON has it; bytes in hexadecimal."""
    return {
        "algorithm": "fedpc",
        "parameters": {
            "alpha": 0.05,
            "max_cond_size": None,
            "site_effect": True,
            "dof": "adjusted",
            "max_rows": 1 << 20,
            "knowledge": {"tiers": [["1", "2"], ["3"]], "forbidden": [], "required": [["1", "3"]]},
            "offsets": [-1, -33, -129, -70000, 127, 128, 65536, 2**40],
        },
        "seed": 2**64 - 1,
        "program": "ab" * 32,
        "versions": {"torch": "2.9.0", "cipherdag": "0.1.0"},
        "cohort": [{"name": f"hospital-{k}", "identity": bytes([k] * 32).hex()} for k in range(3)],
        "protection": "masking",
        "min_survivors": 3,
        "colluders": 1,
        "min_contributors": 3,
        "purpose": "why does troponin rise, and, ä, in in whom?",
        "requester": "",
        "created": "2026-01-02T03:04:05+00:00",
        "nonce": bytes(range(16)).hex(),
        "format": 1,
    }


def written(value):  # noqa: PLR0911 - one return a type
    """One value in msgpack; tables are written with sorted keys."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return _counted(value.encode(), fixed=(0xA0, 32), marks=(0xD9, 0xDA, 0xDB))
    if isinstance(value, bytes):
        return _counted(value, fixed=None, marks=(0xC4, 0xC5, 0xC6))
    if isinstance(value, list):
        return _head(len(value), (0x90, 16), (None, 0xDC, 0xDD)) + b"".join(map(written, value))
    return table({key: value[key] for key in sorted(value)})


def table(fields):
    """A table in the order that it has."""
    pairs = b"".join(written(key) + written(own) for key, own in fields.items())
    return _head(len(fields), (0x80, 16), (None, 0xDE, 0xDF)) + pairs


def _whole(number):
    if 0 <= number < 128:
        return bytes([number])
    if -32 <= number < 0:
        return bytes([256 + number])
    for power, width in enumerate(WIDTHS):
        if number >= 0 and number < 1 << 8 * width:
            return bytes([0xCC + power]) + number.to_bytes(width, "big")
        if number < 0 and number >= -(1 << 8 * width - 1):
            return bytes([0xD0 + power]) + number.to_bytes(width, "big", signed=True)
    raise OverflowError


def _head(count, fixed, marks):
    if fixed is not None and count < fixed[1]:
        return bytes([fixed[0] + count])
    for mark, width in zip(marks, WIDTHS, strict=False):
        if mark is not None and count < 1 << 8 * width:
            return bytes([mark]) + count.to_bytes(width, "big")
    raise OverflowError


def _counted(content, *, fixed, marks):
    return _head(len(content), fixed, marks) + content


def plan_bytes(plain):
    """A plan as it travels."""
    assert tuple(plain) == FIELDS
    members = [
        {"name": own["name"], "identity": bytes.fromhex(own["identity"])} for own in plain["cohort"]
    ]
    parts = {key: written(plain[key]) for key in FIELDS}
    parts["cohort"] = _head(len(members), (0x90, 16), (None, 0xDC, 0xDD)) + b"".join(
        map(table, members)
    )
    parts["nonce"] = written(bytes.fromhex(plain["nonce"]))
    return _head(len(parts), (0x80, 16), (None, 0xDE, 0xDF)) + b"".join(
        written(key) + own for key, own in parts.items()
    )


def plan_digest(content):
    """What a person approves: SHA-256 over the parts, each after its length in 8 bytes."""
    state = b"cipherdag digest"
    for part in (b"plan", content):
        state += len(part).to_bytes(8, "big") + part
    return hashlib.sha256(state).digest()


def vector():
    """The example with its bytes, digest and session."""
    content = plan_bytes(example())
    digest = plan_digest(content)
    return {
        "plan": example(),
        "bytes": content.hex(),
        "digest": digest.hex(),
        "session": digest[:16].hex(),
    }


if __name__ == "__main__":
    VECTOR.write_text(json.dumps(vector(), indent=1, ensure_ascii=False) + "\n", "utf-8")
