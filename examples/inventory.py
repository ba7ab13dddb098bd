"""Inventory control: how much stock a fill rate takes, and when to order how many.

python         examples/inventory.py
cmcts train    inventory --out runs/inventory
cmcts evaluate inventory --critic runs/inventory --regret
"""

import cmcts
from cmcts.exact import enumerate_states, solve

task = cmcts.make("inventory")


def main() -> None:
    cmdp = enumerate_states(task.model, task.discount)
    customers = 3.0 / (1.0 - task.discount)
    for rate in (0.80, 0.90, 0.95, 0.99):
        solution = solve(cmdp, (1.0 - rate) * customers)
        orders = [int(solution.probabilities([stock]).argmax()) for stock in range(6)]
        print(f"fill rate {rate:.0%}: costs {-solution.reward:.2f}; with 0 to 5 in stock mostly order {orders}")


if __name__ == "__main__":
    main()
