"""Normal forms of names, category values and numbers."""

from __future__ import annotations

import unicodedata

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cipherdag.sites.table.names import (
    first_repeat,
    hidden_character,
    normalise_name,
    normalise_value,
    number_text,
    parse_number,
    parse_numbers,
    sort_names,
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
