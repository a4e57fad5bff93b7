"""What strict reading says of a fault: the key and what is wrong, in words, and no value."""

import re
from pathlib import Path

import msgspec
import pytest

from cipherdag.sites.strict_toml import convert, parse


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    share: float = 0.5


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    path: Path
    marks: tuple[int | float | str, ...] = ()
    cuts: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    open: bool = False
    inner: Inner | None = None


def read(text):
    return convert(parse(text), Outer, path=Path("own.toml"))


def test_what_fits_is_read():
    text = 'name = "a"\nmarks = [1, 2.5, "x"]\ncuts = [1, 2]\nopen = true\n[inner]\nsize = 3\n'
    made = Outer("a", Path("own.toml"), (1, 2.5, "x"), (1.0, 2.0), (), True, Inner(3))
    assert read(text) == made
    assert read(b"\xef\xbb\xbf" + text.encode()) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "name is missing"),
        ('name = "a"\nnane = "774411"', "unknown key 'nane'; did you mean 'name'?"),
        ('name = "a"\npath = "774411"', "unknown key 'path'; known are name, marks, cuts, words, "),
        ("name = 774411", "name is not a text"),
        ('name = "a"\nopen = 774411', "open is neither true nor false"),
        ('name = "a"\nmarks = 774411', "marks is not a list in square brackets"),
        ('name = "a"\nmarks = [1, true]', "marks holds something else than texts and numbers"),
        ('name = "a"\ncuts = ["774411"]', "cuts holds something else than numbers"),
        ('name = "a"\nwords = [774411]', "words holds something else than texts"),
        (f'name = "a"\ncuts = [{"7" * 400}]', "cuts holds what is not a finite number"),
        ('name = "a"\ninner = 774411', "inner is not a table"),
        ('name = "a"\n[inner]', "inner.size is missing"),
        ('name = "a"\n[inner]\nsize = true', "inner.size is not a whole number"),
        ('name = "a"\n[inner]\nsize = 3.0', "inner.size is not a whole number"),
        ('name = "a"\n[inner]\nsize = 3\nshare = "774411"', "inner.share is not a number"),
        ('name = "a"\n[inner]\nsize = 3\nfurther = 774411', "unknown key 'further' in [inner]"),
        ("name = 774 411", "this is not TOML: "),
        ("a = " + "[" * 100_000, "nested too deeply"),
        (b"name = '\xff'", "this is not UTF-8 text"),
    ],
)
def test_a_fault_is_said_in_words(text, words):
    with pytest.raises(ValueError, match=re.escape(words)) as fault:
        read(text)
    assert "774411" not in str(fault.value)
