"""An exact policy among the columns of a frontier: where it was solved for, no search does better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cmcts.critic.columns import Column, ColumnSettings, Sample
from cmcts.critic.identity import model_digest
from cmcts.errors import InvalidInput, expect
from cmcts.evaluation.blocks import episodes_on
from cmcts.exact.finite import enumerate_states
from cmcts.exact.policy import TabularPolicy
from cmcts.exact.solver import evaluate
from cmcts.frontier.frontier import Frontier
from cmcts.frontier.measuring import contradicts, listed_world
from cmcts.random import stage_seed
from cmcts.tasks.task import Task

CHOSEN, CONFIRMED = 21, 22  # what the seeds of its two lots of episodes are for


def column_of(policy: TabularPolicy) -> ColumnSettings:
    """The settings of a column that plays an exact policy."""
    return ColumnSettings((0.0,) * len(policy.budget), policy.search, budget=policy.budget, policy=policy.digest)


def expect_policy_of(policy: TabularPolicy, task: Task) -> None:
    """Refuse a policy of another problem, of other discounts, or that lacks states of the training world."""
    theirs = (policy.search.discount, *policy.search.discounts_for(task.model))
    mine = (task.search.discount, *task.search.discounts_for(task.model))
    expect(theirs == mine, f"a policy with the discounts {mine} of {task.name}", theirs)
    world = task.training_model
    models = [model for model in (world, task.model, task.real_model) if model is not None]
    if policy.solved_for not in [model_digest(model) for model in models]:
        raise InvalidInput(f"expected a policy of a model of {task.name}, got one that was solved for another")
    if world is None or world.outcomes is None or world.starts is None:
        raise InvalidInput(f"expected a training world of {task.name} whose states can be listed, got another")
    if policy.solved_for != model_digest(world):
        policy.decisions_in(enumerate_states(world, task.discount, cost_discounts=task.cost_discounts))


def with_policy(
    frontier: Frontier, policy: TabularPolicy, task: Task, *, episodes: int = 400, seed: int = 0
) -> Frontier:
    """The frontier with one column more: an exact policy, played in the task's training world.

    Where this world's states can be listed, and it does what its model says, reward and costs are known without error.
    """
    expect(isinstance(episodes, int) and episodes >= 2, "episodes >= 2", episodes)
    expect_policy_of(policy, task)
    world, known = listed_world(task), None
    if world is not None:
        values = evaluate(world, policy.decisions_in(world))
        known = np.array([[values.reward, *values.costs], [0.0] * (1 + len(values.costs))])
    samples = []
    for purpose in (CHOSEN, CONFIRMED):
        played, _ = episodes_on(
            None, policy, task.training_world, policy.budget, episodes=episodes, seed=stage_seed(seed, purpose)
        )
        samples.append(Sample(played.rewards, played.costs, known))
    if known is not None and any(contradicts(sample) for sample in samples):
        samples = [replace(sample, known=None) for sample in samples]
    column = Column(column_of(policy), *samples)
    policies = {**frontier.policies, policy.digest: policy.to_arrays()}
    return replace(frontier, columns=(*frontier.columns, column), policies=policies)
