"""An exact policy among the columns of a frontier: where it was solved for, no search does better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cmcts.critic.columns import Column, ColumnSettings, Sample
from cmcts.critic.identity import model_digest
from cmcts.errors import expect
from cmcts.evaluation.blocks import episodes_on
from cmcts.exact.policy import TabularPolicy
from cmcts.frontier.frontier import Frontier
from cmcts.random import stage_seed
from cmcts.tasks.task import Task

CHOSEN, CONFIRMED = 21, 22  # what the seeds of its two lots of episodes are for


def column_of(policy: TabularPolicy) -> ColumnSettings:
    """The settings of a column that plays an exact policy."""
    return ColumnSettings((0.0,) * len(policy.budget), policy.search, budget=policy.budget, policy=policy.digest)


def with_policy(
    frontier: Frontier, policy: TabularPolicy, task: Task, *, episodes: int = 400, seed: int = 0
) -> Frontier:
    """The frontier with one column more: an exact policy, played in the task's training world.

    If the policy was solved for the model that this world follows, its reward and costs are known without error.
    """
    expect(isinstance(episodes, int) and episodes >= 2, "episodes >= 2", episodes)
    known = None
    if task.training_model is not None and model_digest(task.training_model) == model_digest(policy.model):
        known = np.array([[policy.reward, *policy.costs], [0.0] * (1 + len(policy.costs))])
    samples = []
    for purpose in (CHOSEN, CONFIRMED):
        played, _ = episodes_on(
            None, policy, task.training_world, policy.budget, episodes=episodes, seed=stage_seed(seed, purpose)
        )
        samples.append(Sample(played.rewards, played.costs, known))
    column = Column(column_of(policy), *samples)
    policies = {**frontier.policies, policy.digest: policy.to_arrays()}
    return replace(frontier, columns=(*frontier.columns, column), policies=policies)
