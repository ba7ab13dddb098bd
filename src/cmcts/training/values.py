"""Learning leaf values: reward and costs to go at a price, by regression, in JAX.

Where states can be listed targets are exact, of what is best at each price. Elsewhere they are Monte Carlo returns to
go of whole episodes in the training world: noisy, but their mean is the value of the policy that played, whatever the
planning model or its rollouts get wrong. A search compares leaves that are a step apart, so the fit has to be close: on
exact targets, a loss of a hundredth of their variance left Taxi's search lost where a thousandth leads it home. Each
member of the ensemble minimises the mean squared error on minibatches of its own. Everything follows from the seed.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cmcts.critic.weights import Layers
from cmcts.training.learning import CHUNK, Member, export, initial_ensemble, make_optimiser, start_jax

MEMBERS, BATCH, RATE = 5, 256, 3e-3
HIDDEN, HIDDEN_EXACT = (64, 64), (128, 128)  # of returns of episodes, and of targets without noise


def squared_error(ensemble: Member, inputs: Any, targets: Any) -> Any:
    """Of each member on its own rows, [E, B, I] and [E, B, O], summed so that each sees its own gradient."""
    outputs = eqx.filter_vmap(lambda member, rows: jax.vmap(member)(rows))(ensemble, inputs)
    return jnp.mean((outputs - targets) ** 2, axis=(1, 2)).sum()


@eqx.filter_jit
def update(ensemble: Member, state: Any, data: Any, count: Any, key: Any, chunk: int, steps: int) -> Any:
    """A run of gradient steps, compiled once."""
    optimiser = make_optimiser(RATE, steps)

    def one(carry: Any, step_key: Any) -> Any:
        ensemble, state = carry
        picks = jax.random.randint(step_key, (MEMBERS, BATCH), 0, count)
        batch = (data[0][picks], data[1][picks])
        loss, gradient = eqx.filter_value_and_grad(squared_error)(ensemble, *batch)  # type: ignore[no-untyped-call]
        change, state = optimiser.update(gradient, state)
        return (eqx.apply_updates(ensemble, change), state), loss / MEMBERS

    carry, losses = jax.lax.scan(one, (ensemble, state), jax.random.split(key, chunk))
    return *carry, losses.mean()


def fit_values(
    inputs: NDArray[np.float32],
    targets: NDArray[np.float64],
    steps: int,
    seed: int,
    exact: bool = False,
    on_chunk: Any = None,
) -> tuple[Layers, float]:
    """An ensemble from inputs [T, F + M] to targets [T, 1 + M], in the targets' own units, and its last loss.

    The loss is in units of the targets' variance: 1 is what their mean alone would have. Targets that are `exact` are
    worth a larger ensemble.
    """
    start_jax()
    rows = len(inputs)
    mean, spread = targets.mean(axis=0), targets.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    # As in learning.py: a power of two keeps the compiled update, and the number of real rows must be an array.
    padding = [(0, (1 << max(rows - 1, 1).bit_length()) - rows), (0, 0)]
    data = (
        jnp.asarray(np.pad(inputs.astype(np.float32), padding)),
        jnp.asarray(np.pad(((targets - mean) / spread).astype(np.float32), padding)),
    )
    key, start = jax.random.split(jax.random.key(seed))
    sizes = (inputs.shape[1], *(HIDDEN_EXACT if exact else HIDDEN), targets.shape[1])
    ensemble = initial_ensemble(sizes, MEMBERS, start)
    state = make_optimiser(RATE, steps).init(eqx.filter(ensemble, eqx.is_array))
    count, loss, done = jnp.asarray(rows, jnp.int32), math.nan, 0
    while done < steps:
        chunk = min(CHUNK, steps - done)
        ensemble, state, chunk_loss = update(ensemble, state, data, count, jax.random.fold_in(key, done), chunk, steps)
        done, loss = done + chunk, float(chunk_loss)
        if on_chunk:
            on_chunk(chunk)
    *hidden, (weights, biases) = export(ensemble)
    scaled = (weights * spread).astype(np.float32), (biases * spread + mean).astype(np.float32)
    return (*hidden, scaled), loss
