"""Expected accounting: what a step takes from the budget is the risk that was taken, whether or not it struck."""

import dataclasses

import numpy as np
import pytest

from cmcts.evaluation.episodes import run_episodes
from cmcts.evaluation.statistics import standard_error
from cmcts.exact.finite import enumerate_states
from cmcts.exact.random_problems import random_problem
from cmcts.exact.solver import least_cost_to_go, solve
from cmcts.planning.agent import Agent
from cmcts.planning.monitor import SafetyMonitor
from cmcts.planning.planners import CMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task
from models import climb_model, lookup_critic

SURVIVE, FALL, LEDGES, DISCOUNT = 0.8, 0.2, 4, 0.9
CLIMB, LEAVE = 0, 1
STRICT = PruningSettings(tolerance=0.0, cost_floor=False)
EXPECTED = dataclasses.replace(STRICT, accounting="expected")


def climb(*, compilable: bool = True) -> tuple[Task, CMCTS]:
    """One may always leave, so V = 0 and Q_C(climb) = 0.2 everywhere."""
    model = dataclasses.replace(climb_model(), compilable=compilable)
    task = Task("climb", model, budget=0.3, search=SearchSettings(discount=DISCOUNT, exploration=2.0, horizon=10))
    return task, CMCTS(model, lookup_critic(model, [[FALL, 0.0]] * 4, np.zeros((4, 2))), task.search, EXPECTED)


def test_a_risk_is_charged_whether_or_not_it_strikes():
    """b' = V(s') + (b - Q(s, a)) / gamma, by hand: (0.3 - 0.2) / 0.9, which does not pay for a second ledge."""
    _, planner = climb(compilable=False)  # a hundred simulations
    agent = Agent(planner, budget=0.3, iterations=50)
    first = agent.act([0.0])
    assert first.action == CLIMB
    assert agent.observe(0.0) == pytest.approx([0.1 / 0.9])
    second = agent.act([1.0])
    assert second.budget == pytest.approx([0.1 / 0.9])
    assert second.pruned.tolist() == [True, False]
    assert second.action == LEAVE


def test_what_the_next_state_needs_is_added_and_a_debt_stays():
    _, planner = climb()
    model = planner.model
    critic = lookup_critic(model, [[0.5, 0.4], [0.7, 0.6], [0.0, 0.0], [0.0, 0.0]], np.zeros((4, 2)))
    agent = Agent(CMCTS(model, critic, planner.search, EXPECTED), budget=0.45, iterations=10)
    assert agent.act([0.0]).action == LEAVE, "climbing needs 0.5"
    agent.override(CLIMB)
    assert agent.observe(0.0) == pytest.approx([-0.05 / 0.9])
    decision = agent.act([1.0])
    assert decision.budget == pytest.approx([0.6 - 0.05 / 0.9])
    assert decision.nothing_safe


def exact_planner(problem, pruning):
    least = problem.cmdp.table(least_cost_to_go(problem.cmdp)[:, 0])
    critic = lookup_critic(problem.model, least, np.zeros_like(least))
    search = SearchSettings(discount=problem.discount, horizon=20)
    return CMCTS(problem.model, critic, search, pruning), least.astype(np.float32).astype(float)


def assert_charged(tree, budget, least, discount):
    """What is left at every expanded node, from its path cost, against the recursion along its path."""
    left, checked = {0: budget}, 0
    for node in range(1, int(tree.count[0])):
        if tree.terminal[node] or not tree.expanded[node]:
            continue
        parent, action = int(tree.parent[node]), int(tree.parent_action[node])
        here, there = int(tree.states[parent, 0]), int(tree.states[node, 0])
        left[node] = least[there].min() + (left[parent] - least[here, action]) / discount
        assert (budget - tree.path_costs[node, 0]) / discount ** tree.depth[node] == pytest.approx(left[node])
        assert left[node] >= least[there].min() - 1e-6, "who takes safe actions can always go on safely"
        checked += 1
    return checked


def test_the_tree_charges_as_the_agent_does():
    problem = random_problem(3, "absorbing")
    planner, least = exact_planner(problem, EXPECTED)
    decision = planner.plan(problem.model.start_state(), problem.budget, iterations=500, keep_tree=True)
    assert assert_charged(decision.tree, float(problem.budget[0]), least, problem.discount) > 50


