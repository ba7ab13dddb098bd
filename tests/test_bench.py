"""What the benchmarks measure is what they say."""

from __future__ import annotations

import cmcts
from cmcts.commands.bench import plain, with_critic


def test_a_critic_that_is_never_trusted_costs_time_and_changes_nothing():
    task = cmcts.make("rocksample-5-7")
    state = task.model.start_state()
    without, critic = (
        planner.plan(state, task.budget, iterations=256, rng=0)
        for planner in (plain(task, "uniform"), with_critic(task))
    )
    assert critic.visits.tolist() == without.visits.tolist()
    assert critic.tree_size == without.tree_size
    assert not critic.nothing_safe
