"""From the records of the zoo to its tables: every planner beside the exact optimum and the rivals."""

from __future__ import annotations

from collections.abc import Iterator

from cmcts.report.tables import Record
from cmcts.reproduction import rivals
from cmcts.reproduction.experiments import ZOO, Scale, missing_package, zoo_curve, zoo_trials
from cmcts.reproduction.runner import Reproduction
from cmcts.reproduction.units import Trial

Rows = list[Record]

FIGURES = ("reward", "reward_low", "reward_high", "bought", "cost", "cost_low", "cost_high", "violations",
           "violations_low", "violations_high", "training_seconds", "decision_ms", "episodes", "judged", "remark",
           "missing")  # fmt: skip


def zoo(run: Reproduction, scale: Scale) -> Rows:
    """A row for each problem, budget and planner; what was not run says so."""
    learned = rivals.written(run.rivals, rivals.PPO)
    return [_complete(row) for task in ZOO for row in _problem(run, scale, task, learned)]


def _problem(run: Reproduction, scale: Scale, task: str, learned: Rows) -> Iterator[Record]:
    absent = missing_package(task)
    trials = list(zoo_trials(scale, task))
    for budget in ZOO[task]:
        here = [trial for trial in trials if trial.budget == budget]
        records = {trial.planner: run.record(trial) or {"missing": absent or "not run"} for trial in here}
        best = records["exact"]
        for trial in here:
            yield {**_about(trial), **_figures(run, trial, records[trial.planner], best)}
        found = rivals.ppo(learned, task, budget)
        rival = {"missing": rivals.not_run(rivals.PPO)} if found is None else _learned(found, best)
        yield {"task": task, "budget": budget, "planner": "ppo-lagrangian", **rival}


def _about(trial: Trial) -> Record:
    return {"task": trial.task, "budget": trial.budget, "planner": trial.planner}


def _complete(row: Record) -> Record:
    return {**{name: row[name] for name in ("task", "budget", "planner")}, **{name: row.get(name) for name in FIGURES}}


def _figures(run: Reproduction, trial: Trial, record: Record, best: Record) -> Record:
    if "missing" in record:
        return {"missing": record["missing"]}
    (reward_low, reward_high), (cost_low, cost_high) = record["reward_interval"], record["cost_interval"]
    low, high = record["violation_interval"]
    trained = None if trial.training is None else run.record(trial.training)
    return {
        "reward": record["reward_mean"],
        "reward_low": reward_low,
        "reward_high": reward_high,
        "bought": bought(record["reward_mean"], best),
        "cost": record["cost_mean"],
        "cost_low": cost_low,
        "cost_high": cost_high,
        "violations": 100 * record["violation_rate"],
        "violations_low": 100 * low,
        "violations_high": 100 * high,
        "training_seconds": None if trained is None else trained["stage_seconds"],
        "decision_ms": record["decision_ms"],
        "episodes": record["episodes"],
        "judged": record["judged"],
        "remark": record["remark"],
    }


def _learned(found: Record, best: Record) -> Record:
    return {
        **found,
        "bought": bought(found["reward"], best),
        "training_seconds": found["seconds"],
        "judged": "episodes",
        "remark": f"{found['seeds']} seeds, the lowest and the highest" if found["seeds"] > 1 else "one seed",
    }


def bought(reward: float, best: Record) -> float | None:
    """The share of what the budget buys, of the optimum minus that at the least budget; None if it is not known."""
    least = best.get("least_reward")
    if least is None:
        return None
    worth = best["reward_mean"] - least
    return None if worth < 1e-6 else float((reward - least) / worth)


def zoo_picture(run: Reproduction, scale: Scale) -> Rows:
    """The points of each problem's curve, as a planner "curve", and then the table's rows."""
    points = []
    for task in ZOO:
        record = run.record(zoo_curve(scale, task)) or {"budgets": [], "rewards": []}
        for budget, reward in zip(record["budgets"], record["rewards"], strict=True):
            about = {"task": task, "budget": budget, "planner": "curve"}
            points.append(_complete({**about, "reward": reward, "cost": budget}))
    return points + zoo(run, scale)


def avoid_maps(run: Reproduction, scale: Scale) -> Rows:
    """The benchmark's maps, if their own command was run."""
    rows = rivals.on_maps(rivals.written(run.rivals, rivals.AVOID))
    return rows or [{"kind": rivals.not_run(rivals.AVOID), **dict.fromkeys(("threshold", "planner")),
                     **dict.fromkeys(rivals.ON_MAPS_FIGURES)}]  # fmt: skip
