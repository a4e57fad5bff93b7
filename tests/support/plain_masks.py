"""Masks and tags spelled out: integers of Python, one word after the other, nothing of the package.

What it yields is what the fast code has to yield, and what the golden files of masks and tags hold.

python tests/support/plain_masks.py    writes them anew
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

GOLDEN = Path(__file__).parent / "golden"
ROW = 4096
MODULI = {
    "words": [2**56 - 5, 2**56 - 27],
    "bfv": [68719403009, 68719230977, 68719206401],
    "bfv-high": [18014398509309953, 18014398509293569],
    # just above a power of two, so that half of all words are drawn again
    "rejecting": [2**33 + 17, 2**55 + 3],
}


def expand(key, purpose, *context):
    """HKDF-Expand-SHA256 of one block; every part is preceded by its length in 8 bytes."""
    info = b"".join(len(part).to_bytes(8, "big") + part for part in (purpose, *context))
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


def keystream(key, counter=bytes(16)):
    """AES-256 in counter mode, from a counter on."""
    return Cipher(AES(key), CTR(counter)).encryptor()


def residues(encryptor, modulus):
    """Uniform residues for ever, 8 little-endian bytes of a stream each.

    Of a word as many leading bits count as the modulus needs; one beyond it is drawn again.
    """
    bits = (modulus - 1).bit_length()
    while True:
        drawn = int.from_bytes(encryptor.update(bytes(8)), "little") >> (64 - bits)
        if drawn < modulus:
            yield drawn


def first(count, drawn):
    """So many of what is drawn."""
    return [next(drawn) for _ in range(count)]


def pair_stream(pair_key, digest):
    """The stream that two sites share for one question."""
    return keystream(expand(pair_key, b"mask"), expand(pair_key, b"round", digest)[:16])


def masks(encryptor, lengths, moduli):
    """The words of a stream, plane by plane."""
    return [
        first(length, residues(encryptor, modulus))
        for length, modulus in zip(lengths, moduli, strict=True)
    ]


def masked(answer, index, sites, own_seed, pair_keys, digest, moduli):
    """What a site sends: its own stream, those with later sites added, with earlier ones taken off.

    Args:
        answer: Its words, plane by plane, tags included.
        index: The site's position.
        sites: The positions asked.
        own_seed: The seed of its self mask.
        pair_keys: Its key with the site at every other position.
        digest: Of the question.
        moduli: Of the planes.
    """
    lengths = [len(plane) for plane in answer]
    others = [site for site in sites if site != index]
    signed = [(1 if site > index else -1, pair_stream(pair_keys[site], digest)) for site in others]
    total = answer
    for sign, drawn in [(1, keystream(own_seed)), *signed]:
        total = [
            [(word + sign * mask) % modulus for word, mask in zip(plane, words, strict=True)]
            for plane, words, modulus in zip(
                total, masks(drawn, lengths, moduli), moduli, strict=True
            )
        ]
    return total


def packed(values, lowest, base, digits):
    """Words of so many digits of a base each; the digit j of word k is of value k + j * words."""
    words = -(-len(values) // digits)
    return [
        sum(
            (values[place] - lowest) * base**digit
            for digit, place in enumerate(range(word, len(values), words))
        )
        for word in range(words)
    ]


def tag_count(modulus):
    """Tags of a row: as many whole bits of the modulus as make 50."""
    count = 1
    while count * (modulus.bit_length() - 1) < 50:
        count += 1
    return count


def tagged(planes, sum_key, digest, moduli, n_sites=1):
    """Planes with the tags that they have if they are a sum over so many sites.

    A row has 4096 words, the last one fewer: a check word, the tags, and values x_1, x_2, ... A
    tag is n k_0 + k_1 x_1 + k_2 x_2 + ...; every tag of a plane draws its k from a stream of its
    own, which goes on from row to row.
    """
    found = []
    for plane, (words, modulus) in enumerate(zip(planes, moduli, strict=True)):
        count = tag_count(modulus)
        places = [bytes([plane, number]) for number in range(count)]
        keys = [expand(sum_key, b"sum tag", digest, place) for place in places]
        streams = [residues(keystream(key), modulus) for key in keys]
        rows = []
        for start in range(0, len(words), ROW):
            row = list(words[start : start + ROW])
            for number, stream in enumerate(streams):
                tag = n_sites * next(stream)
                for value in row[1 + count :]:
                    tag += next(stream) * value
                row[1 + number] = tag % modulus
            rows += row
        found.append(rows)
    return found


def added(shares, moduli):
    """The sum of several sites' planes."""
    return [
        [sum(words) % modulus for words in zip(*planes, strict=True)]
        for planes, modulus in zip(zip(*shares, strict=True), moduli, strict=True)
    ]


