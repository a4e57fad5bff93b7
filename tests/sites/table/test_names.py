"""Normal forms of names, category values and numbers."""

import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cipherdag.sites.table.names import (
    first_repeat,
    hidden_character,
    loose_forms,
    nearest,
    normalise_name,
    normalise_value,
    number_text,
    parse_number,
    parse_numbers,
    sort_categories,
    sort_names,
    truth_value,
)

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.text())
def test_name_normalisation_is_idempotent_and_form_free(text):
    name = normalise_name(text)
    assert normalise_name(name) == name
    for form in ("NFC", "NFD"):
        assert normalise_name(f" \t{unicodedata.normalize(form, text)}\u3000") == name
    value = normalise_value(text)
    assert normalise_value(value) == value


def test_names_sort_by_code_point():
    assert sort_names(["Theft", "Theatre"]) == ("Theatre", "Theft")
    assert sort_names(["é", "z", "a", "Z", "_", "10", "9", "\U0001d4b3", "\uffee"]) == (
        ("10", "9", "Z", "_", "a", "z", "é", "\uffee", "\U0001d4b3")
    )


def test_hidden_characters_and_repeats():
    assert hidden_character("नमस्\u200cते größe 名前") is None
    assert [hidden_character(f"a{c}b") for c in "\u200b\u202e\ufeff\u2028\ud800\x7f"] == [
        "U+200B", "U+202E", "U+FEFF", "U+2028", "U+D800", "U+007F",
    ]  # fmt: skip
    assert first_repeat(["a", "b", "c", "b", "a"]) == (1, 3)
    assert first_repeat(["a", "b"]) is None


@given(finite)
def test_number_texts_are_exact(value):
    text = number_text(value)
    assert parse_number(text) == value
    assert normalise_value(text) == normalise_value(repr(value))


@given(st.lists(st.one_of(st.text(max_size=3), finite.map(str)), max_size=12))
@example(["1", " NA ", "\u00a02\u00a0", "1_0"])
@example(["nan"])
def test_columns_of_numbers_parse_like_their_cells(texts):
    values, bad = parse_numbers(texts, {"NA"})
    for position, text in enumerate(texts if bad < 0 else texts[:bad]):
        trimmed = normalise_name(text)
        number = None if trimmed in {"", "NA"} else parse_number(trimmed)
        assert np.isnan(values[position]) if number is None else values[position] == number
    if bad >= 0:
        assert parse_number(normalise_name(texts[bad])) is None


letters = st.text("aeiouäöüßéñ xyz-_.0123456789", min_size=1, max_size=8)


@given(letters)
def test_loose_forms_forget_case_accents_and_blanks(text):
    forms = loose_forms(text)
    for other in (text.upper(), f" {text} ", unicodedata.normalize("NFD", text), text.title()):
        assert forms & loose_forms(other)


@given(letters, st.lists(letters, max_size=5))
def test_the_nearest_is_a_known_text_or_the_text_itself(text, known):
    near = nearest(text, known)
    assert near is None or near in known
    found = nearest(text, [text, *known])
    assert found is not None
    assert loose_forms(found) & loose_forms(text)


def test_words_for_true_and_false_and_near_misses():
    assert [
        truth_value(own) for own in ("Yes", " JA", "1", "TRUE", "no", "Nein", "0", "false")
    ] == ([True] * 4 + [False] * 4)
    assert [truth_value(own) for own in ("", "2", "f", "m", "maybe", "none")] == [None] * 6
    assert nearest("femal", ("female", "male")) == "female"
    assert nearest("Maenner", ("Frauen", "Männer")) == "Männer"
    assert nearest("ja", ("no", "yes")) == "yes"
    assert nearest("male", ("female",)) is None
    assert nearest("2", ("0", "1")) is None


@pytest.mark.parametrize(
    ("texts", "ordered"),
    [
        ({"ja", "nein"}, ("nein", "ja")), ({"oui", "non"}, ("non", "oui")),
        ({"Yes", "no"}, ("no", "Yes")), ({"10", "9", "-1"}, ("-1", "9", "10")),
        ({"b", "a", "B"}, ("B", "a", "b")),
        ({"nein", "vielleicht", "ja"}, ("ja", "nein", "vielleicht")), (set(), ()),
    ],
)  # fmt: skip
def test_categories_have_one_order_false_before_true(texts, ordered):
    assert sort_categories(texts) == ordered
