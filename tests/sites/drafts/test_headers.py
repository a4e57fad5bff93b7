"""Columns that files call differently: units in names, the common name, and what is no unit."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from cipherdag import Schema, errors
from cipherdag.sites.drafts.headers import Header, matches
from cipherdag.sites.drafts.together import draft_files
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.site_table import load_table
from tests.sites.drafts.test_together import followed


def header(name, *quartiles, kind="continuous"):
    return Header(Column(name, kind), quartiles)


@pytest.mark.parametrize(
    ("name", "rest", "unit"),
    [
        ("glucose_mmol_l", "glucose", "mmol/l"), ("glucose_mg_dl", "glucose", "mg/dl"),
        ("Kreatinin (µmol/L)", "Kreatinin", "umol/l"), ("crp mg/L", "crp", "mg/l"),
        ("age_years", "age", "years"), ("age.months", "age", "months"),
        ("weight_kg", "weight", "kg"), ("Weight [lbs]", "Weight", "lb"),
        ("height_m", "height", "m"), ("Größe_cm", "Größe", "cm"),
        ("bmi_kg_m2", "bmi", "kg/m2"), ("BMI (kg/m²)", "BMI", "kg/m2"),
        ("temp_c", "temp", "celsius"), ("Temperature (°F)", "Temperature", "fahrenheit"),
        ("los_days", "los", "days"), ("sbp_mmhg", "sbp", "mmhg"),
        *((name, name, "") for name in (
            "sex_m", "group_c", "visit_in", "pack_years", "death_days", "follow_up", "vitamin_d",
            "hepatitis_c", "apo_a", "factor_m", "Blutdruck (höherer)", "m", "g_dl", "time_h",
        )),
    ],
)  # fmt: skip
def test_a_unit_is_read_at_the_end_of_a_name_and_nothing_else(name, rest, unit):
    assert (header(name).unitless, header(name).unit) == (rest, unit)


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (("age", "age", "alter"), "age"),
        (("Alter", "Alter", "age"), "Alter"),  # most files have it
        (("Âge", "Alter", "age"), "age"),
        (("Sexe", "Geschlecht", "sex"), "sex"),
        (("Kreatinin", "Créatinine", "creatinine"), "creatinine"),
        (("weight_kg", "weight_kg", "weight"), "weight_kg"),
        (("glucose_mmol_l", "glucose_mmol_l", "glucose_mg_dl"), "glucose"),
        (("glucose_mmol_l", "glucose", "Glucose (mg/dl)"), "glucose"),
        (("smoking_status", "Raucher", "fumeur"), "fumeur"),
    ],
)
def test_the_common_name_is_a_plain_one_in_every_order(names, common):
    for order in permutations(names):
        for sites in permutations("abc"):
            (match,) = matches({s: [header(n)] for s, n in zip(sites, order, strict=True)})
            assert match.name == common
    assert match.headers.keys() == {"a", "b", "c"}


def test_no_common_name_is_that_of_another_column():
    tables = {
        "a": [header("glucose_mmol_l")],
        "b": [header("glucose_mg_dl")],
        "c": [header("glucose"), header("Glukose")],
    }
    names = [match.name for match in matches(tables)]
    assert len({*names}) == len(names)


@pytest.mark.parametrize(
    ("one", "other", "match"),
    [
        ("BloodPressure", "blood_pressure", True), ("bloodpressure", "BloodPressure", True),
        ("HbA1c", "hba1c", True), ("BMI", "Body mass index", True), ("sex", "Geschlecht", True),
        ("diabetesMed", "diabetes", False), ("DiabetesPedigreeFunction", "Diabetes", False),
        ("SmokerParent", "smoker", False), ("WeightLoss", "weight", False),
        ("death_days", "died", False), ("stage_n", "stage", False),
        ("RR syst", "TA sistólica", True), ("PAS (mmHg)", "SBP mmHg", True),
        ("exitus", "died", True), ("PAS", "PAD", False), ("RR", "PAS", False),
        ("Raucher", "tabagisme", True),
        ("Überleben (Monate)", "survie_mois", True), ("followup_months", "survival_days", True),
        ("Hb (g/dl)", "Hémoglobine g/L", True), ("Hb", "HbA1c", False), ("NHC", "NHS no", True),
        ("date d'entrée", "fecha_ingreso", True), ("visit_date", "fecha_ingreso", False),
        ("traitement", "tratamiento", True), ("Station", "service", True),
    ],
)  # fmt: skip
def test_names_of_several_words_match_as_a_whole(one, other, match):
    assert (len(matches({"a": [header(one)], "b": [header(other)]})) == 1) == match


def test_columns_of_one_file_in_two_units_are_not_one():
    tables = {"a": [header("glucose_mmol_l"), header("glucose_mg_dl")], "b": [header("glucose")]}
    assert all(len(match.headers) == 1 for match in matches(tables))


NAMES = {
    "north": ["age_years", "glucose_mmol_l", "weight_kg", "height_cm", "temp_c", "creatinine"],
    "south": ["age", "glucose_mg_dl", "weight_lb", "height_m", "temp_f", "creatinine_umol_l"],
    "west": ["age", "glucose", "weight", "height", "temperature", "creatinine_mg_dl"],
}


def body(site):
    rng = np.random.default_rng([*NAMES].index(site))
    means = (60, 6, 80, 170, 37, 1.0)
    spreads = (9, 0.9, 9, 9, 0.4, 0.1)
    return rng.normal(means, spreads, (80, 6))


@pytest.fixture
def files(tmp_path):
    paths = []
    for site, names in NAMES.items():
        numbers = body(site)
        if site == "south":
            numbers = numbers * [1, 18.016, 2.2046, 0.01, 1.8, 88.42] + [0, 0, 0, 0, 32, 0]
        paths.append(tmp_path / f"{site}.csv")
        pd.DataFrame(numbers, columns=names).to_csv(paths[-1], index=False)
    return paths


def test_units_in_names_are_reasons_and_factors_are_right(files):
    schema, found, table = draft_files(files, 5)
    said = {each.column: str(each) for each in found if each.open}
    assert said.keys() == {"glucose", "weight", "height", "temperature", "creatinine"}
    assert "multiply.\"glucose\" = 0.055506 for 'south.csv'" in said["glucose"]
    assert "(degrees - 32) / 1.8" in said["temperature"]
    assert any(line.startswith("age ") and "the unit" in line for line in table)
    draft = Schema.loads(followed(schema.dumps()))
    for file in files:
        got = load_table(draft.described(file), draft)
        right = dict(zip(("age", "glucose", "weight", "height", "temperature", "creatinine"),
                         body(file.stem).T, strict=True))  # fmt: skip
        for name in draft.names:
            if name == "temperature" and file.stem == "south":
                continue  # which no factor converts
            column = got.values[:, draft.names.index(name)]  # noqa: PD011 - of a SiteTable
            np.testing.assert_allclose(column, right[name], rtol=2e-4)
    assert {*draft.names} == {"age", "glucose", "weight", "height", "temperature", "creatinine"}


def test_two_lines_of_one_key_name_the_remedy(files):
    text = draft_files(files, 5)[0].dumps()
    twice = text.replace(
        '[sources."south.csv"]\n',
        '[sources."south.csv"]\nmultiply = { "weight" = 0.4536 }\nmultiply = { "height" = 100 }\n',
    )
    with pytest.raises(
        errors.SchemaError, match="a key stands there twice.*multiply.glucose = 18.016"
    ):
        Schema.loads(twice)
    each = text.replace(
        '[sources."south.csv"]\n',
        '[sources."south.csv"]\nmultiply.weight = 0.4536\nmultiply.height = 100\n',
    )
    assert Schema.loads(each).sources["south.csv"].multiply == {"weight": 0.4536, "height": 100.0}
