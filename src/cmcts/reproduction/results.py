"""From records to tables: one function a table, each a list of rows for one CSV.

Rows hold numbers with their 95 % intervals, whose ends are `_low` and `_high`. Rates are in percent. Where a training
found no feasible critic, `missing` says so and the numbers are empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cmcts.evaluation.statistics import paired_difference
from cmcts.exact.rocksample.one_reading import best_with_one_reading
from cmcts.report.tables import Record
from cmcts.reproduction import published
from cmcts.reproduction.experiments import (
    MAPS,
    PLANNERS,
    VARIANTS,
    Scale,
    ablation_lines,
    grid_search,
    lambda_star,
    large_map,
    line_cell,
    options,
    planner_cell,
    reference_iterations,
    safe_gridworld,
    training_cost,
)
from cmcts.reproduction.runner import Reproduction
from cmcts.reproduction.units import Cell, PlannerName, Variant
from cmcts.reproduction.zoo_results import avoid_maps, zoo, zoo_picture
from cmcts.tasks.optimum import solve_task
from cmcts.tasks.registry import make

Rows = list[Record]


def performance(run: Reproduction, cell: Cell) -> Record:
    """A cell's figures; empty if it is not there or has no critic."""
    record = run.record(cell) or {"missing": "not run"}
    if "missing" in record:
        return {"episodes": 0, "missing": record["missing"]}
    low, high = record["reward_interval"]
    cost_low, cost_high = record["cost_interval"]
    rate_low, rate_high = record["violation_interval"]
    depth_low, depth_high = record["depth_interval"]
    return {
        "episodes": record["episodes"],
        "reward": record["reward_mean"],
        "reward_low": low,
        "reward_high": high,
        "cost": record["cost_mean"],
        "cost_low": cost_low,
        "cost_high": cost_high,
        "violations": 100 * record["violation_rate"],
        "violations_low": 100 * rate_low,
        "violations_high": 100 * rate_high,
        "depth": record["peak_depth_mean"],
        "depth_low": depth_low,
        "depth_high": depth_high,
        "decision_ms": record["decision_ms"],
        "nothing_safe": 100 * record["nothing_safe_rate"],
        "missing": "",
    }


COLUMNS = ("episodes", "reward", "reward_low", "reward_high", "cost", "cost_low", "cost_high", "violations",
           "violations_low", "violations_high", "depth", "depth_low", "depth_high", "decision_ms", "nothing_safe",
           "missing")  # fmt: skip


def row(run: Reproduction, cell: Cell, **about: Any) -> Record:
    """One row of a table: what the cell is, and its figures."""
    figures = performance(run, cell)
    return {**about, **{column: figures.get(column) for column in COLUMNS}}


def curves(run: Reproduction, scale: Scale) -> Rows:
    """The main figure: every planner at every number of iterations, by both variants."""
    return [
        row(
            run,
            planner_cell(scale, task, variant, planner, n),
            task=task,
            settings=variant,
            planner=planner,
            iterations=n,
        )
        for variant in VARIANTS
        for task in MAPS
        for planner in PLANNERS
        for n in scale.iterations
    ]


def leaking_curves(run: Reproduction, scale: Scale) -> Rows:
    """By the paper's settings: honest, and with the hidden rock values in view."""
    cells = [
        (task, leak, planner, n, planner_cell(scale, f"{task}-leak" if leak else task, "paper", planner, n))
        for task in MAPS
        for leak in (False, True)
        for planner in PLANNERS
        for n in scale.leak_iterations
    ]
    return [
        row(run, cell, task=task, sees="hidden values" if leak else "beliefs", planner=planner, iterations=n)
        for task, leak, planner, n, cell in cells
    ]


COMPARED = ("difference", "low", "high", "cost", "its_cost", "violations", "its_violations")


def comparisons(run: Reproduction, scale: Scale) -> Rows:
    """C-MCTS minus each other planner on the same worlds, with the bootstrap interval of the difference."""
    rows = []
    for variant, task, other, n in (
        (variant, task, other, n)
        for variant in VARIANTS
        for task in MAPS
        for other in PLANNERS[1:]
        for n in scale.iterations
    ):
        ours, theirs = (planner_cell(scale, task, variant, planner, n) for planner in ("cmcts", other))
        mine, its = performance(run, ours), performance(run, theirs)
        about = {"task": task, "settings": variant, "against": other, "iterations": n}
        if mine["missing"] or its["missing"]:
            rows.append({**about, **dict.fromkeys(COMPARED)})
            continue
        difference = paired_difference(run.rewards(ours), run.rewards(theirs))
        compared = (
            difference.mean,
            *difference.interval,
            mine["cost"],
            its["cost"],
            mine["violations"],
            its["violations"],
        )
        rows.append({**about, **dict(zip(COMPARED, compared, strict=True))})
    return rows


def ablations(run: Reproduction, scale: Scale) -> Rows:
    """The table behind the paper's ablation figure, a row for each point of each line."""
    return [
        row(run, line_cell(scale, line, n), panel=line.panel, label=line.label, settings=line.variant, iterations=n)
        for line in ablation_lines(scale)
        for n in scale.ablation_iterations
    ]


def equal_rewards(run: Reproduction, scale: Scale) -> Rows:
    """For each map: C-MCTS at the paper's number of iterations, and the least at which CC-MCP earns as much, if any."""
    rows: Rows = []
    for task in MAPS:
        ours = planner_cell(scale, task, "defaults", "cmcts", reference_iterations(scale))
        theirs = [planner_cell(scale, task, "defaults", "cc-mcp", n) for n in scale.iterations]
        theirs += [Cell(task, "defaults", "cc-mcp", n, scale.far_episodes) for n in scale.far_iterations]
        rows += _equal_reward(run, ours, theirs)
    ours, *theirs = large_map(scale)
    rows += _equal_reward(run, ours, theirs)
    return rows


