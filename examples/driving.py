"""Driving in highway-env's traffic: a search on a compiled model of it, beside highway-env's own driver.

python      examples/driving.py          # needs `pip install 'cmcts[zoo]'`
cmcts check highway --states 50
cmcts train highway --out runs/highway   # an hour or two: the environment takes 16 ms a step
"""

import cmcts
from cmcts.planning.agent import Agent

SEED = 5


def main() -> None:
    task = cmcts.make("highway")
    world = task.real_world().unwrapped
    planner = cmcts.PenalizedMCTS(task.model, [task.penalty], task.search)
    for driver in ("IDM", "search"):
        state, _ = world.reset(seed=SEED)
        if driver == "IDM":
            world.hand_over(speed=30.0)
        agent, metres, ended = Agent(planner, task.budget), 0.0, False
        for left in range(30, 0, -1):
            action = 1 if driver == "IDM" else agent.act([*state, left]).action
            state, _, crashed, ended, info = world.step(action)
            metres += info["speed"]
            if crashed or ended:
                break
        print(f"{driver}: {metres:.0f} m in {31 - left} s{', and a crash' if crashed else ''}")


if __name__ == "__main__":
    main()
