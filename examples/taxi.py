"""Gymnasium's Taxi in a town with flooded squares: what driving through water is worth.

python         examples/taxi.py
cmcts train    taxi --out runs/taxi
cmcts evaluate taxi --critic runs/taxi --regret
"""

import cmcts
from cmcts.tasks import solve_task

task = cmcts.make("taxi")


def main() -> None:
    print(task.model.origin)
    for budget in (0.0, 0.2, 0.5, 1.0):
        best = solve_task(task, [budget])
        print(f"flooded squares {budget}: {best.reward_lower:.3f}, and one more is worth {best.multipliers[0]:.2f}")


if __name__ == "__main__":
    main()
