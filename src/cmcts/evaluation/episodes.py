"""How good and how safe is a planner here? Episodes in a world, and what they say.

Episodes run in lockstep: all worlds wait for their next action, and the planner plans for all of them at once, over all
cores. Episode i of a seed is the same episode whatever the planner, the threads or the number of episodes, so planners
are compared on equal worlds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.devices import Device, gpu_fault, validate_device
from cmcts.errors import InvalidInput, expect
from cmcts.evaluation.recall import Recall
from cmcts.evaluation.statistics import Interval, mean_interval, rate_interval, standard_error
from cmcts.model.interface import Model
from cmcts.planning.agent import Agent, act_together
from cmcts.planning.decision import Decision
from cmcts.planning.gpu import validate_device_for
from cmcts.planning.planner import Planner
from cmcts.random import Stream, stage_seed, stream

if TYPE_CHECKING:
    import gymnasium as gym

LOCKSTEP, LOCKSTEP_ON_GPU = 256, 16384  # episodes side by side, unless it is said how many
OVERSPENT = 1e-6  # an episode is over budget if its discounted cost exceeds the budget by more than rounding

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Steps taken in a world, as columns of equal length; an episode's steps stand together, in order."""

    states: Floats  # [T, S]
    actions: NDArray[np.int32]  # [T]
    costs: Floats  # [T, M]
    rewards: Floats  # [T]
    next_states: Floats  # [T, S]
    next_actions: NDArray[np.int32]  # [T] the action that followed, decided but not taken if truncated; -1 if terminal
    terminal: NDArray[np.bool_]  # [T] the episode ended here
    last: NDArray[np.bool_]  # [T] the last step of its episode, terminal or truncated

    def __len__(self) -> int:
        return len(self.actions)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The steps as columns of a table, one row a step, for `cmcts.report.tables.write_table`."""
        first = np.concatenate([[True], self.last[:-1]])
        episode = np.cumsum(first) - 1
        begins = np.flatnonzero(first)[episode]
        return {
            "episode": episode,
            "step": np.arange(len(self)) - begins,
            **{f"state_{k}": column for k, column in enumerate(self.states.T)},
            "action": self.actions,
            "reward": self.rewards,
            **{f"cost_{m}": column for m, column in enumerate(self.costs.T)},
            **{f"next_state_{k}": column for k, column in enumerate(self.next_states.T)},
            "terminal": self.terminal,
            "last": self.last,
        }


@dataclass(frozen=True, eq=False)
class Episodes:
    """What came out of N episodes under one budget, as columns with one row an episode."""

    budget: Floats  # [M]
    rewards: Floats  # [N] discounted
    costs: Floats  # [N, M] discounted
    total_rewards: Floats  # [N] undiscounted
    total_costs: Floats  # [N, M] undiscounted
    steps: NDArray[np.int64]  # [N]
    peak_depths: NDArray[np.int64]  # [N] of the deepest tree
    nothing_safe: NDArray[np.int64]  # [N] decisions where every action was judged unsafe
    planning_seconds: Floats  # [N] summed over decisions

    def __len__(self) -> int:
        return len(self.rewards)

    @classmethod
    def concatenate(cls, parts: Sequence[Episodes]) -> Episodes:
        """The episodes of several runs under the same budget, in order."""
        columns = [field.name for field in dataclasses.fields(cls) if field.name != "budget"]
        return cls(parts[0].budget, *(np.concatenate([getattr(part, name) for part in parts]) for name in columns))

    @property
    def violations(self) -> NDArray[np.bool_]:
        """Whether each episode's discounted cost exceeded a budget."""
        return np.asarray((self.costs > self.budget + OVERSPENT).any(axis=1))

    def columns(self) -> dict[str, NDArray[Any]]:
        """The episodes as columns of a table, one row an episode, for `cmcts.report.tables.write_table`."""
        constraints = self.costs.shape[1]
        names = [""] if constraints == 1 else [f"_{m}" for m in range(constraints)]
        return {
            "episode": np.arange(len(self)),
            "reward": self.rewards,
            **{f"cost{name}": self.costs[:, m] for m, name in enumerate(names)},
            "total_reward": self.total_rewards,
            **{f"total_cost{name}": self.total_costs[:, m] for m, name in enumerate(names)},
            "over_budget": self.violations.astype(np.int64),
            "steps": self.steps,
            "peak_depth": self.peak_depths,
            "nothing_safe": self.nothing_safe,
            "planning_seconds": self.planning_seconds,
        }

    def summary(self) -> Summary:
        """Means with standard errors and 95 % intervals."""
        worst = int(np.argmax(self.costs.mean(axis=0) - self.budget))
        cost = self.costs[:, worst]
        decisions = int(self.steps.sum())
        violations = int(self.violations.sum())
        return Summary(
            episodes=len(self),
            reward_mean=float(self.rewards.mean()),
            reward_se=standard_error(self.rewards),
            reward_interval=_bounds(mean_interval(self.rewards)),
            total_reward_mean=float(self.total_rewards.mean()),
            cost_mean=float(cost.mean()),
            cost_se=standard_error(cost),
            cost_interval=_bounds(mean_interval(cost)),
            cost_means=self.costs.mean(axis=0).tolist(),
            cost_ses=[standard_error(column) for column in self.costs.T],
            cost_intervals=[_bounds(mean_interval(column)) for column in self.costs.T],
            cost_violations=(self.costs > self.budget + OVERSPENT).sum(axis=0).tolist(),
            total_cost_means=self.total_costs.mean(axis=0).tolist(),
            violation_rate=violations / len(self),
            violation_interval=rate_interval(violations, len(self)),
            violations=violations,
            steps_mean=float(self.steps.mean()),
            peak_depth_mean=float(self.peak_depths.mean()),
            decision_ms=float(1e3 * self.planning_seconds.sum() / decisions),
            nothing_safe_rate=float(self.nothing_safe.sum() / decisions),
        )


