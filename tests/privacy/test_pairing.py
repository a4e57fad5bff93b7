"""Codes of words: what they commit to, how they may be typed, and how a wrong one is told."""

import hashlib
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import ParameterError
from cipherdag.privacy.keys.identity import (
    KEY_WORDS,
    STUDY_WORDS,
    WORDS,
    mismatch,
    pairing_code,
    same_fingerprint,
)

VECTORS = {
    "00" * 32: "fancy-maple-abbey-pyramid-drizzle-mermaid-screen-trumpet-bagpipe",
    "ab" * 32: "orbit-quill-moment-circle-castle-limerick-lotus-salmon-hurdle",
    hashlib.sha256(b"cipherdag").hexdigest(): (
        "eagle-lotion-swallow-duet-alpaca-picture-freckle-shrimp-vintage"
    ),
}
ABOUT_ONE_CODE = settings(max_examples=10, deadline=None)
FINGERPRINTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
KNOWN = "ab" * 32
CODE = VECTORS[KNOWN]


# the list


SOUNDS = (
    ("kn", "n"), ("wr", "r"), ("ph", "f"), ("ght", "t"), ("gh", "g"), ("ck", "k"), ("sch", "sk"),
    ("ce", "se"), ("ci", "si"), ("cy", "si"), ("c", "k"), ("q", "k"), ("x", "ks"), ("z", "s"),
    ("b", "p"), ("d", "t"), ("g", "k"), ("j", "k"), ("v", "f"), ("w", "f"), ("m", "n"), ("y", "i"),
)  # fmt: skip


def sound(word):
    """A word as a bad line leaves it: voiced as unvoiced, close vowels as one."""
    for heard, as_if in SOUNDS:
        word = word.replace(heard, as_if)
    word = re.sub(r"e$", "", re.sub(r"[ou]+", "o", re.sub(r"[ie]+", "e", word)))
    return re.sub(r"(.)\1+", r"\1", word)


def test_the_list_is_what_its_module_says():
    assert len(WORDS) == len(set(WORDS)) == 512
    assert list(WORDS) == sorted(WORDS)
    assert all(re.fullmatch("[a-z]{4,8}", word) for word in WORDS)
    assert len({word[:4] for word in WORDS}) == 512
    assert not any(re.fullmatch("[a-f]+", word) for word in WORDS), "could be taken for digits"
    # no word is another one with a letter changed, and none with a letter left out
    others = [word[:k] + "?" + word[k + 1 :] for word in WORDS for k in range(len(word))]
    assert len(others) == len(set(others))
    assert not {other.replace("?", "") for other in others} & {*WORDS}
    spoken = {word: sound(word) for word in WORDS}
    alike = [p for p in itertools.combinations(WORDS, 2) if spoken[p[0]] == spoken[p[1]]]
    assert not alike


def test_the_list_is_frozen():
    """Another list or order gives every party another code."""
    digest = hashlib.sha256(" ".join(WORDS).encode()).hexdigest()
    assert digest == "76b325b5fc27df8490ac9258cc697420bae80d930b0dccd0a6d54dea0325058d"


# the code


@pytest.mark.parametrize(("fingerprint", "code"), VECTORS.items())
def test_codes_are_frozen(fingerprint, code):
    assert pairing_code(fingerprint) == code


@ABOUT_ONE_CODE
@given(FINGERPRINTS, st.sampled_from([KEY_WORDS, STUDY_WORDS]))
def test_a_code_is_the_beginning_of_scrypt_in_base_512(fingerprint, words):
    derived = hashlib.scrypt(
        bytes.fromhex(fingerprint), salt=b"cipherdag pairing code 1", n=16384, r=8, p=1, dklen=64
    )
    bits = "".join(f"{byte:08b}" for byte in derived)
    expected = [WORDS[int(bits[9 * k : 9 * k + 9], 2)] for k in range(words)]
    assert pairing_code(fingerprint, words) == "-".join(expected)


def test_a_code_has_the_bits_that_are_promised():
    assert KEY_WORDS * 9 >= 80
    assert STUDY_WORDS * 9 >= 2 * 80
    assert len(pairing_code(KNOWN).split("-")) == KEY_WORDS
    assert len(pairing_code(KNOWN, STUDY_WORDS).split("-")) == STUDY_WORDS


