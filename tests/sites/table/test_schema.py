"""Schemas: reading, writing, comparing and guessing them, and the normal forms beneath."""

import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from schema_strategies import schemas

from cipherdag import errors
from cipherdag.sites.drafts.inference import infer_columns, infer_schema
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

HEART = Path(__file__).parents[3] / "benchmarks" / "schemas" / "heart.toml"
TEXT = """
[columns.age]
kind = "binned"
edges = [44, 54.5]
missing = [0, "NA", -9.0]

["columns"."Gro\u0308ße "]
kind = "discrete"
categories = ["klein", 1, 2.0, "01"]
label = true

[columns.weight]
kind = "continuous"
allow_constant = true

[columns.id]
kind = "ignore"
"""


def test_toml_is_read_and_normalised():
    schema = Schema.loads(TEXT)
    assert schema.names == ("Größe", "age", "weight")
    assert [column.name for column in schema.columns] == ["age", "Größe", "weight", "id"]
    size, age, weight = schema.variables
    assert (size.categories, size.label, size.cardinality) == (("klein", "1", "2", "01"), True, 4)
    assert (age.edges, age.missing, age.cardinality) == ((44.0, 54.5), ("0", "NA", "-9"), 3)
    assert (weight.allow_constant, weight.cardinality) == (True, 0)


@given(schemas())
def test_dumps_and_loads_are_inverse(schema):
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert again.canonical() == schema.canonical()


@given(schemas(), st.randoms(use_true_random=False))
def test_canonical_ignores_order_comments_and_local_fields(schema, random):
    shuffled = list(schema.columns)
    random.shuffle(shuffled)
    other = [
        Column(
            unicodedata.normalize("NFD", f" {column.name}\t"),
            column.kind,
            categories=column.categories,
            edges=column.edges,
            missing=(),
            allow_constant=True,
            label=column.label,
            ordered=column.ordered,
            unit=column.unit,
            date=column.date,
            plausible=(0, 1) if column.unit else (),
            concepts=(("SNOMED", ("1",)),),
        )
        for column in shuffled
    ]
    same = Schema((*other, Column("\u2603 not part of it", "ignore")))
    assert same.canonical() == schema.canonical()
    assert same.names == schema.names


def test_canonical_is_pinned_and_tells_schemas_apart():
    schema = Schema.loads(TEXT)
    assert schema.canonical() == (
        b"cipherdag schema 1\n"
        b'["Gr\\u00f6\\u00dfe","discrete",["klein","1","2","01"],[],true]\n'
        b'["age","binned",[],[44.0,54.5],false]\n'
        b'["weight","continuous",[],[],false]'
    )
    changes = (
        ("54.5", "54.6"),
        ('"klein", 1', '1, "klein"'),
        ("label = true", ""),
        ("label = true", "label = true\nordered = true"),
        ("missing = [0,", "ordered = true\nmissing = [0,"),
        ("columns.weight", "columns.Weight"),
        ('kind = "ignore"', 'kind = "continuous"'),
        ("allow_constant", 'unit = "kg"\nallow_constant'),
        ("allow_constant", 'date = "days since 2000-01-01"\nallow_constant'),
        ("allow_constant", 'date = "days since 2001-01-01"\nallow_constant'),
    )
    for old, new in changes:
        assert Schema.loads(TEXT.replace(old, new)).canonical() != schema.canonical()


def test_an_order_enters_the_canonical_form_where_it_is_declared():
    text = TEXT.replace("label = true", "ordered = true")
    schema = Schema.loads(text.replace("missing", "ordered = true\nmissing"))
    assert schema.canonical() == (
        b"cipherdag schema 1\n"
        b'["Gr\\u00f6\\u00dfe","discrete",["klein","1","2","01"],[],false,"ordered"]\n'
        b'["age","binned",[],[44.0,54.5],false,"ordered"]\n'
        b'["weight","continuous",[],[],false]'
    )
    assert [column.ordered for column in schema.variables] == [True, True, False]
    assert "ordered = true" in schema.dumps()
    assert [c.ordered for c in schema.with_labels(["age"]).variables] == [True, True, False]
    assert not schema.with_interventions("age").intervention.ordered