def _equal_reward(run: Reproduction, ours: Cell, theirs: list[Cell]) -> Iterator[Record]:
    reward = performance(run, ours).get("reward")
    reached = [
        cell for cell in theirs if reward is not None and (performance(run, cell).get("reward") or -1e9) >= reward
    ]
    for cell, achieved in ((ours, True), ((reached or theirs[-1:])[0], bool(reached))):
        paper = published.EQUAL_REWARD[cell.task][cell.planner]
        yield {
            "task": cell.task,
            "planner": cell.planner,
            "paper_iterations": paper and paper[0],
            "paper_reward": paper and paper[1],
            "iterations": cell.iterations,
            "reached": achieved,
            **{
                name: performance(run, cell).get(name)
                for name in ("reward", "reward_low", "reward_high", "cost", "violations", "decision_ms")
            },
        }


def gridworld(run: Reproduction, scale: Scale) -> Rows:
    """Safe Gridworld: what each planner earned, and how often it entered an unsafe square."""
    return [
        row(
            run,
            cell,
            settings=cell.variant,
            planner=cell.planner,
            iterations=cell.iterations,
            paper_violations=100 * published.SAFE_GRIDWORLD[cell.planner][1],
        )
        for cell in safe_gridworld(scale)
    ]


def gridworld_visits(run: Reproduction, scale: Scale) -> Rows:
    """What was done on each square, by the planners that the figure shows."""
    cells = [cell for cell in safe_gridworld(scale) if cell.visits and run.record(cell)]
    return [
        {"settings": cell.variant, "planner": cell.planner, "iterations": cell.iterations, **visit}
        for cell in cells
        if "missing" not in (run.record(cell) or {})
        for visit in run.visits(cell)
    ]


def grid(run: Reproduction, scale: Scale) -> Rows:
    """The table of the grid search over alpha0 and epsilon, a row for each training."""
    rows = []
    for cell in grid_search(scale):
        assert cell.training is not None
        trained = run.record(cell.training) or {}
        columns = ("alpha0", "epsilon", "feasible", "rounds", "updates", "cap_hit", "seconds")
        about = {name: trained.get(name) for name in columns}
        rows.append(row(run, cell, **about))
    return rows


def trainings(run: Reproduction, scale: Scale) -> Rows:
    """What each critic was trained with, and what that took."""
    columns = ("feasible", "rounds", "updates", "cap_hit", "tolerance", "iterations", "rule", "alpha0", "epsilon",
               "sigma_max", "target", "episodes", "steps", "simulations", "seconds")  # fmt: skip
    return [
        {"task": unit.task, "settings": unit.variant, **{name: (run.record(unit) or {}).get(name) for name in columns}}
        for unit in training_cost(scale)
    ]


def multipliers(run: Reproduction, scale: Scale) -> Rows:
    """The table of lambda*, a row for each map and variant."""
    tasks: list[tuple[str, Variant]] = [(task, variant) for variant in VARIANTS for task in MAPS]
    tasks += [(f"{task}-leak", "paper") for task in MAPS]
    rows = []
    for task, variant in tasks:
        record = run.record(lambda_star(scale, task, variant))
        if record:
            rows.append({"task": task, "settings": variant, "multiplier": record["multipliers"][0]})
    return rows


def against_paper(run: Reproduction, scale: Scale) -> Rows:
    """Reward at 2^10 iterations: the paper's, ours by its settings (with the leak and honest), ours by default."""
    n = reference_iterations(scale)
    rows = []
    planners: tuple[PlannerName, ...] = ("cmcts", "cc-mcp")
    for task in MAPS:
        problem = make(task)
        best = solve_task(problem)
        assert problem.real_model is not None
        one_reading = best_with_one_reading(problem.real_model.params, problem.discount)
        for planner in planners:
            paper = published.EQUAL_REWARD[task][planner]
            figures = {
                "leak": performance(run, planner_cell(scale, f"{task}-leak", "paper", planner, n)),
                "paper_settings": performance(run, planner_cell(scale, task, "paper", planner, n)),
                "defaults": performance(run, planner_cell(scale, task, "defaults", planner, n)),
            }
            measured = {
                f"{label}_{name}": figure.get(name)
                for label, figure in figures.items()
                for name in ("reward", "reward_low", "reward_high", "cost", "violations")
            }
            about = {"task": task, "planner": planner, "iterations": n, "paper_iterations": paper and paper[0]}
            rows.append({**about, "paper": paper and paper[1], **measured})
            rows[-1] |= {"one_reading": one_reading, "optimum": best.reward_upper}
    return rows


def option_rows(run: Reproduction, scale: Scale) -> Rows:
    """Each of our departures from the paper undone in turn."""
    rows = []
    for cell in options(scale):
        assert cell.training is not None
        trained = run.record(cell.training) or {}
        about = {"task": cell.task, "option": cell.training.option, "iterations": cell.iterations}
        rows.append(row(run, cell, **about, rounds=trained.get("rounds"), seconds=trained.get("seconds")))
    return rows


TABLES = {
    "rocksample": {"curves": curves, "comparisons": comparisons, "multipliers": multipliers},
    "honesty": {"leak": leaking_curves, "against_paper": against_paper},
    "ablation": {"ablation": ablations},
    "equal-reward": {"equal_reward": equal_rewards},
    "safe-gridworld": {"safe_gridworld": gridworld, "visits": gridworld_visits},
    "grid-search": {"grid_search": grid},
    "training": {"training": trainings},
    "options": {"options": option_rows},
    "zoo": {"zoo": zoo, "zoo_picture": zoo_picture, "avoid_maps": avoid_maps},
}
