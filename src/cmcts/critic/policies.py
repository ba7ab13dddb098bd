"""The tables of exact policies as named arrays, as files and bundles keep them.

    description     JSON as bytes: what it was solved for, and what it earns and pays there
    states          [S, N]
    probabilities   [S, A] of the actions
    reward_values   [S, A] discounted reward to go
    cost_values     [S, A, M] discounted costs to go

A table is known by the digest of its content: the same table has the same, whoever wrote it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.errors import expect

FORMAT = 1
DESCRIPTION = "description"
ARRAYS = ("states", "probabilities", "reward_values", "cost_values")
DIGITS = 20  # of a digest

Table = Mapping[str, NDArray[Any]]
Policies = Mapping[str, Table]  # by their digests


@dataclass(frozen=True)
class Description:
    """What a policy was solved for, and what it earns and pays there."""

    format: int
    library: str
    model: str
    model_digest: str
    discount: float
    cost_discounts: tuple[float, ...]
    budget: tuple[float, ...]
    reward: float
    costs: tuple[float, ...]


def table_of(description: Description, arrays: Table) -> dict[str, NDArray[Any]]:
    """The table with its description."""
    text = np.frombuffer(json_settings.dump(dataclasses.asdict(description)), np.uint8)
    return {DESCRIPTION: text, **{name: np.ascontiguousarray(arrays[name]) for name in ARRAYS}}


def description_of(table: Table) -> Description:
    """What a table says of itself, once all of it is found to be in order."""
    expect(sorted(table) == sorted((DESCRIPTION, *ARRAYS)), "the arrays of a policy", sorted(table))
    expect(table[DESCRIPTION].dtype == np.uint8, "a description in bytes", str(table[DESCRIPTION].dtype))
    raw = json_settings.parse(table[DESCRIPTION].tobytes())
    described = json_settings.convert(raw, Description, complete=True)
    expect(described.format == FORMAT, f"format {FORMAT}", described.format)
    counts = {len(described.cost_discounts), len(described.budget), len(described.costs)}
    expect(len(counts) == 1, "as many cost discounts as budgets and costs", described)
    for name in ARRAYS:
        expect(table[name].dtype == np.float64, f"{name} in float64", str(table[name].dtype))
        expect(bool(np.isfinite(table[name]).all()), f"finite {name}", "NaN or infinity")
    states, chances = table["states"], table["probabilities"]
    expect(states.ndim == 2 and len(states) >= 1, "states [S, N]", states.shape)
    expect(chances.ndim == 2 and len(chances) == len(states), f"probabilities [{len(states)}, A]", chances.shape)
    shapes = {"reward_values": chances.shape, "cost_values": (*chances.shape, *counts)}
    for name, shape in shapes.items():
        expect(table[name].shape == shape, f"{name} of shape {shape}", table[name].shape)
    proper = (chances >= 0).all() and np.allclose(chances.sum(axis=1), 1.0, atol=1e-6)
    expect(bool(proper), "action probabilities >= 0 with sum 1 in every state", "others")
    return described


def digest_of(table: Table) -> str:
    """The digest of its content, whichever release wrote it."""
    described = dataclasses.replace(description_of(table), library="")
    hasher = hashlib.sha256(json_settings.dump(dataclasses.asdict(described)))
    for name in ARRAYS:
        hasher.update(f"{name} {table[name].shape}".encode() + np.ascontiguousarray(table[name]).tobytes())
    return hasher.hexdigest()[:DIGITS]


def checked(policies: Policies, cost_count: int) -> Policies:
    """The same; refuses a table that is damaged, another than its digest says, or of other constraints."""
    for digest, table in policies.items():
        described = description_of(table)
        expect(digest_of(table) == digest, f"a policy of digest {digest}", digest_of(table))
        expect(len(described.costs) == cost_count, f"a policy of {cost_count} constraints", len(described.costs))
    return policies
