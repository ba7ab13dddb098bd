"""Tables as files: columns of equal length to CSV or Parquet, and CSV back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cmcts.errors import InvalidInput
from cmcts.files import write_atomically

Record = dict[str, Any]  # a row of a table, or the figures of a unit of work, by name


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Columns to a file, as its suffix says: `.csv` or `.parquet`."""
    lists = {name: np.asarray(column).tolist() for name, column in columns.items()}
    check_table_path(path)
    if path.suffix == ".csv":
        names = list(lists)
        write_rows(path, [dict(zip(names, row, strict=True)) for row in zip(*lists.values(), strict=True)], names)
    else:
        write_atomically(path, _parquet(lists))


def check_table_path(path: Path) -> None:
    """Refuse a table that could not be written, before the work that fills it: another suffix, or no pyarrow here."""
    if path.suffix not in (".csv", ".parquet"):
        raise InvalidInput(f"expected a table to end in .csv or .parquet, got {str(path)!r}")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InvalidInput("expected pyarrow to write Parquet (pip install 'cmcts[parquet]'), got none")


def _parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), buffer)
    return buffer.getvalue()


def write_rows(path: Path, rows: Iterable[Record], names: Sequence[str] | None = None) -> None:
    """Rows to a CSV file; numbers are written so that they read back exactly."""
    listed = list(rows)
    names = list(listed[0]) if names is None else names
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    write_atomically(path, text.getvalue().encode())


def read_rows(path: Path) -> list[Record]:
    """Rows of a CSV file, numbers as numbers and empty fields as None."""
    with path.open(newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)
