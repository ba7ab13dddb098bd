"""Which work each experiment needs.

Experiments share work: a curve that two of them draw is run once. The variants are "defaults", what this library does
unless told otherwise, and "paper", the paper's method and hyperparameters. A task whose name ends in `-leak` is planned
with the hidden rock values in view, as in published code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

from cmcts.extras import MissingExtra
from cmcts.reproduction import published
from cmcts.reproduction.units import OPTIONS, Cell, Curve, PlannerName, Training, Trial, Tried, Tuning, Variant, Work
from cmcts.tasks.registry import make
from cmcts.tasks.task import PaperSettings

VARIANTS: tuple[Variant, ...] = get_args(Variant)
PLANNERS: tuple[PlannerName, ...] = get_args(PlannerName)
MAPS = ("rocksample-5-7", "rocksample-7-8", "rocksample-11-11")
LARGE_MAP = "rocksample-15-15"
ABLATED = "rocksample-7-8"
# The zoo's problems, and the budgets that each is tried at. One map of either kind stands for the benchmark's maps,
# which have a command of their own.
ZOO: dict[str, tuple[float, ...]] = {
    "icu-sepsis": (1.449, 1.864, 2.556),
    "queue": (5.0,),
    "inventory": (3.0,),
    "avoid-8": (0.15,),
    "soft-avoid-8": (0.15,),
    "taxi": (0.5,),
    "frozen-lake": (0.01,),
    "lava-crossing": (0.1,),
}
TRIED: tuple[Tried, ...] = get_args(Tried)
TRADES = ("icu-sepsis", "queue", "inventory")  # problems where people do something already


@dataclass(frozen=True)
class Scale:
    """How many iterations and episodes each experiment takes, in full or for a quick look."""

    quick: bool
    iterations: tuple[int, ...]  # of the main figure
    episodes: dict[Variant, int]
    leak_iterations: tuple[int, ...]
    ablation_iterations: tuple[int, ...]
    ablation_episodes: int
    far_iterations: tuple[int, ...]  # how far CC-MCP is followed to reach C-MCTS's reward
    far_episodes: int
    large_map_episodes: int
    large_map_far: int
    gridworld_episodes: int
    gridworld_far: tuple[int, int]  # iterations and episodes of CC-MCP
    tuning_iterations: int
    grid: tuple[tuple[float, ...], tuple[float, ...]]  # alpha0, epsilon
    option_episodes: int
    zoo_episodes: int
    zoo_patients: int  # where episodes are short, and a survival more or less takes many to see
    zoo_plans: int
    zoo_points: int


FULL = Scale(
    quick=False,
    iterations=(128, 256, 512, 1024, 2048, 4096, 8192),
    episodes={"defaults": 200, "paper": published.EPISODES},
    leak_iterations=(128, 256, 512, 1024, 2048),
    ablation_iterations=(128, 512, 2048),
    ablation_episodes=published.EPISODES,
    far_iterations=(2**14, 2**16),
    far_episodes=50,
    large_map_episodes=200,
    large_map_far=2**14,
    gridworld_episodes=1000,
    gridworld_far=(2**16, 100),
    tuning_iterations=1024,
    grid=((1.0, 4.0, 8.0, 12.0), (0.1, 0.3)),
    option_episodes=500,
    zoo_episodes=300,
    zoo_patients=2000,
    zoo_plans=50,
    zoo_points=17,
)
QUICK = Scale(
    quick=True,
    iterations=(64, 128, 256),
    episodes={"defaults": 40, "paper": 20},
    leak_iterations=(64, 128),
    ablation_iterations=(64, 128),
    ablation_episodes=20,
    far_iterations=(1024,),
    far_episodes=20,
    large_map_episodes=20,
    large_map_far=512,
    gridworld_episodes=40,
    gridworld_far=(2048, 20),
    tuning_iterations=128,
    grid=((4.0, 12.0), (0.1,)),
    option_episodes=40,
    zoo_episodes=20,
    zoo_patients=50,
    zoo_plans=2,
    zoo_points=5,
)


def main_figure(scale: Scale) -> Iterator[Cell]:
    """Reward, cost and violations against planning iterations, for both variants; also peak tree depths."""
    for variant in VARIANTS:
        for task in MAPS:
            for planner in PLANNERS:
                for iterations in scale.iterations:
                    yield planner_cell(scale, task, variant, planner, iterations)


def planner_cell(scale: Scale, task: str, variant: Variant, planner: PlannerName, iterations: int) -> Cell:
    """The work behind one point of the main figure."""
    return Cell(
        task,
        variant,
        planner,
        iterations,
        scale.episodes[variant],
        training=Training(task, variant) if planner == "cmcts" else None,
        tuning=lambda_star(scale, task, variant) if planner == "penalized" else None,
    )


def lambda_star(scale: Scale, task: str, variant: Variant) -> Tuning:
    """The work that finds the multiplier for MCTS(lambda*)."""
    return Tuning(task, variant, scale.tuning_iterations, scale.ablation_episodes)


def _ablated() -> PaperSettings:
    """The paper's hyperparameters for the map that it ablates."""
    settings = make(ABLATED).paper
    assert settings is not None
    return settings


