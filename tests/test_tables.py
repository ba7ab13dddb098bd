"""Tables to files and back."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cmcts.errors import InvalidInput
from cmcts.report.tables import read_rows, write_rows, write_table

COLUMNS = {"episode": np.arange(3), "reward": np.array([0.1, 1 / 3, -2.5e-9]), "last": np.array([False, False, True])}


def test_csv_reads_back_exactly(tmp_path):
    write_table(tmp_path / "t.csv", COLUMNS)
    assert read_rows(tmp_path / "t.csv") == [
        {"episode": 0, "reward": 0.1, "last": False},
        {"episode": 1, "reward": 1 / 3, "last": False},
        {"episode": 2, "reward": -2.5e-9, "last": True},
    ]


def test_rows_with_gaps_and_names(tmp_path):
    rows = [{"task": "rocksample-7-8, leak", "reward": None}, {"task": "x", "reward": 2.0}]
    write_rows(tmp_path / "t.csv", rows)
    assert read_rows(tmp_path / "t.csv") == rows


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_table(tmp_path / "t.parquet", COLUMNS)
    assert parquet.read_table(tmp_path / "t.parquet").to_pydict() == {k: v.tolist() for k, v in COLUMNS.items()}


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"expected pyarrow .*cmcts\[parquet\]"):
        write_table(tmp_path / "t.parquet", COLUMNS)
    assert list(tmp_path.iterdir()) == []


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"expected a table to end in \.csv or \.parquet, got .*t\.xlsx"):
        write_table(tmp_path / "t.xlsx", COLUMNS)