OF_A_COLUMN = r"""
kind unknown | ordinal | - | none of continuous, discrete
key unknown | continuous | mising = [] | did you mean 'missing'
key foreign | continuous | colour = 1 | known are kind
no categories | discrete | - | at least 2 categories
one category | discrete | categories = [1] | at least 2 categories
twice | discrete | categories = [1, "1.0"] | listed twice
empty category | discrete | categories = [" ", 1] | is empty
hidden | discrete | categories = ["x\u200b", 1] | U+200B
truth value | discrete | categories = [true, false] | something else than texts
marker category | discrete | categories = [0, 1]; missing = [0] | both a category and a missing
foreign categories | continuous | categories = [0, 1] | has no categories
foreign edges | continuous | edges = [0] | has no edges
no edges | binned | - | at least one edge
edges fall | binned | edges = [1, 1] | do not increase
edge nan | binned | edges = [nan] | not a finite number
edge inf | binned | edges = [1, inf] | not a finite number
edge text | binned | edges = ["1"] | than numbers
edges a number | binned | edges = 1 | not a list
flag | continuous | label = 1 | neither true nor false
order flag | of two | ordered = 1 | ordered is neither true nor false
order of numbers | continuous | ordered = true | continuous has no categories in an order
order of interventions | intervention | ordered = true | intervention has no categories in an order
order of one | discrete | categories = [1]; allow_constant = true; ordered = true | an order needs
order of none | discrete | ordered = true | at least 2 categories
synonym of none | of two | synonyms = {3 = ["x"]} | '3', which is no category
synonym a category | of two | synonyms = {1 = [2]} | '2' is empty, a category or a missing value
synonym twice | of two | synonyms = {1 = ["x"], 2 = ["x"]} | synonym 'x' is given twice
synonyms of one | of two | synonyms = {1 = ["x"], "1.0" = []} | '1' is given twice
unit of words | of two | unit = "kg" | discrete has no unit
range of one | continuous | plausible = [1] | two finite
range falls | continuous | plausible = [2, 1] | two finite
range endless | continuous | plausible = [0, inf] | finite
date rule | continuous | date = "days" | is no rule such as
date of no day | continuous | date = "days since 2000-02-30" | is no rule such as
date and unit | continuous | date = "days since 2000-02-03"; unit = "d" | stands in its rule
"""
"""Faults of the column a: name, kind (or categories 1 and 2), its other lines, what is said."""
BAD = {
    "kind missing": ("[columns.a]\n", "a", "kind is missing"),
    "top key": ('[colums.a]\nkind = "continuous"', None, "did you mean 'columns'"),
    "no columns": ("", None, "no table of columns"),
    "columns a list": ("columns = []", None, "no table of columns"),
    "empty columns": ("[columns]", None, "no column takes part"),
    "all ignored": ('[columns.a]\nkind = "ignore"', None, "no column takes part"),
    "column a text": ('[columns]\na = "continuous"', "a", "is a table"),
    "hidden name": ('[columns."a\\u0000b"]\nkind = "continuous"', r"a\x00b", "U+0000"),
    "edge huge": (
        f'[columns.a]\nkind = "binned"\nedges = [1{"0" * 400}]',
        "a",
        "not a finite number",
    ),
    "clash": (
        '[columns." a"]\nkind = "continuous"\n[columns."a "]\nkind = "continuous"',
        "a",
        "given twice",
    ),
    "no name": ('[columns.""]\nkind = "continuous"', "", "empty name"),
    "same key": ('[columns.a]\nkind = "ignore"\n[columns.a]', None, "not TOML"),
    "not toml": ("kind: continuous", None, "line 1"),
    "long integer": (f"a = {'1' * 5000}", None, "not TOML"),
    "deep": ("a = " + "[" * 100_000, None, "nested too deeply"),
}
for line in OF_A_COLUMN.split("\n")[1:-1]:
    fault, kind, more, said = line.split(" | ")
    two = ["categories = [1, 2]"] if kind == "of two" else []
    kind = f'kind = "{"discrete" if two else kind}"'
    BAD[fault] = "\n".join(["[columns.a]", kind, *two, *more.strip("-").split("; ")]), "a", said


@pytest.mark.parametrize("case", BAD)
def test_bad_schemas(case):
    text, column, fragment = BAD[case]
    with pytest.raises(errors.SchemaError) as caught:
        Schema.loads(text, file="study.toml")
    error = caught.value
    assert (error.exit_code, error.file, error.column) == (6, "study.toml", column)
    assert fragment in str(error)
    assert "study.toml" in str(error)
    assert error.remedy


@given(st.text())
@example("[columns.a]\nkind = 1")
def test_random_text_is_a_schema_error(text):
    with pytest.raises(errors.SchemaError):
        Schema.loads(text)


toml_values = st.sampled_from(
    [
        '"x"',
        "1",
        "-0.0",
        "nan",
        "[]",
        "[1]",
        '["", "a"]',
        "[[1]]",
        "{}",
        "true",
        "1979-05-27",
        "'''",
    ]
)