def paper_training(alpha0: float, epsilon: float) -> Training:
    """By the paper's settings on RockSample(7,8), with another alpha0 and epsilon; its own are not trained twice."""
    if (alpha0, epsilon) == (_ablated().alpha0, _ablated().epsilon):
        return Training(ABLATED, "paper")
    return Training(ABLATED, "paper", alpha0=alpha0, epsilon=epsilon)


def honesty(scale: Scale) -> Iterator[Cell]:
    """The main figure's experiment by the paper's settings, honest and with the hidden rock values in view."""
    for task in MAPS:
        for planner in PLANNERS:
            for iterations in scale.leak_iterations:
                yield planner_cell(scale, task, "paper", planner, iterations)
                yield planner_cell(scale, f"{task}-leak", "paper", planner, iterations)
            yield planner_cell(scale, task, "defaults", planner, reference_iterations(scale))


def reference_iterations(scale: Scale) -> int:
    """The number of iterations at which the paper gives numbers for C-MCTS."""
    return 128 if scale.quick else published.EQUAL_REWARD[ABLATED]["cmcts"][0]  # type: ignore[index]


@dataclass(frozen=True)
class Line:
    """One line of the ablation figure: its panel and label, and the critic it is about."""

    panel: str
    label: str
    variant: Variant
    task: str
    training: Training
    sigma_max: float | None = None


def ablation_lines(scale: Scale) -> Iterator[Line]:
    """The paper's three ablations on RockSample(7,8), each by its own alpha0 and epsilon, and by our defaults."""
    long, short = (128, 32) if scale.quick else (1024, 128)
    for variant in VARIANTS:
        paper = variant == "paper"
        for iterations in (short, long):
            own = not scale.quick and paper and iterations == _ablated().iterations
            training = Training(ABLATED, variant, None if own else iterations)
            yield Line("planning horizon", f"{iterations} iterations in training", variant, ABLATED, training)
        training = paper_training(8.0, 0.3) if paper else Training(ABLATED, variant)
        for sigma_max in (0.1, 0.5):
            yield Line("ensemble threshold", f"sigma_max = {sigma_max}", variant, ABLATED, training, sigma_max)
        for d0 in (60, 30):
            task = f"{ABLATED}-d{d0}"
            training = Training(task, variant, alpha0=1.0, epsilon=0.1) if paper else Training(task, variant)
            yield Line("simulator accuracy", f"d0 off by {d0 - 20}", variant, task, training)


def ablation(scale: Scale) -> Iterator[Cell]:
    """The work behind each line of the ablation figure: its cost and violations."""
    for line in ablation_lines(scale):
        for iterations in scale.ablation_iterations:
            yield line_cell(scale, line, iterations)


def line_cell(scale: Scale, line: Line, iterations: int) -> Cell:
    """The work behind one point of a line of the ablation figure."""
    return Cell(
        line.task, line.variant, "cmcts", iterations, scale.ablation_episodes, line.training, sigma_max=line.sigma_max
    )


def equal_reward(scale: Scale) -> Iterator[Cell]:
    """How many iterations CC-MCP needs for the reward of C-MCTS, and the large map; by our defaults."""
    for task in MAPS:
        for iterations in scale.iterations:
            for planner in ("cmcts", "cc-mcp"):
                yield planner_cell(scale, task, "defaults", planner, iterations)
        for iterations in scale.far_iterations:
            yield Cell(task, "defaults", "cc-mcp", iterations, scale.far_episodes)
    yield from large_map(scale)


def large_map(scale: Scale) -> Iterator[Cell]:
    """The work behind the large map: C-MCTS and CC-MCP on RockSample(15,15)."""
    few = 64 if scale.quick else published.EQUAL_REWARD[LARGE_MAP]["cmcts"][0]  # type: ignore[index]
    yield Cell(LARGE_MAP, "defaults", "cmcts", few, scale.large_map_episodes, Training(LARGE_MAP, "defaults"))
    for iterations in sorted({few, scale.large_map_far}):
        yield Cell(LARGE_MAP, "defaults", "cc-mcp", iterations, scale.large_map_episodes)


