"""How long a whole training takes: by a first look at the task, and then by the stages that are done.

Nobody knows beforehand how many rounds it takes, how many columns a frontier wants, or which evaluations can stop
early. So there is a list of the stages that are *likely*, with the work in each of them. A first look says how fast
work is done. From then on, each stage that is done says it better: of its own kind by its seconds, of kinds that are
still to come by its pace. It is a rough estimate, and should be called one.

The first look takes part of a second once the search is compiled, in a world of its own: no stage depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import Any, Literal

import numpy as np

from cmcts.evaluation.episodes import world_seed
from cmcts.evaluation.walks import LONGEST, rollout_policy
from cmcts.frontier.measuring import CHOOSING_STEPS, CONFIRMING_STEPS
from cmcts.model.from_env import single_environments
from cmcts.model.interface import Model
from cmcts.planning.planners import PenalizedMCTS
from cmcts.tasks.task import Task
from cmcts.training.exploration import EPISODES as EXPLORING_EPISODES
from cmcts.training.settings import TrainingSettings
from cmcts.training.stages import SCALE_STEPS

Work = Literal["walk", "search", "fit"]  # counted in steps, simulations and gradient steps
Part = Literal["data", "round", "choice", "columns", "confirmation"]
PARTS: tuple[Part, ...] = ("data", "round", "choice", "columns", "confirmation")  # of a training, in order
ROUND = ("gather", "explore", "fit", "evaluate")  # what a round is made of, in order

STEPS, SECONDS_OF_STEPS, SECONDS = 200, 1.0, 0.1  # of a first look: how far it walks at most, how long it searches
GRADIENT_STEP = 1.5e-3  # seconds of one, until a fit has said better
GUARDED = 2.0  # a search that asks a critic takes so many times as long, until one has said better
RECENT = 12  # stages, of which all but the longest are believed: that one may have waited for a compiler
MORE_ROUNDS = 2  # than patience asks for
COLUMNS, CHOSEN, CONFIRMED = 0.25, 0.6, 0.6  # shares: of the columns there is room for, and what becomes of these
VALUE_FITS = 4  # of leaf values, where there are any


@dataclass(frozen=True)
class FirstLook:
    """What a few steps and plans say of a task's speed."""

    simulations: float  # a second, of the plain search on one core
    step_seconds: float  # of the training world
    episode_steps: float  # of random episodes, which need not be as long as planned ones


def first_look(task: Task, seed: int = 0, seconds: float = SECONDS) -> FirstLook:
    """Search for so many seconds once that is compiled, and walk a little in the training world."""
    return FirstLook(search_speed(task.model, task, seed, seconds), *pace_of_walks(task, seed))


def search_speed(model: Model, task: Task | None, seed: int, seconds: float) -> float:
    """Simulations a second of the plain search on one core, once it is compiled or known not to be."""
    planner = PenalizedMCTS(model, [1.0] * model.cost_count, task.search if task else None)
    budget = task.budget if task else [1.0] * model.cost_count
    planner.plan(model.start_state(seed), budget, iterations=1)
    decision = planner.plan(model.start_state(seed), budget, seconds=seconds)
    return decision.iterations / decision.seconds


def pace_of_walks(task: Task, seed: int) -> tuple[float, float]:
    """Seconds a step of the training world, and steps an episode, where nobody plans."""
    policy, dice = rollout_policy(task.model, seed), np.random.default_rng(seed)
    world = single_environments(task.training_world())[0]
    steps = ended = 0
    over, left = True, SECONDS_OF_STEPS
    while steps < STEPS and left > 0:
        if over:
            state = np.asarray(world.reset(seed=world_seed(seed, ended))[0], np.float64)
        legal = task.model.legal(state)
        action = int(dice.choice(legal)) if policy is None else policy(state)
        began = perf_counter()
        state, _, terminated, truncated, _ = world.step(action if action in legal else int(legal[0]))
        if steps > 0:  # the first may wait for a compiler
            left -= perf_counter() - began
        state, over = np.asarray(state, np.float64), bool(terminated or truncated)
        steps, ended = steps + 1, ended + over
    world.close()
    timed = max(steps - 1, 1)
    return (SECONDS_OF_STEPS - left) / timed, steps / ended if ended else max(steps, LONGEST)


@dataclass(frozen=True)
class Kind:
    """The stages of one kind that a training is likely to have."""

    name: str
    part: Part
    work: Work
    stages: float  # how many of them; of a round's, in each round
    units: float  # of work in each


