"""The explorer's page in a real browser: what a reader clicks, presses, points at and reads.

Chromium is driven by Playwright. `make test-extras` installs both and sets CMCTS_BROWSER=required, so that nothing is
skipped there.
"""

from __future__ import annotations

import os
import shutil
import threading
from functools import partial

import numpy as np
import pytest

import cmcts
from cmcts import cli
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.explorer import explore, record
from cmcts.explorer.assembly import episodes_page
from cmcts.explorer.laboratory import Laboratory
from cmcts.explorer.page import page as page_of
from cmcts.explorer.server import LiveServer
from explorer_pages import HOSTILE, data_of, hostile_decision

pytestmark = pytest.mark.extras

NAMES = ("chromium", "google-chrome", "google-chrome-stable")
LAPTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, NAMES)), None)
    required = os.environ.get("CMCTS_BROWSER") == "required"
    if program is None and not required:
        pytest.skip(f"no browser here: none of {', '.join(NAMES)}")
    if not required:
        pytest.importorskip("playwright", reason="Playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, as whom containers run.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        with playwright.chromium.launch(executable_path=program, args=arguments) as chromium:
            yield chromium


@pytest.fixture
def open_page(browser):
    """Opens an address; whatever goes wrong in the page fails the test."""
    contexts, faults = [], []

    def opened(address, viewport=LAPTOP):
        contexts.append(browser.new_context(viewport=viewport))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: faults.append(asked.url) if asked.url.startswith("http:") else None)
        page.goto(address)
        return page

    opened.faults = faults
    yield opened
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="module")
def planner():
    return cmcts.CMCTS.load("rocksample-7-8")


@pytest.fixture(scope="module")
def episode(planner):
    task = cmcts.make("rocksample-7-8")
    return record(task, cmcts.Agent(planner, task.budget, iterations=256, keep_tree=True), seed=3)


@pytest.fixture(scope="module")
def episode_file(episode, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "episode.html"
    explore(episode, path)
    return path.as_uri()


def rows(page):
    """The names of the tree's rows that are in sight."""
    return page.locator(".tree .row .name").all_inner_texts()


def cells(page, column):
    """A column of the decision's table, by its name."""
    heads = [words.split()[0] for words in page.locator(".decision thead th").all_inner_texts()]
    return page.locator(f".decision tbody tr > :nth-child({heads.index(column) + 1})").all_inner_texts()


def test_an_episode_is_stepped_through_by_keyboard(open_page, episode_file, episode):
    page = open_page(episode_file)
    page.locator(".tree .row").first.wait_for()
    for number, step in enumerate(episode.steps):
        name, words = step.decision.action_name, page.locator(".step-words").inner_text()
        assert words.startswith(f"step {number + 1}: {name}, ")
        assert page.locator(".decision h2").inner_text() == f"Decision: {name}"
        page.keyboard.press("ArrowRight")
    assert page.locator(".step-words").inner_text() == "the end"
    page.keyboard.press("ArrowRight")  # no further
    page.keyboard.press("ArrowLeft")
    assert page.locator(".decision h2").inner_text() == f"Decision: {episode.steps[-1].decision.action_name}"
    page.keyboard.press("Home")
    assert page.locator(".step-words").inner_text().startswith("step 1: ")
    assert "step=0" in page.evaluate("location.hash")


def test_a_step_is_chosen_by_mouse_and_by_slider(open_page, episode_file):
    page = open_page(episode_file)
    page.locator(".timeline-chart .hit").nth(2).click()
    assert page.locator(".step-words").inner_text().startswith("step 3: ")
    page.locator("#step").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".step-words").inner_text().startswith("step 4: ")
    page.keyboard.press("ArrowRight")  # it keeps the focus
    assert page.locator(".step-words").inner_text().startswith("step 5: ")


def test_what_is_left_falls_as_costs_are_paid(open_page, episode_file, episode):
    page = open_page(episode_file)
    page.locator(".timeline-chart rect.left").first.wait_for()
    heights = [float(bar.get_attribute("height")) for bar in page.locator(".timeline-chart rect.left").all()]
    spent = [0.0, *(float(step.discounted_costs[0]) for step in episode.steps)]
    assert [height / heights[0] for height in heights] == pytest.approx([1.0 - cost for cost in spent], abs=1e-6)


