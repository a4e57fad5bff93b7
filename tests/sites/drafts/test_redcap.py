"""A REDCap data dictionary as a schema, and exports of the project read by it."""

import csv
import html
import io
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hostile_documents import schema_or_refusal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cipherdag import errors, infer_schema
from cipherdag.graphs.relations import Relation
from cipherdag.sites.drafts.documents.redcap import read_dictionary
from cipherdag.sites.drafts.together import draft_files, read_declarations
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

HEADER = (
    "Variable / Field Name", "Form Name", "Section Header", "Field Type", "Field Label",
    "Choices, Calculations, OR Slider Labels", "Field Note",
    "Text Validation Type OR Show Slider Number", "Text Validation Min", "Text Validation Max",
    "Identifier?", "Branching Logic (Show field only if...)", "Required Field?",
    "Custom Alignment", "Question Number (surveys only)", "Matrix Group Name", "Matrix Ranking?",
    "Field Annotation",
)  # fmt: skip
METADATA = (
    "field_name", "form_name", "section_header", "field_type", "field_label",
    "select_choices_or_calculations", "field_note", "text_validation_type_or_show_slider_number",
    "text_validation_min", "text_validation_max", "identifier", "branching_logic",
    "required_field", "custom_alignment", "question_number", "matrix_group_name",
    "matrix_ranking", "field_annotation",
)  # fmt: skip
CELLS = {
    "name": 0, "form": 1, "type": 3, "label": 4, "choices": 5, "validation": 7, "least": 8,
    "greatest": 9, "identifier": 10, "branching": 11,
}  # fmt: skip


def field(name, kind="text", **cells):
    row = [""] * len(HEADER)
    for key, text in {"name": name, "form": "visit", "type": kind, **cells}.items():
        row[CELLS[key]] = text
    return row


def dictionary(folder, *fields, header=HEADER, delimiter=",", encoding="utf-8"):
    path = folder / "dictionary.csv"
    with path.open("w", newline="", encoding=encoding) as opened:
        writer = csv.writer(opened, delimiter=delimiter)
        writer.writerows([header, field("record_id"), *fields])
    return path


def columns_of(path):
    return read_dictionary(path).columns


def export(folder, header, rows):
    path = folder / "export.csv"
    with path.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([header, *rows])
    return path


FIELDS = (
    field("age", validation="integer", least="18", greatest="110", label="Age at visit"),
    field("weight", validation="number_1dp", least="20"),
    field("height", validation="number", label="Height <b>(cm)</b>"),
    field("bmi", "calc", choices="round([weight]/([height]*[height])*10000, 1)"),
    field("sex", "radio", choices="1, Female | 2, Male"),
    field("smoking", "dropdown", choices="0, Never | 1, Former | 2, Current | 9, Unknown"),
    field("diabetic", "yesno", branching="[age] > 40"),
    field("fasting", "truefalse"),
    field("symptoms", "checkbox", choices="1, Fever | -9, None of these | A.b, Cough"),
    field("pain", "slider", choices="none | some | worst", validation="number"),
    field("seen", validation="date_dmy"),
    field("told", "notes"),
    field("street"),
    field("mail", validation="email"),
    field("insured", "radio", choices="1, A | 2, B", identifier="y"),
    field("clock", validation="time"),
    field("scan", "file"),
    field("ward", "sql", choices="select code from wards"),
    field("heading", "descriptive"),
)


def test_every_type_of_field_becomes_the_column_that_it_is(tmp_path):
    columns = columns_of(dictionary(tmp_path, *FIELDS))
    assert "heading" not in columns
    kinds = {name: each.kind for name, each in columns.items()}
    numbers = {"age", "weight", "height", "bmi", "pain"}
    categories = {"sex", "smoking", "diabetic", "fasting"}
    boxes = {"symptoms___1", "symptoms____9", "symptoms___a_b"}
    assert {name for name in kinds if kinds[name] == "continuous"} == numbers
    assert {name for name in kinds if kinds[name] == "discrete"} == categories | boxes
    assert columns["age"].plausible == (18.0, 110.0)
    assert columns["pain"].plausible == (0.0, 100.0)
    assert columns["weight"].plausible == ()
    assert "20 to ?" in columns["weight"].comment
    assert columns["height"].comment.startswith("'Height (cm)'. Numbers.")
    assert columns["sex"].synonyms == (("Female", ("1",)), ("Male", ("2",)))
    assert columns["smoking"].categories == ("Never", "Former", "Current")
    assert set(columns["smoking"].missing) == {"9", "Unknown"}
    assert "Asked only if [age] > 40" in columns["diabetic"].comment
    assert "The box 'None of these'" in columns["symptoms____9"].comment


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("seen", "dates"), ("told", "free text"), ("street", "free text"), ("mail", "email"),
        ("insured", "identifier"), ("clock", "times"), ("scan", "a file"), ("ward", "a query"),
        ("visit_complete", "complete"), ("redcap_repeat_instrument", "repeating instrument"),
        ("redcap_event_name", "event"),
    ],
)  # fmt: skip
def test_what_is_left_out_says_why(name, why, tmp_path):
    column = columns_of(dictionary(tmp_path, *FIELDS))[name]
    assert column.kind == "ignore"
    assert why in column.comment.partition("Ignored")[2]


