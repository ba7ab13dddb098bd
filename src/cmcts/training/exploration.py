"""How widely the search explores: half or twice as widely as before, for as long as that leaves more.

The search measures its exploration by the spread of the returns it sees, and one number suits most problems about
equally well. Where it does not, actions differ by far less, or far more, than rollouts do by chance.

A width is judged by the penalised search, at the lambda that gathering ended with, on the same worlds as the others:
the mean of so many differences tells widths apart that are worth telling apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.recall import PLANS_A_STATE
from cmcts.evaluation.statistics import standard_error
from cmcts.planning.planners import PenalizedMCTS
from cmcts.training.stages import EXPLORE, Stages

EPISODES = 64
HALVINGS, DOUBLINGS = 6, 2
SURE = 2.0  # standard errors of the mean gain: the width at hand is seldom bad, and chance has two tries to move it


def climb(width: float, penalised_returns: Callable[[float], NDArray[np.float64]]) -> float:
    """The best width that halving, or else doubling, leads to; `penalised_returns` has an entry an episode."""
    best, returns = width, penalised_returns(width)
    for factor, steps in ((0.5, HALVINGS), (2.0, DOUBLINGS)):
        for _ in range(steps):
            others = penalised_returns(best * factor)
            gains = others - returns
            if not gains.mean() > SURE * standard_error(gains):
                break
            best, returns = best * factor, others
        if best != width:
            break
    return best


def choose_exploration(stages: Stages, multipliers: NDArray[np.float64]) -> None:
    """Explore more or less widely from now on, if that pays; an absolute width is the user's own choice.

    Nor is it asked where the planning model may be wrong: what it overlooks is not found by looking elsewhere.
    """
    search = stages.settings.search
    if search.exploration is None and stages.task.model_is_exact:
        width = climb(search.relative_exploration, lambda width: _penalised_returns(stages, multipliers, width))
        search = dataclasses.replace(search, relative_exploration=width)
        stages.settings = dataclasses.replace(stages.settings, search=search)


def _penalised_returns(stages: Stages, multipliers: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    file = f"exploration/{width:g}.safetensors"
    stages.stage(f"explore {width:g}", lambda: _explore(stages, multipliers, width, file))
    arrays = stages.load(file)
    return np.asarray(arrays["rewards"] - arrays["costs"] @ multipliers)


def _explore(stages: Stages, multipliers: NDArray[np.float64], width: float, file: str) -> dict[str, Any]:
    search = dataclasses.replace(stages.settings.search, relative_exploration=width)
    stages.begin("explore", EPISODES, round=0, width=width)
    done, _ = episodes_on(
        stages.executor,
        PenalizedMCTS(stages.model, multipliers, search),
        stages.task.training_world,
        stages.budget,
        episodes=EPISODES,
        seed=stages.seed(EXPLORE),
        iterations=stages.settings.iterations,
        device=stages.device,
        plans_a_state=PLANS_A_STATE,
        on_steps=lambda _, finished: stages.advance(finished),
    )
    stages.save(file, {"rewards": done.rewards, "costs": done.costs})
    return {
        "phase": "explore",
        "round": 0,
        "width": width,
        "multipliers": multipliers.tolist(),
        "episodes": len(done),
        "steps": int(done.steps.sum()),
        "reward_mean": float(done.rewards.mean()),
        "cost_means": done.costs.mean(axis=0).tolist(),
    }
