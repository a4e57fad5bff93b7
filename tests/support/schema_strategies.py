"""Any schema, for tests of what holds for all of them."""

from hypothesis import strategies as st

from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import normalise_name, normalise_value
from cipherdag.sites.table.schema import Schema

seen = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])
words = st.text(seen, min_size=1, max_size=12).filter(normalise_name)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def columns(draw, name):
    kind = draw(st.sampled_from(["continuous", "discrete", "binned", "ignore"]))
    categories = draw(st.lists(words, min_size=2, max_size=6, unique_by=normalise_value))
    edges = draw(st.lists(finite.map(lambda edge: edge + 0.0), min_size=1, max_size=4, unique=True))
    missing = draw(st.lists(words, max_size=3))
    listed = {normalise_value(value) for value in categories} if kind == "discrete" else set()
    marks = {normalise_value(marker) for marker in missing}
    spellings = draw(st.lists(words, max_size=3, unique_by=normalise_value))
    other = tuple(own for own in spellings if normalise_value(own) not in {"", *listed, *marks})
    counted = kind in {"continuous", "binned"}
    dated = counted and draw(st.booleans())
    concepts = draw(st.dictionaries(words, st.lists(words, max_size=2).map(tuple), max_size=2))
    return Column(
        name=name,
        kind=kind,
        categories=tuple(categories) if kind == "discrete" else (),
        edges=tuple(sorted(edges)) if kind == "binned" else (),
        missing=tuple(marker for marker in missing if normalise_value(marker) not in listed),
        allow_constant=draw(st.booleans()),
        label=draw(st.booleans()),
        ordered=draw(st.booleans()) and kind != "continuous",
        synonyms=((categories[0], other),) if kind == "discrete" and other else (),
        unit=draw(words) if counted and not dated else "",
        plausible=(-1.5, draw(st.floats(0, 9))) if counted and draw(st.booleans()) else (),
        date="weeks since 1999-12-31" if dated else "",
        concepts=tuple(concepts.items()),
        comment=draw(words),
    )


@st.composite
def schemas(draw):
    names = draw(st.lists(words, min_size=1, max_size=5, unique_by=normalise_name))
    first = Column(names[0], "continuous")
    return Schema((first, *(draw(columns(name)) for name in names[1:])))