def test_the_record_is_a_question_for_the_site(tmp_path):
    column = columns_of(dictionary(tmp_path, *FIELDS))["record_id"]
    assert column.kind == "ignore"
    assert 'kind = "patient"' in column.comment
    assert 'rows = "persons"' in column.comment


def test_a_calculated_field_follows_from_fields_of_its_row(tmp_path):
    more = (
        field("older", "calc", choices="[age] + [baseline_arm_1][age]"),
        field("since", "calc", choices="datediff([seen], 'today', 'd')"),
        field("ill", "calc", choices="if([symptoms(A.b)] = '1', [age], 0)"),
        field("stay", "calc", choices="[age] - [seen]"),
        *(field(name, "calc", choices=mark * 60_000) for name, mark in (("o", "["), ("p", "[-"))),
    )
    declared = read_dictionary(dictionary(tmp_path, *FIELDS, *more))
    assert set(declared.relations) == {
        Relation("function", ("bmi", "weight", "height")),
        Relation("function", ("ill", "symptoms___a_b", "age")),
    }
    assert declared.schema().applied == Schema.loads(declared.schema().dumps()).applied


@pytest.mark.parametrize("label", [False, True])
def test_codes_and_labels_of_an_export_are_read_alike(label, tmp_path):
    declared = read_declarations([dictionary(tmp_path, *FIELDS)])
    schema = infer_schema([], declared=declared)
    cells = {
        "sex": ("1", "2", "1"), "smoking": ("0", "9", "2"), "diabetic": ("1", "0", ""),
        "fasting": ("0", "1", "1"), "symptoms___1": ("1", "0", "0"),
    }  # fmt: skip
    labels = {
        "sex": ("Female", "Male", "Female"), "smoking": ("Never", "Unknown", "Current"),
        "diabetic": ("Yes", "No", ""), "fasting": ("False", "True", "True"),
        "symptoms___1": ("Checked", "Unchecked", "Unchecked"),
    }  # fmt: skip
    wanted = {
        "sex": [0, 1, 0], "smoking": [0, -1, 2], "diabetic": [1, 0, -1], "fasting": [0, 1, 1],
        "symptoms___1": [1, 0, 0],
    }  # fmt: skip
    filled = labels if label else cells
    rest = {"symptoms____9": "0", "symptoms___a_b": "1"}
    numbers = {"age": "40", "weight": "70.5", "height": "171", "bmi": "24.1", "pain": "30"}
    rows = [
        ["1", *(filled[name][k] for name in filled), *("01"[k % 2] for _ in rest),
         *(str(float(text) + k) for text in numbers.values())]
        for k in range(3)
    ]  # fmt: skip
    path = export(tmp_path, ["record_id", *filled, *rest, *numbers], rows)
    table = load_table(path, schema)
    for name, codes in wanted.items():
        assert table.codes[:, table.schema.names.index(name)].tolist() == codes, name


def test_labels_that_could_be_codes_leave_the_codes(tmp_path):
    swapped = field("stage", "radio", choices="1, 2 | 2, 1 | 3, 3")
    twice = field("side", "radio", choices="1, left | 2, left | 3, right")
    long = field("consent", "radio", choices=f"1, {'I agree ' * 12} | 2, no")
    columns = columns_of(dictionary(tmp_path, swapped, twice, long))
    assert columns["stage"].categories == ("1", "2", "3")
    assert columns["side"].categories == ("1", "2", "3")
    assert columns["consent"].categories == ("1", "2")
    for name in ("stage", "side", "consent"):
        assert columns[name].synonyms == ()
        assert columns[name].comment.startswith("Codes: 1 '")


def test_a_choice_that_may_be_no_answer_is_a_question(tmp_path):
    choices = "1, good | 2, bad | -99, Fehlende Antwort | 88, refused"
    column = columns_of(dictionary(tmp_path, field("state", "radio", choices=choices)))["state"]
    assert column.categories == ("good", "bad", "Fehlende Antwort", "refused")
    assert "LOOK: Fehlende Antwort, refused: write it and its code" in column.comment