@given(
    st.dictionaries(st.sampled_from([*TEXT.split(), "edges", "label", "a.b", "kind"]), toml_values)
)
def test_mangled_schemas_load_or_are_a_schema_error(pairs):
    lines = [f"{key} = {value}" for key, value in pairs.items()]
    for kind in ("continuous", "discrete", "binned", "ignore"):
        text = "\n".join([f'{TEXT}[columns.new]\nkind = "{kind}"', *lines])
        try:
            schema = Schema.loads(text)
        except errors.SchemaError:
            continue
        assert Schema.loads(schema.dumps()) == schema


def test_schema_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.toml").write_bytes("# größe".encode("latin-1"))
    for name, reason in (("none.toml", "cannot be read"), ("latin.toml", "UTF-8"), ("", "read")):
        with pytest.raises(errors.SchemaError, match=reason) as caught:
            Schema.load(tmp_path / name)
        assert str(tmp_path) in caught.value.file


def test_a_byte_order_mark_is_no_error(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(TEXT, encoding="utf-8-sig")
    assert Schema.load(path) == Schema.loads(TEXT)


def test_comments_stay_on_their_lines():
    schema = Schema((Column("a", "continuous", comment="word " * 60),))
    assert all(len(line) <= 100 for line in schema.dumps().splitlines())
    with pytest.raises(errors.SchemaError, match=r"U\+000A"):
        Column("a", "continuous", comment="text\nkind = 1")


def test_heart_schema_reads_the_known_traps(tmp_path):
    schema = Schema.load(HEART)
    assert all(column.cardinality >= 2 for column in schema.variables)
    assert Schema.loads(schema.dumps()) == schema
    path = tmp_path / "heart.csv"
    path.write_text(
        "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num\n"
        "63,1,1,145,0,1,2,150,0,2.0,3,0,6,0\n"
        "44,0,4,0,0,,0,,1,-2.6,,,,1\n"
        "65,1,3,120,0,0,1,119,0.0,1.9,,,,4.0\n"
    )
    table = load_table(path, schema)
    assert table.kind == "discrete"
    assert table.names[:3] == ("age", "cp", "exang")
    found = {name: table.codes[:, i].tolist() for i, name in enumerate(table.names)}
    assert "chol" not in found
    assert found["age"] == [2, 0, 3]
    assert found["trestbps"] == [2, -1, 1]
    assert found["oldpeak"] == [2, 0, 1]
    assert found["thalach"] == [2, -1, 0]
    assert found["num"] == [0, 1, 4]


def frame_of(**values):
    return pd.DataFrame(values)


def test_inference_rules():
    n = 240
    steps = np.arange(n)
    schema = infer_schema(
        frame_of(
            twelve=[f"{step % 12 - 3}.0" for step in steps],
            thirteen=steps % 13,
            fraction=(steps % 2) / 2,
            text=["b ", "a", "B"] * (n // 3),
            marked=["n/a", "?", *map(str, steps[2:] / 7)],
            word=["NA", "north", "south"] * (n // 3),
            code=["01", "007"] * (n // 2),
            truth=steps % 2 == 0,
            constant=[3] * n,
            empty=[None] * n,
            name=[f"somebody {step}" for step in steps],
        )
    )
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "twelve": "discrete",
        "thirteen": "continuous",
        "fraction": "continuous",
        "text": "discrete",
        "marked": "continuous",
        "word": "discrete",
        "code": "discrete",
        "truth": "discrete",
        "constant": "ignore",
        "empty": "ignore",
        "name": "ignore",
    }
    by_name = {column.name: column for column in schema.columns}
    assert by_name["twelve"].categories == tuple(map(str, range(-3, 9)))
    assert by_name["text"].categories == ("B", "a", "b")
    assert by_name["marked"].missing == ("?", "n/a")
    assert by_name["word"].categories == ("NA", "north", "south")
    assert by_name["code"].categories == ("007", "01")
    assert by_name["truth"].categories == ("False", "True")
    text = schema.dumps()
    assert "somebody" not in text
    assert "LOOK: 'NA' is a category here and often marks a missing value." in text
    assert "no value" in by_name["empty"].comment
    assert "missing" in by_name["marked"].comment
    assert "missing" not in by_name["thirteen"].comment


def test_inferred_schema_loads_the_same_file(tmp_path):
    path = tmp_path / "site.csv"
    path.write_text("id,x,y,z\n" + "".join(f"p{i},{i % 3},{i / 3},k\n" for i in range(60)))
    schema = infer_schema(path)
    table = load_table(path, Schema.loads(schema.dumps()))
    assert table.names == ("x", "y")
    assert infer_schema(pd.read_csv(path)) == schema
    assert infer_schema([str(path), path]) == schema


def test_categories_are_the_union_over_files():
    first = frame_of(a=[0, 1, 0], b=["x", "x", "x"], c=["u", None, "v"])
    second = frame_of(b=["y", "x", "y"], c=["v", "u", "v"], a=[10, 2, 2])
    schema = infer_schema([first, second], min_cell_size=0)
    assert [column.categories for column in schema.columns] == [
        ("0", "1", "2", "10"),
        ("x", "y"),
        ("u", "v"),
    ]
    assert "missing" in schema.columns[2].comment


def test_inference_refuses_what_loading_refuses():
    good = frame_of(a=[0, 1], b=["x", "y"])
    for kind, sources in {
        "DuplicateNameError": [good.set_axis(["a", " a"], axis=1)],
        "EmptyDataError": [good, good.iloc[:0]],
        "TooFewRowsError": [good.iloc[:1]],
        "SchemaError": [],
    }.items():
        with pytest.raises(errors.DataError) as caught:
            infer_schema(sources)
        assert type(caught.value).__name__ == kind
    for kind, other in {
        "MissingColumnError": good[["a"]],
        "ExtraColumnError": good.assign(c=1),
    }.items():
        with pytest.raises(errors.DataError) as caught:
            infer_columns([good, other])
        assert type(caught.value).__name__ == kind


def bracketed_p_values(values, order=("low", "mid", "high"), **other):
    grade = pd.Categorical(values, categories=list(order), ordered=True)
    return pd.DataFrame({"grade": grade, **other})


def test_only_an_ordered_categorical_is_inferred_as_ordered(tmp_path):
    frame = bracketed_p_values(["mid", "low", None, "low"] * 6, stage=[0, 1, 2, 1] * 6)
    frame["word"] = pd.Categorical(["b", "a"] * 12)
    frame["step"] = pd.Categorical([10, 2] * 12, categories=[10, 9, 2], ordered=True)
    schema = infer_schema(frame, min_cell_size=0)
    assert {c.name: (c.ordered, c.categories) for c in schema.columns} == {
        "grade": (True, ("low", "mid", "high")),
        "stage": (False, ("0", "1", "2")),
        "word": (False, ("a", "b")),
        "step": (True, ("10", "9", "2")),
    }
    assert "missing" in schema.columns[0].comment
    table = load_table(frame, Schema.loads(schema.dumps()))
    assert table.codes[:4, 0].tolist() == [1, 0, -1, 0]
    pytest.importorskip("pyarrow")
    frame.drop(columns="step").to_parquet(tmp_path / "site.parquet")
    again = infer_schema(tmp_path / "site.parquet", min_cell_size=0)
    assert again.columns == schema.columns[:3]


def test_tables_that_contradict_an_order_are_refused(tmp_path):
    first = bracketed_p_values(["mid", "low"] * 5)
    for other in (
        bracketed_p_values(["mid", "low"] * 5, order=("high", "mid", "low")),
        bracketed_p_values(["low"] * 9, ["low"]),
    ):
        with pytest.raises(errors.SchemaError, match="another order of them"):
            infer_schema([first, other])
    path = tmp_path / "site.csv"
    path.write_text("grade\nlow\nhigh\n", "utf-8")
    for sources in ([first, path], [path, first]):
        (column,) = infer_schema(sources, min_cell_size=0).columns
        assert (column.categories, column.ordered) == (("low", "mid", "high"), True)
    path.write_text("grade\nlow\nworst\n", "utf-8")
    with pytest.raises(errors.SchemaError, match="'worst'"):
        infer_schema([first, path])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_number_is_named_and_not_taken_for_a_text(value):
    numbers = pd.DataFrame({"a": [0.5, 1.5, value, 2.5], "b": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(errors.NotNumericError, match="'a'.*no finite number"):
        infer_schema(numbers)
    words = pd.DataFrame({"a": ["inf", "sup"] * 5})
    assert infer_schema(words).columns[0].categories == ("inf", "sup")


def test_labels_are_several_names_and_not_the_letters_of_one():
    schema = infer_schema(pd.DataFrame({"D": ["a", "b"] * 5, "y": ["b", "a"] * 5}))
    with pytest.raises(errors.SchemaError, match="one text"):
        schema.with_labels("Dy")


def test_a_column_of_many_categories_is_checked_in_one_pass():
    """Six thousand choices of one field took eight seconds, and a field may have twice as many."""
    passes = []

    class Counted(tuple):
        __slots__ = ()

        def __iter__(self):
            passes.append("iterated")
            return super().__iter__()

        def __contains__(self, text):
            passes.append("searched")
            return super().__contains__(text)

    names = Counted(map(str, range(500)))
    pairs = tuple((each, (f"label {each}",)) for each in tuple.__iter__(names))
    about = {"kind": "discrete", "categories": names, "missing": (), "concepts": ()}
    column = SimpleNamespace(**about, synonyms=pairs)
    assert Column._synonym_fault(column) == ""
    assert len(passes) < 5
