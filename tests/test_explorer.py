"""What the explorer's page holds is what was decided, played and measured; names on it are text."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

import cmcts
from cmcts import cli
from cmcts.evaluation.playing import Picture, first_picture
from cmcts.explorer import explore, record
from cmcts.explorer.assembly import MAX_NODES, node_limit
from cmcts.explorer.columns import pack
from cmcts.explorer.critics import critic_data, gathered_states, predictions, visits
from cmcts.explorer.decisions import decision_data, excesses
from cmcts.explorer.page import page
from cmcts.explorer.pictures import MODES, Album
from cmcts.explorer.trees import most_visited, tree_data
from cmcts.explorer.truth import truth
from cmcts.frontier.curve import letters
from cmcts.model.worlds import ModelWorld
from cmcts.planning.monitor import SafetyMonitor
from cmcts.search.tree import ILLEGAL, PRUNED
from conftest import compiled_only
from explorer_pages import HOSTILE, data_of, hostile_decision, unpacked

TASK = "safe-gridworld"


@pytest.fixture(scope="module")
def task():
    return cmcts.make(TASK)


@pytest.fixture(scope="module")
def planner():
    return cmcts.CMCTS.load(TASK)


@pytest.fixture(scope="module")
def decision(planner):
    return planner.plan([4.0, 2.0], 0.0, iterations=128, keep_tree=True)


@pytest.fixture(scope="module")
def episode(task, planner):
    return record(task, cmcts.Agent(planner, task.budget, iterations=64, keep_tree=True), seed=3)


def test_arrays_come_back_as_they_were():
    arrays = {"small": np.arange(3, dtype=np.uint8), "table": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)}
    found = unpacked(pack(arrays))
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.ravel().tolist() for name, array in arrays.items()
    }


def test_a_tree_on_a_page_is_the_tree(decision):
    tree, found = decision.tree, unpacked(tree_data(decision, MAX_NODES))
    count = len(tree.parent)
    assert count == decision.tree_size
    for name, column in (("parent", tree.parent), ("visits", tree.visits), ("action", tree.parent_action)):
        assert found[name].tolist() == column.tolist()
    assert found["state"].reshape(count, -1).tolist() == tree.states.tolist()
    for node in range(count):
        edges = slice(found["firstEdge"][node], found["firstEdge"][node + 1])
        legal = np.flatnonzero(tree.action_visits[node] != ILLEGAL) if tree.expanded[node] else []
        assert found["edgeAction"][edges].tolist() == list(legal)
        assert found["edgeVisits"][edges].tolist() == [tree.action_visits[node, action] for action in legal]
        assert found["edgeRefusedBy"][edges].tolist() == [tree.pruned_by[node, action] for action in legal]
        assert found["edgeMean"][edges].tolist() == [tree.critic_mean[node, action] for action in legal]
    assert (found["edgeVisits"] == PRUNED).sum() >= 8  # the critic is careful here


def test_of_a_large_tree_the_most_visited_part_is_shown(decision):
    kept = most_visited(decision.tree, 40)
    assert len(kept) == 40 and set(decision.tree.parent[kept[1:]]) <= set(kept)
    assert decision.tree.visits[kept].min() >= np.delete(decision.tree.visits, kept).max()
    shown = tree_data(decision, 40)
    assert (shown["nodes"], shown["shown"]) == (decision.tree_size, 40)
    parents = unpacked(shown)["parent"]
    assert parents[0] == -1 and (parents[1:] < np.arange(1, 40)).all()


def test_trees_of_an_episode_are_their_own_even_where_the_search_reuses_one(planner):
    agent = cmcts.Agent(planner, 0.0, iterations=32, reuse_tree=True, keep_tree=True)
    first = agent.act([0.0, 0.0]).tree
    before = [array.tobytes() for array in first]  # some of it was never written
    for state in ([1.0, 0.0], [2.0, 0.0], [3.0, 0.0]):
        agent.observe(0.0)
        agent.act(state)
    assert [array.tobytes() for array in first] == before


def test_an_action_is_refused_by_as_much_as_it_exceeds_what_is_left(task):
    model = task.model
    weights, biases = np.zeros((2, model.feature_count, model.action_count)), np.zeros((2, model.action_count))
    biases[:, 0] = 0.7, 0.9  # north: mean 0.8, sure
    biases[:, 2] = 0.0, 2.0  # east: mean 1, members disagree
    pruning = cmcts.PruningSettings(sigma_max=0.5, tolerance=0.1)
    planner = cmcts.CMCTS(model, cmcts.ensemble([weights], [biases]), task.search, pruning)
    decision = planner.plan([4.0, 4.0], budget=0.25, iterations=16)
    over = excesses(decision)[:, 0]
    assert over[0] == pytest.approx(1.0 - 0.25)  # (4, 5) is unsafe: its own cost of 1 is more than the critic says
    assert over[2] == pytest.approx(1.0 - 0.25)  # (5, 4) as well, and the critic is not trusted
    rows = {row["name"]: row for row in decision_data(decision, 1)["actions"]}
    assert rows["north"]["refused_by"] == [0] and rows["north"]["excess"] == pytest.approx([0.75])
    assert rows["south"]["refused_by"] == [] and rows["south"]["excess"] == []
    elsewhere = planner.plan([0.0, 0.0], budget=0.25, iterations=16)
    assert excesses(elsewhere)[0, 0] == pytest.approx(0.8 - 0.1 - 0.25)
    assert excesses(elsewhere)[2, 0] == pytest.approx(-0.25)  # nothing but its immediate cost of 0


def test_what_actions_really_cost_is_shown_where_it_is_known(task, planner):
    known = truth(task)
    decision = planner.plan([3.0, 6.0], 0.0, iterations=16)
    rows = {row["name"]: row for row in decision_data(decision, 1, known)["actions"]}
    shown = [rows[name]["exact"][0] for name in ("north", "east", "south")]
    assert shown == pytest.approx([0.405, 0.537, 1.0], abs=5e-4)
    assert known.of([7.0, 7.0]) is None
    assert truth(cmcts.make("rocksample-7-8")) is None  # too many beliefs


@pytest.mark.parametrize("name", [TASK, "rocksample-5-7", "rocksample-3-2-energy", "random-sparse-1"])
def test_every_built_in_world_draws_itself_and_shows_where_actions_lead(name):
    task = cmcts.make(name)
    world = task.real_world(render_mode="svg")
    state, _ = world.reset(seed=0)
    drawing = ElementTree.fromstring(world.render())
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    shown = {int(element.get("data-action")) for element in drawing.iter() if element.get("data-action")}
    assert set(task.model.legal(state).tolist()) <= shown


def test_a_picture_that_comes_again_is_kept_once(episode):
    data = data_of(explore(episode).content)
    steps = data["episodes"][0]["steps"]
    drawn = [data["pictures"][step["picture"]] for step in steps]
    states = [tuple(step["decision"]["state"]) for step in steps]
    assert {picture["mode"] for picture in drawn} == {"svg"}
    assert len({step["picture"] for step in steps}) == len(set(states))


def test_pixels_become_a_png():
    album = Album()
    assert album.add(Picture("rgb_array", np.zeros((2, 3, 3), np.uint8))) == 0
    assert base64.b64decode(album.pages[0]["content"]).startswith(b"\x89PNG")


class Terminal(ModelWorld):
    """Draws pixels if only another package were there, and text with a terminal's colours."""

    metadata = {"render_modes": ["rgb_array", "ansi"]}  # noqa: RUF012 - Gymnasium's convention

    def render(self):
        if self.render_mode == "rgb_array":
            raise DependencyNotInstalled("pygame is not installed")
        return "S\x1b[41mF\x1b[0mF"


