"""The live page: who may ask, what is answered, and what is refused."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from functools import partial
from urllib.parse import urlsplit

import pytest

import cmcts
from cmcts.explorer import record
from cmcts.explorer.assembly import episodes_page
from cmcts.explorer.laboratory import Laboratory, PlanAgain
from cmcts.explorer.server import LiveServer
from conftest import compiled_only
from explorer_pages import data_of, unpacked

TASK = "rocksample-5-7"


@pytest.fixture(scope="module")
def server():
    task, planner = cmcts.make(TASK), cmcts.CMCTS.load(TASK)
    player = partial(cmcts.Agent, planner, task.budget, iterations=64, keep_tree=True)
    episode = record(task, player(), seed=1)
    with LiveServer(episodes_page([episode], None), Laboratory([episode], [player], None)) as live:
        thread = threading.Thread(target=live.serve_forever)
        thread.start()
        yield live
        live.shutdown()
        thread.join()


def ask(server, method, path, body=None, **headers):
    """Status and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    connection.request(method, path, None if body is None else json.dumps(body), given)
    answer = connection.getresponse()
    return answer.status, answer.read()


def plan(server, **body):
    status, content = ask(server, "POST", "/plan", {"episode": 0, "step": 0} | body, X_Token=server.token)
    return status, json.loads(content)


def cost_of_choice(decision):
    return next(row["cost_values"][0] for row in decision["actions"] if row["action"] == decision["action"])


def refused(decision):
    return sum(row["pruned"] for row in decision["actions"])


def test_the_page_is_for_who_has_the_token(server):
    status, content = ask(server, "GET", f"/?token={server.token}")
    assert status == 200 and data_of(content)["live"] == {"token": server.token}
    assert b"connect-src 'self'" in content
    for path in ("/", "/?token=", "/?token=wrong"):
        assert ask(server, "GET", path)[0] == 403
    assert ask(server, "GET", f"/other?token={server.token}")[0] == 404
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Origin": "http://evil.example"}]
)
def test_other_names_are_refused(server, headers):
    assert ask(server, "GET", f"/?token={server.token}", **headers)[0] == 403
    assert ask(server, "POST", "/plan", {"episode": 0, "step": 0}, X_Token=server.token, **headers)[0] == 403


def test_planning_takes_the_token_and_a_post(server):
    assert ask(server, "POST", "/plan", {"episode": 0, "step": 0})[0] == 403
    assert ask(server, "POST", f"/plan?token={server.token}", {"episode": 0, "step": 0})[0] == 403
    assert ask(server, "GET", "/plan", X_Token=server.token)[0] == 404
    assert ask(server, "PUT", "/plan", {}, X_Token=server.token)[0] == 501


def test_a_step_is_planned_again_with_other_settings(server):
    _, as_before = plan(server)
    _, poor = plan(server, budget=[0.5])
    _, rich = plan(server, budget=[5.0], iterations=256, price=[0.0])
    _, dear = plan(server, budget=[5.0], iterations=256, price=[100.0])
    kept = [{row["name"] for row in answer["decision"]["actions"] if not row["pruned"]} for answer in (poor, rich)]
    assert {name for name in kept[0] if name.startswith("sense")} == set()
    assert {name for name in kept[1] if name.startswith("sense")} == {f"sense {rock}" for rock in range(7)}
    assert as_before["decision"]["iterations"] == 64 and rich["decision"]["iterations"] == 256
    assert unpacked(rich["decision"]["tree"])["visits"][0] == 256
    assert cost_of_choice(dear["decision"]) < cost_of_choice(rich["decision"])
    strict, lenient = (plan(server, budget=[1.0], tolerance=tolerance)[1] for tolerance in (0.0, 0.05))
    assert refused(strict["decision"]) > refused(lenient["decision"]) == 0
    assert plan(server, budget=[5.0], iterations=256, price=[0.0]) == (200, rich), "the same again is the same"


def test_another_action_is_forced_and_the_episode_goes_on(server):
    asked = {"episode": 0, "step": 1, "action": 2}  # south
    status, content = ask(server, "POST", "/force", asked, X_Token=server.token)
    forced = json.loads(content)["episode"]
    played = data_of(server.content)["episodes"][0]
    assert status == 200 and forced["name"] == "south forced at step 2"
    assert forced["steps"][0]["decision"] == played["steps"][0]["decision"]
    assert (forced["steps"][1]["decision"]["action"], forced["steps"][1]["forced"]) == (2, True)
    x, y = played["steps"][1]["decision"]["state"][:2]
    assert forced["steps"][2]["decision"]["state"][:2] == [x, y - 1]
    again = {"episode": 1, "step": 2, "action": 1}
    status, content = ask(server, "POST", "/force", again, X_Token=server.token)
    assert json.loads(content)["episode"]["name"] == "south forced at step 2, east forced at step 3"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/plan", {"episode": 0, "step": 99}, "expected a step from 0 to"),
        ("/plan", {"episode": 9, "step": 0}, "expected an episode from 0 to"),
        ("/plan", {"episode": 0, "step": 0, "budget": [-1]}, "expected budget finite and >= 0"),
        ("/plan", {"episode": 0, "step": 0, "budget": "1"}, "budget"),
        ("/plan", {"episode": 0, "step": 0, "iterations": 0}, "expected iterations from 1 to"),
        ("/plan", {"episode": 0, "step": 0, "tolerance": -1.0}, "expected tolerance >= 0"),
        ("/plan", {"episode": 0, "step": 0, "seconds": 1e9}, "expected known names only, got seconds"),
        ("/plan", {"step": 0}, "episode"),
        ("/plan", [], "object"),
        ("/force", {"episode": 0, "step": 0, "action": 99}, "expected an action that is legal here"),
        ("/other", {}, "expected /plan or /force, got /other"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(server, path, body, message):
    status, content = ask(server, "POST", path, body, X_Token=server.token)
    assert status == 400 and message in json.loads(content)["error"]


def test_long_and_broken_requests_are_refused(server):
    status, content = ask(server, "POST", "/plan", "x" * 70_000, X_Token=server.token)
    assert status == 400 and "at most 65536 bytes" in json.loads(content)["error"]
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("POST", "/plan", b"{", {"X-Token": server.token})
    assert connection.getresponse().status == 400


@compiled_only
def test_the_command_serves_until_it_is_interrupted():
    command = [sys.executable, "-m", "cmcts", "explore", "random-sparse-1", "--iterations", "8", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = urlsplit(process.stdout.readline().removeprefix("page: ").strip())
        connection = http.client.HTTPConnection(address.netloc, timeout=60)
        connection.request("GET", f"/?{address.query}")
        assert data_of(connection.getresponse().read())["about"]["task"] == "random-sparse-1"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == "Ctrl-C ends it\nended\n"


def test_a_planner_that_cannot_be_changed_says_so():
    task = cmcts.make(TASK)
    player = partial(cmcts.Agent, cmcts.CCMCP(task.model, task.search), task.budget, iterations=16)
    laboratory = Laboratory([record(task, player())], [player], None)
    assert laboratory.plan_again(PlanAgain(0, 0, budget=(2.0,)))["decision"]["budget"] == [2.0]
    with pytest.raises(cmcts.InvalidInput, match="expected a planner with a tolerance and a price, got CCMCP"):
        laboratory.plan_again(PlanAgain(0, 0, price=(1.0,)))
