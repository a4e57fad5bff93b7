"""Reads dagitty's language by its published grammar."""

import re

MARKS = {"@->": "o->", "->": "-->", "<->": "<->", "@-@": "o-o", "@--": "o--", "--": "---"}


def read_dagitty(text):
    """The kind of a graph, its names, and its edges by their marks."""
    kind, body = re.fullmatch(r"(\w+) \{\n(.*)\}\n", text, flags=re.DOTALL).groups()
    name = r'"((?:\\"|[^"])+)"'
    found = re.findall(rf"{name}(?: ({'|'.join(MARKS)}) {name})?\n", body)
    plain = [(a.replace('\\"', '"'), arrow, b.replace('\\"', '"')) for a, arrow, b in found]
    names = [a for a, arrow, _ in plain if not arrow]
    return kind, names, [(a, b, MARKS[arrow]) for a, arrow, b in plain if arrow]
