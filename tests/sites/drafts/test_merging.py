"""Schemas merged from drafts: order does not count, agreement is kept, disagreement is said."""

import itertools
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import schemas

from cipherdag.errors import SchemaError
from cipherdag.sites.drafts.merging import merge_schemas
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

SURE = Column("sure", "continuous")


def merged(*columns, name="x"):
    """Column x of drafts that differ in it, and the differences."""
    drafts = {f"s{k}": Schema((SURE, *([own] if own else []))) for k, own in enumerate(columns)}
    schema, found = merge_schemas(drafts)
    return next(own for own in schema.columns if own.name == name), found


def discrete(*categories, **more):
    return Column("x", "discrete", categories=categories, **more)


def number(**more):
    return Column("x", "continuous", **more)


@given(schemas())
def test_what_all_drafts_say_is_kept(schema):
    again, found = merge_schemas({"a": schema, "b": schema, "c": schema})
    assert again.names == schema.names
    if not found:
        for own, old in zip(again.variables, schema.variables, strict=True):
            assert own.kind == old.kind
            assert set(own.categories) == set(old.categories)
            if old.ordered:
                assert own.categories == old.categories


def test_two_similar_categories_are_kept_where_there_is_no_other():
    column, found = merged(*[discrete("A", "Ā")] * 3)
    assert column.categories == ("A", "Ā")
    assert "'A' and 'Ā' may spell one category; they are kept apart." in found[0].said
    column, _ = merged(*[discrete("A", "Ā", "B")] * 3)
    assert len(column.categories) == 2


@given(st.lists(schemas(), min_size=1, max_size=3), st.permutations("abc"))
def test_the_order_of_drafts_does_not_count(drafts, letters):
    named = dict(zip("abc", drafts, strict=False))
    try:
        first, found = merge_schemas(named)
    except SchemaError:
        with pytest.raises(SchemaError):
            merge_schemas({name: named[name] for name in letters if name in named})
        return
    again, same = merge_schemas({name: named[name] for name in letters if name in named})
    assert first == again
    assert found == same
    assert Schema.loads(first.dumps()) == first


@pytest.mark.parametrize(
    ("columns", "categories", "synonyms"),
    [
        ([("no", "yes"), ("NO", "Yes"), ("no", "yes")], ("no", "yes"),
         {"no": ("NO",), "yes": ("Yes",)}),
        ([("0", "1"), ("no", "yes"), ("False", "True")], ("no", "yes"),
         {"no": ("0", "False"), "yes": ("1", "True")}),
        ([("nein", "ja"), ("nein", "ja"), ("no", "yes")], ("nein", "ja"),
         {"ja": ("yes",), "nein": ("no",)}),
        ([("Männer", "Frauen"), ("maenner", "frauen"), ("Männer", "Frauen")], ("Frauen", "Männer"),
         {"Frauen": ("frauen",), "Männer": ("maenner",)}),
        ([("a", "b"), ("b", "c"), ("a", "c")], ("a", "b", "c"), {}),
        ([("1", "2"), ("2", "10"), ("1", "10")], ("1", "2", "10"), {}),
        ([("männlich", "weiblich"), ("m", "f"), ("H", "F")], ("f", "m"),
         {"f": ("F", "weiblich"), "m": ("H", "männlich")}),
        ([("female", "male"), ("weiblich", "männlich"), ("mujer", "hombre")], ("female", "male"),
         {"female": ("mujer", "weiblich"), "male": ("hombre", "männlich")}),
        ([("0", "1"), ("no", "yes"), ("nein", "ja"), ("no", "si")], ("no", "si"),
         {"no": ("0", "nein"), "si": ("1", "ja", "yes")}),
    ],
)  # fmt: skip
def test_spellings_become_synonyms(columns, categories, synonyms):
    column, found = merged(*(discrete(*own) for own in columns))
    assert column.categories == categories
    assert dict(column.synonyms) == synonyms
    assert len(found) == len(synonyms)
    assert not any(own.open for own in found)


def test_every_draft_s_own_spelling_loads_by_the_merged_schema():
    columns = [("no", "yes"), ("NO", "Yes"), ("0", "1"), ("nein", "JA")]
    column, _ = merged(*(discrete(*own) for own in columns))
    schema = Schema((column,))
    for own in columns:
        codes = load_table(pd.DataFrame({"x": list(own)}), schema).codes[:, 0]
        assert codes.tolist() == [0, 1]


