"""The zoo: problems from outside, found by name, made when they are asked for, with the figures that are claimed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cmcts
from cmcts import cli
from cmcts.errors import InvalidInput
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import evaluate, solve
from cmcts.tasks.optimum import solve_task
from cmcts.zoo import PROBLEMS, SERIES


def test_nothing_is_imported_before_it_is_asked_for():
    script = """
import sys
import cmcts
cmcts.make("rocksample-5-7")
before = [name for name in sys.modules if name.startswith("cmcts.zoo")]
try:
    cmcts.make("no-such-task")
except cmcts.InvalidInput:
    pass
print(before, [name for name in sys.modules if name.startswith("cmcts.zoo")], "gymnasium" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "[] ['cmcts.zoo'] False\n"


def test_every_problem_is_listed_with_what_it_is(capsys):
    assert cli.main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line.split()[0] for line in lines if line.strip()]
    assert [name for name in PROBLEMS | SERIES if first.count(name) != 1] == []


@pytest.mark.parametrize("problem", (PROBLEMS | SERIES).values(), ids=PROBLEMS | SERIES)
def test_every_problem_says_where_it_is_made(problem):
    module, _, function = problem.maker.partition(":")
    spec = importlib.util.find_spec(f"cmcts.zoo.{module}")
    assert spec is not None and f"\ndef {function}(" in spec.loader.get_source(spec.name)


def test_a_name_that_is_almost_one_of_them():
    with pytest.raises(InvalidInput, match=r"icu-sepsis-two, .*\(did you mean icu-sepsis\?\); got 'icu-sepsi'$"):
        cmcts.make("icu-sepsi")


@pytest.mark.parametrize(
    ("command", "task", "module", "package"),
    [
        ("solve", "icu-sepsis", "icu_sepsis", "icu-sepsis"),
        ("train", "icu-sepsis", "icu_sepsis", "icu-sepsis"),
        ("plan", "lava-crossing", "minigrid", "MiniGrid"),
        ("plan", "highway", "highway_env", "highway-env"),
    ],
)
def test_what_a_problem_needs_is_said_in_one_line(monkeypatch, capsys, tmp_path, command, task, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, task]) == 2
    expected = f"cmcts: task {task} needs {package}, got no {package} here: pip install 'cmcts[zoo]'\n"
    assert capsys.readouterr() == ("", expected)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def inventory():
    return cmcts.make("inventory")


def test_lost_sales_by_hand(inventory):
    """Demand is Poisson with mean 3: E[(D - 2)+] = 3 - 2 + 2 P(0) + P(1) = 1 + 5 / e^3."""
    out = np.zeros(1)
    inventory.model.uncompiled.expected_costs(inventory.model.params, np.array([1.0]), 1, out)
    assert out[0] == pytest.approx(1.0 + 5.0 * np.exp(-3.0), abs=1e-6)


def test_a_shop_that_never_orders_loses_every_sale(inventory):
    """From empty shelves: three a week, 3 / (1 - 0.95) in all, and nothing to pay for."""
    cmdp = enumerate_states(inventory.model, inventory.discount)
    never = np.eye(7)[np.zeros(cmdp.state_count, int)]
    values = evaluate(cmdp, never)
    empty = cmdp.number([0.0])
    assert values.reward_values[empty] == pytest.approx(0.0, abs=1e-12)
    assert values.cost_values[empty, 0] == pytest.approx(60.0, abs=1e-4)


def test_ordering_what_is_missing_of_a_level_is_as_good_as_by_hand(inventory):
    """Up to 6 every week: an order unless nothing was sold, and 6 - D items left over."""
    cmdp = enumerate_states(inventory.model, inventory.discount)
    stock = cmdp.states[:, 0].astype(int)
    values = evaluate(cmdp, np.eye(7)[np.maximum(0, 6 - stock)])
    demand = np.arange(40)
    chances = np.exp(-3.0) * 3.0**demand / np.cumprod(np.maximum(demand, 1).astype(float))
    weekly = -0.2 * (chances @ np.maximum(0, 6 - demand)) - 0.5 * (1.0 - chances[0])
    full = cmdp.number([6.0])  # no order is due now
    assert values.reward_values[full] == pytest.approx(weekly / 0.05 + 0.5 * (1.0 - chances[0]), abs=1e-5)
    assert values.cost_values[full, 0] == pytest.approx(chances @ np.maximum(0, demand - 6) / 0.05, abs=1e-5)


