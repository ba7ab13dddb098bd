"""A world that was learnt, as a compiled model: `cmcts learn-model TASK`, then `Model.learned`.

A slow simulator cannot be searched in; a small ensemble of perceptrons that imitates it can. Its state is the flattened
observation. From that and an action each of E members predicts

    how the observation changes; reward and costs if the episode goes on; reward and costs if it ends; whether it ends

A step draws one member, and whether the episode ends: outcomes are few, so chance nodes work, and where members
disagree, the planner sees that the future is unsure. All inputs and outputs are standardised, and none leaves the range
that was seen in the data. What it does not know, the critic learns in the world itself, which is what C-MCTS is about.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.errors import InvalidInput, expect
from cmcts.files import read_plain, write_atomically
from cmcts.model.interface import Model
from cmcts.random import uniform

FORMAT = 1
MAX_BYTES = 1 << 28
WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"


class SurrogateParams(NamedTuple):
    """E perceptrons with two hidden layers of H units; S numbers a state, A actions, M costs.

    O = S + 2 (1 + M) + 1 outputs: changes; reward and costs when going on; reward and costs at the end; log-odds of it.
    """

    weights1: NDArray[np.float32]  # [E, S + A, H]
    biases1: NDArray[np.float32]  # [E, H]
    weights2: NDArray[np.float32]  # [E, H, H]
    biases2: NDArray[np.float32]  # [E, H]
    weights3: NDArray[np.float32]  # [E, H, O]
    biases3: NDArray[np.float32]  # [E, O]
    mean: NDArray[np.float32]  # [S] of observations
    scale: NDArray[np.float32]  # [S]
    output_mean: NDArray[np.float32]  # [O]
    output_scale: NDArray[np.float32]  # [O]
    low: NDArray[np.float64]  # [S + 1 + M] least observation, reward and costs that were seen
    high: NDArray[np.float64]  # [S + 1 + M] and largest
    starts: NDArray[np.float64]  # [B, S] observations that episodes began with


# Not kernels: what is predicted needs room, which is allocated, as users' functions may.
@njit
def predicted(params, state, action, member):
    """[O] what a member predicts, in the world's own units."""
    size, hidden = params.mean.shape[0], params.biases1.shape[1]
    first = params.biases1[member].copy()
    for i in range(size):
        x = (np.float32(state[i]) - params.mean[i]) / params.scale[i]
        for j in range(hidden):
            first[j] += x * params.weights1[member, i, j]
    for j in range(hidden):
        first[j] = max(first[j] + params.weights1[member, size + action, j], np.float32(0.0))
    second = params.biases2[member].copy()
    for i in range(hidden):
        if first[i] > 0.0:
            for j in range(hidden):
                second[j] += first[i] * params.weights2[member, i, j]
    outputs = params.biases3[member].copy()
    for i in range(hidden):
        if second[i] > 0.0:
            for j in range(outputs.shape[0]):
                outputs[j] += second[i] * params.weights3[member, i, j]
    for j in range(outputs.shape[0]):
        outputs[j] = outputs[j] * params.output_scale[j] + params.output_mean[j]
    return outputs


@njit
def chance_of_end(outputs):
    """The probability that the episode ends."""
    return 1.0 / (1.0 + np.exp(-float(outputs[outputs.shape[0] - 1])))


@njit
def within(params, k, value):
    """A value of the k-th kind, in the range that was seen."""
    return min(max(float(value), params.low[k]), params.high[k])


def step(params, state, action, rng, next_state, costs):
    """One step as a member of the ensemble, drawn here, imagines it."""
    member = int(uniform(rng) * params.biases1.shape[0])
    outputs = predicted(params, state, action, member)
    ends = uniform(rng) < chance_of_end(outputs)
    size = params.mean.shape[0]
    for i in range(size):
        next_state[i] = within(params, i, state[i] + outputs[i])
    paid = size + (1 + costs.shape[0] if ends else 0)
    for m in range(costs.shape[0]):
        costs[m] = within(params, size + 1 + m, outputs[paid + 1 + m])
    return within(params, size, outputs[paid]), ends


def expected_costs(params, state, action, out):
    """The mean over all members, and over going on and ending."""
    size, members, constraints = params.mean.shape[0], params.biases1.shape[0], out.shape[0]
    for m in range(constraints):
        out[m] = 0.0
    for member in range(members):
        outputs = predicted(params, state, action, member)
        end = chance_of_end(outputs)
        for m in range(constraints):
            going = within(params, size + 1 + m, outputs[size + 1 + m])
            ending = within(params, size + 1 + m, outputs[size + 2 + constraints + m])
            out[m] += ((1.0 - end) * going + end * ending) / members


def legal_actions(params, state, out):
    """All actions."""
    for action in range(out.shape[0]):
        out[action] = action
    return out.shape[0]


def features(params, state, out):
    """The observation, standardised."""
    for i in range(out.shape[0]):
        out[i] = (np.float32(state[i]) - params.mean[i]) / params.scale[i]


def start(params, rng, state):
    """One of the starts that were seen."""
    k = int(uniform(rng) * params.starts.shape[0])
    for i in range(state.shape[0]):
        state[i] = params.starts[k, i]