def test_a_near_spelling_is_said_and_not_mended():
    column, (found,) = merged(discrete("female", "male"), discrete("femal", "male"))
    assert column.categories == ("femal", "female", "male")
    assert "'femal' stands in 's1' alone, and is near to 'female'" in found.said
    assert not found.open


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([number(unit="mg/dL"), number(unit="mmol/L")], "unit is mg/dL in 's0', mmol/L in 's1'"),
        ([number(plausible=(0, 5)), number(plausible=(10, 500))], "do not overlap"),
        ([number(date="days since 2000-01-01"), number()], "date"),
        ([number(date="days since 2000-01-01"), number(date="years since 2000-01-01")], "date is"),
        ([number(), discrete("a", "b")], "continuous in 's0', discrete in 's1'"),
        ([number(), Column("x", "ignore")], "ignore in 's1'"),
        ([number(), None], "not in 's1'"),
        # 0 and 1 among other codes are no words for false and true
        ([discrete("0", "1", "2"), discrete("no", "yes")], "shares no category"),
        ([discrete("I", "II"), discrete("I", "II"), discrete("1", "2")], '{ "I" = ["1"], "II" = '),
        ([discrete("0", "1", "9"), discrete("0", "1", missing=("9",))], "'9' is a category"),
        ([discrete("a", "b", ordered=True), discrete("b", "a", ordered=True)], "order"),
        ([discrete("a", "b", "c"), discrete("b", "a", ordered=True)], "order"),
        ([Column("x", "binned", edges=(1,)), Column("x", "binned", edges=(2,))], "edges are"),
        ([number(label=True), number()], "label"),
        (
            [
                number(concepts=(("LOINC", ("8480-6",)),)),
                number(concepts=(("LOINC", ("8462-4",)),)),
            ],
            "LOINC is 8462-4 in 's1', 8480-6 in 's0'",
        ),
    ],
)
def test_what_people_must_decide_keeps_its_column_out(columns, said):
    column, found = merged(*columns)
    assert column.kind == "ignore"
    (undecided,) = (own for own in found if own.open)
    assert said in f"{undecided.said} {undecided.remedy}"
    assert said in column.comment
    assert str(undecided).startswith("DECIDE")


def test_what_sites_may_have_for_themselves_is_put_together():
    column, found = merged(
        number(unit="mg/dL", plausible=(0, 300), missing=("-9",), concepts=(("LOINC", ("1-2",)),)),
        number(plausible=(10, 400), missing=("-999",), concepts=(("OMOP", ("3004249",)),)),
    )
    assert (column.unit, column.plausible) == ("mg/dL", (0, 400))
    assert column.missing == ("-9", "-999")
    assert dict(column.concepts) == {"LOINC": ("1-2",), "OMOP": ("3004249",)}
    assert not any(own.open for own in found)
    assert any("unit 'mg/dL' is not said in 's1'" in own.said for own in found)
    assert any("widest" in own.remedy for own in found)


def test_few_numbers_at_one_site_are_numbers_as_at_the_others():
    column, (found,) = merged(number(), discrete("1", "2", "3"))
    assert column.kind == "continuous"
    assert "discrete, with every code" in found.remedy


def test_an_order_may_be_kept_by_drafts_that_lack_a_category():
    longest = ("low", "mid", "high")
    for drafts in itertools.permutations(
        [
            discrete(*longest, ordered=True),
            discrete("low", "high", ordered=True),
            discrete("mid", "low"),
        ]
    ):
        column, _ = merged(*drafts)
        assert column.ordered
        assert column.categories == longest


def test_a_column_of_another_name_is_named_with_a_line_to_rename_it():
    names = {"a": "pressure", "b": "presure"}
    drafts = {site: Schema((SURE, Column(name, "continuous"))) for site, name in names.items()}
    _, found = merge_schemas(drafts)
    assert [own.column for own in found] == ["pressure", "presure"]
    assert 'rename."presure" = "pressure"' in found[0].remedy


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["Alter", "age", "age", "Âge"], "age"),
        (["Glukose (mg/dl)", "glucose", "glucose", "Glucose [mg/dl]"], "glucose"),
        (["Date d'admission", "Aufnahme", "admitted", "admitted"], "admitted"),
        (["X", "x", "x", "x"], "x"),
    ],
)
def test_columns_whose_names_mean_the_same_are_one(names, taken):
    drafts = {f"s{k}": Schema((SURE, Column(own, "continuous"))) for k, own in enumerate(names)}
    schema, found = merge_schemas(drafts)
    assert set(schema.names) == {"sure", taken}
    (said,) = [own for own in found if own.said.startswith("'")]
    assert not said.open
    assert all(f"'{name}' in 's{k}'" in said.said for k, name in enumerate(names) if name != taken)


@pytest.mark.parametrize("pair", [("sbp", "dbp"), ("age", "stage"), ("x 1", "x 2"), ("A+", "A-b")])
def test_columns_of_other_meanings_stay_two(pair):
    drafts = {name: Schema((SURE, Column(name, "continuous"))) for name in pair}
    schema, found = merge_schemas(drafts)
    assert {column.name for column in schema.columns} == {"sure", *pair}
    assert all(own.open for own in found)


def test_a_table_with_two_columns_of_one_meaning_matches_none_by_it():
    one = Schema((SURE, Column("weight", "continuous"), Column("Gewicht", "continuous")))
    two = Schema((SURE, Column("poids", "continuous")))
    schema, _ = merge_schemas({"a": one, "b": two})
    assert len(schema.columns) == 4


