"""Takes explorer_*.png: the explorer's pages of one Safe Gridworld and one RockSample(7,8) episode, in Chromium.

python docs/images/explorer.py
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import sync_playwright

from cmcts import cli

WIDTH = 1280
PAGES = {
    "gridworld": ["safe-gridworld", "--keep", "episode", "--seed", "0"],
    "rocksample": ["rocksample-7-8", "--keep", "episode", "--seed", "3"],
}


class Shot(NamedTuple):
    """Which page, where on it, what to point at, and how high."""

    page: str
    address: str
    point_at: str | None = None
    height: int = 800
    scheme: Literal["light", "dark"] = "light"


SHOTS = {
    "explorer": Shot("rocksample", "step=2", height=1180),
    "explorer_gridworld": Shot("gridworld", "step=3", "tr[data-row-action='0']", height=760),
    "explorer_critic": Shot("gridworld", "step=3&view=critic", height=940),
    "explorer_rocksample": Shot("rocksample", "step=1", "tr[data-row-action='9']", height=840),
    "explorer_frontier": Shot("rocksample", "view=frontier", ".frontier-dot:nth-of-type(2)", height=920),
    "explorer_tree": Shot("rocksample", "step=2", ".tree .row.refused", height=1000, scheme="dark"),
}


def main() -> None:
    """Write the pages, and take their pictures."""
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "google-chrome-stable"))))
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        for name, command in PAGES.items():
            cli.main(["explore", *command, "--out", f"{folder}/{name}.html"])
        chromium = playwright.chromium.launch(executable_path=program, args=arguments)
        for name, shot in SHOTS.items():
            page = chromium.new_page(
                viewport={"width": WIDTH, "height": shot.height},
                color_scheme=shot.scheme,
            )
            page.goto(f"file://{folder}/{shot.page}.html#{shot.address}")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(500)  # charts are drawn when the page has its size
            if shot.point_at:
                page.locator(shot.point_at).first.scroll_into_view_if_needed()
                page.wait_for_timeout(200)  # scrolling hides what a pointer shows
                page.locator(shot.point_at).first.hover()
            page.screenshot(path=Path(__file__).with_name(f"{name}.png"), animations="disabled")
            page.close()
        chromium.close()


if __name__ == "__main__":
    main()
