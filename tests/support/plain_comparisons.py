"""Comparison keys spelled out from the paper: one comparison, one block, one bit after the other.

Boyle et al., EUROCRYPT 2021 (ePrint 2020/1392), Figure 3 and section 4.1, with integers of Python
and nothing of the package. What it yields is what the fast code has to yield, and what the golden
file of comparisons holds.

python tests/support/plain_comparisons.py    writes it anew
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

GOLDEN = Path(__file__).parent / "golden" / "comparisons.json"
WORD = 2**64
LEFT, RIGHT = 0, 1


def size(modulus):
    """Bits of a point: the least n such that all residues are below 2**n."""
    bits = 0
    while 2**bits < modulus:
        bits += 1
    return bits


def header(batch, holder):
    """Version 1, whose it is, and all that is public, numbers big-endian."""
    numbers = [(batch["number"], 4), (batch["dealer"], 4), *((h, 4) for h in batch["holders"])]
    numbers += [(batch["modulus"] - 1, 8), (batch["count"], 4)]
    said = b"".join(number.to_bytes(length, "big") for number, length in numbers)
    return bytes([1, holder]) + bytes.fromhex(batch["session"]) + said


def hashed(batch, block):
    """H(x) = pi(sigma(x)) xor sigma(x) of one block; a block is a little-endian number."""
    key = hashlib.sha256(b"cipherdag comparison" + header(batch, 0)).digest()[:16]
    left, right = block % WORD, block // WORD
    mixed = (left ^ right) + left * WORD
    encryptor = Cipher(AES(key), ECB()).encryptor()
    return int.from_bytes(encryptor.update(mixed.to_bytes(16, "little")), "little") ^ mixed


def grown(batch, seed):
    """Of both children: seed, control bit and output of Z_2."""
    children = []
    for side in (LEFT, RIGHT):
        block = hashed(batch, seed + side)
        children.append((block - block % 8, block % 2, block // 2 % 2))
    return children


def path(alpha, bits):
    """The bits of a point, the highest first."""
    return [int(digit) for digit in bin(2**bits + alpha)[3:]]


def generated(batch, alpha, roots):
    """Gen of Figure 3 for one comparison: corrections (seed, t left, t right, v) and outputs."""
    bits = size(batch["modulus"])
    seeds, controls, v_alpha, corrections = list(roots), [0, 1], 0, []
    for turn in path(alpha, bits)[: max(bits - 7, 0)]:
        children = [grown(batch, seed) for seed in seeds]
        keep, lose = turn, 1 - turn
        s_cw = children[0][lose][0] ^ children[1][lose][0]
        v_cw = children[0][lose][2] ^ children[1][lose][2] ^ v_alpha
        if lose == LEFT:
            v_cw ^= 1
        v_alpha ^= children[0][keep][2] ^ children[1][keep][2] ^ v_cw
        t_cw = [
            children[0][LEFT][1] ^ children[1][LEFT][1] ^ turn ^ 1,
            children[0][RIGHT][1] ^ children[1][RIGHT][1] ^ turn,
        ]
        corrections.append((s_cw, *t_cw, v_cw))
        for holder in (0, 1):
            seed, control, _ = children[holder][keep]
            if controls[holder]:
                seed, control = seed ^ s_cw, control ^ t_cw[keep]
            seeds[holder], controls[holder] = seed, control
    last = min(bits, 7)
    outputs = 0
    masks = hashed(batch, seeds[0] + 2) ^ hashed(batch, seeds[1] + 2)
    for place in range(2**last):
        below = int(place < alpha % 2**last)
        outputs += (masks >> place & 1 ^ below ^ v_alpha) << place
    return corrections, outputs


def evaluated(batch, key, holder, point):
    """Eval of Figure 3 for one comparison: a share of whether the point is below alpha."""
    root, corrections, outputs = key
    bits = size(batch["modulus"])
    seed, control, value = root, holder, 0
    for turn, (s_cw, t_left, t_right, v_cw) in zip(path(point, bits), corrections, strict=False):
        seed, own, output = grown(batch, seed)[turn]
        value ^= output
        if control:
            seed, own, value = seed ^ s_cw, own ^ (t_left, t_right)[turn], value ^ v_cw
        control = own
    place = point % 2 ** min(bits, 7)
    value ^= hashed(batch, seed + 2) >> place & 1
    return value ^ (outputs >> place & 1 if control else 0)


def roots_of(seed, count):
    """Root seeds: AES-256 in counter mode from zero, 16 bytes each, the lowest bits cleared."""
    stream = Cipher(AES(seed), CTR(bytes(16))).encryptor().update(bytes(16 * count))
    roots = [int.from_bytes(stream[16 * k : 16 * k + 16], "little") for k in range(count)]
    return [root - root % 8 for root in roots]


def dealt(batch, blinds, seeds):
    """What travels: the common part, level after level, and the secret of each holder."""
    roots = [roots_of(seed, batch["count"]) for seed in seeds]
    trees = []
    for place, blind in enumerate(blinds):
        own = [of_holder[place] for of_holder in roots]
        corrections, outputs = generated(batch, (blind - 1) % batch["modulus"], own)
        blocks = [seed + t_left + 2 * t_right + 4 * v for seed, t_left, t_right, v in corrections]
        trees.append([*blocks, outputs])
    common = b"".join(
        block.to_bytes(16, "little") for level in zip(*trees, strict=True) for block in level
    )
    secrets = []
    for holder, seed in enumerate(seeds):
        said = header(batch, holder) + seed
        secrets.append(said + hashlib.sha256(said + common).digest())
    return common, secrets


def read(batch, common, secret):
    """The keys of every comparison from what travels."""
    count = batch["count"]
    seed = secret[len(header(batch, 0)) :][:32]
    blocks = [int.from_bytes(common[at : at + 16], "little") for at in range(0, len(common), 16)]
    keys = []
    for place, root in enumerate(roots_of(seed, count)):
        *middle, outputs = blocks[place::count]
        corrections = [(b - b % 8, b % 2, b // 2 % 2, b // 4 % 2) for b in middle]
        keys.append((root, corrections, outputs))
    return keys


def correction(p, q, r, modulus):
    """The term z of the paper's gate, modulo 2, without the output's own mask."""
    after = (q + 1) % modulus
    shifted = {name: (value + r) % modulus for name, value in (("p", p), ("q", q), ("e", after))}
    return (
        (shifted["p"] > shifted["q"])
        ^ (shifted["p"] > p)
        ^ (shifted["e"] > after)
        ^ (shifted["q"] == modulus - 1)
    )


def contains(batch, keys, holder, blinded, low, high):
    """The paper's gate but for z: shares whose sum is the verdict plus z, modulo 2."""
    modulus = batch["modulus"]
    shares = []
    for key, x, p, q in zip(keys, blinded, low, high, strict=True):
        after = (q + 1) % modulus
        share = evaluated(batch, key, holder, (x + modulus - 1 - p) % modulus)
        share ^= evaluated(batch, key, holder, (x + modulus - 1 - after) % modulus)
        shares.append(share ^ (holder and (x > p) ^ (x > after)))
    return [int(share) for share in shares]