@dataclass(frozen=True)
class Summary:
    """What episodes say about a planner. Intervals are at 95 %; None where a single episode says nothing of the next.

    Reward and costs are discounted, but for the totals. `cost_mean`, `cost_se` and `cost_interval` are those of the
    constraint closest to, or furthest over, its budget; the lists have one entry a constraint.
    """

    episodes: int
    """How many."""
    reward_mean: float
    """Mean reward of an episode."""
    reward_se: float
    """Standard error of the mean reward."""
    reward_interval: Interval | None
    """Where the true mean reward lies."""
    total_reward_mean: float
    """Mean reward without discount."""
    cost_mean: float
    """Mean cost of an episode."""
    cost_se: float
    """Standard error of the mean cost."""
    cost_interval: Interval | None
    """Where the true mean cost lies."""
    cost_means: list[float]
    """Mean cost, of every constraint."""
    cost_ses: list[float]
    """Standard errors of the mean costs."""
    cost_intervals: list[Interval | None]
    """Where the true mean costs lie."""
    cost_violations: list[int]
    """Episodes over the budget, of every constraint by itself."""
    total_cost_means: list[float]
    """Mean costs without discount."""
    violation_rate: float
    """Share of the episodes that were over a budget."""
    violation_interval: Interval
    """Where the true rate lies."""
    violations: int
    """Episodes over a budget."""
    steps_mean: float
    """Mean length of an episode."""
    peak_depth_mean: float
    """Mean depth of an episode's deepest tree."""
    decision_ms: float
    """Milliseconds a decision."""
    nothing_safe_rate: float
    """Share of the decisions where every action was judged unsafe."""

    def to_dict(self) -> dict[str, Any]:
        """By name, for JSON: intervals become lists there."""
        return dataclasses.asdict(self)


def _bounds(interval: Interval) -> Interval | None:
    """For JSON, which has no infinity: one episode says nothing about the next."""
    return interval if np.isfinite(interval.low) else None


def world_seed(seed: int, episode: int) -> int:
    """The seed that the world of an episode is reset with; it depends on `seed` and the episode's number alone."""
    return int(np.random.SeedSequence((seed, episode), spawn_key=(0,)).generate_state(1)[0])