def likely_kinds(
    task: Task, settings: TrainingSettings, episode_steps: float, *, watched: bool, earlier: int = 0
) -> list[Kind]:
    """All kinds of stages, in order, as they are likely where episodes take so many steps."""

    def steps_of(episodes: int, most: float) -> float:
        return min(episodes * episode_steps, most)

    def evaluating(most: float) -> float:
        return steps_of(settings.evaluation_episodes, most) * settings.iterations

    frontier, search = settings.frontier, settings.search
    columns = COLUMNS * frontier.columns
    simulations = search.iterations * frontier.search_factors[0]
    judged, walk_steps = settings.evaluation_steps, settings.walk_steps
    explores = settings.choose_exploration and search.exploration is None and task.model_is_exact
    scaled = settings.relative_costs and task.cost_scale is None
    listed = task.training_model is not None and task.training_model.outcomes is not None
    values = frontier.values and columns > 0 and (listed or not task.model.has_rollout_action)
    choosing = frontier.choosing_episodes - frontier.screening_episodes
    return [
        Kind("scale", "data", "walk", float(scaled), SCALE_STEPS),
        Kind("walk", "data", "walk", float(walk_steps > 0), walk_steps),
        Kind("watch", "data", "walk", float(watched), walk_steps or settings.steps_per_multiplier),
        Kind(
            "gather",
            "round",
            "search",
            (1 + settings.multiplier.max_updates) / 2,
            settings.steps_per_multiplier * settings.iterations,
        ),
        Kind("explore", "round", "search", 3.0 * explores, EXPLORING_EPISODES * episode_steps * settings.iterations),
        Kind("fit", "round", "fit", 1.0, settings.critic.steps),
        Kind("evaluate", "round", "search", min(2.0, len(settings.tolerances)), evaluating(judged) * GUARDED),
        Kind("confirm", "choice", "search", 1.0, evaluating(2 * judged) * GUARDED),
        Kind("earlier", "choice", "search", float(earlier), evaluating(2 * judged) * GUARDED),
        Kind("untrained", "choice", "search", float(settings.untrained), evaluating(2 * judged)),
        Kind("screen", "columns", "search", columns, frontier.screening_episodes * episode_steps * simulations),
        Kind("choose", "columns", "search", CHOSEN * columns, steps_of(choosing, CHOOSING_STEPS) * simulations),
        Kind("learn", "columns", "fit", VALUE_FITS * float(values), frontier.value_steps),
        Kind(
            "confirm column",
            "confirmation",
            "search",
            CONFIRMED * columns,
            steps_of(frontier.confirming_episodes, CONFIRMING_STEPS) * simulations,
        ),
    ]