def stream(*parts):
    """Numbers that look random: integers below a bound, or bytes, from SHAKE-256."""
    return hashlib.shake_256("|".join(map(str, parts)).encode()).digest


def below(bound, *parts):
    """A number below a bound; its bias does not matter here."""
    return int.from_bytes(stream(*parts)(16), "big") % bound


MODULI = [2, 5, 2**7, 2**7 + 1, 2**24 - 3, 2**56 - 5, 2**64]


def case(modulus):
    """One batch of the golden file: three sums, one of them at each end, and one blinded by 0."""
    count = 3
    batch = {
        "session": stream("session", modulus)(32).hex(),
        "number": below(1000, "number", modulus),
        "dealer": 3,
        "holders": [2**32 - 1, 1],
        "modulus": modulus,
        "count": count,
    }
    sums = [0, modulus - 1, *(below(modulus, "sum", modulus, k) for k in range(count - 2))]
    blinds = [*(below(modulus, "blind", modulus, k) for k in range(count - 1)), 0]
    ends = [sorted(below(modulus, end, modulus, k) for end in "pq") for k in range(count)]
    ends[0][0], ends[1][1] = 0, modulus - 1
    seeds = [stream("seed", modulus, holder)(32) for holder in (0, 1)]
    low, high = zip(*ends, strict=True)
    blinded = [(t + r) % modulus for t, r in zip(sums, blinds, strict=True)]
    common, secrets = dealt(batch, blinds, seeds)
    return {
        **batch,
        "modulus": str(modulus),
        **{
            name: [str(value) for value in values]
            for name, values in (
                ("blinds", blinds), ("blinded", blinded), ("low", low), ("high", high),
            )
        },
        "seeds": [seed.hex() for seed in seeds],
        "common": common.hex(),
        "secrets": [secret.hex() for secret in secrets],
        "shares_without_z": [
            contains(batch, read(batch, common, secret), holder, blinded, low, high)
            for holder, secret in enumerate(secrets)
        ],
        "inside": [int(p <= t <= q) for t, p, q in zip(sums, low, high, strict=True)],
    }  # fmt: skip


if __name__ == "__main__":
    text = json.dumps([case(modulus) for modulus in MODULI], indent=1) + "\n"
    GOLDEN.write_text(text, "utf-8")