PAIR_KEY = bytes(range(32))
SUM_KEY = bytes(range(32, 64))
DIGEST = bytes.fromhex("4c555021d3f488cfe4680aef5fcc68a17bd67ead3963ea822c772d1de5131705")


def golden_masks():
    """Four words of a pair's masks for every plane of every protection."""
    return {
        "pair_key": PAIR_KEY.hex(),
        "digest": DIGEST.hex(),
        "key": expand(PAIR_KEY, b"mask").hex(),
        "counter": expand(PAIR_KEY, b"round", DIGEST)[:16].hex(),
        "masks": {
            name: [
                {"modulus": str(modulus), "words": [str(word) for word in words]}
                for modulus, words in zip(
                    moduli,
                    masks(pair_stream(PAIR_KEY, DIGEST), [4] * len(moduli), moduli),
                    strict=True,
                )
            ]
            for name, moduli in MODULI.items()
        },
    }


def golden_shares():
    """Shares of a secret, from coefficients that a digest draws."""
    secret, threshold, points, prime = PAIR_KEY, 3, [1, 2, 5, 100], 2**31 - 1
    whole = int.from_bytes(secret + hashlib.sha256(secret).digest()[:16], "big")
    words = [whole >> 30 * k & (2**30 - 1) for k in range(13)]
    drawn = [
        [
            int.from_bytes(hashlib.sha256(b"%d %d" % (power, k)).digest(), "big") % prime
            for k in range(13)
        ]
        for power in range(1, threshold)
    ]
    shares = []
    for point in points:
        share = b""
        for k, word in enumerate(words):
            value = word + sum(row[k] * point**power for power, row in enumerate(drawn, start=1))
            share += (value % prime).to_bytes(4, "big")
        shares.append(share.hex())
    return {
        "secret": secret.hex(),
        "threshold": threshold,
        "coefficients": drawn,
        "points": points,
        "shares": shares,
    }


def golden_words(site, length, modulus, head):
    """Words that differ from place to place and from site to site; heads are zero."""
    return [
        0 if place % ROW < head else (place + 1) ** 5 * (site + 1) % modulus
        for place in range(length)
    ]


def golden_tags():
    """Tags of three sites and of their sum: two rows in the first plane, one in the others."""
    found = {"sum_key": SUM_KEY.hex(), "digest": DIGEST.hex(), "sites": 3, "tags": {}}
    for name, moduli in MODULI.items():
        lengths = [ROW + 9, *[7] * (len(moduli) - 1)]
        shares = []
        for site in range(3):
            planes = [
                golden_words(site, length, modulus, 1 + tag_count(modulus))
                for length, modulus in zip(lengths, moduli, strict=True)
            ]
            shares.append(tagged(planes, SUM_KEY, DIGEST, moduli))
        found["tags"][name] = [
            {
                "modulus": str(modulus),
                "length": lengths[plane],
                "of_sites": [tags_of(share[plane], modulus) for share in shares],
                "of_sum": tags_of(added(shares, moduli)[plane], modulus),
            }
            for plane, modulus in enumerate(moduli)
        ]
    return found


def tags_of(words, modulus):
    """The tags of every row of a plane, as text: they are too long for other readers of JSON."""
    count = tag_count(modulus)
    return [
        [str(word) for word in words[start + 1 : start + 1 + count]]
        for start in range(0, len(words), ROW)
    ]


def main():
    """Write the golden files."""
    for name, content in (
        ("pair_masks", golden_masks()),
        ("sum_tags", golden_tags()),
        ("secret_shares", golden_shares()),
    ):
        text = json.dumps(content, indent=2) + "\n"
        (GOLDEN / f"{name}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
