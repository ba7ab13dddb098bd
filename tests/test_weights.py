"""Layers as named arrays and back; nothing else is accepted for them."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts.critic.weights import from_arrays, sizes, to_arrays
from cmcts.errors import InvalidInput


def layers(*shapes):
    return tuple((np.full(shape, k, np.float32), np.full(shape[::2], -k, np.float32)) for k, shape in enumerate(shapes))


def test_layers_come_back_as_they_were():
    made = layers((2, 3, 4), (2, 4, 5))
    arrays = to_arrays(made)
    assert sorted(arrays) == ["biases.0", "biases.1", "weights.0", "weights.1"]
    again = from_arrays(arrays)
    assert sizes(again) == [3, 4, 5]
    for (weights, biases), (other_weights, other_biases) in zip(made, again, strict=True):
        np.testing.assert_array_equal(weights, other_weights)
        np.testing.assert_array_equal(biases, other_biases)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights.1": None}, r"expected arrays weights.0, biases.0, got \['biases.0', 'biases.1', 'weights.0'\]"),
        ({"extra": np.zeros(1, np.float32), "more": np.zeros(1)}, "expected arrays weights.0, .*, biases.2, got"),
        ({"biases.1": np.zeros((2, 5))}, "expected biases.1 in float32, got 'float64'"),
        ({"weights.1": np.zeros((2, 3, 5), np.float32)}, r"expected weights.1 with shape \(2, 4, outputs\), got"),
        ({"weights.1": np.zeros((3, 4, 5), np.float32)}, r"expected weights.1 with shape \(2, 4, outputs\), got"),
        ({"weights.0": np.zeros((2, 3), np.float32)}, r"expected weights.0 with shape \(members, inputs, outputs\)"),
        ({"biases.0": np.zeros((2, 1), np.float32)}, r"expected biases.0 with shape \(2, 4\), got \(2, 1\)"),
    ],
)
def test_other_arrays_are_refused_by_name(change, message):
    arrays = {**to_arrays(layers((2, 3, 4), (2, 4, 5))), **change}
    with pytest.raises(InvalidInput, match=message):
        from_arrays({name: array for name, array in arrays.items() if array is not None})


def test_no_arrays_are_no_layers():
    with pytest.raises(InvalidInput, match=r"expected arrays weights.0, biases.0, got \[\]"):
        from_arrays({})
