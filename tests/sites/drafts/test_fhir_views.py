"""A SQL-on-FHIR view as a schema, and the Parquet file of its rows read by it."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_documents import schema_or_refusal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cipherdag import errors, infer_schema
from cipherdag.sites.drafts.documents.fhir_views import read_view
from cipherdag.sites.drafts.together import draft_files, read_declarations
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table


def column(name, path, kind=None, **more):
    return {"name": name, "path": path, **({"type": kind} if kind else {}), **more}


def saved(folder, *select, resource="Patient", name="view.json", **more):
    content = {"resourceType": "ViewDefinition", "resource": resource, "select": [*select], **more}
    path = folder / name
    path.write_text(json.dumps(content), "utf-8")
    return path


def of(*columns, **more):
    return {"column": [*columns], **more}


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("boolean", "discrete"), ("decimal", "continuous"), ("integer", "continuous"),
        ("positiveInt", "continuous"), ("integer64", "continuous"), ("date", "ignore"),
        ("dateTime", "ignore"), ("instant", "ignore"), ("time", "ignore"), ("id", "ignore"),
        ("uuid", "ignore"), ("Reference", "ignore"), ("markdown", "ignore"), ("uri", "ignore"),
        ("http://hl7.org/fhirpath/System.Decimal", "continuous"), ("System.Boolean", "discrete"),
        ("code", None), ("string", None),
    ],
)  # fmt: skip
def test_a_type_decides_what_a_column_is(kind, wanted, tmp_path):
    declared = read_view(saved(tmp_path, of(column("x", "value.first()", kind))))
    if wanted is None:
        assert [*declared.undecided] == ["x"]
    else:
        assert declared.columns["x"].kind == wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("getResourceKey()", "ignore"), ("encounter.getReferenceKey(Encounter)", "ignore"),
        ("identifier.value.first()", "ignore"), ("birthDate", "ignore"), ("period.start", "ignore"),
        ("effective.ofType(dateTime)", "ignore"), ("code.coding.system", "ignore"),
        ("name.family.first()", "ignore"), ("name.where(use = 'usual').family", "ignore"),
        ("address.first().line.join(' ')", "ignore"), ("telecom.value[0]", "ignore"),
        ("code.text", "ignore"), ("value.ofType(Quantity).value", "continuous"),
        ("component.where(code.coding.code = '8480-6').value.ofType(Quantity).value", "continuous"),
        ("contact.count()", "continuous"), ("deceased.exists()", "discrete"),
        ("value.ofType(Quantity).value > 140", "discrete"), ("active", "discrete"),
        ("code.coding.where(system = 'x').exists()", "discrete"), ("gender", None),
        ("code.coding.where(system = 'http://loinc.org').code.first()", None),
        ("address.state", None), ("category.coding.display", None), ("whatever", None),
    ],
)  # fmt: skip
def test_a_path_decides_where_no_type_is_given(path, wanted, tmp_path):
    declared = read_view(saved(tmp_path, of(column("x", path)), resource="Encounter"))
    if wanted is None:
        assert [*declared.undecided] == ["x"]
    else:
        assert declared.columns["x"].kind == wanted


def test_the_number_of_a_row_takes_no_part(tmp_path):
    declared = read_view(saved(tmp_path, of(column("at", "%rowIndex", "integer"))))
    assert declared.columns["at"].kind == "ignore"


def test_a_path_below_for_each_is_the_whole_one(tmp_path):
    view = saved(
        tmp_path,
        {"forEach": "name", "column": [column("who", "family")]},
        {"forEach": "address", "select": [of(column("home", "$this.line.first()"))]},
    )
    declared = read_view(view)
    assert {declared.columns[each].kind for each in ("who", "home")} == {"ignore"}


def test_a_view_of_persons_has_one_row_each(tmp_path):
    plain = of(column("pid", "getResourceKey()", "id"), column("age", "x", "integer"))
    schema = read_declarations([saved(tmp_path, plain)]).schema()
    assert schema.rows == "persons"
    assert schema.patient is None
    several = saved(
        tmp_path, plain, {"forEach": "contact", "column": [column("c", "x", "boolean")]}
    )
    schema = read_declarations([several]).schema()
    assert schema.rows == ""
    assert schema.patient.name == "pid"


@pytest.mark.parametrize(
    "path",
    ["subject.getReferenceKey(Patient)", "patient.getReferenceKey('Patient')", "subject.reference",
     "subject.getReferenceKey()", "Observation.subject.reference"],
)  # fmt: skip
def test_a_reference_to_a_person_is_the_key_of_rows(path, tmp_path):
    view = saved(
        tmp_path, of(column("who", path, "string"), column("x", "y", "decimal")),
        resource="Observation",
    )  # fmt: skip
    assert read_declarations([view]).schema().patient.name == "who"


def test_a_reference_by_its_type_is_the_key_of_rows(tmp_path):
    view = saved(
        tmp_path, of(column("who", "subject", "Reference"), column("x", "y", "decimal")),
        resource="Observation",
    )  # fmt: skip
    assert read_declarations([view]).schema().patient.name == "who"


def test_rows_without_a_person_are_a_question(tmp_path):
    view = saved(
        tmp_path, of(column("x", "y", "decimal")), resource="Observation",
        where=[{"path": "status = 'final'"}],
    )  # fmt: skip
    comment = read_view(view).comment
    assert comment.startswith("A row is of one Observation with status = 'final'.")
    assert "LOOK: no column says whose row it is" in comment


@pytest.mark.parametrize(
    ("select", "where", "what"),
    [
        ([of(column("x", "a.b", collection=True))], "select[0].column[0].collection", "list"),
        ([of(column("x", "y", "Quantity"))], "select[0].column[0].type", "no single value"),
        ([of({"name": "x"})], "select[0].column[0].path", "no text"),
        ([of({"path": "x"})], "select[0].column[0].name", "no text"),
        ([of(column("a\u200bb", "x"))], "select[0].column[0].name", "invisible"),
        ([of(column("x", "a"), column("x", "b"))], "select[0].column[1]", "a column before"),
        ([{"column": {}}], "select[0].column", "no list"),
        (["x"], "select[0]", "no object"),
        ([{"unionAll": [of(column("x", "a")), of(column("y", "a"))]}],
         "select[0].unionAll", "other"),
        ([{"forEach": 3, "column": []}], "select[0].forEach", "no text"),
        ([{"unionAll": [{"column": 5}]}], "select[0].unionAll[0].column", "no list"),
        ([{"unionAll": [{"column": [1]}]}], "select[0].unionAll[0].column[0]", "no object"),
        ([of(column("x", "exists(" * 90_000))], "select[0].column[0].path", "too long"),
        ([], "select", "no column"),
    ],
)  # fmt: skip
def test_a_wrong_place_is_named_with_its_remedy(select, where, what, tmp_path):
    path = saved(tmp_path, *select)
    with pytest.raises(errors.UnreadableDataError) as raised:
        read_view(path)
    assert raised.value.file == str(path)
    assert raised.value.location == where
    assert what in raised.value.message
    assert raised.value.remedy.startswith("Correct the view")


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", '{"resourceType": "Patient"}', "[" * 9000, '"x"', "\udcff"]
)
def test_another_document_is_no_view(text, tmp_path):
    path = tmp_path / "view.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(errors.UnreadableDataError, match="no SQL-on-FHIR ViewDefinition"):
        read_view(path)


def test_no_text_of_a_view_steers_who_reads_its_draft(tmp_path):
    steering = 'x\x1b[2J\x9b\u202e\x00\n[[columns]]\n"""'
    select = of(column("x", steering, "decimal", description=steering))
    where = [{"path": steering}]
    schema = read_view(saved(tmp_path, select, resource=steering, where=where)).schema()
    text = schema.dumps()
    assert all(map(str.isprintable, text.splitlines()))
    assert Schema.loads(text).names == ("x",)


