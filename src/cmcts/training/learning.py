"""Learning the safety critic: temporal differences for an ensemble of small perceptrons, in JAX.

Each member e minimises the mean squared temporal-difference error over the data D gathered so far,

    L_e = E_D [ (Q_e(s, a) - y)^2 ],      y = c + gamma (1 - terminal) V(s'),      gamma the discount of that cost,

against a target network that follows slowly, on minibatches of its own, out of a resample of the data of its own (a
bootstrap): where a danger was met only a few times, members disagree on how likely it is. Two targets, by name:

* "sarsa", the paper's: V(s') = Q'_e(s', a') with the action a' that really followed. Predicts what the policies that
  gathered the data would still spend.
* "feasible": V(s') = min over legal a' of [mean_e Q'_e(s', a') + pessimism * sigma_e Q'_e(s', a')]. Predicts the least
  that must still be spent. A minimum over noisy predictions is too low, hence the pessimism, which acts where the
  members disagree: where data is thin.

Terminal steps are learned without a bootstrap, truncated ones with one. Everything follows from the seed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from cmcts.training.settings import CriticSettings

# Where JAX finds a GPU it fits there, and would take most of the memory that searches need as well.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

Arrays = tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]  # per layer: [E, inputs, outputs] and [E, outputs]


class Batch(NamedTuple):
    """Transitions as the learner sees them; B rows."""

    features: Any  # [B, F] float32
    actions: Any  # [B] int32
    costs: Any  # [B, M] float32
    next_features: Any  # [B, F] float32
    next_actions: Any  # [B] int32
    next_legal: Any  # [B, A] bool
    continues: Any  # [B] float32, 0 at terminal steps


class Member(eqx.Module):
    """One perceptron of the ensemble: from features to A*M costs-to-go."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, sizes: tuple[int, ...], key: Any) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=True))

    def __call__(self, features: Any) -> Any:
        """The A*M costs-to-go, [A*M], for features [F]."""
        for layer in self.layers[:-1]:
            features = jax.nn.relu(layer(features))
        return self.layers[-1](features)


def initial_ensemble(sizes: tuple[int, ...], members: int, key: Any) -> Member:
    """All members in one module: every array has a leading axis [E]."""
    ensemble: Member = eqx.filter_vmap(lambda k: Member(sizes, k))(jax.random.split(key, members))
    return ensemble


def predictions(ensemble: Member, features: Any, cost_count: int) -> Any:
    """Q_e(s, a) of every member on features [B, F]: [E, B, A, M]."""
    flat = eqx.filter_vmap(lambda member: jax.vmap(member)(features))(ensemble)
    return flat.reshape(*flat.shape[:2], -1, cost_count)


def own_predictions(ensemble: Member, features: Any, cost_count: int) -> Any:
    """Q_e on features [E, B, F], each member on its own rows: [E, B, A, M]."""
    flat = eqx.filter_vmap(lambda member, rows: jax.vmap(member)(rows))(ensemble, features)
    return flat.reshape(*flat.shape[:2], -1, cost_count)


def feasible_value(values: Any, legal: Any, pessimism: float) -> Any:
    """min over legal a' of mean + pessimism * sigma, never below 0; values [E, B, A, M], legal [B, A] to [B, M]."""
    pessimistic = values.mean(axis=0) + pessimism * values.std(axis=0)
    return jnp.maximum(jnp.where(legal[..., None], pessimistic, jnp.inf).min(axis=-2), 0.0)


def td_target(costs: Any, continues: Any, next_value: Any, discounts: Sequence[float]) -> Any:
    """y = c + gamma (1 - terminal) V(s'), with costs [..., M], continues [...] and a discount for each cost."""
    return costs + np.array(discounts, np.float32) * continues[..., None] * next_value


def batch_targets(
    target_network: Member, batch: Batch, discounts: Sequence[float], target: str, pessimism: float
) -> Any:
    """y for each member's own rows: batch arrays are [E, B, ...], the result is [E, B, M]."""
    cost_count = batch.costs.shape[-1]
    if target == "sarsa":
        values = own_predictions(target_network, batch.next_features, cost_count)
        taken = jnp.take_along_axis(values, batch.next_actions[..., None, None], axis=2)[:, :, 0]
        return td_target(batch.costs, batch.continues, taken, discounts)
    # Every member sees every row here: pessimism needs their disagreement.
    members, rows = batch.actions.shape
    flat = batch.next_features.reshape(members * rows, -1)
    values = predictions(target_network, flat, cost_count)
    legal = batch.next_legal.reshape(members * rows, -1)
    least = feasible_value(values, legal, pessimism).reshape(members, rows, cost_count)
    return td_target(batch.costs, batch.continues, least, discounts)


def td_loss(ensemble: Member, batch: Batch, targets: Any) -> Any:
    """Squared temporal-difference error, summed over members so that each sees its own gradient."""
    values = own_predictions(ensemble, batch.features, batch.costs.shape[-1])
    taken = jnp.take_along_axis(values, batch.actions[..., None, None], axis=2)[:, :, 0]
    return jnp.mean((taken - targets) ** 2, axis=(1, 2)).sum()


