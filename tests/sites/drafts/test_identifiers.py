"""Identifiers among numbers are left out with a reason; what was measured never is."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cipherdag import Federation, FedPC, errors, infer_schema
from cipherdag.sites.drafts.identifiers import WholeNumbers
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.cells import NumberCells

ROWS = 300
RNG = np.random.default_rng(7)


def drafted(name, numbers):
    """The column of a draft of a file in which one other column varies, too."""
    numbers = np.asarray(numbers)
    frame = pd.DataFrame({name: numbers, "sex": np.where(np.arange(len(numbers)) % 3, "f", "m")})
    return infer_schema(frame).columns[0]


@pytest.mark.parametrize(
    ("name", "numbers", "why"),
    [
        ("x", RNG.integers(10**9, 10**10, ROWS), "so many digits"),
        ("nhs", RNG.integers(4 * 10**9, 7 * 10**9, ROWS), "so many digits"),
        ("insured", np.repeat(RNG.integers(10**9, 10**10, 75), 4), "so many digits"),
        ("seen", RNG.integers(1_500_000_000, 1_700_000_000, ROWS), "so many digits"),
        ("x", RNG.integers(10**17, 10**18, ROWS), "so many digits"),
        ("x", np.arange(ROWS) + 1, "no two rows"),
        ("x", RNG.permutation(3 * ROWS)[:ROWS], "no two rows"),
        ("case", np.arange(30) + 1, "its name"),
        ("hospital_number", RNG.integers(5 * 10**5, 5 * 10**6, ROWS), "its name"),
        ("case.id", np.repeat(np.arange(75), 4), "its name"),
        ("HADM_ID", RNG.integers(10**5, 10**6, ROWS), "its name"),
        ("patient_nbr", RNG.integers(135, 10**8, ROWS), "its name"),
        ("USUBJID", RNG.integers(1000, 1999, ROWS), "its name"),
    ],
)
def test_numbers_that_identify_are_left_out_with_a_reason(name, numbers, why):
    column = drafted(name, numbers)
    assert (column.kind, why in column.comment) == ("ignore", True)
    assert 'if it was measured, set kind = "continuous"' in column.comment
    assert not any(str(number) in column.comment for number in numbers if number > 9)


MEASURED = {
    "platelets": RNG.integers(20, 900, ROWS) * 1000,
    "platelets_per_l": RNG.integers(20, 900, ROWS) * 10**9,
    "wbc_per_l": RNG.integers(10, 200, ROWS) * 10**8,
    "creatinine_umol_l": RNG.gamma(9, 10, ROWS).round(),
    "ferritin": RNG.lognormal(5, 1.3, ROWS).round(),
    "nt_probnp": RNG.lognormal(7, 1.5, ROWS).round(),
    "hcg": RNG.lognormal(10, 1.5, ROWS).round(),
    "ck": RNG.lognormal(5, 1, ROWS).round(),
    "cd4": RNG.gamma(5, 100, ROWS).round(),
    "brain_volume_mm3": RNG.normal(1.5e6, 1.5e5, ROWS).round(),
    "reads": RNG.lognormal(17, 0.3, ROWS).round(),
    "rbc_per_ul": (RNG.normal(4.7, 0.4, ROWS) * 100).round() * 10_000,
    "charges": RNG.gamma(2, 9000, ROWS).round(),
    "futime": RNG.integers(1, 4000, ROWS),
    "year_of_birth": RNG.integers(1920, 2005, ROWS),
    "age_days": RNG.integers(9000, 33000, ROWS),
    "num_medications": RNG.integers(1, 60, ROWS),
    "fluid": RNG.integers(0, 3000, ROWS),
    "residual": RNG.normal(0, 1, ROWS),
    "admission_type_id": RNG.integers(1, 30, ROWS),
}


@pytest.mark.parametrize("name", MEASURED)
def test_laboratory_numbers_are_never_taken_for_identifiers(name):
    assert drafted(name, MEASURED[name]).kind == "continuous"


@given(
    spread=st.floats(0.05, 1.5), scale=st.floats(1.0, 1e7), n=st.integers(30, 400),
    shape=st.sampled_from(["lognormal", "normal", "uniform"]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_was_drawn_independently_is_no_identifier(spread, scale, n, shape, seed):
    rng = np.random.default_rng(seed)
    drawn = {
        "lognormal": lambda: rng.lognormal(0, spread, n),
        "normal": lambda: np.abs(rng.normal(1, spread, n)),
        "uniform": lambda: rng.uniform(0, 1, n),
    }[shape]()
    numbers = (scale * drawn).round()
    if len({*numbers}) > 12:
        assert drafted("x", numbers).kind == "continuous"


@given(
    n=st.integers(50, 400), first=st.integers(0, 10**6), gaps=st.floats(1.0, 2.5),
    seed=st.integers(0, 2**32 - 1), shuffled=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_numbers_given_out_once_each_are_identifiers(n, first, gaps, seed, shuffled):
    rng = np.random.default_rng(seed)
    numbers = first + np.sort(rng.permutation(int(n * gaps))[:n])
    column = drafted("x", rng.permutation(numbers) if shuffled else numbers)
    assert (column.kind == "ignore") == (n * (n - 1) / 2 / (np.ptp(numbers) + 1) > 20)
    assert column.kind == "ignore" or n < 110


def test_the_chance_of_no_two_alike_is_bounded_as_said():
    rng = np.random.default_rng(3)
    for width, n in ((500, 40), (2000, 60), (300, 25)):
        weights = rng.dirichlet(np.ones(width))
        untied = np.mean([
            len({*rng.choice(width, n, p=weights)}) == n for _ in range(2000)
        ])  # fmt: skip
        tally = ColumnTally()
        tally.add(NumberCells(rng.permutation(width)[:n].astype(float)))
        assert untied <= np.exp(-n * (n - 1) / 2 / width) + 0.02
        assert WholeNumbers.of(tally).surprise >= n * (n - 1) / 2 / width


def test_files_that_each_count_from_one_have_identifiers(tmp_path):
    paths = []
    for site in "abc":
        rng = np.random.default_rng(ord(site))
        frame = pd.DataFrame({"x": np.arange(60) + 1, "age": rng.normal(60, 9, 60).round(1)})
        paths.append(tmp_path / f"{site}.csv")
        frame.to_csv(paths[-1], index=False)
    assert infer_schema(paths).ignored == ("x",)


def test_a_run_without_a_schema_ends_at_an_identifier():
    rng = np.random.default_rng(1)
    frames = [
        pd.DataFrame({"nhs": rng.integers(10**9, 10**10, 60), "age": rng.normal(60, 9, 60)})
        for _ in range(3)
    ]
    with pytest.raises(errors.SchemaError, match="so many digits") as caught:
        Federation.simulate(frames).run(FedPC())
    assert caught.value.column == "nhs"


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("fake_last_name", ["tyrell", "tarly"], "ignore"),
        ("Home address", ["Way 1", "Way 2"], "ignore"),
        ("clinic_name", ["north", "south"], "discrete"),
        ("drug name", ["aspirin", "placebo"], "discrete"),
        ("center", ["Mt. Sinai Ctr", "Univ. of Kiel"], "discrete"),
        ("patient_code", ["AB00123", "AB00456"], "ignore"),
        ("PatientCode", ["10234", "10567"], "ignore"),
        ("ward_code", ["10234", "10567"], "discrete"),
        ("patient class", ["in", "out"], "discrete"),
        ("x", ["0", "0"], "discrete"),
    ],
)
def test_general_forms_of_names_and_texts_decide(name, cells, kind):
    frame = pd.DataFrame({name: cells * 30, "dose": np.arange(60) / 2})
    if name == "x":
        frame.loc[[3, 4], "x"] = "1"  # a flag that two rows have
    (column, _) = infer_schema(frame).columns
    assert column.kind == kind
    assert name != "x" or column.categories == ("0",)
