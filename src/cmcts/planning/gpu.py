"""Batches on a GPU: which ones go there, and their decisions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numba import config
from numpy.typing import NDArray

from cmcts.devices import Device, cores, gpu_fault, is_simulated, validate_device
from cmcts.errors import InvalidInput, ModelError, expect
from cmcts.planning.decision import Decision
from cmcts.planning.roots import Roots
from cmcts.random import Stream

if TYPE_CHECKING:
    from cmcts.planning.planner import Planner

LANES_A_CORE = 128  # searches on an H200 that do as much as one core: a batch is worth it if it has more


def validate_device_for(planner: Planner, device: Device) -> None:
    """Refuse what is no device, and a GPU that there is not or that the planner has no use for."""
    if device == "cuda" and not planner.runs_on_gpu:
        name = type(planner).__name__
        raise InvalidInput(f'expected device "cpu" or "auto" for {name}, got "cuda": it plans on the CPU alone')
    validate_device(device)


def goes_to_gpu(planner: Planner, device: Device, count: int, seconds: float | None) -> bool:
    """Whether a batch of so many searches goes to the GPU; raises where it is asked for and cannot."""
    validate_device_for(planner, device)
    if device == "cpu" or count == 0 or not planner.searches or not planner.runs_on_gpu:
        return False
    few = count < LANES_A_CORE * cores()
    if device == "auto" and (few or seconds is not None or gpu_fault()):
        return False
    if seconds is not None:
        raise InvalidInput(f'expected iterations with device "{device}", got seconds={seconds:g}: use device "cpu"')
    if planner.values is not None:  # all lanes would have to be told their prices
        return False
    if config.DISABLE_JIT and not is_simulated():
        return False
    for part in (planner.model, planner.critic):
        # What is written for the CPU's interpreter cannot run there, and has said so.
        if not part.compiles and not part.verdict.gpu_fault:
            part.verdict.keep_off_gpu(part.verdict.fault or part.compile_fault())
        if part.verdict.gpu_fault:
            return False
    return True


def plan_lanes(
    planner: Planner,
    states: NDArray[np.float64],
    budgets: NDArray[np.float64],
    multipliers: NDArray[np.float64],
    draws: Sequence[Stream],
    iterations: int | None,
    keep_tree: bool,
) -> list[Decision] | None:
    """Decisions for many states, searched on the GPU; None if the model or the critic cannot be compiled for it."""
    began = time.perf_counter()
    if iterations is None:
        iterations = planner.search.iterations
    expect(isinstance(iterations, (int, np.integer)) and iterations >= 1, "iterations >= 1", iterations)
    roots, left, weights = planner.validate_batch(states, budgets, multipliers)
    rngs = np.concatenate(draws)[:, None]
    try:
        found = planner.lanes.search(roots, left, weights, rngs, int(iterations), keep_trees=keep_tree)
    except (InvalidInput, ModelError):
        raise
    except Exception:  # whatever numba-cuda raises for what it cannot compile
        for part in (planner.model, planner.critic):
            if fault := part.compile_fault(gpu=True):
                part.verdict.keep_off_gpu(fault)
                return None
        raise
    for draw, advanced in zip(draws, rngs, strict=True):
        draw[:] = advanced
    seconds = (time.perf_counter() - began) / len(states)
    searched = Roots(found.roots, left, found.multipliers, draws, int(iterations), seconds)
    return planner.decide(searched, found.trees if keep_tree else None)