def test_a_world_that_lacks_a_package_is_drawn_another_way(task):
    picture = first_picture(SimpleNamespace(real_world=partial(Terminal, task.model)), 0, MODES)
    assert picture.mode == "ansi"
    album = Album()
    album.add(picture)
    assert album.pages == [{"mode": "ansi", "content": "S[F]F"}]


def test_an_episode_is_told_as_it_was_played(task, episode):
    data = data_of(explore(episode).content)
    (shown,) = data["episodes"]
    total, world = 0.0, task.real_world()
    state, _ = world.reset(seed=3)
    for number, step in enumerate(shown["steps"]):
        assert step["decision"]["state"] == state.tolist()
        state, reward, terminated, _, info = world.step(step["decision"]["action"])
        total += 0.95**number * reward
        assert (step["reward"], step["costs"]) == (reward, [info["cost"]])
        assert step["total_reward"] == pytest.approx(total)
    assert shown["end"]["terminated"] == terminated
    assert data["about"]["version"] == cmcts.__version__ and data["about"]["seed"] == 3


def test_interventions_of_a_monitor_are_marked(task, planner):
    monitor = SafetyMonitor(planner, lambda state: 0, 0.0, iterations=32)
    episode = record(task, monitor, seed=0)
    steps = data_of(explore(episode).content)["episodes"][0]["steps"]
    marked = [number for number, step in enumerate(steps) if step["intervention"]]
    assert marked == [intervention.step for intervention in monitor.interventions] != []
    assert steps[marked[0]]["intervention"]["proposed_name"] == "north"


