"""What a second process does for one decision in a Gymnasium environment: simulations a second, with 1 and 2 searches.

    python benchmarks/together.py [lake cliff taxi copied lava]

Both take turns with the same time limit, so that what else the machine does strikes both; ratios are medians over the
turns. On a machine that others use, two searches do not get two cores: so it also says what a second of computing time
yields, with forking and all, which should be the same for both. "copied" keeps FrozenLake by `copy.deepcopy`, as
environments without `get_state` are kept. "lava" needs `minigrid`.
"""

from __future__ import annotations

import resource
import sys

import numpy as np
from tabulation import BUDGET, PROBLEMS, died

import cmcts
from cmcts.devices import cores

SECONDS, TURNS, WORKERS = 1.0, 9, 2
COPIED = {"copied": (PROBLEMS["lake"][0], {"costs": died})}


def computing_time() -> float:
    """Seconds of computing that this process and those that it forked have had."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(times.ru_utime + times.ru_stime for times in used)


def rates(model: cmcts.Model, workers: tuple[int, ...]) -> np.ndarray:
    """[TURNS, workers, 2] simulations of C-MCTS without a critic a second, and a second of computing time."""
    planner = cmcts.CMCTS(model, cmcts.immediate_costs_only(model), cmcts.SearchSettings(horizon=50))
    state, found = model.start_state(0), np.empty((TURNS, len(workers), 2))
    for count in workers:
        planner.plan(state, BUDGET, seconds=SECONDS, workers=count)
    for turn, row in enumerate(found):
        for count, cell in zip(workers, row, strict=True):
            before = computing_time()
            decision = planner.plan(state, BUDGET, seconds=SECONDS, rng=turn, workers=count)
            cell[:] = decision.iterations / decision.seconds, decision.iterations / (computing_time() - before)
    return found


def main() -> None:
    problems = PROBLEMS | COPIED
    print(f"{cores()} cores, decisions of {SECONDS:g} s, medians of {TURNS} turns")
    for name in sys.argv[1:] or ("lake", "cliff", "taxi", "copied"):
        factory, options = problems[name]
        found = rates(cmcts.Model.from_env(factory, **options), (1, WORKERS))
        alone, together = np.median(found[:, :, 0], axis=0)
        low, ratio, high = np.quantile(found[:, 1, 0] / found[:, 0, 0], (0.25, 0.5, 0.75))
        yields = np.median(found[:, 1, 1] / found[:, 0, 1])
        print(
            f"{name}: {alone:,.0f} simulations a second by one search, {together:,.0f} by {WORKERS}: {ratio:.2f} times "
            f"as many (quartiles {low:.2f}, {high:.2f}), {yields:.2f} times as many a second of computing time"
        )


if __name__ == "__main__":
    main()
