"""The numbers in the documentation come from the tables that `cmcts reproduce` wrote."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from cmcts.report.tables import read_rows
from cmcts.reproduction.charts import FIGURES
from cmcts.reproduction.report import write_figure

DOCS = Path(__file__).parent.parent / "docs"
spec = importlib.util.spec_from_file_location("refresh_results", DOCS / "refresh_results.py")
refresh = importlib.util.module_from_spec(spec)
spec.loader.exec_module(refresh)


@pytest.mark.parametrize("page", refresh.PAGES, ids=lambda page: page.name)
def test_tables_are_made_from_the_committed_csvs(page):
    text = page.read_text()
    assert refresh.MARKED.search(text)
    assert refresh.refreshed(text) == text


@pytest.mark.parametrize("name", ["depth", "visits"])
def test_figures_are_made_from_the_committed_csvs(tmp_path, name):
    picture = write_figure(name, read_rows(refresh.RESULTS / f"{FIGURES[name][0]}.csv"), tmp_path)
    drawn, committed = (
        matplotlib.image.imread(source, format="png")[..., :3]
        for source in (io.BytesIO(picture), refresh.RESULTS / f"{name}.png")
    )
    assert drawn.shape == committed.shape
    assert np.abs(drawn - committed).mean() < 0.002  # a font may be rendered a little differently
