"""Which critic is kept."""

import numpy as np

from cmcts.training.selection import best_feasible, confirmed, earns_more, hopeless, is_feasible, least_excess


def evaluation(**figures):
    row = {"feasible": True, "reward_mean": 10.0, "reward_se": 0.4, "violations": 0, "tolerance": 0.05, "round": 0}
    return row | figures


def test_the_best_feasible_critic_is_kept_and_ties_go_to_the_safer():
    timid, good = evaluation(reward_mean=5.0, round=0), evaluation(reward_mean=9.0, round=1)
    reckless = evaluation(reward_mean=12.0, feasible=False, round=2)
    assert best_feasible([timid, good, reckless]) is good
    assert best_feasible([reckless]) is None
    safer = evaluation(reward_mean=9.95, tolerance=0.02)
    assert best_feasible([evaluation(), safer]) is safer
    clean = evaluation(reward_mean=9.95)
    assert best_feasible([evaluation(violations=3), clean]) is clean


def test_candidates_are_compared_world_by_world():
    """What the worlds have in common says nothing of who is better; what is left over may be chance."""
    rng = np.random.default_rng(0)
    luck = rng.normal(0.0, 10.0, 400)
    rewards = luck + rng.normal(0.0, 0.1, 400)
    assert earns_more(luck + rng.normal(0.1, 0.1, 400), rewards), "a hundredth of what worlds differ by"
    assert not earns_more(luck + rng.normal(0.0, 0.1, 400), rewards)
    assert not earns_more(rewards, rewards), "the same episodes"
    assert not earns_more(rewards - 1.0, rewards)
    longer = np.concatenate([rewards - 1.0, np.full(400, 1e3)])
    assert not earns_more(longer, rewards), "only where both have played"


def test_feasible_means_mean_plus_one_standard_error():
    costs = np.array([[0.8], [1.2]] * 8)  # mean 1, standard error 0.0516...
    assert not is_feasible(costs, np.array([1.0]))
    assert not is_feasible(costs, np.array([1.05]))
    assert is_feasible(costs, np.array([1.06]))
    assert is_feasible(np.zeros((5, 1)), np.array([0.0]))


def test_how_near_the_budget_any_evaluation_has_come():
    rows = [evaluation(cost_means=means) for means in ([2.0, 1.0], [1.5, 4.0])]
    assert least_excess(rows, np.array([1.0, 1.0]), np.array([1.0, 10.0])) == 0.5
    assert least_excess(rows[:1], np.array([3.0, 1.5]), np.array([1.0, 0.5])) == -1.0


def test_an_evaluation_that_cannot_matter_is_cut_short():
    class Part:
        def __init__(self, costs, rewards):
            self.costs, self.rewards = np.array(costs)[:, None], np.array(rewards)

    spent = [Part([0.0, 1.0, 0.0], [5.0, 5.0, 5.0])]
    assert hopeless(spent, np.array([0.0]), 100, None)  # a budget of zero is broken once and for all
    assert not hopeless(spent, np.array([0.5]), 100, None)
    assert not hopeless([Part([0.5, 0.7] * 8, [5.0] * 16)], np.array([0.55]), 400, None)  # 0.6, standard error 0.026
    assert hopeless([Part([0.5, 0.7] * 8, [5.0] * 16)], np.array([0.5]), 400, None)
    assert hopeless(spent, np.array([0.5]), 100, evaluation(reward_mean=9.0))
    assert not hopeless(spent, np.array([0.5]), 100, evaluation(reward_mean=4.0))


def test_the_best_is_confirmed_and_the_next_one_tried_if_it_fails():
    first, second, third = (evaluation(reward_mean=reward, round=k) for k, reward in enumerate((12.0, 9.0, 6.0)))
    asked = []

    def confirm(row, attempt):
        asked.append((row["round"], attempt))
        return evaluation(feasible=row is second, reward_mean=8.5, round=row["round"])

    kept = confirmed([third, first, second], confirm, attempts=3)
    assert asked == [(0, 0), (1, 1)]
    assert (kept["round"], kept["reward_mean"]) == (1, 8.5), "only the fresh figures are kept"
    assert confirmed([third, first, second], confirm, attempts=1) is None
    assert confirmed([evaluation(feasible=False)], confirm, attempts=3) is None


def test_a_lucky_choice_is_seen_through():
    """24 candidates that spend 10 % too much, judged on 400 episodes: some pass by luck, hardly any passes twice."""
    rng, budget, runs = np.random.default_rng(0), np.array([1.0]), 200

    def judged(**figures):
        costs = rng.gamma(0.2, 1.1 / 0.2, (400, 1))  # mean 1.1, standard deviation 2.46
        return evaluation(feasible=is_feasible(costs, budget), reward_mean=rng.random(), **figures)

    chosen = confirmed_too = 0
    for _ in range(runs):
        evaluations = [judged(round=k) for k in range(24)]
        chosen += best_feasible(evaluations) is not None
        confirmed_too += confirmed(evaluations, lambda row, attempt: judged(), attempts=3) is not None
    assert chosen / runs > 0.5
    assert confirmed_too / runs < 0.1
