"""Where a critic has data, and where it only guesses: an action is known in a state if training tried it near there.

Near is a distance between features, each in units of its own spread in the training data. Of these only representative
points are kept, with the number of times that each action was taken around them. An action is *known* if it was taken
`LEAST_VISITS` times within `radius`. Where states are few, every state is a point of its own and the radius is 0: visit
counts. Else the radius is what nearly all steps of held-out episodes need, and half as much again.

It takes a few thousand distances, too many for every node of a tree, but not for the state that is decided in: at the
root of a search, and so in a monitor, what is not known raises the critic's sigma by a whole cost scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import expect

VERSION = 1
POINTS = 2048  # at most
CANDIDATES = 8192  # states that points are chosen from, at most
LEAST_VISITS = 4  # fewer say little about dangers that strike by chance
KNOWN_SHARE = 0.99  # of the steps of held-out episodes need no larger radius
MARGIN = 1.5  # half as far again: training sees fewer states than deployment
DOUBT = 1.0  # of the cost scale: as unsure as whoever knows nothing
ROWS_AT_ONCE = 1024  # of a batch: their distances fit a cache
ROUNDING = 1e-5  # of a squared distance in 32 bits, and its square far above that in 64
LEAST_SPREAD = 1e-3  # of the largest feature; one that never varied in training is far off wherever it does


@dataclass(frozen=True, eq=False)
class Support:
    """Representative points of the training data; K points, F features, A actions."""

    points: NDArray[np.float32]  # [K, F]
    visits: NDArray[np.uint16]  # [K, A] how often training took each action around a point, at most 65535
    spread: NDArray[np.float32]  # [F] what distances along each feature are in units of
    radius: float

    def __post_init__(self) -> None:
        expect(self.points.ndim == 2 and self.visits.ndim == 2, "points and visits in rows", self.points.shape)
        count, features = self.points.shape
        expect(count >= 1 and len(self.visits) == count, f"visits of {count} points", self.visits.shape)
        expect(self.spread.shape == (features,), f"a spread of {features} features", self.spread.shape)
        expect(bool(np.isfinite(self.points).all()), "finite points", "NaN or infinity")
        expect(bool((self.spread > 0).all() and np.isfinite(self.spread).all()), "a spread > 0", "other numbers")
        expect(0 <= self.radius < np.inf, "a finite radius >= 0", self.radius)

    def doubt(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """[A] what to add to sigma, in units of the cost scale: nothing for actions that are known here."""
        offsets = (self.points - features) / self.spread
        near = np.einsum("kf,kf->k", offsets, offsets) <= self.radius**2
        return np.where(self.visits[near].sum(axis=0, dtype=np.int64) >= LEAST_VISITS, 0.0, DOUBT)

    def doubts(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """[N, A] the same of many rows [N, F], hundreds of times faster than one by one.

        Squared distances come from products of matrices, |p|^2 + |f|^2 - 2 p f. Rounding could then tell apart what
        `doubt` does not, so whichever row has a point that close to the radius is asked about as one.
        """
        out = np.empty((len(features), self.visits.shape[1]))
        middle = self.points.mean(axis=0, dtype=np.float64)  # the smaller the numbers, the less is lost
        points, visits = (self.points - middle) / self.spread, self.visits.astype(np.float32)
        lengths = np.einsum("kf,kf->k", points, points)
        for begin in range(0, len(features), ROWS_AT_ONCE):
            some = features[begin : begin + ROWS_AT_ONCE]
            rows = (some - middle) / self.spread
            far = np.einsum("nf,nf->n", rows, rows)[:, None]
            with np.errstate(invalid="ignore"):  # a feature that is no number is far from everything
                beyond = lengths + far - 2.0 * (rows @ points.T) - self.radius**2
            close = ROUNDING * self.radius**2 + ROUNDING**2 * (lengths + far)
            known = (beyond <= 0).astype(np.float32) @ visits >= LEAST_VISITS
            out[begin : begin + len(some)] = np.where(known, 0.0, DOUBT)
            for k in np.flatnonzero((np.abs(beyond) <= close).any(axis=1)):
                out[begin + k] = self.doubt(some[k])
        return out


def find_support(
    features: NDArray[np.float32],
    actions: NDArray[np.int32],
    held_out: NDArray[np.bool_],
    action_count: int,
    seed: int,
) -> Support:
    """The support of steps with these features [T, F] and actions [T]; the radius is that of the held-out ones."""
    from scipy.spatial import cKDTree

    rows, taken = features[~held_out], actions[~held_out]
    largest = float(np.abs(rows).max(initial=0.0)) or 1.0
    spread = np.maximum(rows.std(axis=0), LEAST_SPREAD * largest).astype(np.float32)
    states = np.unique(rows, axis=0)
    if len(states) > CANDIDATES:
        states = states[np.random.default_rng(seed).choice(len(states), CANDIDATES, replace=False)]
    points = states if len(states) <= POINTS else states[_far_apart(states / spread, POINTS)]
    tree = cKDTree(points / spread)
    visits = np.zeros((len(points), action_count), np.int64)
    np.add.at(visits, (tree.query(rows / spread)[1], taken), 1)
    tested = np.flatnonzero(held_out)[:POINTS]
    needed = [_needed_radius(points, visits[:, actions[k]], features[k], spread) for k in tested]
    radius = MARGIN * float(np.quantile(needed, KNOWN_SHARE, method="higher")) if needed else 0.0
    return Support(points, np.minimum(visits, np.iinfo(np.uint16).max).astype(np.uint16), spread, radius)


def _far_apart(states: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """So many rows that leave no other row far from all of them: each is the farthest from those before it."""
    chosen, distance = [0], np.full(len(states), np.inf, np.float32)
    while len(chosen) < count:
        offsets = states - states[chosen[-1]]
        distance = np.minimum(distance, np.einsum("kf,kf->k", offsets, offsets))
        chosen.append(int(np.argmax(distance)))
    return np.array(chosen)


def _needed_radius(
    points: NDArray[np.float32],
    visits: NDArray[np.int64],
    features: NDArray[np.float32],
    spread: NDArray[np.float32],
) -> float:
    """The radius within which an action with `visits` [K] around the points has been taken often enough."""
    tried = visits > 0
    offsets = (points[tried] - features) / spread
    squares = np.einsum("kf,kf->k", offsets, offsets)
    order = np.argsort(squares)
    enough = np.cumsum(visits[tried][order]) >= LEAST_VISITS
    if not enough.any():
        return float(np.sqrt(squares.max(initial=0.0)))  # no radius will do
    # A little more, because the root of a square may be rounded down.
    return float(np.sqrt(squares[order[np.argmax(enough)]])) * (1.0 + 1e-6)


def to_arrays(support: Support) -> dict[str, NDArray[Any]]:
    """A support as named arrays, as it is written to a file."""
    return {
        "points": support.points,
        "visits": support.visits,
        "spread": support.spread,
        "radius": np.array([support.radius]),
    }


def from_arrays(arrays: Mapping[str, NDArray[Any]], feature_count: int, action_count: int) -> Support:
    """The support that was written, checked: as many features and actions as its critic has."""
    kinds = {"points": np.float32, "visits": np.uint16, "spread": np.float32, "radius": np.float64}
    expect(set(arrays) == set(kinds), f"arrays {', '.join(kinds)} of a support", ", ".join(sorted(arrays)))
    for name, kind in kinds.items():
        expect(arrays[name].dtype == kind, f"{name} of {np.dtype(kind)}", arrays[name].dtype)
    expect(arrays["radius"].shape == (1,), "one radius", arrays["radius"].shape)
    support = Support(arrays["points"], arrays["visits"], arrays["spread"], float(arrays["radius"][0]))
    sizes = (support.points.shape[1], support.visits.shape[1])
    expect(sizes == (feature_count, action_count), f"a support of {feature_count, action_count}, as its critic", sizes)
    return support
