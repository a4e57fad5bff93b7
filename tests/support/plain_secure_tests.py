"""Secure tests spelled out: one word, one comparison and one integer of Python after the other.

Nothing of the package: HKDF-Expand and AES from `hmac` and `cryptography`, comparison functions
after Boyle et al. (EUROCRYPT 2021, Figure 3) with outputs modulo 2**64, sharing and labels as
cipherdag/privacy/mpc says in words. What it yields is what the fast code has to yield, and what the
golden file of secure tests holds (`secure_test_cases`).
"""

import hashlib
import hmac
from itertools import accumulate

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

WORD = 2**64
NOBODY = 2**32 - 1


# ------------------------------------------------------------------ bytes


def framed(*parts):
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def sha(*parts):
    return hashlib.sha256(framed(*parts)).digest()


def expanded(seed, purpose, *context):
    return hmac.new(seed, framed(purpose, *context) + b"\x01", "sha256").digest()


def stream(key, count):
    """So many 64-bit words of AES-256 in counter mode from zero."""
    text = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(8 * count))
    return [int.from_bytes(text[at : at + 8], "little") for at in range(0, 8 * count, 8)]


def written(words, widths):
    """Every word modulo its ring, in the least whole bytes of it."""
    return b"".join(
        (word % 2**width).to_bytes((width + 7) // 8, "little")
        for word, width in zip(words, widths, strict=True)
    )


def whole(words):
    return written(words, [64] * len(words))


def hashed(key, block, tweak):
    """H(x) = pi(sigma(x)) xor sigma(x) of a block of two words, with bits of the first set."""
    left, right = block[0] | tweak, block[1]
    mixed = (left ^ right) + left * WORD
    encryptor = Cipher(AES(key), ECB()).encryptor()
    found = int.from_bytes(encryptor.update(mixed.to_bytes(16, "little")), "little") ^ mixed
    return found % WORD, found // WORD


# ------------------------------------------------------------------ what is asked


def forms_of(case):
    return [form for test in case["tests"] for form in test]


def value(form, x):
    """A form without its constant."""
    found = sum(c * x[i] * x[j] for i, j, c in form["quadratic"])
    return found + sum(c * x[j] for j, c in form["linear"])


def widths(case):
    """The least k so that all values of T - 1 lie in the middle half of the ring of k bits."""
    found = []
    for form in forms_of(case):
        low = high = form["constant"] - 1
        for i, j, c in form["quadratic"]:
            ends = [
                c * a * b
                for a in (case["lowest"][i], case["highest"][i])
                for b in (case["lowest"][j], case["highest"][j])
            ]
            if i == j:
                ends = [0, *(c * end**2 for end in (case["lowest"][i], case["highest"][i]))]
            low, high = low + min(ends), high + max(ends)
        for j, c in form["linear"]:
            ends = c * case["lowest"][j], c * case["highest"][j]
            low, high = low + min(ends), high + max(ends)
        k = 4
        while not -(2 ** (k - 2)) <= low <= high < 2 ** (k - 2):
            k += 1
        found.append(k)
    return found


def word_widths(case):
    """Of every word the widest ring of the forms that it is in; 4 bits if it is in none."""
    found = [4] * len(case["lowest"])
    for form, width in zip(forms_of(case), widths(case), strict=True):
        pairs = [w for i, j, _ in form["quadratic"] for w in (i, j)]
        for word in [*pairs, *(j for j, _ in form["linear"])]:
            found[word] = max(found[word], width)
    return found


def predicates_digest(case):
    forms = forms_of(case)
    columns = [
        case["lowest"],
        case["highest"],
        [len(test) for test in case["tests"]],
        [v for at, f in enumerate(forms) for i, j, c in f["quadratic"] for v in (at, i, j, c)],
        [v for at, f in enumerate(forms) for j, c in f["linear"] for v in (at, j, c)],
        [form["constant"] for form in forms],
    ]
    written_out = [b"".join(v.to_bytes(8, "little", signed=True) for v in c) for c in columns]
    return sha(b"cipherdag predicates", *written_out)


def batch_digest(case):
    twin = NOBODY if case["twin"] is None else case["twin"]
    numbers = case["number"], case["attempt"], case["dealer"], twin, *case["holders"]
    said = bytes([2]) + b"".join(number.to_bytes(4, "big") for number in numbers)
    sites = b"".join(site.to_bytes(4, "big") for site in case["sites"])
    session, question = bytes.fromhex(case["session"]), bytes.fromhex(case["question"])
    parts = said, session, question, sites, predicates_digest(case)
    return sha(b"cipherdag secure tests", *parts)


# ------------------------------------------------------------------ comparison functions


class Tree:
    """Both keys of one comparison: f(x) = payload where [x < alpha] differs from turned, else 0."""

    def __init__(self, key, bits):
        self.key, self.bits = key, bits

    def children(self, seed):
        """(seed, control bit) to the left and the right, and the words of both directions."""
        found = []
        for side in (0, 1):
            low, high = hashed(self.key, seed, side)
            found.append(((low - low % 8, high), low % 2))
        return found, hashed(self.key, seed, 2)

    def outputs(self, seed):
        return [*hashed(self.key, seed, 4), *hashed(self.key, seed, 5)]

    def generate(self, alpha, payload, turned, roots):
        seeds, control, before, levels = list(roots), [0, 1], 0, []
        for level in range(self.bits - 2):
            turn = alpha >> (self.bits - 1 - level) & 1
            grown = [self.children(seed) for seed in seeds]
            lost = [grown[b][0][1 - turn] for b in (0, 1)]
            words = [grown[b][1] for b in (0, 1)]
            sign = 1 if control[0] else -1
            # who leaves the path to the left is below alpha, to the right is not
            wanted = payload if turn != turned else 0
            correction = sign * (wanted - before - words[0][1 - turn] + words[1][1 - turn]) % WORD
            before = (before + words[0][turn] - words[1][turn] + sign * correction) % WORD
            seed_correction = tuple(lost[0][0][w] ^ lost[1][0][w] for w in (0, 1))
            bits = [
                grown[0][0][side][1] ^ grown[1][0][side][1] ^ (1 if side == turn else 0)
                for side in (0, 1)
            ]
            levels.append((seed_correction, bits, correction))
            for b in (0, 1):
                seed, bit = grown[b][0][turn]
                if control[b]:
                    seed = tuple(item ^ c for item, c in zip(seed, seed_correction, strict=True))
                    bit ^= bits[turn]
                seeds[b], control[b] = seed, bit
        masks = [self.outputs(seed) for seed in seeds]
        sign = 1 if control[0] else -1
        last = []
        for place in range(4):
            below = 1 if place < alpha % 4 else 0
            wanted = payload if below != turned else 0
            last.append(sign * (wanted - before - masks[0][place] + masks[1][place]) % WORD)
        return levels, last

    def evaluate(self, root, key, holder, x):
        levels, last = key
        seed, control, total = root, holder, 0
        for level, (seed_correction, bits, correction) in enumerate(levels):
            turn = x >> (self.bits - 1 - level) & 1
            grown, words = self.children(seed)
            total += words[turn] + control * correction
            seed, bit = grown[turn]
            if control:
                seed = tuple(item ^ c for item, c in zip(seed, seed_correction, strict=True))
                bit ^= bits[turn]
            control = bit
        total += self.outputs(seed)[x % 4] + control * last[x % 4]
        return (-total if holder else total) % WORD


# ------------------------------------------------------------------ the batch


class Batch:
    """One batch from seeds and vectors to bits; every step is a method, and all it yields bytes."""

    def __init__(self, case):
        self.case, self.forms = case, forms_of(case)
        self.digest = batch_digest(case)
        self.widths = widths(case)
        self.word_widths = word_widths(case)
        self.multiplied = sorted(
            {w for f in self.forms for i, j, _ in f["quadratic"] for w in (i, j)}
        )
        self.sizes = [len(test) for test in case["tests"]]
        self.test = [t for t, size in enumerate(self.sizes) for _ in range(size)]
        self.tree_key = sha(b"cipherdag public hash", b"keys", self.digest)[:16]
        self.label_key = sha(b"cipherdag public hash", b"labels", self.digest)[:16]

    def part(self, seed):
        return stream(expanded(seed, b"part of a vector", self.digest), len(self.case["lowest"]))

    def rest(self, vector, first, dealt):
        parts = zip(vector, self.part(first), self.part(dealt), strict=True)
        return [(x - s - t) % 2**k for (x, s, t), k in zip(parts, self.word_widths, strict=True)]

    def drawn(self, seed, holder):
        """What a holder draws: roots, masks, shares of t, steps, labels, and the range's label."""
        m, tests = len(self.forms), len(self.sizes)
        counts = [2 * m, m, len(self.multiplied), tests, tests, 1]
        words = stream(expanded(seed, b"draws of a holder", self.digest), sum(counts))
        ends = list(accumulate(counts))
        parts = [words[end - count : end] for end, count in zip(ends, counts, strict=True)]
        roots, masks, dealt, steps, labels, (reach,) = parts
        roots = [(roots[2 * c] - roots[2 * c] % 8, roots[2 * c + 1]) for c in range(m)]
        steps = [step - step % 2 + (1 - holder) for step in steps]
        return {
            "roots": roots, "masks": masks, "dealt": dealt, "steps": steps, "labels": labels,
            "reach": reach,
        }  # fmt: skip

    def label_hash(self, label, place):
        low, high = hashed(self.label_key, (label % WORD, place), 0)
        return (low + high * WORD).to_bytes(16, "little")[:10]

    def deal(self, seed, site_seeds):
        """What is sent in the clear, and both holders' seeds."""
        seeds = [expanded(seed, b"seed of a holder", self.digest, bytes([h])) for h in (0, 1)]
        item = [self.drawn(seeds[h], h) for h in (0, 1)]
        t = [sum(words) for words in zip(*map(self.part, site_seeds), strict=True)]
        steps = [sum(pair) % WORD for pair in zip(item[0]["steps"], item[1]["steps"], strict=True)]
        labels = [sum(pair) for pair in zip(item[0]["labels"], item[1]["labels"], strict=True)]
        keys = {}
        for c, form in enumerate(self.forms):
            k = self.widths[c]
            r = (item[0]["masks"][c] + item[1]["masks"][c] - value(form, t)) % 2**k
            roots = [item[h]["roots"][c] for h in (0, 1)]
            low, top = r % 2 ** (k - 1), r >> (k - 1)
            keys[c] = Tree(self.tree_key, k - 1).generate(low, steps[self.test[c]], top, roots)
        common = b""
        # the longest first; of the levels, those with the most levels left
        members = sorted(keys, key=lambda c: (-self.widths[c], c))
        for left_over in range(max(self.widths) - 3, 0, -1):
            there = [keys[c][0][-left_over] for c in members if len(keys[c][0]) >= left_over]
            common += whole([low + left + 2 * right for (low, _), (left, right), _ in there])
            common += whole([high for (_, high), _, _ in there])
            common += whole([correction for _, _, correction in there])
        for place in range(4):
            common += whole([keys[c][1][place] for c in members])
        corrections = [
            t[w] - item[0]["dealt"][at] - item[1]["dealt"][at]
            for at, w in enumerate(self.multiplied)
        ]
        common += self.masked_written(corrections)
        for test, size in enumerate(self.sizes):
            some = [self.label_hash(labels[test] + s * steps[test], test) for s in range(size + 1)]
            common += some[0] + b"".join(sorted(some[1:]))
        common += self.label_hash(item[0]["reach"] + item[1]["reach"], len(self.sizes))
        self.dealt = {"keys": keys, "corrections": corrections, "seeds": seeds}
        return common, seeds

    def masked(self, parts):
        """A holder's share of E from the sum of its parts."""
        return [parts[w] % 2 ** self.word_widths[w] for w in self.multiplied]

    def masked_written(self, words):
        return written(words, [self.word_widths[w] for w in self.multiplied])

    def squared(self, holder, parts, masked):
        """Its share of D, from the opened E."""
        item = self.drawn(self.dealt["seeds"][holder], holder)
        E = dict(zip(self.multiplied, masked, strict=True))
        t = dict(zip(self.multiplied, item["dealt"], strict=True))
        if holder == 0:
            for at, w in enumerate(self.multiplied):
                t[w] += self.dealt["corrections"][at]
        found = []
        for c, form in enumerate(self.forms):
            total = item["masks"][c] + sum(k * parts[j] for j, k in form["linear"])
            for i, j, k in form["quadratic"]:
                total += k * (E[i] * t[j] + E[j] * t[i])
                total += k * E[i] * E[j] if holder == 0 else 0
            total += form["constant"] - 1 if holder == 0 else 0
            found.append(total % 2 ** self.widths[c])
        return found

    def compared(self, holder, forms):
        """Its shares of the labels, the range's last, from the opened D."""
        item = self.drawn(self.dealt["seeds"][holder], holder)
        labels, reach = list(item["labels"]), item["reach"]
        for c, D in enumerate(forms):
            k, step = self.widths[c], item["steps"][self.test[c]]
            tree, key, root = Tree(self.tree_key, k - 1), self.dealt["keys"][c], item["roots"][c]
            for shift in (0, 2 ** (k - 2)):
                x = (D + shift) % 2**k
                share = tree.evaluate(root, key, holder, x % 2 ** (k - 1))
                positive = share if x >> (k - 1) else step - share
                if shift:
                    reach += step - positive
                else:
                    labels[self.test[c]] += positive
        return [label % WORD for label in (*labels, reach)]

    def run(self, vectors, seeds, dealer_seed):
        """Everything that the parties say, before it is sealed, and the bits."""
        rests = [self.rest(x, *item) for x, item in zip(vectors, seeds, strict=True)]
        common, holder_seeds = self.deal(dealer_seed, [dealt for _, dealt in seeds])
        firsts = [self.part(first) for first, _ in seeds]
        parts = [[sum(words) for words in zip(*item, strict=True)] for item in (firsts, rests)]
        E = [self.masked(item) for item in parts]
        both = [sum(pair) for pair in zip(*E, strict=True)]
        D = [self.squared(h, parts[h], both) for h in (0, 1)]
        forms = [sum(pair) for pair in zip(*D, strict=True)]
        forms = [form % 2**k for form, k in zip(forms, self.widths, strict=True)]
        Y = [self.compared(h, forms) for h in (0, 1)]
        sums = [sum(words) for words in zip(*vectors, strict=True)]
        holding = [value(form, sums) + form["constant"] > 0 for form in self.forms]
        bits = [
            any(item for item, t in zip(holding, self.test, strict=True) if t == test)
            for test in range(len(self.sizes))
        ]
        return {
            "rests": [written(rest, self.word_widths).hex() for rest in rests],
            "common": common.hex(),
            "holder_seeds": [seed.hex() for seed in holder_seeds],
            "masked": [self.masked_written(item).hex() for item in E],
            "forms": [written(item, self.widths).hex() for item in D],
            "labels": [whole(item).hex() for item in Y],
            "bits": bits,
        }
