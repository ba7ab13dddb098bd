"""Bring the numbers of a full run into the documentation: `python docs/refresh_results.py runs/reproduce`.

Copies the run's tables and figures to `docs/results/`, and rewrites every table between `<!-- table: NAME -->` and
`<!-- end -->` in `docs/results.md`, `docs/zoo.md` and `README.md` from them. Without a folder, only rewrites.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from cmcts.report.tables import read_rows
from cmcts.reproduction.text_tables import markdown_table

DOCS = Path(__file__).parent
RESULTS = DOCS / "results"
PAGES = (DOCS / "results.md", DOCS / "zoo.md", DOCS.parent / "README.md")
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(text: str) -> str:
    """The page with its marked tables made anew."""

    def table(match: re.Match[str]) -> str:
        return f"{match[1]}{markdown_table(match[2], read_rows(RESULTS / f'{match[2]}.csv'))}\n{match[3]}"

    return MARKED.sub(table, text)


def main() -> None:
    """Copy, then rewrite."""
    if len(sys.argv) > 1:
        run = Path(sys.argv[1])
        RESULTS.mkdir(exist_ok=True)
        for file in sorted([*(run / "tables").glob("*.csv"), *(run / "figures").glob("*.png")]):
            shutil.copy(file, RESULTS)
    for page in PAGES:
        page.write_text(refreshed(page.read_text()))


if __name__ == "__main__":
    main()