def test_the_critic_is_shown_as_it_answers(task, planner, episode):
    states = task.map_states(np.array([0.0, 0.0]))
    mean, sigma = predictions(task.model, planner.critic, states)
    expected = planner.critic(task.model.feature_vector([3.0, 6.0]))
    assert mean[3, 6, :, 0].tolist() == pytest.approx(expected[0][:, 0].tolist())
    assert sigma[3, 6, :, 0].tolist() == pytest.approx(expected[1][:, 0].tolist())
    assert np.isnan(mean[7, 7]).all(), "the goal is no state to decide in"
    assert np.isnan(mean[0, 7, 0, 0]), "north leads off the grid"
    shown = critic_data(task, planner.critic, episode, truth(task), None)
    assert len(shown["maps"]) == 1, "a map that differs in nothing but the agent's place is one map"
    assert shown["place_of_step"] == [*([*map(int, step.decision.state)] for step in episode.steps), None]
    arrays = unpacked(shown["maps"][0])
    assert arrays["mean"].tolist() == pytest.approx(mean.ravel().tolist(), nan_ok=True)
    exact = arrays["exact"].reshape(8, 8, 9)
    assert exact[3, 6, 0] == pytest.approx(0.405, abs=5e-4)
    nothing = cmcts.immediate_costs_only(task.model)
    assert critic_data(task, nothing, episode, None, None) is None, "nothing was learned, so there is nothing to show"


def test_where_a_critic_was_trained_is_counted_by_square(tmp_path):
    from cmcts.training.run_folder import RunFolder

    states = cmcts.make("rocksample-3-2").map_states(np.array([0.0, 1.0, 0.5, 0.5]))
    seen = np.array([[0.0, 1.0, 0.5, 0.5], [0.0, 1.0, 0.9, -1.0], [2.0, 0.0, 0.5, 0.5]])
    assert visits(states, seen).tolist() == [[0, 2, 0], [0, 0, 0], [1, 0, 0]]
    run = RunFolder.create(tmp_path / "run", {})
    run.save("data.safetensors", {"states": seen})
    run.finish("gather 0", {"phase": "gather"})
    assert gathered_states(tmp_path / "run").tolist() == seen.tolist()
    assert gathered_states(tmp_path) is None


def test_names_are_text_and_cannot_end_the_script():
    content = explore(hostile_decision()).content
    assert data_of(content)["model"] == {
        "actions": [HOSTILE, *cmcts.make(TASK).model.action_names[1:]],
        "costs": [HOSTILE],
    }
    assert content.count(b"<script") == content.count(b"</script>") == 2
    assert b"owned'</" not in content and "\u2028".encode() not in content
    assert content.count(b"<!--") == 0


