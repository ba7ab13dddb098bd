"""How large is the explorer's page of a tree with 100,000 nodes, and how soon can it be used in a browser?

python benchmarks/explorer_page.py

Needs Chromium and Playwright, which `make test-extras` installs. Seconds are the browser's own, from the request for
the page to the first rows of the tree, and from a click to the rows that it unfolds; the median of five loads.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import cmcts
from cmcts.critic.ensemble import immediate_costs_only

TASK, BUDGET, ITERATIONS, LOADS = "rocksample-11-11", 10.0, 100_000, 5


def measured(browser: Browser, address: str) -> tuple[float, float]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.wait_for_selector("html[data-tree=ready]")
    ready = page.evaluate("performance.getEntriesByName('tree ready')[0].startTime")
    unfold = page.evaluate(
        """() => {
            const before = performance.now();
            [...document.querySelectorAll("button")].find((button) => button.textContent === "3 levels").click();
            document.querySelector(".tree").getBoundingClientRect();
            return performance.now() - before;
        }"""
    )
    page.close()
    return ready / 1000, unfold / 1000


def main() -> None:
    model = cmcts.make(TASK).model
    planner = cmcts.CMCTS(model, immediate_costs_only(model), cmcts.make(TASK).search)
    decision = planner.plan(model.start_state(), BUDGET, iterations=ITERATIONS, keep_tree=True)
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "google-chrome-stable"))))
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        size = len(cmcts.explore(decision, path).content)
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        loads = [measured(browser, path.as_uri()) for _ in range(LOADS)]
        browser.close()
    ready, unfold = (statistics.median(times) for times in zip(*loads, strict=True))
    print(
        f"{decision.tree_size} nodes, {size / 1e6:.1f} MB: usable after {ready:.2f} s, three levels in {unfold:.2f} s"
    )


if __name__ == "__main__":
    main()