def test_what_is_no_fingerprint_has_no_code():
    for wrong in ("", "ab", "zz" * 32, "ab" * 33):
        with pytest.raises(ParameterError, match="64 hexadecimal"):
            pairing_code(wrong)


# what was heard


@ABOUT_ONE_CODE
@given(FINGERPRINTS, st.data())
def test_a_code_may_be_typed_in_many_ways(fingerprint, data):
    typed = [
        data.draw(st.sampled_from([word, word.upper(), word.title(), word[:4]]))
        for word in pairing_code(fingerprint).split("-")
    ]
    gaps = st.sampled_from(["-", " ", ", ", "  ", " - ", "\n", "\t", "_", "."])
    said = "".join(word + data.draw(gaps) for word in typed)
    assert mismatch(said, fingerprint) == ""


@ABOUT_ONE_CODE
@given(FINGERPRINTS, st.sampled_from([":", "", " ", "-"]), st.booleans())
def test_the_long_form_is_taken_as_well(fingerprint, between, upper):
    pairs = between.join(fingerprint[k : k + 2] for k in range(0, 64, 2))
    typed = pairs.upper() if upper else pairs
    assert mismatch(typed, fingerprint) == ""
    assert mismatch(typed, fingerprint, STUDY_WORDS) == ""
    other = bytes([bytes.fromhex(fingerprint)[0] ^ 1]).hex() + fingerprint[2:]
    assert mismatch(typed, other) == "the fingerprint is another"


@ABOUT_ONE_CODE
@given(FINGERPRINTS, FINGERPRINTS)
def test_the_code_of_another_key_does_not_pass(first, second):
    assert bool(mismatch(pairing_code(first), second)) == (first != second)


@pytest.mark.parametrize("place", range(1, KEY_WORDS + 1))
def test_one_other_word_is_told_by_its_place_and_never_by_its_word(place):
    words = CODE.split("-")
    meant, words[place - 1] = words[place - 1], WORDS[WORDS.index(words[place - 1]) - 1]
    said = mismatch(" ".join(words), KNOWN)
    assert said == f"word {place} of 9 is another"
    assert meant not in said


def test_other_words_are_counted_and_their_places_told():
    words = CODE.split("-")
    words[1], words[7] = words[7], words[1]
    assert mismatch("-".join(words), KNOWN) == "2 of 9 words are others: 2, 8"
    assert mismatch("-".join(reversed(CODE.split("-"))), KNOWN) == (
        "it is another code, with 8 of 9 words different"
    )


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("trumpit", "trumpet"), ("kangeroo", "kangaroo"), ("trup", "trumpet"), ("rithm", "rhythm")],
)
def test_a_word_that_is_none_is_named_with_the_nearest(typed, nearest):
    words = CODE.split("-")
    words[3] = typed
    with pytest.raises(ParameterError, match=f"word 4 of the code, '{typed}', is none") as caught:
        mismatch(" ".join(words), KNOWN)
    assert nearest in caught.value.remedy
    assert words[3] not in caught.value.remedy.split()


def test_a_word_is_not_guessed_from_three_letters_or_from_a_wrong_end():
    words = CODE.split("-")
    for typed in (words[0][:3], words[0] + "s", words[0][:4] + "qq"):
        with pytest.raises(ParameterError, match="word 1 "):
            mismatch(" ".join([typed, *words[1:]]), KNOWN)


@pytest.mark.parametrize(
    "typed",
    ["", " ", "00", "AB:" * 31, "ab" * 33, CODE.rpartition("-")[0], f"{CODE}-acorn", f"{CODE} 9"],
)
def test_what_is_neither_code_nor_fingerprint_is_refused(typed):
    with pytest.raises(ParameterError, match="a code has 9 words") as caught:
        mismatch(typed, KNOWN)
    assert "64 digits" in caught.value.remedy


@given(st.text(max_size=120))
@settings(deadline=None)
def test_no_text_at_all_passes_or_gives_another_error(typed):
    with pytest.raises(ParameterError) as caught:
        mismatch(typed, KNOWN)
    assert caught.value.message.isprintable()


def test_letters_that_only_look_alike_are_other_letters():
    with pytest.raises(ParameterError):
        mismatch(CODE.replace("o", "\N{CYRILLIC SMALL LETTER O}", 1), KNOWN)
    assert not same_fingerprint("a" * 64, "\N{CYRILLIC SMALL LETTER A}" * 64)
