"""Tables in the shape of public exports: rows that are visits, and rows that are persons.

Each is drawn with the generator it is given; nothing in it is of a person. The shapes are those of
REDCap's repeating instruments, of OMOP's and CDISC's tables, of MIMIC's admissions, of hourly rows
of intensive care, of wearables, and of exports of laboratories and registries.
"""

import hashlib
import uuid

import numpy as np
import pandas as pd


def whose(rng, patients, least, most):
    """The patient of each row, those of one patient one after the other."""
    return np.repeat(np.arange(patients), rng.integers(least, most + 1, patients))


def traits(rng, rows, *, shared=0.5, decimals=1, mean=0.0, spread=1.0):
    """Numbers of rows, of whose variance a share lies between patients."""
    between = rng.normal(size=rows.max() + 1)[rows]
    drawn = np.sqrt(shared) * between + np.sqrt(1.0 - shared) * rng.normal(size=len(rows))
    return (mean + spread * drawn).round(decimals)


def of_patient(rng, rows, values):
    """One of some values for each patient."""
    return rng.choice(values, rows.max() + 1)[rows]


def since_first(rows):
    """How many rows of the patient come before each row."""
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))


def redcap(rng, name):
    rows = whose(rng, 80, 3, 8)
    visit = since_first(rows)
    age = of_patient(rng, rows, np.arange(20, 90)).astype(float)
    return pd.DataFrame(
        {
            "record_id": [name(number) for number in rows],
            "redcap_event_name": np.where(visit == 0, "baseline_arm_1", "visit_arm_1"),
            "redcap_repeat_instrument": np.where(visit == 0, "", "laboratory"),
            "redcap_repeat_instance": np.where(visit == 0, np.nan, visit),
            "age": np.where(visit == 0, age, np.nan),
            "crp": np.where(visit == 0, np.nan, traits(rng, rows, mean=20, spread=6)),
            "weight": np.where(visit == 0, np.nan, traits(rng, rows, shared=0.9, mean=75)),
        }
    )


def omop_visits(rng):
    rows = whose(rng, 150, 1, 6)
    rng.shuffle(rows)
    return pd.DataFrame(
        {
            "visit_occurrence_id": 70_000_000 + np.arange(len(rows)),
            "person_id": 10_000_000 + 37 * rows,
            "gender_concept_id": of_patient(rng, rows, [8507, 8532]),
            "year_of_birth": of_patient(rng, rows, np.arange(1930, 2000)),
            "visit_concept_id": rng.choice([9201, 9202, 9203], len(rows)),
            "length_of_stay": np.ceil(rng.lognormal(1.0, 0.8, len(rows))).astype(int),
        }
    )


def omop_measurements(rng):
    rows = whose(rng, 120, 4, 20)
    concept = rng.choice([3004249, 3012888, 3013682, 3016723], len(rows))
    level = {3004249: 130.0, 3012888: 80.0, 3013682: 15.0, 3016723: 1.0}
    mean = np.array([level[each] for each in concept])
    return pd.DataFrame(
        {
            "measurement_id": np.arange(len(rows)) + 5_000_001,
            "person_id": rows + 1,
            "measurement_concept_id": concept,
            "value_as_number": (mean * (1 + 0.1 * traits(rng, rows, decimals=4))).round(2),
            "gender_concept_id": of_patient(rng, rows, [8507, 8532]),
        }
    )


def hourly(rng):
    rows = whose(rng, 60, 12, 72)
    hour = since_first(rows)
    return pd.DataFrame(
        {
            "stay_id": 30_000_000 + 13 * rows,
            "hour": hour,
            "heart_rate": traits(rng, rows, mean=88, spread=15, decimals=0),
            "map": traits(rng, rows, mean=75, spread=10, decimals=0),
            "spo2": np.minimum(traits(rng, rows, mean=96, spread=2, decimals=0), 100),
            "ventilated": of_patient(rng, rows, ["yes", "no"]),
        }
    )


def wearable(rng):
    rows = whose(rng, 40, 25, 35)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(since_first(rows), unit="D")
    return pd.DataFrame(
        {
            "participant": [f"P{number:02d}" for number in rows],
            "date": day.strftime("%Y-%m-%d"),
            "steps": traits(rng, rows, mean=7000, spread=2500, decimals=0),
            "resting_hr": traits(rng, rows, shared=0.8, mean=62, spread=7, decimals=0),
            "sleep_h": traits(rng, rows, shared=0.3, mean=7, spread=1),
        }
    )