def test_the_best_shop_orders_up_to_six(inventory):
    cmdp = enumerate_states(inventory.model, inventory.discount)
    solution = solve(cmdp, inventory.budget)
    assert solution.costs[0] == pytest.approx(3.0)
    often = [solution.probabilities([stock]).argmax() for stock in (0, 1, 2, 4, 5)]
    assert often == [6, 5, 4, 0, 0]


def test_a_second_constraint_costs_reward_and_is_kept():
    for name, loose in (("queue", [5.0, np.inf]), ("inventory", [3.0, np.inf])):
        both = cmcts.make(f"{name}-two")
        free, bound = solve_task(both, loose), solve_task(both)
        assert free.reward_lower == pytest.approx(solve_task(cmcts.make(name)).reward_lower, abs=1e-9)
        assert bound.costs == pytest.approx(both.budget) and bound.reward_lower < free.reward_lower


def test_one_step_of_the_queue_by_hand():
    """Nobody waits, and nobody can be served: 0.4 of a customer. In a second step that customer waits."""
    model = cmcts.make("queue").model
    one, two = (solve(enumerate_states(model.with_params(steps=steps), 0.95), 0.0) for steps in (1, 2))
    assert one.reward == pytest.approx(0.4)
    assert two.reward == pytest.approx(0.4 + 0.95 * (0.4 - 0.05 * 0.4))


def test_the_inventory_keeps_its_word():
    assert cmcts.check_model(cmcts.make("inventory-two").model, states=20) == []


def test_inventory_steps_are_its_outcomes():
    model = cmcts.make("inventory-two").model
    rng, state, next_state, costs = cmcts.stream(0), np.array([2.0]), np.zeros(1), np.zeros(2)
    chances, _, rewards, all_costs, _ = model.outcomes(model.params, state, 2)
    earned, paid = [], []
    with np.errstate(over="ignore"):
        for _ in range(4000):
            reward, ended = model.uncompiled.step(model.params, state, 2, rng, next_state, costs)
            earned.append(reward)
            paid.append(costs.copy())
            assert not ended
    assert np.mean(earned) == pytest.approx(chances @ rewards, abs=0.02)
    assert np.mean(paid, axis=0) == pytest.approx(chances @ all_costs, abs=0.05)


@pytest.mark.parametrize(
    ("example", "line"),
    [
        ("queue_control", "energy 5: 6.130\n"),
        ("inventory", "fill rate 95%: costs 16.36; with 0 to 5 in stock mostly order [6, 5, 4,"),
        ("taxi", "flooded squares 0.5: 1.047, and one more is worth 2.40\n"),
    ],
)
def test_the_examples_run(example, line):
    file = Path(__file__).parent.parent / "examples" / f"{example}.py"
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300)
    assert line in done.stdout, done.stderr


def test_the_lake_is_gymnasium_s_own():
    """Its own table, solved by value iteration without a limit; and no risk at all costs little."""
    task = cmcts.make("frozen-lake")
    table = gymnasium.make("FrozenLake-v1", map_name="8x8").unwrapped.P
    values = np.zeros(64)
    for _ in range(3000):
        values = np.array(
            [
                max(sum(p * (r + 0.99 * values[to] * (not end)) for p, to, r, end in table[s][a]) for a in range(4))
                for s in range(64)
            ]
        )
    free, careful = solve_task(task, [np.inf]), solve_task(task, [0.0])
    assert free.reward_lower == pytest.approx(values[0], abs=1e-6)
    assert careful.costs[0] == pytest.approx(0.0, abs=1e-9) and 0.9 < careful.reward_lower / values[0] < 0.91