@pytest.mark.follows("Correct the view: ")
def test_a_view_that_is_corrected_is_read(tmp_path):
    path = saved(tmp_path, of(column("x", "value", "Quantity")))
    with pytest.raises(errors.UnreadableDataError) as raised:
        read_view(path)
    assert "value.ofType(Quantity).value" in raised.value.remedy
    path = saved(tmp_path, of(column("x", "value.ofType(Quantity).value", "decimal")))
    assert read_view(path).columns["x"].kind == "continuous"


def test_columns_of_a_union_count_once(tmp_path):
    view = saved(
        tmp_path,
        of(column("pid", "getResourceKey()")),
        {
            "unionAll": [
                {"forEach": "contact", "column": [column("home", "x", "boolean")]},
                {"forEach": "address", "column": [column("home", "x", "boolean")]},
            ]
        },
    )
    assert [*read_view(view).columns] == ["pid", "home"]


def test_selections_in_selections_end_somewhere(tmp_path):
    select = of(column("x", "y", "decimal"))
    for _ in range(80):
        select = {"select": [select]}
    with pytest.raises(errors.UnreadableDataError, match="nested too deeply"):
        read_view(saved(tmp_path, select))


VIEW = of(
    column("pid", "getResourceKey()", "id"),
    column("gender", "gender", "code"),
    column("born", "birthDate", "date"),
    column("family", "name.family.first()", "string"),
    column("dead", "deceased.exists()", "boolean"),
    column("bmi", "x", "decimal"),
    column("visits", "y", "integer"),
    column("class", "z.coding.code.first()", "code"),
)


def rows(n=60):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "pid": [f"p{k}" for k in range(n)],
            "gender": rng.choice(["female", "male"], n),
            "born": [f"19{k + 10}-03-0{k % 9 + 1}" for k in range(n)],
            "family": rng.choice(["Smith", "Muster", "Rossi"], n),
            "dead": rng.random(n) < 0.4,
            "bmi": rng.normal(25, 3, n).round(1),
            "visits": rng.integers(1, 4, n),
            "class": ["AMB"] * (n - 33) + ["IMP"] * 30 + ["VR"] * 3,
        }
    )


