"""Gold and traps: what an allowance for deaths buys on a map of the Threshold UCT benchmark, exactly.

python         examples/traps.py 8
cmcts train    avoid-8 --out runs/avoid-8
cmcts evaluate avoid-8 --critic runs/avoid-8 --regret
"""

import sys

import cmcts
from cmcts.tasks import solve_task
from cmcts.zoo.traps import read_maps


def main(number: int = 8) -> None:
    print("\n".join(read_maps()[number]))
    for name in (f"avoid-{number}", f"soft-avoid-{number}"):
        task = cmcts.make(name)
        for budget in (0.15, 0.35):
            best = solve_task(task, [budget])
            print(f"{name}: {best.reward_lower:.3f} of {task.model.untimed.params.pieces} pieces at {budget}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
