"""What somebody has already, `cmcts train --from`: earlier critics, their columns, and exact policies.

They are candidates like any other. A critic plays the episodes that this training's critics are compared on, with the
pruning and search that it came with; the settings of columns, and exact policies, are measured for the new frontier.
Nothing that was measured before is believed: the budget, the world or the code may be others now.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import BUNDLE_FILE, MAX_BUNDLE_BYTES, Bundle
from cmcts.critic.columns import ColumnSettings
from cmcts.errors import InvalidInput
from cmcts.exact.finite import enumerate_states
from cmcts.exact.policy import TabularPolicy
from cmcts.files import read_plain
from cmcts.frontier.exact_column import column_of
from cmcts.frontier.generation import Brought
from cmcts.search.pruning import PruningSettings
from cmcts.tasks.task import Task

DIGITS = 20  # of a digest


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
    except InvalidInput as error:
        raise InvalidInput(f"expected a bundle of {task.name}, got {reference}, of {bundle.task}: {error}") from None
    mine, theirs = ((s.discount, *s.discounts_for(task.model)) for s in (task.search, bundle.search))
    if mine != theirs:
        raise InvalidInput(f"expected a bundle with the discounts {mine} of {task.name}, got {theirs} in {reference}")
    content = read_plain(bundles.find(path) / BUNDLE_FILE, MAX_BUNDLE_BYTES)
    return Earlier(str(reference), hashlib.sha256(content).hexdigest()[:DIGITS], bundle=bundle)


def _policy(path: Path, task: Task) -> TabularPolicy:
    """The policy in a file, of one of the task's models, that knows every state of the training world."""
    world = task.training_model
    if world is None or world.outcomes is None or world.starts is None:
        raise InvalidInput(f"expected a training world of {task.name} whose states can be listed, got another: {path}")
    policy, refusal = None, InvalidInput("")
    for model in (world, task.model, task.real_model):
        if model is not None and policy is None:
            try:
                policy = TabularPolicy.load(path, model)
            except InvalidInput as error:
                refusal = refusal if refusal.args[0] else error
    if policy is None:
        raise refusal
    listed = enumerate_states(world, task.discount, cost_discounts=task.cost_discounts)
    if unknown := [state for state in listed.states if not policy.knows(state)]:
        raise InvalidInput(
            f"expected a policy that knows all {listed.state_count} states of the training world, got one that lacks "
            f"{len(unknown)} of them: {path}"
        )
    return policy


def rescaled(
    pruning: PruningSettings, before: Sequence[float], now: NDArray[np.float64] | Sequence[float]
) -> PruningSettings:
    """Pruning as it was meant on one scale of costs, said on another; of several costs, as the strictest needs it."""
    ratio = float((np.asarray(before) / np.asarray(now)).min())
    return dataclasses.replace(pruning, tolerance=ratio * pruning.tolerance, sigma_max=ratio * pruning.sigma_max)


def brought_along(earlier: Sequence[Earlier], guard: Earlier | None, cost_scale: NDArray[np.float64]) -> Brought:
    """The columns and policies of all of them, for a frontier that is guarded by the critic of `guard`, if any.

    Without those guarded by a critic that is not kept, or that read leaf values: these are not the new frontier's.
    """
    columns: list[ColumnSettings] = []
    policies: dict[str, Mapping[str, NDArray[Any]]] = {}
    for one in earlier:
        if one.policy is not None:
            policies[one.policy.digest] = one.policy.to_arrays()
            columns.append(column_of(one.policy))
        if one.bundle is not None:
            policies.update(one.bundle.policies)
            scale = one.bundle.cost_scale
            for column in (column.settings for column in one.bundle.columns):
                if column.values or (column.guard == "critic" and one is not guard):
                    continue
                if column.pruning is not None:
                    column = dataclasses.replace(column, pruning=rescaled(column.pruning, scale, cost_scale))
                columns.append(column)
    return Brought(tuple(dict.fromkeys(columns)), policies)