def test_the_table_is_sorted_by_a_click_on_its_head(open_page, episode_file, episode):
    page = open_page(episode_file)
    decision = episode.steps[0].decision
    visits = [int(words.replace(",", "")) for words in cells(page, "visits")]
    assert visits == sorted(decision.visits[decision.legal].tolist(), reverse=True)
    page.get_by_role("button", name="visits").click()
    assert [int(words.replace(",", "")) for words in cells(page, "visits")] == visits[::-1]
    page.get_by_role("button", name="action").click()
    names = [words.removeprefix("● ") for words in cells(page, "action")]
    assert names == sorted(names) and page.locator("th[aria-sort=ascending]").inner_text().startswith("action")
    page.keyboard.press("Enter")  # the head has kept the focus
    assert [words.removeprefix("● ") for words in cells(page, "action")] == names[::-1]


def test_pointing_at_an_action_shows_where_it_leads(open_page, episode_file):
    page = open_page(episode_file)
    row = page.locator(".decision tbody tr", has_text="sense 4")
    row.hover()
    pointed = page.locator(".world .pointed")
    assert pointed.count() == 1
    assert pointed.get_attribute("data-action") == row.get_attribute("data-row-action")


def test_a_refused_action_says_why(open_page, episode_file, episode):
    page = open_page(f"{episode_file}#step=4")
    decision = episode.steps[4].decision
    refused = [int(action) for action in np.flatnonzero(decision.pruned)]
    assert len(refused) >= 7, "the budget is spent by now"
    page.locator(".decision tbody tr", has_text=decision.model.action_name(refused[0])).hover()
    assert page.locator("#tip").inner_text() == decision.reason(refused[0])
    page.get_by_role("button", name="fold", exact=True).click()
    for action in refused:  # the page's own words, for every node, are Python's at the root
        name = decision.model.action_name(action)
        row = page.locator('.tree .row.refused[aria-level="2"]', has=page.get_by_text(name, exact=True))
        row.hover()
        assert page.locator("#tip").inner_text() == f"{name} was refused: {decision.reason(action)}"
        assert "refused" in row.inner_text()


def test_the_tree_unfolds_and_folds(open_page, episode_file, episode):
    page = open_page(episode_file)
    page.locator(".tree .row").first.wait_for()
    decision = episode.steps[0].decision
    assert page.locator(".node-count").inner_text() == f"{decision.tree_size} nodes, {decision.tree_depth} deep"
    page.get_by_role("button", name="fold", exact=True).click()
    top = rows(page)
    legal = {decision.model.action_name(int(action)) for action in np.flatnonzero(decision.legal)}
    assert set(top[1:]) == legal and top[1] == decision.action_name
    second = page.locator(".tree .row").nth(2)
    second.click()
    assert second.get_attribute("aria-expanded") == "true" and len(rows(page)) > len(top)
    second.click()
    assert rows(page) == top
    page.locator(".tree .row").first.click(modifiers=["Shift"])  # several levels at once
    levels = {row.get_attribute("aria-level") for row in page.locator(".tree .row").all()}
    assert {"1", "2", "3", "4"} <= levels


def test_outcomes_of_chance_have_their_share(open_page, planner, tmp_path):
    decision = planner.plan(planner.model.start_state(), 3.0, iterations=2000, keep_tree=True)
    explore(decision, tmp_path / "page.html")
    page = open_page((tmp_path / "page.html").as_uri())
    page.locator(".tree .row").first.wait_for()
    page.get_by_role("button", name="fold", exact=True).click()
    page.locator(".tree .row", has=page.get_by_text("sense 4", exact=True)).first.click()
    shares = [int(words.removesuffix(" %")) for words in page.locator(".tree .row.outcome .name").all_inner_texts()]
    assert len(shares) == 2 and sum(shares) in (99, 100, 101) and min(shares) >= 45  # a rock is good with 1/2


