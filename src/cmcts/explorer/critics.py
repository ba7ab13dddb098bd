"""What a critic predicts over a map, how sure it is, where it was trained, and how far that is from the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.ensemble import SafetyCritic
from cmcts.explorer.columns import pack
from cmcts.explorer.episodes import Episode
from cmcts.explorer.truth import Truth
from cmcts.model.interface import Model
from cmcts.tasks.task import Task
from cmcts.training.run_folder import CONFIG, RunFolder

Floats = NDArray[np.float64]


def critic_data(
    task: Task, critic: SafetyCritic, episode: Episode, truth: Truth | None, folder: Path | None
) -> dict[str, Any] | None:
    """The critic over the task's map, as the episode's states have it; None if there is no map, or nothing learned.

    Steps that differ in nothing but their place share a map.
    """
    if task.map_states is None:
        return None
    maps: list[Floats] = []
    known: dict[bytes, int] = {}
    numbers: list[int] = []
    places: list[list[int] | None] = []
    for step in episode.steps:
        states = task.map_states(step.decision.state)
        here = np.argwhere((states == step.decision.state).all(axis=-1))
        places.append(here[0].tolist() if len(here) else None)
        number = known.setdefault(states.tobytes(), len(maps))
        if number == len(maps):
            maps.append(states)
        numbers.append(number)
    predicted = [predictions(task.model, critic, states) for states in maps]
    if not any(bool(np.nan_to_num(values).any()) for values in predicted):
        return None
    width, height, _ = maps[0].shape
    data: dict[str, Any] = {
        "width": width,
        "height": height,
        "map_of_step": [*numbers, numbers[-1]],  # the end shows the last one, and nobody on it
        "place_of_step": [*places, None],
        "maps": [pack(_columns(states, values, truth)) for states, values in zip(maps, predicted, strict=True)],
        "trained": None,
    }
    if folder is not None and (seen := gathered_states(folder)) is not None:
        data["trained"] = visits(maps[0], seen).ravel().tolist()
    return data


def predictions(model: Model, critic: SafetyCritic, states: Floats) -> Floats:
    """[2, W, H, A, M] mean and sigma at every square; not a number for what is no state or not legal there."""
    out = np.full((2, *states.shape[:2], model.action_count, model.cost_count), np.nan)
    for place in np.ndindex(states.shape[:2]):
        state = states[place]
        if model.state_fault is None or not model.state_fault(model.params, state):
            legal = model.legal(state)
            mean, sigma = critic(model.feature_vector(state))
            out[0][place][legal], out[1][place][legal] = mean[legal], sigma[legal]
    return out


def visits(states: Floats, seen: Floats) -> NDArray[np.int64]:
    """[W, H] how many of the states that were seen lie on each square, by the numbers in which the squares differ."""
    width, height, _ = states.shape
    place = np.flatnonzero((states != states[0, 0]).any(axis=(0, 1)))
    squares = {states[x, y, place].tobytes(): (x, y) for x in range(width) for y in range(height)}
    counts = np.zeros((width, height), np.int64)
    unique, often = np.unique(np.ascontiguousarray(seen[:, place]), axis=0, return_counts=True)
    for row, count in zip(unique, often, strict=True):
        if (square := squares.get(row.tobytes())) is not None:
            counts[square] = count
    return counts


def gathered_states(folder: Path) -> Floats | None:
    """[T, S] the states that a training gathered, if its run folder still holds them."""
    if not (folder / CONFIG).is_file():
        return None
    run = RunFolder.open(folder)
    files = [name for record in run.history if record.get("phase") == "gather" for name in record.get("files", {})]
    parts: Sequence[Floats] = [run.load(name)["states"] for name in files if (folder / name).is_file()]
    return np.concatenate(parts).astype(np.float64) if parts else None


def _columns(states: Floats, predicted: Floats, truth: Truth | None) -> dict[str, NDArray[Any]]:
    columns = {"mean": predicted[0].astype(np.float32), "sigma": predicted[1].astype(np.float32)}
    if truth is not None:
        exact = np.full(predicted[0].shape, np.nan, np.float32)
        for place in np.ndindex(states.shape[:2]):
            if (costs := truth.of(states[place])) is not None:
                exact[place] = costs
        columns["exact"] = exact
    return columns