def test_a_title_is_text():
    made = page({"about": {"task": HOSTILE}}).content
    assert b"<title>&lt;script&gt;document.title=" in made and made.count(b"<script") == 2
    assert b"<title>{{data}} " in page({"about": {"task": "{{data}}"}}).content


def test_a_page_needs_nothing_and_runs_nothing_but_itself(episode):
    content = explore(episode).content.decode()
    addresses = set(re.findall(r"https?://[^\s\"'<>\\]+", content))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nothing fetches
    script = re.findall(r"<script>(.*?)</script>", content, re.DOTALL)[-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', content)[1]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy and "connect" not in policy


def test_numbers_that_json_does_not_know_are_null(task):
    planner = cmcts.CMCTS.load(TASK)
    trusting = cmcts.PruningSettings(sigma_max=np.inf)
    decision = cmcts.CMCTS(task.model, planner.critic, task.search, trusting).plan([0.0, 0.0], 0.0, iterations=8)
    data = data_of(explore(decision).content)
    assert data["episodes"][0]["steps"][0]["decision"]["pruning"] == {"tolerance": 0.05, "sigma_max": None}


def test_a_notebook_shows_a_page_in_a_frame(decision, tmp_path):
    made = explore(decision, tmp_path / "folder" / "page.html")
    assert (tmp_path / "folder" / "page.html").read_bytes() == made.content
    shown = made._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;') and 'sandbox="allow-scripts"' in shown
    with pytest.raises(cmcts.InvalidInput, match="expected a Decision or an Episode, got 'str'"):
        explore("decision")


def test_trees_share_the_room_of_a_page():
    assert node_limit([]) == node_limit([MAX_NODES]) == node_limit([1024] * 100) == MAX_NODES
    assert node_limit([3 * MAX_NODES] * 4) == MAX_NODES // 4
    assert node_limit([1000, 3 * MAX_NODES, 1000]) == MAX_NODES - 2000


@compiled_only
def test_the_command_writes_the_same_page_twice_and_says_how_to_make_it_again(capsys, tmp_path):
    command = ["explore", TASK, "--keep", "episode", "--iterations", "64", "--seed", "5", "--out"]
    for name in ("first.html", "second.html"):
        assert cli.main([*command, str(tmp_path / name)]) == 0
    content = (tmp_path / "first.html").read_bytes()
    assert content == (tmp_path / "second.html").read_bytes()
    data = data_of(content)
    assert data["about"] == {
        "version": cmcts.__version__,
        "task": TASK,
        "description": cmcts.make(TASK).description,
        "seed": 5,
        "command": f"cmcts explore {TASK} --iterations 64 --keep episode --seed 5",
        "note": "critic: trained, ships with cmcts",
    }
    frontier, shown = cmcts.Frontier.load(TASK), data["frontier"]
    assert {column["letter"] for column in shown["columns"]} == set(letters(frontier).values())
    assert sum(column["share"] for column in shown["columns"]) == pytest.approx(1.0)
    for column in shown["columns"]:
        assert data["episodes"][column["episode"]]["name"] == f"column {column['name']}"
    rewards = [point["reward_mean"] for point in shown["points"]]
    optima = [point["optimum"] for point in shown["points"]]
    assert rewards == sorted(rewards) and all(ours <= best for ours, best in zip(rewards, optima, strict=True))
    assert data["critic"]["width"] == data["critic"]["height"] == 8


def test_mistakes_get_one_clear_line(capsys, tmp_path):
    assert cli.main(["explore", TASK, "--out", str(tmp_path / "page.pdf")]) == 2
    assert "expected --out to end with .html" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert (
        cli.main(["explore", "random-sparse-1", "--iterations", "1", "--out", str(tmp_path / "file" / "page.html")])
        == 2
    )
    assert "file" in capsys.readouterr().err
