"""An ensemble's layers as named arrays and back: how critics lie in bundles and in run folders.

weights.k   [E, inputs, outputs] float32, of layer k
biases.k    [E, outputs] float32
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import expect

Layers = tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]  # per layer [E, inputs, outputs], [E, outputs]


def to_arrays(layers: Layers) -> dict[str, NDArray[np.float32]]:
    """An ensemble's layers as named arrays, as they are written to a file."""
    arrays = {}
    for k, (weights, biases) in enumerate(layers):
        arrays[f"weights.{k}"] = np.ascontiguousarray(weights, np.float32)
        arrays[f"biases.{k}"] = np.ascontiguousarray(biases, np.float32)
    return arrays


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Layers:
    """The layers of named arrays: all of one ensemble, each as wide as the next one takes, and nothing else."""
    names = [f"{kind}.{k}" for k in range(max(1, len(arrays) // 2)) for kind in ("weights", "biases")]
    expect(sorted(arrays) == sorted(names), f"arrays {', '.join(names)}", sorted(arrays))
    for name in names:
        expect(arrays[name].dtype == np.float32, f"{name} in float32", str(arrays[name].dtype))
    layers = []
    members = inputs = None  # the first layer says how many there are
    for weights, biases in zip(names[::2], names[1::2], strict=True):
        shape = arrays[weights].shape
        fits = len(shape) == 3 and min(shape) >= 1 and members in (None, shape[0]) and inputs in (None, shape[1])
        expect(fits, f"{weights} with shape ({members or 'members'}, {inputs or 'inputs'}, outputs)", shape)
        members, _, inputs = shape
        expect(
            arrays[biases].shape == (members, inputs), f"{biases} with shape {(members, inputs)}", arrays[biases].shape
        )
        layers.append((arrays[weights], arrays[biases]))
    return tuple(layers)


def sizes(layers: Layers) -> list[int]:
    """How wide an ensemble is: its inputs, then the outputs of each layer."""
    return [layers[0][0].shape[1], *(weights.shape[2] for weights, _ in layers)]