def test_rows_of_a_repeating_instrument_are_a_patient_s(tmp_path):
    path = dictionary(tmp_path, field("age", validation="integer"))
    header = ["record_id", "redcap_repeat_instrument", "redcap_repeat_instance", "age"]
    rows = [[k // 2, "visit", k % 2 + 1, 30 + 7 * k] for k in range(40)]
    data = export(tmp_path, header, rows)
    schema, _, _ = draft_files([data], 5, read_declarations([path]))
    assert schema.names == ("age",)
    table = load_table(data, schema.with_patients("record_id"))
    assert len(np.unique(table.patients)) == 20


def test_a_draft_from_an_export_holds_what_the_dictionary_says(tmp_path):
    path = dictionary(tmp_path, *FIELDS)
    header = ["record_id", "sex", "told", "seen", "street", "extra"]
    rows = [
        [f"P{k}", k % 2 + 1, f"private\nnote {k}", f"2021-03-{k + 1:02d}", f"Lane {k}", k * 37 % 11]
        for k in range(20)
    ]
    data = export(tmp_path, header, rows)
    schema, _, _ = draft_files([data], 5, read_declarations([path]))
    by_name = {column.name: column for column in schema.columns}
    assert [*by_name] == header
    assert by_name["sex"].categories == ("Female", "Male")
    assert by_name["extra"].kind == "continuous"
    assert "no file has these declared columns: age, weight" in schema.comment
    text = schema.dumps()
    for row in rows:
        for cell in (row[0], row[3], row[4], f"note {row[0][1:]}"):
            assert f'"{cell}"' not in text
            assert f"'{cell}'" not in text


def test_metadata_of_the_interface_is_a_dictionary_too(tmp_path):
    plain = columns_of(dictionary(tmp_path, *FIELDS))
    assert columns_of(dictionary(tmp_path, *FIELDS, header=METADATA)) == plain
    assert columns_of(dictionary(tmp_path, *FIELDS, delimiter=";")) == plain


def test_a_dictionary_with_quoted_semicolons_is_read(tmp_path):
    path = dictionary(tmp_path, *FIELDS)
    plain = columns_of(path)
    rows = [HEADER, field("record_id"), *FIELDS]
    with path.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened, delimiter=";", quoting=csv.QUOTE_ALL).writerows(rows)
    assert columns_of(path) == plain


def test_a_dictionary_of_windows_is_read_with_its_umlauts(tmp_path):
    path = dictionary(
        tmp_path, field("art", "radio", choices="1, Männlich | 2, Weiblich"), encoding="cp1252"
    )
    assert columns_of(path)["art"].categories == ("Männlich", "Weiblich")


@pytest.mark.parametrize(
    ("bad", "row", "header", "what"),
    [
        (field("Bad name"), 3, HEADER[0], "no name of a field"),
        (field("", "radio"), 3, HEADER[0], "has no name"),
        (field("record_id"), 3, HEADER[0], "a column of row 2"),
        (field("a", "matrix"), 3, HEADER[3], "no type of field"),
        (field("a", "radio"), 3, HEADER[5], "has none"),
        (field("a", "radio", choices="1, x | 2"), 3, HEADER[5], "no comma"),
        (field("a", "radio", choices="1, x | , y"), 3, HEADER[5], "no visible code"),
        (field("a", "radio", choices="1, x | 1.0, y"), 3, HEADER[5], "the code '1'"),
        (field("a", "checkbox", choices="é, x | 2, y"), 3, HEADER[5], "no column for"),
        (field("a", "checkbox", choices="a, x | A, y"), 3, HEADER[0], "a column of row 3"),
        (field("a", validation="integer", least="low"), 3, HEADER[8], "no number"),
        (field("a", validation="number", greatest="1,5"), 3, HEADER[9], "no number"),
        (field("a", validation="number", least="9", greatest="3"), 3, HEADER[8], "greater"),
        (field("a", identifier="perhaps"), 3, HEADER[10], "neither y nor empty"),
    ],
)
def test_a_wrong_cell_is_named_with_its_remedy(bad, row, header, what, tmp_path):
    path = dictionary(tmp_path, bad)
    with pytest.raises(errors.UnreadableDataError) as raised:
        read_dictionary(path)
    assert raised.value.file == str(path)
    assert raised.value.column == header
    assert raised.value.location == f"row {row} of the file"
    assert what in raised.value.message
    assert raised.value.remedy.startswith("Correct the cell")


@pytest.mark.follows("Correct the cell")
def test_a_dictionary_whose_cell_is_corrected_is_read(tmp_path):
    with pytest.raises(errors.UnreadableDataError, match="has none") as raised:
        read_dictionary(dictionary(tmp_path, field("a", "radio")))
    assert "as in 1, Yes | 0, No" in raised.value.remedy
    corrected = dictionary(tmp_path, field("a", "radio", choices="1, Yes | 0, No"))
    assert columns_of(corrected)["a"].categories == ("Yes", "No")


@pytest.mark.parametrize("limit", ["[other]", "today", "now", "[visit_arm_1][age]"])
def test_a_limit_by_another_field_is_said_and_not_taken(limit, tmp_path):
    path = dictionary(tmp_path, field("a", validation="number", least="0", greatest=limit))
    column = columns_of(path)["a"]
    assert column.plausible == ()
    assert limit in column.comment


def test_a_decimal_comma_is_declared_by_a_person(tmp_path):
    path = dictionary(
        tmp_path, field("a", validation="number_2dp_comma_decimal", least="0,5", greatest="9")
    )
    column = columns_of(path)["a"]
    assert column.plausible == (0.5, 9.0)
    assert "LOOK: written with a decimal comma" in column.comment


@pytest.mark.follows("Give the CSV of 'Download the current Data Dictionary'")
def test_another_table_is_no_dictionary(tmp_path):
    data = export(tmp_path, ["age", "sex"], [[1, 2], [3, 4]])
    with pytest.raises(errors.UnreadableDataError, match="no data dictionary of REDCap"):
        read_declarations([data])
    assert read_declarations([dictionary(tmp_path, *FIELDS)]).schema().names


@pytest.mark.follows("Give another, ")
def test_a_dictionary_without_fields_is_refused(tmp_path):
    path = tmp_path / "dictionary.csv"
    path.write_text(",".join(f'"{each}"' for each in HEADER), "utf-8")
    with pytest.raises(errors.UnreadableDataError, match="it has no field") as raised:
        read_dictionary(path)
    assert raised.value.file == str(path)
    assert "age" in columns_of(dictionary(tmp_path, *FIELDS))


@pytest.mark.follows("Draft from the files as well")
def test_a_dictionary_of_texts_alone_needs_files(call, tmp_path):
    path = dictionary(tmp_path, field("told", "notes"))
    code, _, error = call("schema", "infer", "--declared", path)
    assert code == 6
    assert "Draft from the files as well" in " ".join(error.split())
    data = export(tmp_path, ["told", "age"], [[f"note {k}", 30 + k * 7 % 50] for k in range(40)])
    code, printed, error = call("schema", "infer", data, "--declared", path)
    assert code == 0, error
    assert Schema.loads(printed).names == ("age",)


@pytest.mark.follows("Run `cipherdag schema infer --declared {")
def test_a_dictionary_taken_for_data_says_what_to_run(call, tmp_path):
    path = dictionary(tmp_path, *FIELDS)
    code, _, error = call("schema", "infer", path)
    assert code == 6
    assert f"schema infer --declared {path}" in error
    code, printed, said = call("schema", "infer", "--declared", path)
    assert code == 0, said
    assert Schema.loads(printed).names == read_declarations([path]).schema().names
    assert "come from the document, and not from rows" in said


def test_neither_file_nor_document_is_a_wrong_command(call):
    code, _, error = call("schema", "infer")
    assert code == 2
    assert "--declared" in error


def test_json_of_the_command_has_the_schema(call, tmp_path):
    code, printed, _ = call(
        "schema", "infer", "--declared", dictionary(tmp_path, *FIELDS), "--json"
    )
    assert code == 0
    assert "age" in Schema.loads(json.loads(printed)["schema"]).names


@pytest.mark.follows("Give the column one name for each meaning")
def test_two_documents_that_contradict_each_other_are_refused(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    one = dictionary(tmp_path, field("a", validation="integer"))
    two = dictionary(other, field("a", "yesno"))
    with pytest.raises(errors.UnreadableDataError, match="declares the column otherwise"):
        read_declarations([one, two])
    two = dictionary(other, field("b", "yesno"))
    assert read_declarations([one, two]).schema().names == ("a", "b")


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=12)
SPECIAL = st.sampled_from(
    ["", "NA", "y", "1, Yes | 0, No", "1, | 2,", "1,a|1,b", "|", ",", "\\n", "1,a\\n2,b", "[a]",
     "integer", "number", "date_ymd", "radio", "checkbox", "calc", "text", "yesno", "slider", "0",
     "100", "-1e999", "nan", "1, <b>x</b> | 2, &nbsp;", "1, NA | 2, yes | 3, no", "1, 2 | 2, 1",
     "\u200b", "\u202e", "# x", '"""', "a", "b", "age", "record_id", "a___1", "visit_complete"]
)  # fmt: skip


@given(
    rows=st.lists(
        st.lists(SPECIAL | TEXTS, min_size=len(HEADER), max_size=len(HEADER)), max_size=4
    ),
    names=st.booleans(),
)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_a_hostile_dictionary_is_read_or_refused_with_its_cell(rows, names, tmp_path):
    for number, row in enumerate(rows):
        if names:  # else most end at their names
            row[0], row[10] = f"f{number}", ""
    path = dictionary(tmp_path, *rows)
    schema = schema_or_refusal(path)
    assert schema is None or schema.columns[0].kind == "ignore"


CODES = st.lists(
    st.from_regex(r"\A-?[0-9a-zA-Z]{1,3}\Z"), min_size=2, max_size=5, unique_by=str.lower
)
# a label that HTML reads otherwise, such as `A&lt`, has a test of its own
LABELS = st.from_regex(r"\A[a-zA-Z][a-z<&%(]{0,8}[a-z]\Z").filter(lambda s: html.unescape(s) == s)


@given(data=st.data())
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_a_coded_export_gives_the_choice_of_every_row(data, tmp_path):
    choices = []
    for _ in range(data.draw(st.integers(1, 3))):
        codes = data.draw(CODES)
        labels = data.draw(st.lists(LABELS, min_size=len(codes), max_size=len(codes), unique=True))
        choices.append([*zip(codes, labels, strict=True)])
    fields = [
        field(f"v{k}", "radio", choices=" | ".join(f"{c}, {label}" for c, label in each))
        for k, each in enumerate(choices)
    ]
    picks = [[data.draw(st.integers(0, len(each) - 1)) for each in choices] for _ in range(6)]
    rows = [
        [k, *(choices[v][pick][0] for v, pick in enumerate(row))] for k, row in enumerate(picks)
    ]
    try:
        schema = read_declarations([dictionary(tmp_path, *fields)]).schema()
    except errors.UnreadableDataError as error:
        # codes such as 1 and 1.0, or 0 and -0, are one to any reader of tables
        assert "the code" in error.message  # noqa: PT017
        return
    columns = (
        replace(each, allow_constant=True) if each.kind == "discrete" else each
        for each in schema.columns
    )
    header = ["record_id", *(f"v{k}" for k in range(len(choices)))]
    table = load_table(export(tmp_path, header, rows), Schema(tuple(columns)))
    for v, each in enumerate(choices):
        position = table.schema.names.index(f"v{v}")
        column = table.schema.variables[position]
        for row, pick in enumerate(picks):
            code, (written, label) = int(table.codes[row, position]), each[pick[v]]
            named = column.missing if code == -1 else (column.categories[code],)
            assert label in named or written in named


def test_a_choice_in_html_reads_as_a_browser_shows_it(tmp_path):
    choices = "0, under A&lt | 1, <b>over</b>&nbsp;A"
    schema = read_declarations(
        [dictionary(tmp_path, field("v", "radio", choices=choices))]
    ).schema()
    (column,) = (each for each in schema.columns if each.name == "v")
    assert column.synonyms == (("under A<", ("0",)), ("over A", ("1",)))


def test_rows_of_a_dictionary_are_counted_as_a_spreadsheet_does(tmp_path):
    lines = io.StringIO()
    csv.writer(lines).writerows(
        [HEADER, field("record_id", label="two\nlines"), [""] * len(HEADER), field("a", "odd")]
    )
    path = tmp_path / "dictionary.csv"
    path.write_text(lines.getvalue(), "utf-8")
    with pytest.raises(errors.UnreadableDataError) as raised:
        read_dictionary(path)
    assert raised.value.location == "row 4 of the file"


def test_all_pairs_of_types_and_validations_are_read_or_refused(tmp_path):
    kinds = ("text", "notes", "radio", "checkbox", "calc", "slider", "sql", "yesno", "file")
    forms = (
        "",
        "integer",
        "number_comma_decimal",
        "date_mdy",
        "time_mm_ss",
        "phone",
        "autocomplete",
    )
    fields = [
        field(f"f{k}", kind, validation=form, choices="1, a | 2, b", least="1", greatest="2")
        for k, (kind, form) in enumerate(itertools.product(kinds, forms))
    ]
    schema = read_declarations([dictionary(tmp_path, *fields)]).schema()
    assert Schema.loads(schema.dumps()) == schema
