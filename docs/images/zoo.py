"""Draws zoo_*.png: what a budget buys at best in the problems of the zoo, exactly.

python docs/images/zoo.py          # all of them; needs the extra `zoo`
python docs/images/zoo.py sepsis   # one
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import cmcts
from cmcts.exact.finite import FiniteCMDP, enumerate_states
from cmcts.exact.solver import solve
from cmcts.tasks.optimum import least_optimum, solve_task

FOLDER = Path(__file__).parent
CURVE, MARK, INK = "#0b5d6b", "#e76f51", "#264653"


def draw_curve(axes: Axes, task: cmcts.Task, points: int = 25, **style: str) -> None:
    """The optimum against the first budget, from the least that can be kept to what nobody needs more than."""
    cmdp = enumerate_states(task.model, task.discount, cost_discounts=task.cost_discounts)
    least = least_optimum(task)
    assert least is not None
    most = solve(cmdp, [np.inf]).costs[0]
    budgets = np.linspace(least.costs[0], 1.05 * most, points)
    axes.plot(budgets, [solve(cmdp, [budget]).reward for budget in budgets], lw=2, **({"color": CURVE} | style))


def frame(title: str, cost: str, reward: str) -> Axes:
    """One panel with its words."""
    _, axes = plt.subplots(figsize=(6.4, 3.6), dpi=110, layout="constrained")
    decorate(axes, title, cost, reward)
    return axes


def decorate(axes: Axes, title: str, cost: str, reward: str) -> None:
    """What every panel has."""
    axes.set_title(title, fontsize=11, fontweight="bold", color=INK)
    axes.set_xlabel(cost, fontsize=10, color=INK)
    axes.set_ylabel(reward, fontsize=10, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def mark(axes: Axes, x: float, y: float, text: str, colour: str = MARK, offset: tuple[int, int] = (8, -4)) -> None:
    """A point and what it is."""
    axes.scatter([x], [y], s=55, color=colour, zorder=3)
    axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", fontsize=9, color=INK)


def save(axes: Axes, name: str) -> None:
    """The same bytes for the same picture."""
    figure = axes.figure
    figure.savefig(FOLDER / f"zoo_{name}.png", metadata={"Software": None})
    plt.close(figure)


def sepsis() -> None:
    """The curve, and the clinicians below it."""
    from cmcts.zoo.icu_sepsis import clinicians

    task = cmcts.make("icu-sepsis")
    axes = frame("ICU-Sepsis: survival against fluids", "discounted fluid dose", "survival (discounted)")
    draw_curve(axes, task)
    doctors, best = clinicians(task), solve_task(task)
    mark(axes, doctors.costs[0], doctors.reward, "clinicians", offset=(-62, -4))
    mark(axes, task.budget[0], best.reward_lower, f"best with {task.budget[0]:g}: {best.reward_lower:.3f}", CURVE)
    axes.set_ylim(0.715, 0.81)
    save(axes, "sepsis")


def operations() -> None:
    """Queue and inventory side by side, each with one and with two constraints."""
    _, panels = plt.subplots(1, 2, figsize=(9.6, 3.6), dpi=110, layout="constrained")
    words = {
        "queue": ("Queue", "discounted energy", "in the morning at most 1", np.linspace(0.0, 14.0, 29)),
        "inventory": ("Inventory", "discounted lost sales", "orders at most 9", np.linspace(0.5, 12.0, 25)),
    }
    for axes, (name, (title, cost, second, budgets)) in zip(panels, words.items(), strict=True):
        decorate(axes, title, cost, "discounted reward")
        two = cmcts.make(f"{name}-two")
        cmdp = enumerate_states(two.model, two.discount)
        for limit, style in ((np.inf, "-"), (two.budget[1], "--")):
            found = [(budget, best_reward(cmdp, budget, limit)) for budget in budgets]
            known = [(budget, reward) for budget, reward in found if reward is not None]
            axes.plot(*zip(*known, strict=True), lw=2, ls=style, color=CURVE if style == "-" else MARK,
                      label="one constraint" if style == "-" else second)  # fmt: skip
        axes.legend(fontsize=9, frameon=False, loc="lower right")
    save(panels[0], "operations")


def best_reward(cmdp: FiniteCMDP, budget: float, limit: float) -> float | None:
    """The optimum, or None where the budgets cannot be kept together."""
    try:
        return solve(cmdp, [budget, limit]).reward
    except cmcts.InvalidInput:
        return None


def traps() -> None:
    """One map, and what an allowance buys on it where traps kill and where they cost."""
    from cmcts.zoo.traps import read_maps

    number = 8
    _, (board, axes) = plt.subplots(1, 2, figsize=(8.6, 3.6), dpi=110, layout="constrained", width_ratios=(1.0, 1.5))
    rows = read_maps()[number]
    colours = {".": "#f4f1ea", "#": "#264653", "x": "#eba893", "g": "#f4f1ea", "s": "#f4f1ea"}
    for k, row in enumerate(rows):
        for x, symbol in enumerate(row):
            y = len(rows) - 1 - k
            board.add_patch(plt.Rectangle((x, y), 1, 1, facecolor=colours[symbol], edgecolor="#d6d0c4"))
            if symbol in "gs":
                board.scatter(x + 0.5, y + 0.5, s=130, marker="o" if symbol == "g" else "s", edgecolor=INK,
                              color="#e9c46a" if symbol == "g" else CURVE)  # fmt: skip
    board.set(xlim=(-0.05, len(rows[0]) + 0.05), ylim=(-0.05, len(rows) + 0.05), aspect="equal")
    board.axis("off")
    board.set_title(f"Map {number}: start, gold, traps, walls", fontsize=11, fontweight="bold", color=INK)
    decorate(axes, "What a budget buys in 100 steps", "deaths, or cost of traps", "pieces of gold")
    for name, label, colour in (("avoid", "traps kill", MARK), ("soft-avoid", "traps cost", CURVE)):
        task = cmcts.make(f"{name}-{number}")
        cmdp = enumerate_states(task.model, 1.0)
        budgets = np.linspace(0.0, 0.8, 17)
        axes.plot(budgets, [solve(cmdp, budget).reward for budget in budgets], color=colour, lw=2, label=label)
    axes.legend(fontsize=9, frameon=False, loc="lower right")
    save(board, "traps")


def known() -> None:
    """MiniGrid's picture of the lava, and the curves of the three environments that everybody knows."""
    from cmcts.zoo.lava import SlipperyLava

    _, panels = plt.subplots(1, 4, figsize=(12.6, 3.2), dpi=110, layout="constrained", width_ratios=(0.9, 1, 1, 1))
    lava = SlipperyLava(render_mode="rgb_array")
    lava.reset(seed=0)
    panels[0].imshow(lava.grid.get_frame(highlight=False))
    panels[0].axis("off")
    panels[0].set_title("LavaCrossing, layout 3", fontsize=11, fontweight="bold", color=INK)
    words = {
        "lava-crossing": ("LavaCrossing", "deaths in the lava", "goal"),
        "taxi": ("Taxi", "flooded squares", "reward"),
        "frozen-lake": ("FrozenLake 8 x 8", "falls into a hole", "goal"),
    }
    for axes, (name, (title, cost, reward)) in zip(panels[1:], words.items(), strict=True):
        task = cmcts.make(name)
        decorate(axes, title, f"{cost} (discounted)", f"{reward} (discounted)")
        draw_curve(axes, task)
        mark(axes, task.budget[0], solve_task(task).reward_lower, "budget")
    save(panels[0], "known")


PICTURES = {"sepsis": sepsis, "operations": operations, "traps": traps, "known": known}


def main() -> None:
    """Draw what is asked for."""
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()


if __name__ == "__main__":
    main()
