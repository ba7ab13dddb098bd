"""A queue with two service speeds: what a budget of energy buys, and with less of it in the morning.

python         examples/queue_control.py
cmcts train    queue --out runs/queue
cmcts evaluate queue --critic runs/queue --regret
"""

import cmcts
from cmcts.tasks import solve_task

task = cmcts.make("queue")


def main() -> None:
    for energy in (2, 5, 8):
        print(f"energy {energy}: {solve_task(task, [energy]).reward_lower:.3f}")
    both = cmcts.make("queue-two")
    best = solve_task(both)
    print(f"energy {both.budget[0]:g}, in the morning {both.budget[1]:g}: {best.reward_lower:.3f}")


if __name__ == "__main__":
    main()
