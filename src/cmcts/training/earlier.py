"""What somebody has already, `cmcts train --from`: earlier critics, their columns, and exact policies.

They are candidates like any other. A critic plays the episodes that this training's choice is confirmed on, with the
pruning, the search and the scale of costs that it came with; the settings of columns, and exact policies, are measured
for the new frontier. Nothing that was measured before is believed: the budget, the world or the code may be others now.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import BUNDLE_FILE, MAX_BUNDLE_BYTES, Bundle
from cmcts.critic.columns import ColumnSettings
from cmcts.critic.policies import DIGITS, Table
from cmcts.errors import InvalidInput
from cmcts.exact.policy import TabularPolicy
from cmcts.files import read_plain
from cmcts.frontier.exact_column import column_of, expect_policy_of
from cmcts.frontier.generation import Brought
from cmcts.tasks.task import Task


@dataclass(frozen=True, eq=False)
class Earlier:
    """A bundle or an exact policy, by the name that it was asked for."""

    name: str
    digest: str
    """Of its content: a run that is resumed must find the same."""
    bundle: Bundle | None = None
    policy: TabularPolicy | None = None


def load_earlier(reference: str | Path, task: Task) -> Earlier:
    """A folder or a shipped name is a bundle, a file is a policy; refuses what is of another problem."""
    path = Path(reference)
    if path.is_file():
        policy = _policy(path, task)
        return Earlier(str(reference), policy.digest, policy=policy)
    bundle = bundles.load(path)
    try:
        bundle.critic_for(task.model)
        for digest in {column.settings.policy for column in bundle.columns} - {""}:
            table = bundle.policies[digest]
            expect_policy_of(TabularPolicy.from_arrays(table, task.model, solved_elsewhere=True), task)
    except InvalidInput as error:
        raise InvalidInput(f"expected a bundle of {task.name}, got {reference}, of {bundle.task}: {error}") from None
    mine, theirs = ((s.discount, *s.discounts_for(task.model)) for s in (task.search, bundle.search))
    if mine != theirs:
        raise InvalidInput(f"expected a bundle with the discounts {mine} of {task.name}, got {theirs} in {reference}")
    content = read_plain(bundles.find(path) / BUNDLE_FILE, MAX_BUNDLE_BYTES)
    return Earlier(str(reference), hashlib.sha256(content).hexdigest()[:DIGITS], bundle=bundle)


def _policy(path: Path, task: Task) -> TabularPolicy:
    """The policy in a file, of whichever of the task's models it was solved for."""
    refusals = []
    for model in (task.training_model, task.model, task.real_model):
        if model is not None:
            try:
                policy = TabularPolicy.load(path, model)
            except InvalidInput as error:
                refusals.append(error)
                continue
            try:
                expect_policy_of(policy, task)
            except InvalidInput as error:
                raise InvalidInput(f"cannot use the policy {path}: {error}") from None
            return policy
    raise refusals[0]


def brought_along(
    earlier: Sequence[Earlier], guard: Earlier | None, cost_scale: NDArray[np.float64], most: int
) -> Brought:
    """Columns and policies of all of them, for a frontier that is guarded by the critic of `guard`, if any.

    Without those guarded by a critic that is not kept, or that read leaf values: these are not the new frontier's.
    Exact policies come first, and `most` columns at most.
    """
    tables: dict[str, Table] = {}
    policies: list[ColumnSettings] = []
    columns: list[ColumnSettings] = []
    for one in earlier:
        if one.policy is not None:
            tables[one.policy.digest] = one.policy.to_arrays()
            policies.append(column_of(one.policy))
        if one.bundle is None:
            continue
        tables.update(one.bundle.policies)
        for column in (column.settings for column in one.bundle.columns):
            if column.policy:
                policies.append(column)
            elif not column.values and (column.guard != "critic" or one is guard):
                columns.append(column if one is guard else _rescaled(column, one.bundle.cost_scale, cost_scale))
    found = tuple(dict.fromkeys([*policies, *columns]))[:most]
    return Brought(found, {column.policy: tables[column.policy] for column in found if column.policy})


def _rescaled(column: ColumnSettings, before: Sequence[float], now: NDArray[np.float64]) -> ColumnSettings:
    """A column that prunes by immediate costs, as said on another scale of costs: it tolerates no more than it did."""
    if column.pruning is None:
        return column
    tolerance = column.pruning.tolerance * float((np.asarray(before) / now).min())
    return dataclasses.replace(column, pruning=dataclasses.replace(column.pruning, tolerance=tolerance))
