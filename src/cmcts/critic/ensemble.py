"""The safety critic as the planner sees it: features in, mean and sigma of the discounted cost-to-go out.

Any ensemble can prune: it is one function and its parameters.

    predict(params, features, scratch, mean, sigma)
        features [F] float32, scratch [4, width] float32; write mean and sigma, [A*M] float32 each,
        constraint m of action a at a*M + m

The ensemble that training produces is a set of multi-layer perceptrons with ReLU units, exported as arrays and
evaluated here, inside the search kernel: planning needs no deep-learning framework.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numba import config, typeof, types
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from cmcts.compilation.content import Function, content_type, kernel, python_function
from cmcts.compilation.gpu import on_gpu
from cmcts.compilation.travel import fields_of, remade
from cmcts.compilation.vectors import WIDTH, add_products, put, read
from cmcts.compilation.verdict import Verdict, first_fault, params_fault
from cmcts.critic.support import Support
from cmcts.errors import InvalidInput, expect
from cmcts.model.interface import Model

LANES, UNROLL = WIDTH, 4  # outputs are padded to whole vectors; so many inputs are taken at a time
_NOTHING = (np.float32(0.0),) * LANES


class EnsembleParams(NamedTuple):
    """E perceptrons of L layers, padded with zeros: one Numba type for every size, no leftovers in the inner loops."""

    sizes: NDArray[np.int64]  # [L + 1] features, hidden sizes, A*M outputs; [1] for an empty ensemble
    members: int  # E
    weights: NDArray[np.float32]  # [L * E * rows + 3, width] layer l of member e at (l*E + e) * rows, input-major
    biases: NDArray[np.float32]  # [L * E, width]
    rows: int  # the widest layer input


def padded(size: int, multiple: int) -> int:
    """`size`, rounded up to a multiple of `multiple`."""
    return -(-size // multiple) * multiple


@kernel
def predict_ensemble(params, features, scratch, mean, sigma):
    """Mean and standard deviation over the members: mu = 1/E sum_e Q_e, sigma^2 = 1/E sum_e (Q_e - mu)^2."""
    layers = params.sizes.shape[0] - 1
    outputs = mean.shape[0]
    for j in range(outputs):
        mean[j] = np.float32(0.0)
        sigma[j] = np.float32(0.0)
    for member in range(params.members):
        for k in range(params.sizes[0]):
            scratch[0, k] = features[k]
        for k in range(params.sizes[0], params.sizes[0] + UNROLL - 1):
            scratch[0, k] = np.float32(0.0)  # inputs are taken UNROLL at a time
        source = 0
        for layer in range(layers):
            _dense(params, layer, member, scratch, source, layer < layers - 1)
            source = 1 - source
        _average(scratch, source, member, params.members, mean, sigma)


@register_jitable(_nrt=False, forceinline=True)
def _average(scratch, source, member, members, mean, sigma):
    """Count the outputs of one more member; after the last one `sigma` is the standard deviation.

    Sums of Q and Q^2 would cancel badly in float32; Welford's update does not.
    """
    weight = np.float32(1.0) / np.float32(member + 1)
    for j in range(mean.shape[0]):
        delta = scratch[source, j] - mean[j]
        mean[j] += delta * weight
        sigma[j] += delta * (scratch[source, j] - mean[j])
    if member == members - 1:
        for j in range(mean.shape[0]):
            sigma[j] = math.sqrt(sigma[j] / np.float32(members))


@register_jitable(_nrt=False, forceinline=True)
def _dense(params, layer, member, scratch, source, relu):
    """One layer, y = x W + b, from one row of `scratch` to the other.

    Half of the inputs are zero behind a ReLU, and most are in one-hot features: the others are gathered first. They are
    then taken four at a time over whole vectors of outputs, which the compiler turns into vector instructions. Sums go
    in the order of the inputs, so that it makes no difference how many zeros are among them.
    """
    x, y, values, rows = scratch[source], scratch[1 - source], scratch[2], scratch[3]
    index = layer * params.members + member
    base = index * params.rows
    count = 0
    for i in range(params.sizes[layer]):
        values[count] = x[i]
        rows[count] = np.float32(base + i)  # exact: fewer than 2^24 rows
        count += x[i] != 0.0
    for k in range(count, count + UNROLL - 1):
        values[k] = np.float32(0.0)
        rows[k] = np.float32(base)
    outputs = (params.sizes[layer + 1] + LANES - 1) // LANES * LANES
    for j in range(outputs):
        y[j] = params.biases[index, j]
    for k in range(0, count, UNROLL):
        x0, x1, x2, x3 = values[k], values[k + 1], values[k + 2], values[k + 3]
        w0, w1 = params.weights[int(rows[k])], params.weights[int(rows[k + 1])]
        w2, w3 = params.weights[int(rows[k + 2])], params.weights[int(rows[k + 3])]
        for j in range(outputs):
            y[j] = (((y[j] + x0 * w0[j]) + x1 * w1[j]) + x2 * w2[j]) + x3 * w3[j]
    if relu:
        for j in range(outputs):
            # Not max(y, 0), which may turn what is not a number into 0: an overflow must be seen in the end.
            y[j] = np.float32(0.0) if y[j] < np.float32(0.0) else y[j]


@on_gpu(_dense)
def _dense_in_step(params, layer, member, scratch, source, relu):
    """The same sums on a GPU, where 32 searches go through the layer in step: all take every input, zero or not.

    They then read the same weights at the same time, which is one access. Sixteen sums at a time stay in registers, and
    because the way from memory is long, weights are read two inputs before they are needed, and inputs four.
    """
    x, y, weights, behind_relu = scratch[source], scratch[1 - source], params.weights, layer > 0
    index = layer * params.members + member
    for j in range(0, params.sizes[layer + 1], LANES):
        row = index * params.rows
        totals = read(params.biases, index, j)
        x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
        w0, w1 = read(weights, row, j), read(weights, row + 1, j)
        for i in range(0, params.sizes[layer], UNROLL):
            a0, a1 = _activated(x0, behind_relu), _activated(x1, behind_relu)
            a2, a3 = _activated(x2, behind_relu), _activated(x3, behind_relu)
            x0, x1, x2, x3 = x[i + 4], x[i + 5], x[i + 6], x[i + 7]
            row += 2
            v0, v1, w0, w1 = w0, w1, read(weights, row, j), read(weights, row + 1, j)
            totals = add_products(add_products(totals, a0, v0), a1, v1)
            row += 2
            v0, v1, w0, w1 = w0, w1, read(weights, row, j), read(weights, row + 1, j)
            totals = add_products(add_products(totals, a2, v0), a3, v1)
        put(totals, y, j)


@on_gpu(_average)
def _average_in_step(scratch, source, member, members, mean, sigma):
    """The same on a GPU, where `mean` and `sigma` are far away: until the last member they are kept in `scratch`."""
    weight, less = np.float32(1.0) / np.float32(member + 1), np.float32(-1.0)
    for j in range(0, mean.shape[0], LANES):
        outputs, means, squares = read(scratch, source, j), _NOTHING, _NOTHING
        if member > 0:
            means, squares = read(scratch, 2, j), read(scratch, 3, j)
        gaps = add_products(outputs, less, means)
        means = add_products(means, weight, gaps)
        squares = add_products(squares, gaps, add_products(outputs, less, means))
        put(means, scratch[2], j)
        put(squares, scratch[3], j)
    if member == members - 1:
        for j in range(mean.shape[0]):
            mean[j] = scratch[2, j]
            sigma[j] = math.sqrt(scratch[3, j] / np.float32(members))


@kernel
def _activated(total, relu):
    # Not max(y, 0), which may turn what is not a number into 0: an overflow must be seen in the end.
    return np.float32(0.0) if relu and total < np.float32(0.0) else total


@dataclass(frozen=True, eq=False)
class SafetyCritic:
    """A function that predicts costs-to-go, its parameters, and the sizes it was made for."""

    predict: Function
    params: Any
    feature_count: int
    action_count: int
    cost_count: int = 1
    scratch_width: int = 1
    cost_scale: tuple[float, ...] = ()
    """What counts as a large cost, one number a constraint: tolerances and sigma_max are shares of it. 1 without it."""
    support: Support | None = None
    """Where it has data; what lies outside raises sigma at the root of a search. Without it, sigma is what it is."""
    verdict: Verdict = field(init=False, repr=False)  # does it compile

    def __post_init__(self) -> None:
        advice = "use only numbers and NumPy arrays in its params and in predict"
        scale = tuple(float(number) for number in self.cost_scale) or (1.0,) * self.cost_count
        positive = len(scale) == self.cost_count and all(0.0 < number < np.inf for number in scale)
        expect(positive, f"a cost_scale of {self.cost_count} finite numbers > 0", self.cost_scale)
        object.__setattr__(self, "cost_scale", scale)
        object.__setattr__(self, "verdict", Verdict("a search with this critic", advice))
        if not config.DISABLE_JIT:
            object.__setattr__(self, "_numba_type_", content_type("critic", {"predict": self.predict}, self.params))

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies and other processes: made anew from what it was made of, because types of Numba do not travel."""
        return remade, (SafetyCritic, fields_of(self))

    def __call__(self, features: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean and sigma of the cost-to-go of every action, [A, M] each."""
        vector = np.ascontiguousarray(features, np.float32)
        expect(vector.shape == (self.feature_count,), f"features of shape ({self.feature_count},)", vector.shape)
        mean, sigma = np.zeros((2, self.action_count * self.cost_count), np.float32)
        scratch = np.zeros((4, self.scratch_width), np.float32)
        predict = self.predict if self.predict is predict_ensemble else python_function(self.predict)
        predict(self.params, vector, scratch, mean, sigma)
        shape = (self.action_count, self.cost_count)
        return mean.reshape(shape), sigma.reshape(shape)

    @property
    def compiles(self) -> bool:
        """Whether Numba can compile this critic, as far as is known: False once it has failed."""
        return not self.verdict.fault

    def compile_fault(self, *, gpu: bool = False) -> str:
        """Why Numba cannot compile this critic, for a GPU if asked, or "" if it can."""
        if odd := params_fault(self.params, gpu=gpu):
            return odd
        floats = types.float32[::1]
        signature = (typeof(self.params), floats, types.float32[:, ::1], floats, floats)
        return first_fault({"predict": (self.predict, signature)}, gpu=gpu)

    @cached_property
    def uncompiled(self) -> SimpleNamespace:
        """What an uncompiled search calls: the library's own function stays compiled, a user's is plain Python."""
        own = self.predict is predict_ensemble
        return SimpleNamespace(predict=self.predict if own else python_function(self.predict))

    def validate_for(self, model: Model) -> None:
        """Raise `InvalidInput` if the critic has other features, actions or constraints than the model."""
        for name in ("feature_count", "action_count", "cost_count"):
            ours, theirs = getattr(self, name), getattr(model, name)
            if ours != theirs:
                raise InvalidInput(
                    f"expected a critic with {name} {theirs} for model {model.name!r}, got one with {ours}"
                )


def ensemble(
    weights: Sequence[NDArray[np.floating[Any]]],
    biases: Sequence[NDArray[np.floating[Any]]],
    cost_count: int = 1,
    cost_scale: Sequence[float] = (),
    support: Support | None = None,
) -> SafetyCritic:
    """The critic of an exported ensemble: weights[l] is [E, inputs, outputs], biases[l] is [E, outputs].

    `cost_scale` says what counts as a large cost, one number a constraint, 1 without it. `support` says where it has
    data.
    """
    expect(len(weights) == len(biases) >= 1, "as many bias as weight arrays, at least one", (len(weights), len(biases)))
    for depth, weight in enumerate(weights):
        expect(weight.ndim == 3, f"weights of layer {depth} with shape (members, inputs, outputs)", weight.shape)
    members = weights[0].shape[0]
    expect(members >= 1, "an ensemble of at least one member", members)
    sizes = [weights[0].shape[1], *(layer.shape[2] for layer in weights)]
    for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        shape = (members, sizes[depth], sizes[depth + 1])
        expect(weight.shape == shape, f"weights of layer {depth} with shape {shape}", weight.shape)
        expect(
            bias.shape == (members, shape[2]), f"biases of layer {depth} with shape {(members, shape[2])}", bias.shape
        )
        largest = np.finfo(np.float32).max  # beyond it, a float64 weight becomes infinite in the kernel
        finite = bool((np.abs(weight) <= largest).all() and (np.abs(bias) <= largest).all())
        expect(finite, f"finite weights in layer {depth} of the critic", "NaN or infinity")
    expect(sizes[-1] % cost_count == 0, f"outputs in multiples of {cost_count} constraints", sizes[-1])
    rows, width = max(sizes[:-1]), padded(max(sizes[1:]), LANES)
    total = len(weights) * members * rows
    expect(total < 1 << 24, "fewer than 2^24 rows of weights", total)
    packed = np.zeros((total + 2 * UNROLL, width), np.float32)  # a GPU reads ahead
    packed_biases = np.zeros((len(weights) * members, width), np.float32)
    for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        for member in range(members):
            index = depth * members + member
            packed[index * rows : index * rows + sizes[depth], : sizes[depth + 1]] = weight[member]
            packed_biases[index, : sizes[depth + 1]] = bias[member]
    params = EnsembleParams(np.array(sizes, np.int64), members, packed, packed_biases, rows)
    return SafetyCritic(
        predict_ensemble,
        params,
        sizes[0],
        sizes[-1] // cost_count,
        cost_count,
        scratch_width=padded(max(rows, width), UNROLL) + 2 * UNROLL,
        cost_scale=tuple(cost_scale),
        support=support,
    )


def immediate_costs_only(model: Model, cost_scale: Sequence[float] = ()) -> SafetyCritic:
    """The critic of someone who has learned nothing: zero, and sure of it.

    With `cost_floor` it prunes what the model itself knows to be too expensive *now*. That is enough where an agent can
    always stop spending (RockSample), and not where a step commits to later costs.
    """
    params = EnsembleParams(
        np.array([model.feature_count], np.int64), 0, np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32), 1
    )
    sizes = (model.feature_count, model.action_count, model.cost_count)
    return SafetyCritic(predict_ensemble, params, *sizes, model.feature_count, tuple(cost_scale))