def test_a_tree_that_is_kept_charges_as_a_new_one():
    problem = random_problem(3, "absorbing")
    planner, least = exact_planner(problem, EXPECTED)
    agent = Agent(planner, problem.budget, iterations=500, reuse_tree=True)
    first = agent.act(problem.model.start_state())
    here = int(first.state[0])
    tree = agent._session.tree
    child = next(k for k in range(1, first.tree_size) if tree.depth[k] == 1 and tree.parent_action[k] == first.action)
    there = tree.states[child].copy()
    agent.observe(0.5)
    second = agent.act(there)
    left = least[int(there[0])].min() + (problem.budget[0] - least[here, first.action]) / problem.discount
    assert second.budget == pytest.approx([left])
    assert agent._session.tree.visits[0] > second.iterations, "the subtree was kept"
    assert assert_charged(agent._session.tree, float(second.budget[0]), least, problem.discount) > 50


def test_paid_accounting_overspends_where_expected_accounting_does_not():
    """Paid: survivors climb on with all they had, and the expected cost is 0.2 + 0.9 * 0.8 * 0.2 + ... = 0.523."""
    task, planner = climb()
    cost = {}
    for pruning in (STRICT, EXPECTED):
        planner = CMCTS(task.model, planner.critic, task.search, pruning)
        episodes, _ = run_episodes(planner, task.real_world, task.budget, episodes=400, seed=0, iterations=50)
        cost[pruning.accounting] = episodes.costs[:, 0]
    assert cost["paid"].mean() == pytest.approx(0.2 * sum(0.72**t for t in range(4)), abs=0.06)
    assert cost["expected"].mean() == pytest.approx(0.2, abs=0.06)  # 3 standard errors


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_exact_critic_keeps_every_budget(seed):
    """On random problems; something is safe at every decision, and it earns no less than by paid accounting."""
    problem = random_problem(seed, "absorbing")
    task = Task("random", problem.model, budget=float(problem.budget[0]))
    reward = {}
    for pruning in (STRICT, EXPECTED):
        planner, _ = exact_planner(problem, pruning)
        episodes, _ = run_episodes(planner, task.real_world, task.budget, episodes=150, seed=1, iterations=256)
        reward[pruning.accounting] = episodes.rewards
    costs = episodes.costs[:, 0]
    assert costs.mean() <= task.budget[0] + 2 * standard_error(costs)
    assert episodes.nothing_safe.sum() == 0
    difference = reward["expected"] - reward["paid"]
    assert difference.mean() >= -2 * standard_error(difference)


def test_the_exact_optimum_of_the_climb():
    """A budget of 0.2 pays for one ledge, worth 0.8; and the critic above is the exact least cost-to-go."""
    task, _ = climb()

    def outcomes(params, state, action):
        if action == LEAVE:
            return np.ones(1), state[None].copy(), np.zeros(1), np.zeros((1, 1)), np.ones(1, bool)
        up = state + 1.0
        ends = np.array([True, up[0] >= LEDGES])
        return np.array([FALL, SURVIVE]), np.stack([state, up]), np.array([0.0, 1.0]), np.array([[1.0], [0.0]]), ends

    model = dataclasses.replace(task.model, outcomes=outcomes, starts=lambda params: (np.ones(1), np.zeros((1, 1))))
    cmdp = enumerate_states(model, DISCOUNT)
    assert solve(cmdp, 0.2).reward == pytest.approx(0.8)
    assert cmdp.table(least_cost_to_go(cmdp)[:, 0]) == pytest.approx(np.array([[FALL, 0.0]] * 4))


def test_a_monitor_charges_the_policy_for_its_risks():
    _, planner = climb()
    monitor = SafetyMonitor(planner, lambda state: CLIMB, budget=0.3, iterations=50)
    assert monitor.act([0.0]) == CLIMB
    monitor.observe(0.0)
    assert monitor.act([1.0]) == LEAVE
    assert len(monitor.interventions) == 1
    assert monitor.interventions[0].budget == pytest.approx((0.1 / 0.9,))
