"""Gold and traps: the benchmark's maps and rules, and exact optima of a hundred steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

import cmcts
from cmcts.errors import InvalidInput
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import solve
from cmcts.tasks.optimum import solve_task
from cmcts.tasks.references import load_object
from cmcts.zoo.traps import read_maps, trap_model

EXAMPLES = Path(__file__).parent.parent / "examples"


def best(rows, budget, steps, **rules):
    """The exact optimum of a map in so many steps, and what it costs."""
    cmdp = enumerate_states(cmcts.with_time(trap_model(rows, **rules), steps), 1.0)
    solution = solve(cmdp, budget)
    return solution.reward, solution.costs[0]


def outcome_table(model, state, action):
    found = {}
    for chance, row, reward, cost, end in zip(
        *model.outcomes(model.params, np.array(state, float), action), strict=True
    ):
        key = (*row.tolist(), reward, cost[0], bool(end))
        found[key] = found.get(key, 0.0) + chance
    return found


def test_a_trap_before_the_gold_by_hand():
    """Four in five get past it. A budget for three quarters of the tries buys three quarters of that."""
    assert best(["sxg"], np.inf, 2, deadly=True) == pytest.approx((0.8, 0.2))
    assert best(["sxg"], 0.15, 2, deadly=True) == pytest.approx((0.6, 0.15))
    assert best(["sxg"], 0.15, 2, deadly=False) == pytest.approx((0.75, 0.15))
    assert best(["sxg"], np.inf, 1, deadly=True)[0] == 0.0


def test_a_move_slides_from_where_it_was_meant_to_go():
    """East to the middle, and then, one time in ten each, north or south of it; gold that is slid past stays."""
    model = trap_model([".g.", "sg.", ".x."], deadly=True)
    east = 1
    assert outcome_table(model, [0, 1, 3], east) == pytest.approx(
        {
            (1.0, 1.0, 2.0, 1.0, 0.0, False): 0.8,
            (1.0, 2.0, 1.0, 1.0, 0.0, False): 0.1,
            (1.0, 0.0, 3.0, 0.0, 1.0, True): 0.02,
            (1.0, 0.0, 3.0, 0.0, 0.0, False): 0.08,
        }
    )


def test_who_walks_into_a_wall_stays_and_does_not_slide():
    model = trap_model(["s#g"], deadly=True)
    assert outcome_table(model, [0, 0, 1], 1) == {(0.0, 0.0, 1.0, 0.0, 0.0, False): 1.0}


def test_soft_traps_cost_what_was_meant_not_where_one_slid():
    model = trap_model(["..g", "sx.", "..."], deadly=False)
    assert {row[4] for row in outcome_table(model, [0, 1, 1], 1)} == {0.2}
    above = trap_model([".xg", "s..", "..."], deadly=False)
    assert {row[4] for row in outcome_table(above, [0, 1, 1], 1)} == {0.0}


def test_the_maps_are_whole():
    maps = read_maps()
    assert sorted(maps) == list(range(1, 144))
    assert maps[1] == ["xxxgs#", "x.x#.x", "x.xg.x", "x..g#x", "g.x.gx", "xxxxxx"]
    for number, rows in maps.items():
        text = "".join(rows)
        assert len({len(row) for row in rows}) == 1 and text.count("s") == 1 and set(text) <= set(".#xgs")
        assert number > 128 or (len(rows), len(rows[0]), text.count("g")) == (6, 6, 5)


def rolled_out(rows, price, **rules):
    """A map without time whose rollouts know the price, and what going to its first piece gains from the start."""
    model = trap_model(rows, **rules)
    priced = model.at_prices(model, np.array([price]), 1.0)
    x, y = priced.params.start
    return priced, priced.params.gains[0, x, y]


def test_what_going_for_gold_is_worth_by_hand():
    """A hundredth less for every step but the one that takes it, four in five get past the trap, and who dies pays."""
    assert rolled_out(["sg"], 5.0, deadly=True)[1] == pytest.approx(0.99)
    assert rolled_out(["sxg"], 1.0, deadly=True)[1] == pytest.approx(0.99 * 0.8 * 0.99 - 0.2)
    assert rolled_out(["sxg"], 1.0, deadly=False)[1] == pytest.approx(0.99**2 - 0.2)
    assert rolled_out(["sxg"], 5.0, deadly=True)[1] == 0.0  # not worth a fifth of a death: one may wait


def chosen(model, state):
    return model.uncompiled.rollout_action(model.params, np.array(state, float), None)


def test_rollouts_go_for_the_gold_that_gains_most_and_else_wait():
    north, east, south, west = range(4)
    cheap, _ = rolled_out(["sxg"], 1.0, deadly=True)
    assert chosen(cheap, [0, 0, 1]) == east
    dear, _ = rolled_out(["sxg"], 5.0, deadly=True)
    assert chosen(dear, [0, 0, 1]) in (north, south, west)
    assert chosen(dear, [1, 0, 1]) == east  # who stands in the trap goes on: waiting there is what costs
    two, _ = rolled_out(["g.s.xg"], 5.0, deadly=True)
    assert chosen(two, [2, 0, 3]) == west
    assert chosen(two, [3, 0, 2]) != east


def test_the_way_around_is_taken_where_that_is_cheaper():
    free, _ = rolled_out(["....", "s.xg"], 0.0, deadly=False)
    assert chosen(free, [1, 0, 1]) == 1
    dear, _ = rolled_out(["....", "s.xg"], 20.0, deadly=False)
    assert chosen(dear, [1, 0, 1]) == 0


def dual_optimum(model, budget, steps):
    """min over prices of max over policies of reward - price (cost - budget): 100 backups of plain tables."""
    rows, numbers = [model.start_state()], {}
    numbers[rows[0].tobytes()] = 0
    pairs = []
    for row in rows:  # grows while it is read
        for action in range(4):
            chances, states, rewards, costs, ends = model.outcomes(model.params, row, action)
            to = []
            for state, end in zip(states, ends, strict=True):
                if not end and state.tobytes() not in numbers:
                    numbers[state.tobytes()] = len(rows)
                    rows.append(state)
                to.append(-1 if end else numbers[state.tobytes()])
            pairs.append((chances, to, chances @ rewards, chances @ costs[:, 0]))
    chances, to = (np.concatenate([pair[k] for pair in pairs]) for k in (0, 1))
    pair = np.repeat(np.arange(len(pairs)), [len(pair[0]) for pair in pairs])
    kept = to >= 0
    transition = csr_array((chances[kept], (pair[kept], to[kept])), shape=(len(pairs), len(rows)))
    rewards, costs = (np.array([pair[k] for pair in pairs]) for k in (2, 3))

    def dual(price):
        values = np.zeros(len(rows))
        for _ in range(steps):
            values = (rewards - price * costs + transition @ values).reshape(-1, 4).max(axis=1)
        return values[0] + price * budget

    return minimize_scalar(dual, bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-6}).fun


@pytest.mark.parametrize("name", ["avoid-8", "soft-avoid-8"])
def test_a_hundred_steps_on_a_map_are_solved_exactly(name):
    task = cmcts.make(name)
    found = solve_task(task)
    assert found.exact and found.costs[0] == pytest.approx(0.15)
    assert found.reward_lower == pytest.approx(dual_optimum(task.model.untimed, 0.15, 100), abs=1e-4)


@pytest.mark.slow
def test_the_model_keeps_its_word():
    for deadly in (True, False):  # one model, compiled once
        assert cmcts.check_model(trap_model(read_maps()[8], deadly=deadly), states=20) == []


def test_a_map_that_there_is_not():
    with pytest.raises(InvalidInput, match=r"^expected a map from 1 to 143, got 144$"):
        cmcts.make("avoid-144")
    with pytest.raises(InvalidInput, match=r"expected a task: one of .*, avoid-K, soft-avoid-K, or .*; got 'evade-1'$"):
        cmcts.make("evade-1")


def test_the_example_runs(capsys):
    example = load_object(f"{EXAMPLES}/traps.py:main")
    example(136)
    assert capsys.readouterr().out.startswith("\n".join(read_maps()[136]) + "\navoid-136: ")


def test_the_world_draws_what_is_left():
    world = cmcts.make("avoid-8").real_world(render_mode="ansi")
    world.reset(seed=0)
    assert world.render().splitlines()[0] == ". . x g A #"
    for _ in range(20):  # west, until it does not slide
        if world.step(3)[1] == 1.0:
            break
    assert "g" not in world.render().splitlines()[0]
    pictured = cmcts.make("avoid-8").real_world(render_mode="svg")
    pictured.reset(seed=0)
    assert pictured.render().count(">gold</text>") == 5