@dataclass(frozen=True)
class HeldOut:
    """How well the mean of the members predicts episodes that it was not fitted to."""

    state_explained: float
    """Share of the variance of the observation's changes."""
    reward_explained: float
    """Share of the variance of the reward."""
    cost_errors: tuple[float, ...]
    """Root mean square error of each cost."""
    end_explained: float
    """Share of the log loss of whether the episode ends, against knowing how often it does."""
    steps: int
    """Held-out steps."""


@dataclass(frozen=True)
class Description:
    """What lies beside the weights."""

    format: int
    task: str
    action_count: int
    cost_count: int
    steps: int
    held_out: HeldOut
    sha256: str = ""
    """Of the file of the weights: it finds damage. `save` sets it."""


def save(folder: Path, params: SurrogateParams, description: Description) -> None:
    """Write a surrogate as arrays and JSON."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    content = save({name: np.ascontiguousarray(array) for name, array in params._asdict().items()})
    write_atomically(folder / WEIGHTS, content)
    described = replace(description, sha256=hashlib.sha256(content).hexdigest())
    write_atomically(folder / DESCRIPTION, json_settings.dump(asdict(described)))


def load(folder: str | Path) -> tuple[SurrogateParams, Description]:
    """Read and check a surrogate; loading executes nothing."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    place = Path(folder)
    raw = json_settings.parse(read_plain(place / DESCRIPTION, MAX_BYTES))
    description = json_settings.convert(raw, Description, complete=True)
    expect(description.format == FORMAT, f"a learnt model of format {FORMAT} in {place}", description.format)
    content = read_plain(place / WEIGHTS, MAX_BYTES)
    if hashlib.sha256(content).hexdigest() != description.sha256:
        raise InvalidInput(f"expected the weights that {place / DESCRIPTION} was written with, got others")
    try:
        params = SurrogateParams(**dict(load(content)))
    except (SafetensorError, ValueError, TypeError) as error:
        raise InvalidInput(f"expected the weights of a learnt model in {place}, got something else: {error}") from None
    _check_shapes(params, description, place)
    return params, description


def _check_shapes(params: SurrogateParams, description: Description, place: Path) -> None:
    members, _, hidden = params.weights1.shape
    size, actions, constraints = params.mean.shape[0], description.action_count, description.cost_count
    outputs = size + 2 * (1 + constraints) + 1
    shapes = {
        "weights1": (members, size + actions, hidden),
        "biases1": (members, hidden),
        "weights2": (members, hidden, hidden),
        "biases2": (members, hidden),
        "weights3": (members, hidden, outputs),
        "biases3": (members, outputs),
        "scale": (size,),
        "output_mean": (outputs,),
        "output_scale": (outputs,),
        "low": (size + 1 + constraints,),
        "high": (size + 1 + constraints,),
        "starts": (len(params.starts), size),
    }
    for name, shape in shapes.items():
        array = getattr(params, name)
        fits = array.shape == shape and min(shape) >= 1 and bool(np.isfinite(array).all())
        expect(fits, f"{name} of shape {shape}, finite, in {place}", array.shape)


def surrogate_model(params: SurrogateParams, original: Model, description: Description | None = None) -> Model:
    """A learnt world as a model; `original` simulates the environment, which is the world that it is about."""
    simulator = simulator_of(original)
    size, actions, constraints = simulator.observation_size, original.action_count, original.cost_count
    expect(params.mean.shape[0] == size, f"a learnt model of {size} numbers a state", params.mean.shape[0])
    expect(params.weights1.shape[1] == size + actions, f"a learnt model of {actions} actions", params.weights1.shape[1])
    return Model(
        name=f"{original.name}-learnt",
        params=params,
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        expected_costs=expected_costs,
        estimates_costs=True,  # of ends that are too rare for a check to see
        state_size=size,
        action_count=actions,
        feature_count=size,
        cost_count=constraints,
        action_names=original.action_names,
        cost_names=original.cost_names,
        feature_description="the flattened observation, standardised",
        world=partial(_world, original),
        origin="" if description is None else origin(description),
    )


def origin(description: Description) -> str:
    """How a learnt model came about, and how good it is, in words."""
    held = description.held_out
    costs = ", ".join(f"{error:.3g}" for error in held.cost_errors)
    return (
        f"learnt from {description.steps:,} steps of {description.task}; of {held.steps:,} held out it explains "
        f"{100 * held.state_explained:.0f} % of the changes, {100 * held.reward_explained:.0f} % of the rewards and "
        f"{100 * held.end_explained:.0f} % of the ends; error of costs {costs}"
    )


def simulator_of(original: Model) -> Any:
    """The simulator of a model made by `Model.from_env`; refuses what cannot be learnt."""
    simulator = original.params
    if not hasattr(simulator, "give_dice"):
        raise InvalidInput(f"expected a model made by Model.from_env, got {original.name!r}")
    if simulator.masked:
        raise InvalidInput(
            f"expected an environment without an action mask, got {original.name!r}: masks are not learnt"
        )
    return simulator


def _world(original: Model, model: Model, **settings: Any) -> Any:
    from cmcts.model.worlds import ObservedWorld  # imports Gymnasium

    return ObservedWorld(original, **settings)