def admissions(rng):
    rows = whose(rng, 300, 1, 4)
    rng.shuffle(rows)
    return pd.DataFrame(
        {
            "subject_id": 10_000_032 + 211 * rows,
            "hadm_id": 20_000_019 + rng.permutation(len(rows)),
            "insurance": of_patient(rng, rows, ["Medicare", "Medicaid", "Other"]),
            "anchor_age": of_patient(rng, rows, np.arange(18, 91)),
            "los": rng.lognormal(1.2, 0.7, len(rows)).round(2),
            "hospital_expire_flag": (rng.random(len(rows)) < 0.05).astype(int),
        }
    )


def laboratory(rng):
    rows = whose(rng, 100, 1, 9)
    return pd.DataFrame(
        {
            "mrn": [f"{4000 + 17 * number:08d}" for number in rows],
            "sodium": traits(rng, rows, mean=139, spread=3, decimals=0),
            "potassium": traits(rng, rows, mean=4.2, spread=0.4),
            "creatinine": traits(rng, rows, shared=0.8, mean=1.1, spread=0.3, decimals=2),
        }
    )


def german(rng):
    rows = whose(rng, 90, 2, 6)
    rng.shuffle(rows)
    return pd.DataFrame(
        {
            "Patienten-ID": [f"PAT{number:05d}" for number in rows],
            "Geschlecht": of_patient(rng, rows, ["m", "w"]),
            "Leukozyten": traits(rng, rows, mean=8, spread=2),
            "Haemoglobin": traits(rng, rows, mean=13, spread=1.5),
        }
    )


def cases(rng):
    rows = whose(rng, 110, 1, 5)
    rng.shuffle(rows)
    return pd.DataFrame(
        {
            "Fallnummer": 7_000_000 + rng.permutation(len(rows)),
            "PatNr": 500 + 3 * rows,
            "Alter": of_patient(rng, rows, np.arange(20, 95)),
            "Verweildauer": np.ceil(rng.lognormal(1.3, 0.6, len(rows))).astype(int),
        }
    )


def eyes(rng):
    rows = whose(rng, 150, 2, 2)
    return pd.DataFrame(
        {
            "patient": rows + 1,
            "eye": np.where(since_first(rows) == 0, "OD", "OS"),
            "iop": traits(rng, rows, shared=0.7, mean=16, spread=3, decimals=0),
            "cup_ratio": traits(rng, rows, shared=0.7, mean=0.45, spread=0.12, decimals=2),
        }
    )


def diabetes(rng):
    rows = whose(rng, 130, 1, 8)
    return pd.DataFrame(
        {
            "nhs_number": [f"{9_000_000_000 + 7919 * number}" for number in rows],
            "hba1c": traits(rng, rows, shared=0.7, mean=58, spread=12, decimals=0),
            "bmi": traits(rng, rows, shared=0.95, mean=29, spread=5),
            "smoker": of_patient(rng, rows, ["current", "former", "never"]),
        }
    )


def dialysis(rng):
    rows = whose(rng, 40, 30, 40)
    return pd.DataFrame(
        {
            "id": rows + 1,
            "session": since_first(rows) + 1,
            "uf_volume": traits(rng, rows, mean=2.4, spread=0.6),
            "ktv": traits(rng, rows, shared=0.4, mean=1.4, spread=0.2, decimals=2),
            "access": of_patient(rng, rows, ["fistula", "catheter"]),
        }
    )


def cdisc(rng):
    rows = whose(rng, 100, 4, 6)
    visit = since_first(rows)
    return pd.DataFrame(
        {
            "STUDYID": "CDISCPILOT01",
            "USUBJID": [f"01-{701 + number % 9}-{1001 + number}" for number in rows],
            "AVISITN": visit,
            "AGE": of_patient(rng, rows, np.arange(50, 90)),
            "SEX": of_patient(rng, rows, ["F", "M"]),
            "TRTP": of_patient(rng, rows, ["Placebo", "Low", "High"]),
            "AVAL": traits(rng, rows, mean=24, spread=6, decimals=0),
        }
    )


def families(rng):
    rows = whose(rng, 120, 2, 4)
    return pd.DataFrame(
        {
            "family_id": [f"FAM{number:03d}" for number in rows],
            "ldl": traits(rng, rows, shared=0.4, mean=130, spread=30, decimals=0),
            "height": traits(rng, rows, shared=0.4, mean=170, spread=9, decimals=0),
            "sex": rng.choice(["f", "m"], len(rows)),
        }
    )


