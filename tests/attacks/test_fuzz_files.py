"""Hostile files at everything that reads one: named errors and nothing else."""

import logging

import pytest
from file_fuzzing import CORPUS, READERS, fuzz, samples

INPUTS = 150


@pytest.mark.parametrize("reader", READERS)
def test_hostile_files_meet_named_errors_only(reader, tmp_path, caplog):
    """In `benchmarks/fuzz_files.py` a minute each; here so many, and the corpus as it is."""
    caplog.set_level(logging.CRITICAL)
    read, refused = fuzz(reader, tmp_path, seed=20, inputs=INPUTS)
    assert read == INPUTS
    assert refused > INPUTS // 10 or reader == "description"  # what is no TOML describes no file


def test_every_reader_has_a_corpus_and_each_corpus_a_reader():
    assert {path.name for path in CORPUS.iterdir()} == set(READERS)
    assert all(map(samples, READERS))
