"""One decision by several searches side by side, whose roots are added up (root parallelism).

A Python environment lets one process search at a time. So each search has a process of its own, with its own copy of
the environment, and where the search is compiled a thread. They share nothing, and only their roots come together: k
searches of n simulations take the time of one. How good that is, beside one search of k n simulations,
docs/architecture.md says in figures.

- Visits add up. Rewards and costs are means over visits, as within one search.
- An action is open only if no search judged it unsafe. If that leaves none, nothing is safe, and what the first search
  kept is kept: searches that disagree are no reason to open what any of them refused.
- Multipliers are averaged, simulations and nodes add up. What the critic said is what it said to the first search.

Every search has a stream of its own, and so has the draw of the action; all follow from one number of the caller's
stream. The decision therefore depends on the seed and the number of searches, and neither on cores nor on who did what.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.compilation.content import uncompiled
from cmcts.devices import cores
from cmcts.errors import InvalidInput, expect
from cmcts.planning.decision import Decision
from cmcts.planning.parallel import can_fork, forked_map
from cmcts.planning.roots import Roots, session_root
from cmcts.random import Stream, next_uint64, stream, streams
from cmcts.search.tree import ILLEGAL, PRUNED

if TYPE_CHECKING:
    from cmcts.planning.planner import Planner

_next_uint64 = uncompiled(next_uint64)  # one draw a decision is not worth a compilation


def plan_together(
    planner: Planner,
    state: ArrayLike,
    budget: ArrayLike,
    *,
    workers: int,
    iterations: int | None = None,
    seconds: float | None = None,
    rng: int | Stream = 0,
    multipliers: ArrayLike | None = None,
) -> Decision:
    """One decision by so many searches of `iterations` each; `seconds` are the whole decision's."""
    began = time.perf_counter()
    expect_workers(planner, workers)
    question = planner.question(planner.model.validate_state(state), budget, iterations, seconds, multipliers)
    drawn, *draws = own_streams(stream(rng), workers)
    end = planner.end_of(began, seconds)
    with planner.lent_sessions(workers) as sessions:
        begun = 0
        if planner.runs_compiled and not planner.has_searched:
            # The first simulation tells whether the model compiles, and warns from here if it does not.
            question.begin(sessions[0], draws[0])
            sessions[0].run(1)
            begun = 1
        processes = 1 if not (planner.runs_compiled or can_fork()) else min(workers, cores())

        def search(k: int) -> Roots:
            session = sessions[k]
            if k >= begun:
                question.begin(session, draws[k])
            # Where there are fewer cores than searches, those that wait for each other share what time is left.
            waiting, now = len(range(k, workers, processes)), time.perf_counter()
            question.run(session, None if end is None else now + (end - now) / waiting)
            return session_root(session, time.perf_counter() - began)

        found = _side_by_side(search, workers, processes, compiled=planner.runs_compiled)
        whole = merged(found)._replace(rngs=[drawn], seconds=time.perf_counter() - began)
        decision = planner.decide(whole)[0]
    planner.note_lateness(began, seconds)
    return decision


def expect_workers(planner: Planner, workers: int, *, keep_tree: bool = False, reuse_tree: bool = False) -> None:
    """Refuse numbers of searches that are none, and several where a tree is wanted or roots cannot be added up."""
    expect(isinstance(workers, (int, np.integer)) and workers >= 1, "workers >= 1", workers)
    if workers > 1 and not planner.roots_add_up:
        name = type(planner).__name__
        raise InvalidInput(f"expected workers=1 for {name}, whose roots are curves that do not add up, got {workers}")
    if workers > 1 and (keep_tree or reuse_tree):
        asked = "keep_tree" if keep_tree else "reuse_tree"
        raise InvalidInput(
            f"expected workers=1 with {asked}, because several searches leave no single tree, got {workers}"
        )


def own_streams(rng: Stream, workers: int) -> list[Stream]:
    """The stream that the action is drawn from, and one for each search; `rng` is advanced by one draw."""
    with np.errstate(over="ignore"):  # unsigned arithmetic is meant to wrap
        seed = int(_next_uint64(rng))
    return streams(seed, 1 + workers)


def _side_by_side(search: Callable[[int], Roots], count: int, processes: int, *, compiled: bool) -> list[Roots]:
    if not compiled:
        return forked_map(search, count, processes)
    if processes == 1:
        return [search(k) for k in range(count)]
    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(search, range(count)))


def merged(found: Sequence[Roots]) -> Roots:
    """The roots of several searches of one question as that of one search; its stream and time are the first one's.

    All that decisions are made of is added up. What else is in a tree's row, as where its children are, is the first's.
    """
    first, trees = found[0], [roots.tree for roots in found]
    raw = np.stack([tree.action_visits for tree in trees])  # [k, 1, A]
    visits = np.maximum(raw, 0)
    legal = first.tree.action_visits != ILLEGAL
    refused_by = np.bitwise_or.reduce([tree.pruned_by for tree in trees])
    safe = legal & (refused_by == 0)
    kept = np.where(safe.any(), safe, legal & (first.tree.action_visits != PRUNED))
    action_visits = np.where(kept, visits.sum(axis=0), np.where(legal, PRUNED, ILLEGAL))
    multipliers = np.stack([roots.multipliers for roots in found])
    tree = first.tree._replace(
        count=np.sum([tree.count for tree in trees], axis=0),
        peak_depth=np.max([tree.peak_depth for tree in trees], axis=0),
        visits=np.sum([tree.visits for tree in trees], axis=0, dtype=np.int32),
        nothing_safe=~safe.any(axis=1),
        action_visits=action_visits.astype(np.int32),
        reward_values=_mean(visits, [tree.reward_values for tree in trees]),
        cost_values=_mean(visits, [tree.cost_values for tree in trees]),
        pruned_by=refused_by,
    )
    return first._replace(
        tree=tree,
        multipliers=multipliers[0] + (multipliers - multipliers[0]).mean(axis=0),  # what nobody moved stays as it is
        iterations=sum(roots.iterations for roots in found),
    )


def _mean(visits: NDArray[np.int32], values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """[1, A*M] means [1, A*M] of k searches, weighted by their visits [k, 1, A]; 0 where there are none."""
    rows = np.stack(values)
    weights = np.repeat(visits, rows.shape[-1] // visits.shape[-1], axis=-1)
    sums = np.where(weights > 0, weights * rows, 0.0).sum(axis=0)  # what was never visited may be anything
    return np.asarray(sums / np.maximum(weights.sum(axis=0), 1))