def test_no_union_of_languages_is_proposed_as_categories():
    wards = ("innere", "chirurgie"), ("medicina", "quirófano"), ("medical", "surgical")
    stages = ("I", "II"), ("III", "IV"), ("1", "3")
    for words, unclear in ((wards, "surgical"), (stages, "III")):
        _, found = merged(*[discrete(*each) for each in words])
        remedies = [each.remedy for each in found if each.open]
        assert remedies
        for said in remedies:
            assert f'categories = ["{words[0][0]}", "{words[0][1]}"]' in said
            assert f"'{unclear}'" in said


def test_a_merged_schema_keeps_the_lines_that_rename_columns():
    drafts = {site: Schema((SURE, Column(name, "continuous"))) for site, name in
              (("kiel", "Alter"), ("lyon", "âge"), ("leeds", "age"))}  # fmt: skip
    schema, _ = merge_schemas(drafts)
    written = " ".join(schema.dumps().replace("\n#", "").split())
    for name in ("Alter", "âge"):
        assert f'rename."{name}" = "age"' in written
    assert next(each for each in schema.columns if each.name == "age").kind == "continuous"


def test_units_that_differ_in_case_are_one():
    column, found = merged(number(unit="mmhg"), number(unit="mmHg"))
    assert (column.kind, column.unit, found) == ("continuous", "mmhg", ())


def test_another_unit_is_a_decision_with_its_factor():
    names = ["Glucose (mg/dl)", "Glykämie (mmol/l)", "glucose"]
    drafts = {f"s{k}": Schema((SURE, Column(own, "continuous"))) for k, own in enumerate(names)}
    schema, found = merge_schemas(drafts)
    assert schema.names == ("sure",)
    (said,) = [own for own in found if own.open]
    assert "'s1' seem to be in another unit" in said.said
    assert 'multiply."glucose" = 18.016 for' in said.remedy
    assert 'unit = "mg/dl"' in said.remedy


def test_drafts_with_nothing_in_common_are_refused():
    with pytest.raises(SchemaError, match="agree on no column"):
        merge_schemas({"a": Schema((number(),)), "b": Schema((SURE,))})


# the commands


def drafts(folder, *columns):
    files = []
    for name, column in zip("abc", columns, strict=False):
        (folder / name).mkdir()
        files.append(folder / name / "schema.toml")
        files[-1].write_text(Schema((SURE, column)).dumps(), "utf-8")
    return files


def test_merge_and_diff_as_commands(call, tmp_path):
    files = drafts(tmp_path, discrete("no", "yes"), discrete("NO", "Yes"))
    out = tmp_path / "schema.toml"
    code, told, _ = call("schema", "merge", *files, "--out", out)
    assert code == 0
    assert "'NO' in" in told
    assert Schema.load(out).names == ("sure", "x")
    code, printed, said = call("schema", "merge", *files)
    assert Schema.loads(printed) == Schema.load(out)
    assert "read as 'no'" in said
    assert call("schema", "merge", *files, "--out", out)[0] == 1
    code, told, error = call("schema", "diff", *files)
    assert code == 6
    assert "read as 'no'" in told
    assert "schema merge" in error
    code, told, _ = call("schema", "diff", out, out)
    assert (code, told) == (0, "Sites with these two can run together.\n")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            discrete("no", "yes"),
            discrete("yes", "no"),
            "A run numbers categories by their order: give every site the same one.",
        ),
        (discrete("no", "yes"), discrete("no", "yes", "maybe"), '"maybe"] in '),
        (discrete("a", "b", ordered=True), discrete("a", "b"), "ordered: true in "),
        (number(unmeasured_at=("kiel",)), number(), 'unmeasured_at: ["kiel"] in '),
    ],
)
def test_diff_prints_whatever_keeps_sites_apart(call, tmp_path, first, second, said):
    code, printed, _ = call("schema", "diff", *drafts(tmp_path, first, second))
    assert code == 6
    assert printed.count("DECIDE") == 1
    assert said in printed


def test_a_merge_with_open_decisions_writes_and_ends_with_6(call, tmp_path):
    files = drafts(tmp_path, number(unit="g/L"), number(unit="g/dL"))
    out = tmp_path / "schema.toml"
    code, told, error = call("schema", "merge", *files, "--out", out)
    assert code == 6
    assert "DECIDE  'x': unit is g/L" in told
    assert "to be decided: x" in error
    assert Schema.load(out).names == ("sure",)
    code, told, _ = call("schema", "diff", *files, "--json")
    assert code == 6
    assert json.loads(told)[0]["open"] is True


def test_concept_codes_and_missing_marks_do_not_keep_sites_apart(call, tmp_path):
    own = number(concepts=(("OMOP", ("1",)),), missing=("-9",), plausible=(0, 1))
    code, told, _ = call("schema", "diff", *drafts(tmp_path, own, number()))
    assert code == 0
    assert told.endswith("can run together.\n")