def teeth(rng):
    rows = whose(rng, 45, 18, 28)
    return pd.DataFrame(
        {
            "pid": [f"S-{number:03d}" for number in rows],
            "tooth": since_first(rows) + 11,
            "pocket_mm": traits(rng, rows, shared=0.3, mean=3, spread=1, decimals=0),
            "bleeding": rng.choice(["no", "yes"], len(rows)),
            "smoker": of_patient(rng, rows, ["no", "yes"]),
        }
    )


def readmissions(rng):
    rows = np.concatenate([np.arange(700), rng.integers(0, 700, 140)])
    rng.shuffle(rows)
    return pd.DataFrame(
        {
            "patient_id": [f"HX{number:06d}" for number in 31 * rows],
            "sex": of_patient(rng, rows, ["f", "m"]),
            "age": of_patient(rng, rows, np.arange(30, 95)),
            "los": np.ceil(rng.lognormal(1.3, 0.6, len(rows))).astype(int),
        }
    )


def pseudonyms(rng, name):
    rows = whose(rng, 100, 2, 7)
    rng.shuffle(rows)
    return pd.DataFrame(
        {
            "pseudonym": [name(number) for number in rows],
            "ferritin": traits(rng, rows, mean=90, spread=30, decimals=0),
            "transferrin": traits(rng, rows, mean=2.5, spread=0.4, decimals=2),
            "menopause": of_patient(rng, rows, ["no", "yes"]),
        }
    )


def small_trial(rng):
    rows = whose(rng, 28, 6, 9)
    return pd.DataFrame(
        {
            "Subject": rows + 101,
            "Days": since_first(rows),
            "Reaction": traits(rng, rows, shared=0.6, mean=300, spread=50),
        }
    )


VISITS = {
    "REDCap, counted": (lambda rng: redcap(rng, lambda one: one + 1), "record_id"),
    "REDCap, by group": (lambda rng: redcap(rng, lambda one: f"{one % 4}-{one}"), "record_id"),
    "OMOP visits": (omop_visits, "person_id"),
    "OMOP measurements": (omop_measurements, "person_id"),
    "intensive care, hourly": (hourly, "stay_id"),
    "wearable days": (wearable, "participant"),
    "MIMIC admissions": (admissions, "subject_id"),
    "laboratory": (laboratory, "mrn"),
    "German laboratory": (german, "Patienten-ID"),
    "German cases": (cases, "PatNr"),
    "two eyes": (eyes, "patient"),
    "diabetes register": (diabetes, "nhs_number"),
    "dialysis": (dialysis, "id"),
    "CDISC": (cdisc, "USUBJID"),
    "families": (families, "family_id"),
    "teeth": (teeth, "pid"),
    "readmissions": (readmissions, "patient_id"),
    "UUID": (
        lambda rng: pseudonyms(rng, lambda one: str(uuid.uuid5(uuid.NAMESPACE_OID, str(one)))),
        "pseudonym",
    ),
    "SHA-256": (
        lambda rng: pseudonyms(rng, lambda one: hashlib.sha256(bytes([one])).hexdigest()),
        "pseudonym",
    ),
    "small trial": (small_trial, "Subject"),
}
"""Rows that are visits: what draws the table, and the column that says whose row it is."""


def person(rng, n=600, **columns):
    """Persons with an age, and what depends on it, besides columns that are given."""
    age = rng.integers(18, 95, n)
    return pd.DataFrame(
        {
            **columns,
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "pressure": (100 + 0.5 * age + rng.normal(0, 10, n)).round(),
        }
    )


def diagnoses(rng, n=800):
    """Persons with a code, of which age and sex depend."""
    codes = [f"{rng.choice(list('ABCDEFGIJKMN'))}{number:02d}" for number in range(10, 70)]
    share = 1.0 / np.arange(1, len(codes) + 1)
    code = rng.choice(len(codes), n, p=share / share.sum())
    frame = person(rng, n)
    frame["age"] = np.clip(rng.integers(30, 80, len(codes))[code] + rng.normal(0, 8, n), 18, 95)
    frame["age"] = frame["age"].round()
    return frame.assign(icd10=np.array(codes)[code])


