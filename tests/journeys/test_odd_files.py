"""The folder of odd files: every one reads rightly, or says where, what and what to do."""

import json

import numpy as np
import pytest
from odd_files import FRAME, ODD, PLAIN, SAME, SCHEMA, Pointed, Refused

from cipherdag.errors import DataError
from cipherdag.federation.site_loading import load_sites
from cipherdag.sites.table.file_description import DescribedFile, FileDescription
from cipherdag.sites.table.site_table import load_table


def written(folder, odd):
    path = folder / odd.name
    path.write_bytes(odd.content)
    return DescribedFile(path, FileDescription(**odd.described)) if odd.described else path


def as_toml(folder, odd):
    """The same description as a file, for a command."""
    lines = [f"file = {json.dumps(odd.name)}"]
    lines += [own for own in FileDescription(**odd.described).dumps().splitlines()[2:] if own]
    path = folder / "source.toml"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_there_are_forty_and_more():
    assert len(ODD) >= 40
    kinds = [type(odd.outcome) for odd in ODD.values()]
    assert min(kinds.count(own) for own in (str, Refused, Pointed)) >= 8


@pytest.mark.parametrize("name", ODD)
def test_it_reads_rightly_or_says_where_what_and_what_to_do(tmp_path, caplog, name):
    odd = ODD[name]
    source = written(tmp_path, odd)
    if isinstance(odd.outcome, Refused):
        with pytest.raises(DataError) as caught:
            load_sites({"ward": source}, odd.schema, (), None)
        said = str(caught.value)
        for part in (odd.outcome.says, odd.outcome.more):
            assert part in said
        assert odd.outcome.remedy in caught.value.remedy
        assert odd.name in said or odd.schema is None
        assert len(said) < 400
        return
    table = load_sites({"ward": source}, odd.schema, (), None)["ward"]
    assert table.rows == len(FRAME)
    if isinstance(odd.outcome, Pointed):
        assert odd.outcome.says in caplog.text
        return
    assert odd.outcome is SAME
    assert not caplog.records
    (tmp_path / "plain").write_text(PLAIN, "utf-8")
    plain = load_table(tmp_path / "plain", SCHEMA)
    np.testing.assert_array_equal(table.values, plain.values)
    np.testing.assert_array_equal(table.codes, plain.codes)


@pytest.mark.parametrize("name", [own for own in ODD if ODD[own].described])
def test_a_description_in_a_file_does_the_same(tmp_path, name):
    odd = ODD[name]
    source, described = written(tmp_path, odd), as_toml(tmp_path, odd)
    outcomes = []
    for own in (source, described):
        try:
            outcomes.append(load_table(own, odd.schema).numbers().tolist())
        except DataError as error:
            outcomes.append(str(error))
    assert repr(outcomes[0]) == repr(outcomes[1])