def player_stream(seed: int, episode: int) -> Stream:
    """The random stream of the agent that plays an episode, by the same two numbers."""
    return stream(np.random.SeedSequence((seed, episode), spawn_key=(1,)))


class EpisodePolicy(Protocol):
    """What plays episodes by several planners: which one is decided before the first step, and kept to the last."""

    @property
    def model(self) -> Model:
        """What is simulated."""

    def agent(self, *, rng: Stream, iterations: int | None, seconds: float | None) -> Agent:
        """An agent for one episode."""


def run_episodes(
    planner: Planner | EpisodePolicy,
    make_world: Callable[[], gym.Env[Any, Any]],
    budget: ArrayLike,
    *,
    episodes: int,
    seed: int,
    iterations: int | None = None,
    seconds: float | None = None,
    first_episode: int = 0,
    threads: int | None = None,
    device: Device = "cpu",
    lockstep: int | None = None,
    random_actions: float = 0.0,
    plans_a_state: int | Recall | None = None,
    on_steps: Callable[[int, int], None] | None = None,
) -> tuple[Episodes, Transitions]:
    """Run episodes number `first_episode` ... of `seed`; `on_steps(decisions, finished)` hears of progress.

    `random_actions` is the share of steps that take a random legal action instead, for gathering data. `device` says
    where it is planned, as in `Planner.plan_batch`, and `lockstep` how many episodes go side by side. With
    `plans_a_state`, a state that comes up more often is decided on by one of so many plans (recall.py); what was
    planned before is there if it is a `Recall`.
    """
    if isinstance(planner, Planner):
        validate_device_for(planner, device)
    validate_device(device)
    if device != "cpu":
        device = "cpu" if gpu_fault() else "auto"  # when few episodes are left, the cores are sooner done with them
    if lockstep is None:
        lockstep = LOCKSTEP if device == "cpu" else LOCKSTEP_ON_GPU
    expect(isinstance(episodes, int) and episodes >= 1, "episodes >= 1", episodes)
    expect(isinstance(seed, int) and seed >= 0, "a seed >= 0", seed)
    budgets = planner.model.validate_costs(budget, "budget")
    decide: Callable[[Sequence[Agent], Floats, int | None, Device], list[Decision]] = act_together
    if plans_a_state is not None:
        decide = remembering(plans_a_state, seed, first_episode).act_together
    recorders: list[_Episode] = []
    for begin in range(0, episodes, lockstep):
        worlds = _one_by_one(make_world)
        block = [
            _Episode(planner, next(worlds), budgets, seed, first_episode + index, iterations, seconds, random_actions)
            for index in range(begin, min(begin + lockstep, episodes))
        ]
        recorders += block
        running = block
        while running:
            decisions = decide([e.agent for e in running], np.stack([e.state for e in running]), threads, device)
            for episode, decision in zip(running, decisions, strict=True):
                episode.take(decision)
            still = [episode for episode in running if not episode.done]
            if on_steps:
                on_steps(len(running), len(running) - len(still))
            running = still
        for episode in block:
            episode.world.close()
    return _episodes(budgets, recorders), _transitions(planner, recorders)


def remembering(plans: int | Recall, seed: int, first_episode: int) -> Recall:
    """A memory for the plans of these episodes, which parts of them can share."""
    return plans if isinstance(plans, Recall) else Recall(plans, stage_seed(seed, first_episode))


def _one_by_one(make_world: Callable[[], Any]) -> Iterator[gym.Env[Any, Any]]:
    """Worlds, one at a time; a vectorised one is split into those it holds, so that each episode has its own seed."""
    from cmcts.model.from_env import single_environments

    while True:
        yield from single_environments(make_world())