def test_the_tree_is_walked_by_keyboard(open_page, episode_file):
    page = open_page(episode_file)
    page.locator(".tree .row").first.wait_for()
    page.get_by_role("button", name="fold", exact=True).click()
    page.locator(".tree").focus()
    before = rows(page)
    page.keyboard.press("ArrowDown")
    assert page.locator(".tree .row.selected .name").inner_text() == before[1]
    page.keyboard.press("ArrowRight")
    assert len(rows(page)) > len(before)
    page.keyboard.press("ArrowRight")
    assert page.locator(".tree .row.selected").get_attribute("aria-level") == "3"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert rows(page) == before
    assert page.locator(".step-words").inner_text().startswith("step 1: "), "the step stays"


def test_a_state_is_searched_for(open_page, episode_file, episode):
    page = open_page(episode_file)
    page.locator(".tree .row").first.wait_for()
    tree = episode.steps[0].decision.tree
    count = int(((tree.states[:, 0] == 2) & (tree.states[:, 1] == 3)).sum())
    page.get_by_role("searchbox").fill("2, 3")
    assert page.locator(".search output").inner_text() == f"1 of {count}"
    assert page.locator(".tree .row.selected .state").inner_text().startswith("(2, 3, ")
    page.keyboard.press("Enter")
    assert page.locator(".search output").inner_text() == f"2 of {count}"
    page.get_by_role("searchbox").fill("99, 99")
    assert page.locator(".search output").inner_text() == "no such state"


def test_names_from_users_are_text(open_page, tmp_path):
    explore(hostile_decision(), tmp_path / "page.html")
    page = open_page((tmp_path / "page.html").as_uri())
    page.locator(".tree .row").first.wait_for()
    assert page.locator(".decision tbody th", has_text="<script>").first.text_content() == HOSTILE
    page.locator(".tree .row.refused", has_text="<script>").first.hover()
    assert page.locator("#tip").text_content().startswith(f"{HOSTILE} was refused: critic predicts 0.75")
    assert page.title() == "safe-gridworld · cmcts explorer"
    assert page.locator("#app script, #app img").count() == 0


def test_a_users_drawing_is_shapes_and_nothing_else(open_page, episode, tmp_path):
    data = episodes_page([episode], None)
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script>'
        '<foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x"/></foreignObject>'
        '<rect width="9" height="9" onclick="1" fill="url(http://127.0.0.1:9/x)"/><circle r="3"/></svg>'
    )
    data["pictures"] = [{"mode": "svg", "content": drawing}] * len(data["pictures"])
    page_of(data).write(tmp_path / "page.html")
    page = open_page((tmp_path / "page.html").as_uri())
    page.locator(".world circle").wait_for()
    assert page.locator(".world script, .world img, .world foreignObject").count() == 0
    assert page.locator(".world rect").get_attribute("fill") is None
    assert page.locator(".world [onload], .world [onclick]").count() == 0
    assert all("The action has been blocked" in fault for fault in open_page.faults)  # the policy sees them first
    open_page.faults.clear()


