"""The paper's own method and hyperparameters, for every task."""

from __future__ import annotations

import dataclasses

from cmcts.frontier.settings import FrontierSettings
from cmcts.search.pruning import PruningSettings
from cmcts.tasks.task import PaperSettings, Task
from cmcts.training.multipliers import MultiplierSettings
from cmcts.training.settings import CriticSettings, TrainingSettings

# For tasks that the paper does not know: what it has for its largest map.
ELSEWHERE = PaperSettings(alpha0=12.0, epsilon=0.1, sigma_max=0.5, iterations=512)


def paper_settings(task: Task, seed: int = 0) -> TrainingSettings:
    """SARSA, no floor, no tolerance but the authors' rounding, lambda by its rule, and the first feasible critic."""
    own = task.paper or ELSEWHERE
    search = dataclasses.replace(
        task.search,
        exploration=own.exploration,
        rollout="directed" if own.directed_rollouts else "uniform",
        rollouts=own.rollouts,
        stratified=False,
        horizon=132,
        thrifty_rollouts=False,
        guarded_rollouts=False,
    )
    return TrainingSettings(
        seed=seed,
        iterations=own.iterations,
        random_actions=0.0,
        patience=0,
        walk_steps=0,
        untrained=False,
        tolerances=(0.05,),
        accountings=("paid",),
        relative_costs=False,
        search=search,
        pruning=PruningSettings.paper(own.sigma_max),
        critic=CriticSettings(target="sarsa", steps=2000, learning_rate=1e-3, bootstrap=False, support=False),
        frontier=FrontierSettings(columns=0),
        multiplier=MultiplierSettings(
            rule="paper", alpha0=own.alpha0, epsilon=own.epsilon, initial=0.0, max_updates=50
        ),
    )
