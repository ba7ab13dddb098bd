"""MiniGrid's lava on slippery ground: how much sooner one arrives for a risk. Needs `pip install 'cmcts[zoo]'`.

python         examples/lava.py
cmcts train    lava-crossing --out runs/lava
cmcts evaluate lava-crossing --critic runs/lava --regret
"""

import math

import cmcts
from cmcts.tasks import solve_task

task = cmcts.make("lava-crossing")


def main() -> None:
    for budget in (0.0, 0.05, 0.1, 0.2):
        reward = solve_task(task, [budget]).reward_lower
        steps = math.log(reward) / math.log(task.discount)
        print(f"deaths {budget}: reward {reward:.3f}, as if one arrived for sure after {steps:.0f} steps")


if __name__ == "__main__":
    main()