def test_a_notebooks_frame_shows_the_page(open_page, episode, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{explore(episode)._repr_html_()}</body>")
    frame = open_page((tmp_path / "notebook.html").as_uri()).frame_locator("iframe")
    frame.locator(".tree .row").first.wait_for()
    frame.locator("#on").click()
    assert frame.locator(".step-words").inner_text().startswith("step 2: ")


def test_stepping_leaves_the_page_where_it_was_scrolled_to(open_page, episode_file):
    page = open_page(episode_file)
    page.locator(".tree .row").first.wait_for()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    before = page.evaluate("scrollY")
    page.keyboard.press("ArrowRight")
    page.locator(".tree .row").first.wait_for()
    assert before > 100 and page.evaluate("scrollY") == before


def test_a_page_of_a_hundred_thousand_nodes_is_small_and_draws_only_what_is_in_sight(open_page, tmp_path):
    task = cmcts.make("rocksample-11-11")
    # How many nodes a shipped critic leaves is up to its training; what allows all of ten measurements leaves enough.
    planner = cmcts.CMCTS(task.model, immediate_costs_only(task.model), task.search)
    decision = planner.plan(task.model.start_state(), 10.0, iterations=100_000, keep_tree=True)
    assert decision.tree_size == 100_000
    content = explore(decision, tmp_path / "page.html").content
    assert len(content) < 30e6
    assert data_of(content)["episodes"][0]["steps"][0]["decision"]["tree"]["shown"] == decision.tree_size
    page = open_page((tmp_path / "page.html").as_uri())
    page.locator(".tree .row").first.wait_for()
    for _ in range(3):
        page.get_by_role("button", name="3 levels").click()
    height = page.locator(".tree .space").evaluate("element => element.offsetHeight")
    assert height > 10_000 * 30, "many rows are unfolded"
    assert page.locator(".tree .row").count() < 60, "few of them are in the document"
    page.locator(".tree").evaluate("element => { element.scrollTop = element.scrollHeight / 2; }")
    page.locator(".tree .row").nth(10).hover()
    assert page.locator("#tip").inner_text() != ""


@pytest.mark.parametrize("view", ["episode", "frontier", "critic"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(open_page, explored, view):
    page = open_page(f"{explored.as_uri()}#view={view}", PHONE)
    page.locator(f"#tab-{view}[aria-selected=true]").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    small = page.locator("button, select").evaluate_all(
        "elements => elements.filter((e) => e.offsetHeight < 24).map((e) => e.textContent)"
    )
    assert small == []


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    """What `cmcts explore` writes."""
    path = tmp_path_factory.mktemp("explored") / "page.html"
    assert cli.main(["explore", "safe-gridworld", "--iterations", "64", "--out", str(path)]) == 0
    return path


def test_a_frontier_shows_its_columns_and_leads_to_their_episodes(open_page, explored):
    frontier = data_of(explored.read_bytes())["frontier"]
    page = open_page(explored.as_uri())
    page.get_by_role("tab", name="Frontier").click()
    assert page.locator(".frontier-dot").count() == len(frontier["points"])
    assert page.locator(".optimum-line").first.get_attribute("d").count("L") == len(frontier["points"]) - 1
    page.locator(".frontier-dot").first.hover()
    assert page.locator("#tip").inner_text().startswith("budget 0: reward ")
    page.get_by_role("button", name="episode of column B").click()
    second = next(column for column in frontier["columns"] if column["letter"] == "B")
    assert page.locator("#episode option:checked").inner_text() == f"column {second['name']}"


def test_the_critic_is_shown_over_the_map(open_page, explored):
    page = open_page(explored.as_uri())
    page.get_by_role("tab", name="Critic").click()
    page.locator("#critic-action").select_option(label="south")
    page.locator(".maps figure").nth(4).wait_for()
    titles = page.locator(".maps figure > b").all_inner_texts()
    assert titles == ["the world", "predicted cost", "sigma", "exact cost", "error"]
    squares = page.locator(".maps figure").nth(1).locator(".square").all_text_contents()
    critic = cmcts.CMCTS.load("safe-gridworld").critic
    mean = critic(cmcts.make("safe-gridworld").model.feature_vector([3.0, 6.0]))[0][4, 0]
    assert squares[3 * 8 + 6] == f"{mean:.2f}"
    exact = page.locator(".maps figure").nth(3).locator(".square").all_text_contents()
    assert exact[3 * 8 + 6] == "1.00", "south of a windy square lies the wall"


def test_a_budget_is_changed_live_and_the_decision_with_it(open_page, planner):
    task = cmcts.make("rocksample-7-8")
    player = partial(cmcts.Agent, planner, task.budget, iterations=256, keep_tree=True)
    episode = record(task, player(), seed=3)
    with LiveServer(episodes_page([episode], None), Laboratory([episode], [player], None)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            page = open_page(server.address)
            first = page.locator(".decision tbody").inner_text()
            page.get_by_label("left to spend").fill("5")
            page.get_by_role("button", name="plan again").click()
            page.get_by_text("Planned again: ").wait_for()
            assert "5 left to spend. None of 11 legal actions refused." in page.locator(".decision .words").inner_text()
            assert page.locator(".decision tbody").inner_text() != first
            page.get_by_role("button", name="back to what was played").click()
            assert page.locator(".decision tbody").inner_text() == first
            page.get_by_label("action to force").select_option(label="south")
            page.get_by_role("button", name="force it and play on").click()
            page.get_by_text("Forced: ").wait_for()
            assert page.locator("#episode option:checked").inner_text() == "south forced at step 1"
        finally:
            server.shutdown()
            thread.join()
    own = f"http://{server.names[0]}/"
    assert {fault for fault in open_page.faults if not fault.startswith(own)} == set()
    open_page.faults.clear()