def test_a_parquet_file_is_drafted_and_read_as_its_view_says(tmp_path):
    rows().to_parquet(tmp_path / "north.parquet", index=False)
    declared = read_declarations([saved(tmp_path, VIEW)])
    schema, _, _ = draft_files([tmp_path / "north.parquet"], 5, declared)
    assert schema.rows == "persons"
    by_name = {each.name: each for each in schema.columns}
    assert {name for name, each in by_name.items() if each.kind == "ignore"} == {
        "pid", "born", "family",
    }  # fmt: skip
    assert by_name["visits"].kind == "continuous"  # few whole numbers, and yet no codes
    assert by_name["gender"].categories == ("female", "male")
    assert by_name["class"].categories == ("AMB", "IMP")  # three rows hold the other
    text = schema.dumps()
    assert not [each for each in ("Smith", "Muster", "Rossi", "p17", "VR") if each in text]
    filled = rows().replace({"class": {"VR": None}})
    filled.to_parquet(tmp_path / "filled.parquet", index=False)
    table = load_table(tmp_path / "filled.parquet", schema)
    at = table.schema.names.index("dead")
    assert table.codes[:, at].tolist() == rows()["dead"].astype(int).tolist()


@pytest.mark.follows("Take one value in the path")
def test_a_list_in_the_file_is_refused_with_its_column(tmp_path):
    table = pa.table({"pid": ["a", "b"], "class": [["x"], ["y", "z"]]})
    pq.write_table(table, tmp_path / "north.parquet")
    declared = read_declarations([saved(tmp_path, VIEW)])
    with pytest.raises(errors.UnreadableDataError, match="list<") as raised:
        draft_files([tmp_path / "north.parquet"], 5, declared)
    assert raised.value.column == "class"
    assert "forEach" in raised.value.remedy
    rows().to_parquet(tmp_path / "north.parquet", index=False)
    assert "class" in draft_files([tmp_path / "north.parquet"], 5, declared)[0].names


def test_views_of_a_joined_table_have_one_key(tmp_path):
    patients = saved(tmp_path, VIEW)
    pressure = saved(
        tmp_path,
        of(column("patient", "subject.getReferenceKey(Patient)"),
           column("pressure", "value.ofType(Quantity).value")),
        resource="Observation", name="pressure.json",
    )  # fmt: skip
    glucose = saved(
        tmp_path,
        of(column("who", "subject.getReferenceKey(Patient)"),
           column("glucose", "value.ofType(Quantity).value")),
        resource="Observation", name="glucose.json",
    )  # fmt: skip
    declared = read_declarations([patients, pressure, glucose])
    assert not declared.one_row
    schema = declared.schema()
    assert schema.patient.name == "patient"
    assert {"bmi", "pressure", "glucose"} <= {*schema.names}
    joined = rows().assign(who=rows()["pid"], glucose=range(60))
    joined.to_parquet(tmp_path / "north.parquet", index=False)
    schema, _, _ = draft_files([tmp_path / "north.parquet"], 5, declared)
    assert schema.patient.name == "who"
    assert "no file has these declared columns: patient, pressure" in schema.comment


def test_a_key_that_joins_views_is_the_patient_s(tmp_path):
    patients = saved(tmp_path, VIEW)
    pressure = saved(
        tmp_path,
        of(column("pid", "subject.getReferenceKey(Patient)"), column("pressure", "x", "decimal")),
        resource="Observation", name="pressure.json",
    )  # fmt: skip
    for views in ([patients, pressure], [pressure, patients]):
        assert read_declarations(views).schema().patient.name == "pid"


def test_columns_of_codes_wait_for_rows(tmp_path):
    schema = read_declarations([saved(tmp_path, VIEW)]).schema()
    column_ = next(each for each in schema.columns if each.name == "gender")
    assert column_.kind == "ignore"
    assert "DECIDE" in column_.comment
    with pytest.raises(errors.SchemaError, match="no declared column"):
        infer_schema(
            [], declared=read_declarations([saved(tmp_path, of(column("x", "gender", "code")))])
        )


KEYS = st.sampled_from(
    ["select", "column", "name", "path", "type", "forEach", "unionAll", "where", "collection",
     "resource", "description"]
)  # fmt: skip
LEAVES = st.one_of(
    st.sampled_from(
        ["x", "code", "decimal", "boolean", "getResourceKey()", "gender", "((((", "a.b.c()", "",
         " ", "\u202e", "where(", "$this", "Patient"]
    ),
    st.booleans(), st.none(), st.integers(), st.text(max_size=5),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
COLUMNS = st.fixed_dictionaries({"name": LEAVES, "path": LEAVES}, optional={"type": LEAVES})
SELECTS = st.lists(
    st.fixed_dictionaries(
        {"column": st.lists(COLUMNS, max_size=3)}, optional={"forEach": LEAVES, "select": TREES}
    ),
    max_size=3,
)


@given(select=SELECTS | TREES, where=TREES)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_a_hostile_view_is_read_or_refused_with_its_place(select, where, tmp_path):
    content = {"resource": "Patient", "select": select, "where": where}
    path = tmp_path / "view.json"
    path.write_text(json.dumps(content), "utf-8")
    schema_or_refusal(path)