class Forecast:
    """The seconds that a training still takes; it hears of its stages as a `Reporter` does.

    `workers` search side by side: cores, or the slots of a cluster. `watched` if it walks with a policy that is to be
    watched; `earlier` critics are compared with its own. Stages of an earlier life of the run are told by `history`;
    they are not told again.
    """

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        look: FirstLook,
        workers: int,
        *,
        watched: bool = False,
        earlier: int = 0,
        history: Iterable[dict[str, Any]] = (),
    ) -> None:
        self._task, self._settings, self._watched, self._earlier = task, settings, watched, earlier
        self._episode_steps = look.episode_steps
        decision = settings.iterations / look.simulations / workers + look.step_seconds
        self._paces: dict[Work, list[float]] = {"walk": [], "search": [], "fit": []}  # seconds a unit
        self._first_paces: dict[Work, float] = {
            "walk": look.step_seconds,
            "search": decision / settings.iterations,
            "fit": GRADIENT_STEP,
        }
        self._seconds: dict[str, list[float]] = {}  # of the stages that are done, by their kind
        self._rounds: dict[str, list[int]] = {}  # which rounds they were of
        self._part, self._round, self._step = 0, 0, 0  # where the training is: in PARTS, its round, its step in ROUND
        self._under_way, self._share = "", 0.0  # the kind of stage, and how much of it is done
        self._total = 1
        for record in history:
            self.finish(record, resumed=False)
        self._begun = bool(self._seconds)

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """A stage begins, or its next leg: what follows the tables of a column takes no time beside them."""
        if phase == "tabulate":
            phase = "screen"
        name = _kind_of({"phase": phase, **figures})
        self._share = 1.0 if self._under_way == name else 0.0
        self._under_way, self._total = name, max(total, 1)
        self._reach(name, figures.get("round", 0))

    def advance(self, units: int, **figures: Any) -> None:
        """Some of it is done."""
        self._share = min(1.0, self._share + units / self._total)

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """A stage is done; one that was done in an earlier life of the run is known already."""
        if resumed:
            return
        name, round_, seconds = _kind_of(record), record.get("round", 0), float(record.get("seconds", 0.0))
        self._reach(name, round_)
        self._under_way, self._share = "", 0.0
        self._seconds.setdefault(name, []).append(seconds)
        self._rounds.setdefault(name, []).append(round_)
        if name == "gather":
            self._episode_steps = record["steps"] / record["episodes"]
        kind = next((kind for kind in self._kinds() if kind.name == name), None)
        if kind is not None and (units := self._units_of(record, kind)) > 0:
            self._paces[kind.work].append(seconds / units)

    @property
    def left(self) -> float:
        """Seconds until the training is done."""
        total = 0.0
        for kind in self._kinds():
            seconds, stages = self._seconds_of(kind), self._stages_left(kind)
            if kind.name == self._under_way:
                total += (1.0 - self._share) * seconds
                stages = max(stages - 1.0, 0.0)
            total += stages * seconds
        return total

    def in_words(self) -> str:
        """What is to be said before a run begins, or goes on."""
        if self._begun:
            return f"{about(self.left)} left, by what was done before"
        return f"{about(self.left)} in all, by a first look; how many rounds and columns it takes, nobody knows yet"

    @property
    def a_round(self) -> float:
        """Seconds of a round, after the first."""
        return sum(k.stages * self._seconds_of(k) for k in self._kinds() if k.part == "round" and k.name != "explore")

    def _kinds(self) -> list[Kind]:
        task, settings, steps = self._task, self._settings, self._episode_steps
        return likely_kinds(task, settings, steps, watched=self._watched, earlier=self._earlier)

    def _reach(self, name: str, round_: int) -> None:
        """The training has come as far as this kind of stage."""
        part = next((kind.part for kind in self._kinds() if kind.name == name), None)
        if part is None:
            return
        self._part = max(self._part, PARTS.index(part))
        if part == "round":
            place = (round_, ROUND.index(name))
            self._round, self._step = max((self._round, self._step), place)

    def _stages_left(self, kind: Kind) -> float:
        """How many stages of a kind are still to come, with the one under way."""
        if PARTS.index(kind.part) < self._part:
            return 0.0
        done, screened = self._rounds.get(kind.name, []), len(self._rounds.get("screen", []))
        room = COLUMNS * max(self._settings.frontier.columns - screened, 0)
        if kind.name == "screen":
            return room
        if kind.name == "choose":
            return room * (len(done) + CHOSEN) / (screened + 1)
        if kind.name == "confirm column":
            confirming = PARTS[self._part] == "confirmation"
            return max(CONFIRMED * screened - len(done), 1.0) if confirming else CONFIRMED * (screened + room)
        if kind.part != "round":
            return max(kind.stages - len(done), 0.0)
        step, now = ROUND.index(kind.name), self._round
        if kind.name == "explore":
            over = now > 0 or step < self._step
            return 0.0 if over else max(kind.stages - len(done), 0.0)
        # Rounds are alike: those before this one say how many stages the others have.
        usual = sum(round_ < now for round_ in done) / now if now else kind.stages
        here = 0.0 if step < self._step else max(usual - done.count(now), 0.0)
        likely = min(self._settings.max_rounds, self._settings.patience + MORE_ROUNDS)
        return here + usual * max(likely - now - 1, 0)

    def _seconds_of(self, kind: Kind) -> float:
        """Seconds of a stage of this kind: as the last ones took, else by the pace of others that do the same work."""
        done = self._seconds.get(kind.name, [])
        if len(done) > 1:
            return _usual(done)
        paces = [self._first_paces[kind.work], *self._paces[kind.work]]
        return min([kind.units * _usual(paces), *done])

    def _units_of(self, record: dict[str, Any], kind: Kind) -> float:
        """The work that was done in a stage."""
        if kind.work == "walk":
            return float(record.get("walked", 0))
        if kind.work == "fit":
            return kind.units
        guarded = GUARDED if kind.name in ("evaluate", "confirm") else 1.0
        return float(record.get("simulations", guarded * self._settings.iterations * record.get("steps", 0)))


def _usual(numbers: list[float]) -> float:
    """The mean of the latest, without the largest."""
    latest = sorted(numbers[-RECENT:])
    return fmean(latest[:-1] or latest)


def about(seconds: float) -> str:
    """A rough time in words."""
    if seconds < 100:
        return f"about {max(seconds, 1):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 6000 else f"about {seconds / 3600:.0f} h"


def _kind_of(record: dict[str, Any]) -> str:
    """The kind of a stage, by its record: critics and columns are both confirmed."""
    phase = str(record["phase"])
    return "confirm column" if phase == "confirm" and "column" in record else phase