def operations(rng, n=800):
    """Persons with a procedure in words, of which the duration depends."""
    operation = rng.integers(0, 36, n)
    names = [f"{one} of the {two}" for one in ("Repair", "Removal", "Biopsy") for two in PARTS]
    minutes = rng.integers(30, 200, 36)[operation] + rng.normal(0, 15, n)
    return person(rng, n).assign(procedure=np.array(names)[operation], minutes=minutes.round())


PARTS = (
    *("hip", "knee", "hernia", "colon", "thyroid", "lens"),
    *("valve", "stomach", "kidney", "lung", "breast", "spine"),
)


def concepts(rng, n=900):
    code = rng.integers(0, 45, n)
    year = rng.integers(1935, 1990, 45)[code] + rng.integers(-9, 10, n)
    return pd.DataFrame(
        {
            "person_id": 1 + rng.permutation(n),
            "condition_concept_id": 4_000_000 + 7 * code,
            "year_of_birth": year,
            "gender_concept_id": rng.choice([8507, 8532], n),
            "value_as_number": rng.normal(120, 15, n).round(),
        }
    )


def neighbourhoods(rng, n=900):
    area = rng.integers(0, 60, n)
    return person(rng, n).assign(
        postcode=10_115 + 20 * area, income=(2000 + 20 * area + rng.normal(0, 400, n)).round()
    )


def drugs(rng, n=700):
    drug = rng.integers(0, 30, n)
    return person(rng, n).assign(
        atc_code=[f"{'ABCLN'[each % 5]}{each % 10:02d}AB{each:02d}" for each in drug],
        dose=(rng.integers(1, 40, 30)[drug] * 25),
        creatinine=rng.normal(1.0, 0.2, n).round(2),
    )


def questionnaire(rng, n=500):
    low = rng.normal(size=n)
    items = {
        f"q{each}": np.clip(np.round(3 + low + rng.normal(0, 0.8, n)), 1, 5).astype(int)
        for each in range(1, 7)
    }
    return pd.DataFrame({"respondent": np.arange(1, n + 1), **items})


def by_age(rng, n=600):
    return person(rng, n).sort_values("age", ignore_index=True)


def cognition(rng, n=500):
    score = np.clip(np.round(27 - np.abs(rng.normal(0, 5, n))), 0, 30).astype(int)
    return person(rng, n).assign(mmse=score, volume=(3.5 + 0.05 * score + rng.normal(0, 0.3, n)))


def two_dates(rng, n=500):
    day = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    return person(rng, n).assign(admitted=day.strftime("%Y-%m-%d"), weight=rng.normal(75, 12, n))


def measures(rng, n=600):
    height = rng.normal(170, 9, n).round()
    weight = (0.9 * (height - 90) + rng.normal(0, 9, n)).round()
    return pd.DataFrame(
        {"height": height, "weight": weight, "bmi": (weight / (height / 100) ** 2).round(1)}
    )


PERSONS = {
    "unique numbers": lambda rng: person(rng, record_id=np.arange(1, 601)),
    "unique texts": lambda rng: person(rng, mrn=[f"M{one:07d}" for one in rng.permutation(600)]),
    "postcodes of no influence": lambda rng: person(
        rng, plz=[f"{one:05d}" for one in rng.integers(10_000, 10_090, 600)]
    ),
    "postcodes with a gradient": neighbourhoods,
    "wards": lambda rng: person(rng, ward=rng.choice([f"ward {one}" for one in range(12)], 600)),
    "thirty practices": lambda rng: person(rng, practice=rng.integers(100, 130, 600)),
    "diagnoses": diagnoses,
    "procedures in words": operations,
    "OMOP conditions": concepts,
    "drugs": drugs,
    "questionnaire": questionnaire,
    "in the order of age": by_age,
    "a score of 30 points": cognition,
    "days of admission": two_dates,
    "height, weight, index": measures,
    "years of birth": lambda rng: person(rng).assign(
        born=lambda frame: 2024 - frame["age"], children=lambda frame: frame["age"] // 30
    ),
    "hours of arrival": lambda rng: person(rng, hour=rng.integers(0, 24, 600)).assign(
        wait=lambda frame: (60 + 20 * np.sin(frame["hour"] / 4) + rng.normal(0, 10, 600)).round()
    ),
    "ten sites": lambda rng: person(rng, centre=rng.choice([f"C{one}" for one in range(10)], 600)),
    "batches of an assay": lambda rng: person(rng, plate=rng.integers(1, 41, 600)),
    "a few rows": lambda rng: person(rng, 60, subject=[f"S{one}" for one in range(60)]),
}
"""Rows that are persons."""
