"""Draws driving.png: eight seconds in highway-env, planned on the compiled model; an episode of benchmarks/driving.py.

python docs/images/driving.py [EPISODE]   # needs the extra `zoo`
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import cmcts
from cmcts.evaluation.episodes import world_seed
from cmcts.planning.agent import Agent
from cmcts.zoo.highway import ACTION_NAMES, STEPS

FILE = Path(__file__).parent / "driving.png"
FIRST, FRAMES = 4, 8  # the seconds that are shown
INK = "#264653"


def main() -> None:
    """Drive, and keep some frames."""
    episode = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    task = cmcts.make("highway")
    world = task.real_world(render_mode="rgb_array")
    planner = cmcts.PenalizedMCTS(task.model, [task.penalty], task.search)
    state, _ = world.reset(seed=world_seed(1, episode))
    agent, shots, ended, second = Agent(planner, task.budget, rng=episode), [], False, 0
    while not ended:
        decision = agent.act(state)
        if FIRST <= second < FIRST + FRAMES:
            shots.append((second, float(state[5]), ACTION_NAMES[decision.action], np.asarray(world.render())))
        state, _, terminated, truncated, info = world.step(decision.action)
        agent.observe(info["cost"])
        ended, second = terminated or truncated, second + 1
    assert second == STEPS and not info["crashed"], "a whole drive"
    _, panels = plt.subplots(FRAMES, 1, figsize=(6.4, 8.4), dpi=80, layout="constrained")
    for axes, (when, speed, action, frame) in zip(panels, shots, strict=True):
        axes.imshow(frame[20:130])
        axes.axis("off")
        axes.set_title(f"{when} s, {speed:.1f} m/s: {action}", fontsize=9, color=INK, loc="left", pad=2)
    panels[0].figure.savefig(FILE, metadata={"Software": None}, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
