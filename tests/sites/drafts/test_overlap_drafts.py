"""Groups of sites that lack the same: large enough, of no more than there is, in whatever order."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import SchemaError
from cipherdag.sites.drafts.merging import merge_schemas
from cipherdag.sites.drafts.overlap import overlap_remarks, with_large_groups, with_overlap
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema

NAMES = "abcdef"
SCHEMA = Schema(tuple(Column(name, "continuous") for name in NAMES))
LACKING = st.lists(
    st.frozensets(st.sampled_from(NAMES[:5]), max_size=4), min_size=1, max_size=9
).map(lambda own: {f"s{k}": less for k, less in enumerate(own)})


@given(LACKING, st.integers(1, 5))
def test_groups_are_large_enough_and_nobody_lacks_less(lacking, fewest):
    made = with_large_groups(lacking, fewest)
    assert min(Counter(made.values()).values()) >= min(fewest, len(lacking))
    assert all(made[site] >= own for site, own in lacking.items())
    assert with_large_groups(made, fewest) == made
    assert {*made.values()} <= {
        frozenset().union(
            *(
                own
                for own, other in zip(lacking.values(), made.values(), strict=True)
                if other == less
            )
        )
        for less in made.values()
    }
    if min(Counter(lacking.values()).values()) >= fewest:
        assert made == lacking


@given(LACKING, st.integers(1, 5), st.randoms())
def test_the_order_of_the_sites_is_nothing_to_it(lacking, fewest, random):
    turned = list(lacking.items())
    random.shuffle(turned)
    assert with_large_groups(dict(turned), fewest) == with_large_groups(lacking, fewest)


@given(LACKING, st.integers(1, 5))
def test_lost_and_untested_pairs_are_named_and_the_schema_reads_back(lacking, fewest):
    made = with_large_groups(lacking, fewest)
    schema = with_overlap(SCHEMA, made)
    assert Schema.loads(schema.dumps()) == schema
    gone = {*NAMES} - {*schema.names}
    assert gone == frozenset.intersection(*made.values())
    for site, less in made.items():
        assert {schema.names[v] for v in schema.unmeasured_at(site)} == less - gone
    said = "\n".join(overlap_remarks(schema, lacking, made))
    for name in gone:
        assert f"column '{name}' is left out" in said
    for site, less in made.items():
        for name in less - lacking[site] - gone:
            (line,) = [own for own in said.splitlines() if own.startswith(f"column '{name}'")]
            assert f"'{site}'" in line
    together = {frozenset((a, b)) for a in schema.names for b in schema.names if a < b}
    together = {p for p in together if any(p.isdisjoint(own) for own in made.values())}
    apart = len(schema.names) * (len(schema.names) - 1) // 2 - len(together)
    assert ("no site measured both" in said) == (apart > 0)


def test_two_groups_join_where_that_costs_least():
    lacking = {
        f"s{k}": frozenset(own) for k, own in enumerate(["a", "a", "ab", "ab", "ef", "ef", "ef"])
    }
    made = with_large_groups(lacking, 3)
    assert [sorted(own) for own in made.values()] == [["a", "b"]] * 4 + [["e", "f"]] * 3


def test_sites_differ_by_what_they_lack_and_nothing_else_changes():
    one = with_overlap(SCHEMA, {"s0": frozenset("a"), "s1": frozenset()})
    other = with_overlap(SCHEMA, {"s0": frozenset("b"), "s1": frozenset()})
    assert len({SCHEMA.canonical(), one.canonical(), other.canonical()}) == 3
    assert with_overlap(SCHEMA, {"s0": frozenset()}) == SCHEMA
    with pytest.raises(SchemaError, match="no column takes part"):
        with_overlap(SCHEMA, {"s0": frozenset(NAMES)})
    with pytest.raises(SchemaError, match="interventions are not measured"):
        Column("x", "intervention", unmeasured_at=("s0",))


def test_drafts_that_say_who_lacks_a_column_merge_without_a_decision():
    whole = Schema(SCHEMA.columns[:2])
    lacks = Schema(SCHEMA.columns[:1])
    _, found = merge_schemas({"north": whole, "south": lacks})
    assert [own.column for own in found if own.open] == ["b"]
    assert "unmeasured_at" in found[0].remedy
    told = Schema((whole.columns[0], replace(whole.columns[1], unmeasured_at=("south",))))
    merged, found = merge_schemas({"north": told, "south": lacks})
    assert not found
    assert merged.lacking == {"south": (1,)}
