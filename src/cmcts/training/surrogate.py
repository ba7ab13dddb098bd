"""Learning a world from its own steps: data by wandering, and an ensemble that predicts the next one, in JAX.

Actions are random and sticky, so that lanes are changed and speeds reached; later rounds let a planner that searches on
what has been learnt so far choose some of them, so that the data shows where planners go. Each member sees minibatches
of its own. A tenth of the episodes is held out, and says how good the result is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.critic.identity import model_digest
from cmcts.devices import cores
from cmcts.errors import InvalidInput, expect
from cmcts.files import read_plain, write_atomically
from cmcts.model.interface import Model
from cmcts.model.surrogate import FORMAT, Description, HeldOut, SurrogateParams, simulator_of, surrogate_model
from cmcts.planning.parallel import forked_map
from cmcts.planning.planners import PenalizedMCTS
from cmcts.random import stage_seed
from cmcts.tasks.task import Task
from cmcts.training.learning import Member, export, initial_ensemble, make_optimiser

_UNIT = 100  # steps that one process gathers at a time
_MAX_BYTES = 1 << 32
_CHUNK = 500  # gradient steps between two reports


@dataclass(frozen=True)
class SurrogateSettings:
    """How a world is learnt."""

    steps: int = 4000
    """Steps to take in the world."""
    rounds: int = 2
    """In so many goes; from the second on, a planner that searches on what was learnt chooses half of the actions."""
    sticky: float = 0.5
    """How often a random action repeats the last one."""
    members: int = 5
    """Perceptrons in the ensemble."""
    hidden: int = 64
    """Units in each of their two hidden layers."""
    updates: int = 6000
    """Gradient steps of the last fit; the others take half as many."""
    batch: int = 128
    """Steps of the world in each."""
    learning_rate: float = 1e-3
    """Of the first gradient step; it falls to a hundredth along a cosine."""
    held_out: float = 0.1
    """Share of the data that is kept for the error that is reported."""
    seed: int = 0
    """Everything random follows from it."""

    def __post_init__(self) -> None:
        for name in ("steps", "rounds", "members", "hidden", "updates", "batch"):
            value = getattr(self, name)
            expect(isinstance(value, int) and value >= 1, f"{name} >= 1", value)
        expect(self.steps >= 10 * self.rounds, f"steps >= {10 * self.rounds}", self.steps)
        expect(0 <= self.sticky < 1, "sticky in [0, 1)", self.sticky)
        expect(0 < self.held_out < 1, "held_out between 0 and 1", self.held_out)
        expect(self.learning_rate > 0, "learning_rate > 0", self.learning_rate)


class Steps(NamedTuple):
    """Steps of a world, B rows; `first` are those that begin an episode."""

    states: NDArray[np.float64]  # [B, S]
    actions: NDArray[np.int64]  # [B]
    next_states: NDArray[np.float64]  # [B, S]
    rewards: NDArray[np.float64]  # [B]
    costs: NDArray[np.float64]  # [B, M]
    ends: NDArray[np.bool_]  # [B]
    first: NDArray[np.bool_]  # [B]
    units: NDArray[np.int64]  # [B] which unit of work they come from


def learn(
    task: Task,
    settings: SurrogateSettings,
    report: Callable[[str, float], None] = lambda what, share: None,
    folder: Path | None = None,
) -> tuple[SurrogateParams, Description]:
    """Learn the world that a task's model, made by `Model.from_env`, simulates.

    With a folder, steps are written there as they are taken, and a run that was interrupted goes on with them.
    """
    model = task.model
    size = int(simulator_of(model).observation_size)
    memory = _Memory(folder, task, settings)
    params: SurrogateParams | None = None
    for stage in range(settings.rounds):
        guide = None if params is None else surrogate_model(params, model)
        gather(task, guide, settings, stage, memory, report)
        data = memory.all()
        last = stage == settings.rounds - 1
        params, held = fit(data, size, model, settings, settings.updates if last else settings.updates // 2, report)
    assert params is not None
    return params, Description(FORMAT, task.name, model.action_count, model.cost_count, len(data.states), held)


def gather(
    task: Task,
    guide: Model | None,
    settings: SurrogateSettings,
    stage: int,
    memory: _Memory,
    report: Callable[[str, float], None],
) -> None:
    """Take a round's steps in the training world, in processes; each unit of them depends on its number alone."""
    count = -(-(settings.steps // settings.rounds) // _UNIT)
    numbers = [stage * count + k for k in range(count)]
    left = [number for number in numbers if number not in memory.units]
    if guide is not None and left:  # compiled here, once, and not in every process
        _planner(task, guide).plan(guide.start_state(), task.budget, iterations=1)
    while left:
        block, left = left[: 2 * cores()], left[2 * cores() :]
        found = forked_map(partial(_wander, task, guide, settings, block), len(block), cores())
        memory.keep(dict(zip(block, found, strict=True)))
        report(f"round {stage + 1}: steps in the world", 1.0 - len(left) / count)


class _Memory:
    """The steps that were taken, by the number of their unit, and on disk if there is a folder."""

    def __init__(self, folder: Path | None, task: Task, settings: SurrogateSettings) -> None:
        self.file = None if folder is None else folder / "steps.safetensors"
        about = {"task": task.name, "model": model_digest(task.model), "settings": asdict(settings)}
        self.about = np.frombuffer(json_settings.dump(about), np.uint8)
        self.units: dict[int, Steps] = {}
        if self.file is not None and self.file.exists():
            self._load(read_plain(self.file, _MAX_BYTES))

    def all(self) -> Steps:
        """Everything, in the order of the units."""
        units = [self.units[number] for number in sorted(self.units)]
        return Steps(*(np.concatenate([getattr(unit, name) for unit in units]) for name in Steps._fields))

    def keep(self, found: dict[int, Steps]) -> None:
        """Add units, and write all of them."""
        from safetensors.numpy import save

        self.units |= found
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            arrays: dict[str, NDArray[Any]] = {"about": self.about, **self.all()._asdict()}
            write_atomically(self.file, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))

    def _load(self, content: bytes) -> None:
        """What a file holds, if it is of the same task and settings; else it will be written anew."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = dict(load(content))
            about = arrays.pop("about")
            steps = Steps(**arrays)
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"expected {self.file} to hold steps, got something else: {error}") from None
        if np.array_equal(about, self.about):
            for number in np.unique(steps.units).tolist():
                self.units[number] = Steps(*(column[steps.units == number] for column in steps))


def _wander(task: Task, guide: Model | None, settings: SurrogateSettings, block: list[int], k: int) -> Steps:
    """One unit of steps: random and sticky, half of them a planner's if there is a model to search on."""
    from cmcts.model.from_env import single

    number, size = block[k], int(simulator_of(task.model).observation_size)
    dice = np.random.default_rng(stage_seed(settings.seed, 1, number))
    planner = None if guide is None else _planner(task, guide)
    world = single(task.training_world())
    rows: list[tuple[Any, ...]] = []
    state, action, first = None, 0, True
    for _ in range(_UNIT):
        if state is None:
            state = world.reset(seed=int(dice.integers(2**31)))[0][:size]
            first = True
        if planner is not None and dice.random() < 0.5:
            action = planner.plan(state, task.budget, rng=int(dice.integers(2**31))).action
        elif first or dice.random() >= settings.sticky:
            action = int(dice.integers(task.model.action_count))
        row, reward, ended, truncated, info = world.step(action)
        costs = np.atleast_1d(np.asarray(info["cost"], np.float64))
        rows.append((state, action, row[:size], float(reward), costs, bool(ended), first, number))
        state, first = (None if ended or truncated else row[:size]), False
    world.close()
    return Steps(*(np.array(column) for column in zip(*rows, strict=True)))


def _planner(task: Task, guide: Model) -> PenalizedMCTS:
    """Quick rather than good: it shows where planners go."""
    search = replace(
        task.search,
        iterations=min(64, task.search.iterations),
        horizon=min(20, task.search.steps_ahead(guide.cost_count)),
    )
    return PenalizedMCTS(guide, [task.penalty] * guide.cost_count, search)


def fit(
    data: Steps,
    size: int,
    model: Model,
    settings: SurrogateSettings,
    updates: int,
    report: Callable[[str, float], None],
) -> tuple[SurrogateParams, HeldOut]:
    """A fresh ensemble, fitted to all but the held-out units, and how well it does on those."""
    actions, constraints = model.action_count, model.cost_count
    changes = data.next_states - data.states
    paid = np.column_stack([data.rewards, data.costs])
    mean, scale = _standard(data.states)
    change_mean, change_scale = _standard(changes[~data.ends] if (~data.ends).any() else changes)
    paid_mean, paid_scale = _standard(paid)
    output_mean = np.concatenate([change_mean, paid_mean, paid_mean, [0.0]]).astype(np.float32)
    output_scale = np.concatenate([change_scale, paid_scale, paid_scale, [1.0]]).astype(np.float32)
    inputs = np.column_stack([(data.states - mean) / scale, np.eye(actions)[data.actions]]).astype(np.float32)
    wanted = np.column_stack([(changes - change_mean) / change_scale, (paid - paid_mean) / paid_scale, data.ends])
    units = np.unique(data.units)
    rng = np.random.default_rng(stage_seed(settings.seed, 2))
    apart = rng.choice(units, max(1, round(settings.held_out * len(units))), replace=False)
    held = np.isin(data.units, apart)
    expect(bool((~held).any()), "more data than what is held out", "none")
    sizes = (size + actions, settings.hidden, settings.hidden, size + 2 * (1 + constraints) + 1)
    layers = _fitted(inputs[~held], wanted[~held].astype(np.float32), sizes, size, settings, updates, report)
    everything = np.column_stack([np.vstack([data.states, data.next_states]), np.vstack([paid, paid])])
    (w1, b1), (w2, b2), (w3, b3) = layers
    params = SurrogateParams(
        w1, b1, w2, b2, w3, b3,
        mean.astype(np.float32),
        scale.astype(np.float32),
        output_mean,
        output_scale,
        everything.min(axis=0),
        everything.max(axis=0),
        data.states[data.first],
    )  # fmt: skip
    return params, _held_out(layers, inputs[held], wanted[held], paid_scale, size)


def _standard(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and scale; what never varies has scale 1."""
    spread = values.std(axis=0)
    return values.mean(axis=0), np.where(spread > 1e-6, spread, 1.0)


def _fitted(
    inputs: NDArray[np.float32],
    wanted: NDArray[np.float32],
    sizes: tuple[int, ...],
    size: int,
    settings: SurrogateSettings,
    updates: int,
    report: Callable[[str, float], None],
) -> Any:
    key, begin = jax.random.split(jax.random.key(stage_seed(settings.seed, 3) % 2**31))
    ensemble = initial_ensemble(sizes, settings.members, begin)
    optimiser = make_optimiser(settings.learning_rate, updates)
    state = optimiser.init(eqx.filter(ensemble, eqx.is_array))
    x, y = jnp.asarray(inputs), jnp.asarray(wanted)

    @eqx.filter_jit
    def run(ensemble: Member, state: Any, keys: Any) -> Any:
        def one(carry: Any, step_key: Any) -> Any:
            ensemble, state = carry
            picks = jax.random.randint(step_key, (settings.members, settings.batch), 0, len(x))
            gradient = eqx.filter_grad(_loss)(ensemble, x[picks], y[picks], size)  # type: ignore[no-untyped-call]
            change, state = optimiser.update(gradient, state)
            return (eqx.apply_updates(ensemble, change), state), None

        return jax.lax.scan(one, (ensemble, state), keys)[0]

    keys = jax.random.split(key, updates)
    for done in range(0, updates, _CHUNK):
        ensemble, state = run(ensemble, state, keys[done : done + _CHUNK])
        report("fitting", min(1.0, (done + _CHUNK) / updates))
    return export(ensemble)


def _loss(ensemble: Member, inputs: Any, wanted: Any, size: int) -> Any:
    """Squared errors of what happened, going on or ending, and the log loss of which; inputs [E, B, I]."""
    outputs = eqx.filter_vmap(lambda member, rows: jax.vmap(member)(rows))(ensemble, inputs)
    ends = wanted[..., -1:]
    paid = wanted[..., size:-1]
    count = paid.shape[-1]
    going = (1.0 - ends) * jnp.concatenate(
        [outputs[..., :size] - wanted[..., :size], outputs[..., size : size + count] - paid], axis=-1
    )
    ending = ends * (outputs[..., size + count : size + 2 * count] - paid)
    odds = outputs[..., -1]
    log_loss = jax.nn.softplus(odds) - ends[..., 0] * odds
    return (going**2).mean(axis=-1).mean() + (ending**2).mean() + log_loss.mean()


def _held_out(
    layers: Any, inputs: NDArray[np.float32], wanted: NDArray[Any], paid_scale: NDArray[np.float64], size: int
) -> HeldOut:
    """What the mean of the members explains of steps that it has not seen."""
    outputs = np.broadcast_to(inputs, (layers[0][0].shape[0], *inputs.shape))
    for depth, (weights, biases) in enumerate(layers):
        outputs = outputs @ weights + biases[:, None, :]
        outputs = np.maximum(outputs, 0.0) if depth < 2 else outputs
    chances = (0.5 + 0.5 * np.tanh(0.5 * outputs[..., -1])).mean(axis=0)  # the logistic function, without overflow
    mean, ends = outputs.mean(axis=0), wanted[:, -1].astype(np.bool_)
    count = len(paid_scale)
    paid = np.where(ends[:, None], mean[:, size + count : size + 2 * count], mean[:, size : size + count])
    errors = paid - wanted[:, size:-1]
    rate = np.clip(ends.mean(), 1e-6, 1 - 1e-6)
    told = np.clip(np.where(ends, chances, 1.0 - chances), 1e-6, 1.0)
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    return HeldOut(
        state_explained=_explained(mean[~ends, :size] - wanted[~ends, :size], wanted[~ends, :size]),
        reward_explained=_explained(errors[:, :1], wanted[:, size : size + 1]),
        cost_errors=tuple((np.sqrt((errors[:, 1:] ** 2).mean(axis=0)) * paid_scale[1:]).tolist()),
        end_explained=float(1.0 + np.log(told).mean() / entropy),
        steps=len(inputs),
    )


def _explained(errors: NDArray[Any], wanted: NDArray[Any]) -> float:
    spread = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
    return 1.0 - float((errors**2).sum()) / spread if spread > 0 else 1.0