@eqx.filter_jit
def update(
    ensemble: Member,
    target_network: Member,
    optimiser_state: Any,
    data: Batch,
    resamples: Any,
    count: Any,
    key: Any,
    settings: tuple[int, int, int, float, float, tuple[float, ...], str, float],
) -> Any:
    """A run of gradient steps, compiled once: `settings` are (chunk, steps, batch, rate, target rate, gamma, ...)."""
    chunk, steps, rows, rate, target_rate, discounts, target, pessimism = settings
    optimiser = make_optimiser(rate, steps)
    members = ensemble.layers[0].weight.shape[0]

    def one(carry: Any, step_key: Any) -> Any:
        ensemble, target_network, optimiser_state = carry
        picks = jax.random.randint(step_key, (members, rows), 0, count)
        picks = jnp.take_along_axis(resamples, picks, axis=1)
        batch = Batch(*(column[picks] for column in data))
        targets = batch_targets(target_network, batch, discounts, target, pessimism)
        loss, gradient = eqx.filter_value_and_grad(td_loss)(ensemble, batch, targets)  # type: ignore[no-untyped-call]
        change, optimiser_state = optimiser.update(gradient, optimiser_state)
        ensemble = eqx.apply_updates(ensemble, change)
        target_network = optax.incremental_update(ensemble, target_network, target_rate)
        return (ensemble, target_network, optimiser_state), loss / members

    carry, losses = jax.lax.scan(one, (ensemble, target_network, optimiser_state), jax.random.split(key, chunk))
    return *carry, losses.mean()


def make_optimiser(rate: float, steps: int) -> optax.GradientTransformation:
    """Adam whose rate falls to a hundredth along a cosine."""
    return optax.adam(optax.cosine_decay_schedule(rate, steps, alpha=0.01))


CHUNK = 250  # gradient steps between two reports of progress
THREADS = "2"


@cache
def start_jax() -> None:
    """Let JAX begin with a fixed number of threads: on one core XLA sums in another order than on several.

    It takes the number from the environment, when it first looks for devices.
    """
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = THREADS
    try:
        jax.devices()
    finally:
        del os.environ["NPROC"]
        if before is not None:
            os.environ["NPROC"] = before


def fit(
    data: Batch,
    settings: CriticSettings,
    action_count: int,
    discounts: Sequence[float],
    seed: int,
    on_chunk: Any = None,
) -> tuple[Arrays, float]:
    """Fit a fresh ensemble; returns its arrays and the last training loss."""
    start_jax()
    rows, features = data.features.shape
    cost_count = data.costs.shape[-1]
    # Padding to a power of two keeps the compiled update while the data grows. How much of it is real must then be an
    # array: a plain number would be compiled in.
    padded = 1 << max(rows - 1, 1).bit_length()
    count = jnp.asarray(rows, jnp.int32)
    columns = Batch(*(jnp.asarray(_pad(np.asarray(column), padded)) for column in data))
    key = jax.random.key(seed)
    key, start = jax.random.split(key)
    ensemble = initial_ensemble((features, *settings.hidden, action_count * cost_count), settings.members, start)
    resamples = jnp.tile(jnp.arange(padded, dtype=jnp.int32), (settings.members, 1))
    if settings.bootstrap:
        resamples = jax.random.randint(jax.random.fold_in(start, 1), resamples.shape, 0, rows, jnp.int32)
    target_network = ensemble
    optimiser_state = make_optimiser(settings.learning_rate, settings.steps).init(eqx.filter(ensemble, eqx.is_array))
    loss = math.nan
    done = 0
    while done < settings.steps:
        chunk = min(CHUNK, settings.steps - done)
        static = (
            chunk,
            settings.steps,
            settings.batch,
            settings.learning_rate,
            settings.target_rate,
            tuple(discounts),
            settings.target,
            settings.pessimism,
        )
        ensemble, target_network, optimiser_state, mean = update(
            ensemble, target_network, optimiser_state, columns, resamples, count, jax.random.fold_in(key, done), static
        )
        done += chunk
        loss = float(mean)
        if on_chunk:
            on_chunk(done, loss)
    return export(ensemble), loss


def export(ensemble: Member) -> Arrays:
    """The weights as the planner's kernel wants them, input-major."""
    return tuple(
        (np.asarray(layer.weight, np.float32).transpose(0, 2, 1).copy(), np.asarray(layer.bias, np.float32))
        for layer in ensemble.layers
    )


def in_units(arrays: Arrays, cost_scale: NDArray[np.float64]) -> Arrays:
    """An ensemble that was fitted to costs in units of `cost_scale` [M] as one that predicts plain costs."""
    *hidden, (weights, biases) = arrays
    factors = np.tile(cost_scale, biases.shape[-1] // len(cost_scale)).astype(np.float32)  # [A*M]
    return (*hidden, (weights * factors, biases * factors))


def forward(arrays: Arrays, features: NDArray[np.float32], cost_count: int) -> NDArray[np.float32]:
    """Q_e(s, a) of exported members: [E, B, A, M]."""
    hidden = np.broadcast_to(features, (arrays[0][0].shape[0], *features.shape))
    for depth, (weight, bias) in enumerate(arrays):
        hidden = hidden @ weight + bias[:, None, :]
        if depth < len(arrays) - 1:
            hidden = np.maximum(hidden, 0.0)
    return np.asarray(hidden, np.float32).reshape(*hidden.shape[:2], -1, cost_count)


def _pad(column: NDArray[Any], rows: int) -> NDArray[Any]:
    return np.pad(column, [(0, rows - len(column))] + [(0, 0)] * (column.ndim - 1))