class _Episode:
    """One episode under way: its world, its agent, and what it has seen."""

    def __init__(
        self,
        planner: Planner | EpisodePolicy,
        world: gym.Env[Any, Any],
        budget: Floats,
        seed: int,
        index: int,
        iterations: int | None,
        seconds: float | None,
        random_actions: float,
    ) -> None:
        self.world = world
        rng = player_stream(seed, index)
        if isinstance(planner, Planner):
            self.agent = Agent(planner, budget, rng=rng, iterations=iterations, seconds=seconds)
        else:
            self.agent = planner.agent(rng=rng, iterations=iterations, seconds=seconds)
        self.random_actions = random_actions
        self.dice = np.random.default_rng(np.random.SeedSequence((seed, index), spawn_key=(2,)))
        observation, _ = world.reset(seed=world_seed(seed, index))
        self.state = np.asarray(observation, np.float64)
        self.rows: list[tuple[Floats, int, Floats, float]] = []
        self.decisions: list[tuple[int, bool, float]] = []
        self.terminal = self.truncated = self.done = False
        self.final_action = -1

    def take(self, decision: Decision) -> None:
        """Step the world, and show the agent what it cost."""
        if self.random_actions > 0 and self.dice.random() < self.random_actions:
            decision = self.agent.override(int(self.dice.choice(np.flatnonzero(decision.legal))))
        if self.truncated:
            # One decision more than there are steps: a truncated episode's last step is learned with a bootstrap.
            self.final_action, self.done = decision.action, True
            return
        observation, reward, terminated, truncated, info = self.world.step(decision.action)
        if "cost" not in info:
            raise InvalidInput(f'expected the world to report info["cost"], got keys {sorted(info)}')
        costs = self.agent.planner.model.validate_costs(info["cost"], 'info["cost"]')
        expect(math.isfinite(float(reward)), "a finite reward from the world", reward)
        self.rows.append((self.state, decision.action, costs, float(reward)))
        self.decisions.append((decision.tree_depth, decision.nothing_safe, decision.seconds))
        self.agent.observe(costs)
        self.state = np.asarray(observation, np.float64)
        self.terminal = self.done = bool(terminated)
        self.truncated = bool(truncated) and not self.terminal

    def returns(self) -> tuple[float, Floats, float, Floats]:
        """Discounted reward and costs, each by its own discount, and the same undiscounted."""
        planner, times = self.agent.planner, np.arange(len(self.rows))
        weights = planner.search.discount**times
        rewards = np.array([row[3] for row in self.rows])
        costs = np.array([row[2] for row in self.rows])
        discounted = np.array([(gamma**times @ costs)[m] for m, gamma in enumerate(planner.cost_discounts.tolist())])
        return float(weights @ rewards), discounted, float(rewards.sum()), costs.sum(axis=0)


def _episodes(budget: Floats, recorders: Sequence[_Episode]) -> Episodes:
    returns = [episode.returns() for episode in recorders]
    return Episodes(
        budget=budget,
        rewards=np.array([row[0] for row in returns]),
        costs=np.array([row[1] for row in returns]),
        total_rewards=np.array([row[2] for row in returns]),
        total_costs=np.array([row[3] for row in returns]),
        steps=np.array([len(episode.rows) for episode in recorders]),
        peak_depths=np.array([max(depth for depth, _, _ in episode.decisions) for episode in recorders]),
        nothing_safe=np.array([sum(unsafe for _, unsafe, _ in episode.decisions) for episode in recorders]),
        planning_seconds=np.array([sum(seconds for _, _, seconds in episode.decisions) for episode in recorders]),
    )


def _transitions(planner: Planner | EpisodePolicy, recorders: Sequence[_Episode]) -> Transitions:
    rows = [row for episode in recorders for row in episode.rows]
    ends = np.cumsum([len(episode.rows) for episode in recorders]) - 1
    states = np.array([row[0] for row in rows])
    actions = np.array([row[1] for row in rows], np.int32)
    last = np.zeros(len(rows), np.bool_)
    last[ends] = True
    terminal = np.zeros(len(rows), np.bool_)
    terminal[ends] = [episode.terminal for episode in recorders]
    next_states = np.roll(states, -1, axis=0)
    next_states[ends] = [episode.state for episode in recorders]
    next_actions = np.roll(actions, -1)
    next_actions[ends] = [episode.final_action for episode in recorders]
    costs = np.array([row[2] for row in rows]).reshape(len(rows), planner.model.cost_count)
    rewards = np.array([row[3] for row in rows])
    return Transitions(states, actions, costs, rewards, next_states, next_actions, terminal, last)