def safe_gridworld(scale: Scale) -> Iterator[Cell]:
    """Where the agents go, and how often they enter an unsafe square."""
    task, iterations = "safe-gridworld", 64 if scale.quick else published.SAFE_GRIDWORLD["cmcts"][0]
    far, far_episodes = scale.gridworld_far
    for variant in VARIANTS:
        training = Training(task, variant)
        yield Cell(task, variant, "cmcts", iterations, scale.gridworld_episodes, training, visits=True)
    yield Cell(task, "defaults", "cc-mcp", far, far_episodes, visits=True)
    for variant in VARIANTS:
        yield Cell(task, variant, "cc-mcp", iterations, scale.gridworld_episodes)


def grid_search(scale: Scale) -> Iterator[Cell]:
    """The grid over alpha0 and epsilon, by the paper's settings on RockSample(7,8)."""
    iterations = scale.tuning_iterations
    for alpha0 in scale.grid[0]:
        for epsilon in scale.grid[1]:
            training = paper_training(alpha0, epsilon)
            yield Cell(ABLATED, "paper", "cmcts", iterations, scale.ablation_episodes, training)


def training_cost(scale: Scale) -> Iterator[Training]:
    """Time, episodes and simulations of each critic, and its hyperparameters."""
    for variant in VARIANTS:
        for task in (*MAPS, "safe-gridworld"):
            yield Training(task, variant)
    yield Training(LARGE_MAP, "defaults")


def options(scale: Scale) -> Iterator[Cell]:
    """Each of our departures from the paper undone in turn, on three tasks."""
    for task in (ABLATED, "rocksample-11-11", "safe-gridworld"):
        iterations = 512 if task == "safe-gridworld" else 1024
        for option in OPTIONS:
            if option == "guard off" and task != "safe-gridworld":
                continue  # rollouts of RockSample spend nothing: there is nothing to guard
            cell = Training(task, "defaults", option=option)
            yield Cell(task, "defaults", "cmcts", 128 if scale.quick else iterations, scale.option_episodes, cell)


def zoo(scale: Scale) -> Iterator[Trial | Curve]:
    """Every planner on every problem of the zoo whose package is installed."""
    for task in ZOO:
        if not missing_package(task):
            yield zoo_curve(scale, task)
            yield from zoo_trials(scale, task)


def zoo_curve(scale: Scale, task: str) -> Curve:
    """What any budget buys at best, to a few times the largest that is tried."""
    return Curve(task, scale.zoo_points, 4.0 * max(ZOO[task]))


def zoo_trials(scale: Scale, task: str) -> Iterator[Trial]:
    """All planners on one problem, at each of its budgets."""
    episodes = scale.zoo_patients if task == "icu-sepsis" else scale.zoo_episodes
    training = Training(task, "defaults", frontier=True)
    for budget in ZOO[task]:
        for planner in TRIED:
            if planner != "baseline" or task in TRADES:
                trained = training if planner in ("frontier", "cmcts") else None
                plans = scale.zoo_plans if planner == "frontier" else 0
                yield Trial(task, planner, budget, episodes, plans, trained)


def missing_package(task: str) -> str:
    """What a problem needs that is not installed, in a sentence, or ""."""
    try:
        make(task)
    except MissingExtra as error:
        return str(error)
    return ""


EXPERIMENTS: dict[str, Callable[[Scale], Iterator[Cell] | Iterator[Training] | Iterator[Trial | Curve]]] = {
    "training": training_cost,
    "rocksample": main_figure,
    "honesty": honesty,
    "ablation": ablation,
    "equal-reward": equal_reward,
    "safe-gridworld": safe_gridworld,
    "grid-search": grid_search,
    "options": options,
    "zoo": zoo,
}
OURS = ("options", "zoo")  # not in the paper, and so only run when asked for by name


def work_of(names: tuple[str, ...], scale: Scale) -> list[Work]:
    """All units of work for these experiments in an order that has each before what needs it."""
    ordered: dict[Work, None] = {}
    for name in names:
        for unit in EXPERIMENTS[name](scale):
            if isinstance(unit, Cell | Trial):
                ordered.update(dict.fromkeys(unit.needs))
            ordered[unit] = None
    return list(ordered)
