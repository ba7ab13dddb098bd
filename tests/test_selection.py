"""Which critic is kept."""

import numpy as np

from cmcts.training.selection import best_feasible, hopeless, is_feasible


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


def test_feasible_means_mean_plus_one_standard_error():
    costs = np.array([[0.8], [1.2]] * 8)  # mean 1, standard error 0.0516...
    assert not is_feasible(costs, np.array([1.0]))
    assert not is_feasible(costs, np.array([1.05]))
    assert is_feasible(costs, np.array([1.06]))
    assert is_feasible(np.zeros((5, 1)), np.array([0.0]))


def test_an_evaluation_that_cannot_matter_is_cut_short():
    class Part:
        def __init__(self, costs, rewards):
            self.costs, self.rewards = np.array(costs)[:, None], np.array(rewards)

    spent = [Part([0.0, 1.0, 0.0], [5.0, 5.0, 5.0])]
    assert hopeless(spent, np.array([0.0]), 100, None)  # a budget of zero is broken once and for all
    assert not hopeless(spent, np.array([0.5]), 100, None)
    assert hopeless(spent, np.array([0.5]), 100, evaluation(reward_mean=9.0))
    assert not hopeless(spent, np.array([0.5]), 100, evaluation(reward_mean=4.0))
