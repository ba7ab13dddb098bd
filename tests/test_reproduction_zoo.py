"""`cmcts reproduce zoo`: its work, what is judged exactly, what rivals wrote, and that what was not run is said."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import cmcts
from cmcts.commands.reproduce import _Stages as Stages
from cmcts.critic.bundle import shipped
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import evaluate
from cmcts.report.tables import write_rows
from cmcts.reproduction import rivals, zoo_results
from cmcts.reproduction.charts import zoo
from cmcts.reproduction.experiments import FULL, QUICK, TRADES, TRIED, ZOO, work_of
from cmcts.reproduction.runner import Reproduction
from cmcts.reproduction.text_tables import avoid_maps_table, zoo_table
from cmcts.reproduction.trials import tried
from cmcts.reproduction.units import Curve, Training, Trial
from cmcts.tasks.optimum import least_optimum, solve_task
from cmcts.zoo.baselines import baseline
from test_reproduction import Quiet, records


@pytest.fixture(autouse=True)
def nothing_to_train(monkeypatch):
    """Packages of the extra are there or not; these tests want neither."""
    for module in ("icu_sepsis", "minigrid"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.fixture(scope="module")
def inventory():
    return cmcts.make("inventory")


def test_stages_of_rounds_and_of_columns_are_named_while_they_run():
    shown = []
    stages = Stages(shown.append)
    stages.begin("gather", 100, round=1)
    stages.begin("screen", 100, column=0, policy="lambda 1")
    stages.begin("tabulate", 100, column=2, states=400)
    stages.begin("forecast", 100)
    assert shown == [", round 2: gather", ", column 1: screen", ", column 3: tabulate", ": forecast"]


def test_every_planner_is_tried_on_every_problem_that_can_be_made():
    units = work_of(("zoo",), FULL)
    made = [task for task in ZOO if task not in ("icu-sepsis", "lava-crossing")]
    for task in made:
        here = [unit for unit in units if isinstance(unit, Trial) and unit.task == task]
        assert {(unit.planner, unit.budget) for unit in here} == {
            (planner, budget)
            for planner in TRIED
            for budget in ZOO[task]
            if planner != "baseline" or task in TRADES
        }  # fmt: skip
        assert units.index(Training(task, "defaults", frontier=True)) < units.index(
            next(unit for unit in here if unit.planner == "frontier")
        )
    assert {unit.task for unit in units} == set(made)


def test_its_trainings_are_those_of_cmcts_train():
    settings = Training("queue", "defaults", frontier=True).settings(3, quick=False)
    assert settings == cmcts.training.settings.TrainingSettings.for_task(cmcts.make("queue"), seed=3)
    assert Training("queue", "defaults", frontier=True).name != Training("queue", "defaults").name


def test_problems_whose_package_is_missing_say_so(tmp_path):
    run = Reproduction(tmp_path, quick=True, seed=0)
    rows = [row for row in zoo_results.zoo(run, QUICK) if row["task"] == "icu-sepsis"]
    said = {row["missing"] for row in rows if row["planner"] != "ppo-lagrangian"}
    assert said == {"task icu-sepsis needs icu-sepsis, got no icu-sepsis here: pip install 'cmcts[zoo]'"}
    assert {row["reward"] for row in rows} == {None}


UNITS = [
    Curve("inventory", 4, 12.0),
    Trial("inventory", "exact", 3.0, 6),
    Trial("inventory", "baseline", 3.0, 6),
]


def test_an_interrupted_zoo_goes_on_and_gives_the_same_numbers(tmp_path):
    whole, broken = (Reproduction(tmp_path / name, quick=True, seed=0) for name in ("whole", "broken"))
    whole.run(UNITS, Quiet())
    with pytest.raises(KeyboardInterrupt):
        broken.run(UNITS, Quiet(stop_after=1))
    progress = Quiet()
    broken.run(UNITS, progress)
    assert progress.done == [unit.name for unit in UNITS[1:]]
    assert records(broken) == records(whole) and len(records(whole)) == 3


def test_tables_are_judged_exactly_and_episodes_say_what_share_is_over(tmp_path, inventory):
    run = Reproduction(tmp_path, quick=True, seed=0)
    run.run(UNITS, Quiet())
    optimum, least = solve_task(inventory), least_optimum(inventory)
    curve, exact, rule = (run.record(unit) for unit in UNITS)
    assert (exact["judged"], rule["judged"], exact["episodes"]) == ("exactly", "exactly", 6)
    assert exact["reward_mean"] == pytest.approx(optimum.reward_lower)
    assert exact["least_reward"] == pytest.approx(least.reward_lower)
    # A concave curve: more buys more, and ever less of it.
    assert curve["budgets"][-1] == 12.0
    gains = np.diff(curve["rewards"])
    assert (gains > 0).all() and (np.diff(gains) < 0).all()
    rows = [row for row in zoo_results.zoo(run, QUICK) if row["task"] == "inventory"]
    found = {row["planner"]: row for row in rows}
    assert found["exact"]["missing"] == "not run"  # another number of episodes than the quick look has


def test_what_the_trade_does_is_the_best_rule_that_keeps_the_budget(inventory):
    rule = baseline(inventory, 3.0)
    assert rule.name == "up to 5 when 3 are left"
    assert rule.policy.costs[0] <= 3.0 and rule.policy.reward < solve_task(inventory).reward_lower
    cmdp = enumerate_states(inventory.model, inventory.discount)
    stock = cmdp.states[:, 0].astype(int)
    for few in range(8):
        for level in range(few + 1, few + 7):
            actions = np.where(stock <= few, np.minimum(level - stock, 6), 0)
            values = evaluate(cmdp, np.eye(7)[actions])
            assert values.costs[0] > 3.0 or values.reward <= rule.policy.reward + 1e-9
    # Nobody can keep a budget of nothing: the rule that loses fewest sales is taken.
    assert baseline(inventory, 0.0).policy.costs[0] < 0.1
    assert baseline(cmcts.make("random-absorbing-0"), 1.0) is None


def test_a_rule_for_the_queue_keeps_its_budget():
    queue = cmcts.make("queue")
    frugal, generous = baseline(queue, 2.0), baseline(queue, 5.0)
    assert (frugal.name, generous.name) == ("fast when 6 wait", "fast when 3 wait")
    assert frugal.policy.costs[0] <= 2.0 < generous.policy.costs[0] <= 5.0


@pytest.mark.slow
def test_a_mixture_is_judged_by_its_decisions():
    """The frontier that ships, where its planning model is wrong: what it does in every square, in the real wind."""
    record = tried(
        Trial("safe-gridworld", "frontier", 0.0, 3, plans=40), shipped("safe-gridworld"), 0, None, "cpu", lambda _: None
    )
    best = solve_task(cmcts.make("safe-gridworld"))
    low, high = record["reward_interval"]
    assert record["judged"] == "decisions"
    assert low <= record["reward_mean"] <= high and 55.0 < record["reward_mean"] < best.reward_upper + 0.01
    assert record["cost_mean"] < 0.05


def test_the_share_of_what_the_budget_buys():
    best = {"reward_mean": 6.0, "least_reward": 4.0}
    assert [zoo_results.bought(reward, best) for reward in (6.0, 5.0, 3.0)] == [1.0, 0.5, -0.5]
    assert zoo_results.bought(5.0, {"missing": "not run"}) is None
    assert zoo_results.bought(4.0, {"reward_mean": 4.0, "least_reward": 4.0}) is None


def learned(seed, seconds, reward, cost):
    return {"task": "queue", "budget": 5.0, "seed": seed, "seconds": seconds, "steps": 100, "multiplier": 1.0,
            "reward": reward, "reward_se": 0.1, "cost": cost, "cost_se": 0.1, "violations": 50.0, "episodes": 20,
            "decision_ms": 0.5}  # fmt: skip


def test_a_rival_is_the_last_look_of_each_of_its_seeds(tmp_path):
    rows = [learned(0, 5.0, 1.0, 9.0), learned(0, 10.0, 5.0, 4.0), learned(1, 10.0, 6.0, 6.0)]
    write_rows(tmp_path / rivals.PPO, rows)
    found = rivals.ppo(rivals.written(tmp_path, rivals.PPO), "queue", 5.0)
    assert (found["reward"], found["reward_low"], found["reward_high"]) == (5.5, 5.0, 6.0)
    assert (found["cost"], found["seeds"], found["episodes"]) == (5.0, 2, 40)
    assert rivals.ppo([*rows, learned(2, 5.0, 9.0, 9.0)], "queue", 5.0) == found  # it has learned for half the time
    assert rivals.ppo(rows, "queue", 2.0) is None
    run = Reproduction(tmp_path / "run", quick=True, seed=0, rivals=tmp_path)
    line = next(line for line in zoo_table(zoo_results.zoo(run, QUICK))[1] if "2 seeds" in line[2])
    assert line[:4] == ("Queue", "5", "PPO-Lagrangian (2 seeds, the lowest and the highest)", "5.500 (5.000 to 6.000)")


def played(number, planner, reward, cost):
    return {"kind": "avoid", "map": number, "threshold": 0.15, "planner": planner, "reward": reward, "cost": cost,
            "cost_se": 0.03, "iterations": 2000, "training_seconds": 0.0}  # fmt: skip


def test_maps_by_hand():
    """Shares 0.5, 0.75 and 1 of the optimum; the mean cost (0.1 + 0.3 + 0.2) / 3, one of them surely above 0.15."""
    rows = [played(number, "exact", 4.0, 0.15) for number in (1, 8, 15, 22)]
    rows += [played(1, "cc-mcp", 2.0, 0.1), played(8, "cc-mcp", 3.0, 0.3), played(15, "cc-mcp", 4.0, 0.19)]
    rows.append(played(22, "cc-mcp", None, None))
    rows.append(played(1, "threshold-uct-authors", 3.0, 0.1))
    found = {row["planner"]: row for row in rivals.on_maps(rows)}
    assert found["cc-mcp"]["share_median"] == found["cc-mcp"]["share_mean"] == 0.75
    assert found["cc-mcp"]["cost"] == pytest.approx(0.59 / 3)
    assert found["cc-mcp"]["cost_se"] == pytest.approx(0.03 / np.sqrt(3))
    assert (found["cc-mcp"]["maps"], found["cc-mcp"]["failed"], found["cc-mcp"]["above"]) == (3, 1, 1)
    lines = {line[2]: line for line in avoid_maps_table(list(found.values()))[1]}
    assert lines["frontier"][3] == "not run"
    assert lines["CC-MCP"][3:7] == ("3, and on 1 no training found anything", "0.75", "0.75 ± 0.14", "0.197 ± 0.017")
    assert lines["Threshold UCT, its authors' program"][3:6] == ("1", "0.75", "0.75")


def test_what_was_not_run_names_its_command(tmp_path):
    run = Reproduction(tmp_path / "run", quick=True, seed=0, rivals=tmp_path)
    assert avoid_maps_table(zoo_results.avoid_maps(run, QUICK))[1][0][0] == (
        "not run: python benchmarks/rivals/avoid.py"
    )
    text = json.dumps(zoo_table(zoo_results.zoo(run, QUICK))[1])
    assert text.count("not run: python benchmarks/rivals/ppo_lagrangian.py") == sum(map(len, ZOO.values()))


def test_the_picture_has_a_panel_for_each_problem(tmp_path):
    run = Reproduction(tmp_path, quick=True, seed=0)
    run.run(UNITS, Quiet())
    rows = zoo_results.zoo_picture(run, QUICK)
    rows += [
        {**dict.fromkeys(rows[0]), "task": "inventory", "budget": 3.0, "planner": "cc-mcp", "reward": -20.0,
         "reward_low": -21.0, "reward_high": -18.0, "cost": 2.5, "cost_low": 2.0, "cost_high": 3.0}
    ]  # fmt: skip
    figure = zoo(rows)
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}
    assert len(panels) == len(ZOO)
    points = [line.get_xydata()[0].tolist() for line in panels["Inventory"].get_lines() if line.get_marker() == "s"]
    assert points == [[2.5, -20.0]]
