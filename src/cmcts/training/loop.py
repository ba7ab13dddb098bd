"""Training the safety critic: gather, fit, evaluate, until it is feasible and as good as it gets.

    scale        what counts as a large cost here (unless the task says it): random walks in the training world
    walk         random walks once more, to be learnt from, and the policy that is to be watched, if there is one
    repeat
        gather   plan episodes in the training world with the latest critic pruning, at lambda_1, lambda_2, ... until
                 the mean cost lies just below the budget (gathering.py); keep all transitions
        explore  in the first round, find out how widely to explore from now on (exploration.py)
        fit      a fresh ensemble on all data so far (critics.py)
        evaluate C-MCTS with that critic and lambda = 0 in the training world, at a few pruning tolerances (judging.py)
    until the best feasible critic has not improved for `patience` rounds, or none comes nearer to being feasible
    confirm      the best feasible critic on episodes that took no part in the choice (selection.py)
    compare      it with earlier critics (earlier.py), and with none, on these episodes; keep the best
    frontier     policies at several prices, guarded by that critic and not, with rollouts and with learned leaf values
                 (values.py), to be mixed for any budget (cmcts.frontier); all of it is the bundle (bundling.py)

Feasible: mean cost plus one standard error within the budget. The paper stops at the first feasible critic, which can
be far too timid; here the *best* feasible one is kept, with the tolerance it was best with. Where no tolerance is
feasible because dangers strike by chance and cost more than is left, the budget is accounted for in expectation
(search/pruning.py).

Every stage is a function of the configuration and of earlier stages, and is recorded when it is done (stages.py):
kill the training at any moment, resume it, and the same critic comes out, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.ensemble import SafetyCritic
from cmcts.devices import Device, validate_device
from cmcts.evaluation.walks import Propose
from cmcts.executors import Executor
from cmcts.tasks.task import Task
from cmcts.training.bundling import Kept, assemble, build_frontier
from cmcts.training.critics import Critics
from cmcts.training.earlier import Earlier
from cmcts.training.exploration import choose_exploration
from cmcts.training.gathering import Gathering
from cmcts.training.judging import Judging
from cmcts.training.reporting import Reporter, Silence
from cmcts.training.run_folder import RunFolder
from cmcts.training.selection import best_feasible, confirmed, least_excess
from cmcts.training.settings import TrainingSettings
from cmcts.training.stages import Stages
from cmcts.training.timidity import Timidity, explain_timidity

NEARER, SLIGHT = 0.9, 1e-3  # of the earlier excess over the budget, and cost scales: no nearer is no improvement


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    bundle: Bundle | None  # None if no critic was feasible, and no frontier was asked for
    record: dict[str, Any] | None  # of the confirmation that the critic passed, if one did, or of an earlier critic
    rounds: int
    looked_feasible: bool = False  # some critic was feasible until it was tried on fresh episodes
    untrained: dict[str, Any] | None = None  # what pruning by immediate costs alone does, if it was tried
    pays: bool = True  # False if that is better, and so the critic of `record`, if there is one, was not kept
    origin: str | None = None  # the name of the earlier training whose critic is kept, if it is none of this one's
    timidity: Timidity | None = None  # what the best critic refuses without need, if that is much


def train(
    task: Task,
    settings: TrainingSettings,
    run: RunFolder,
    reporter: Reporter | None = None,
    *,
    device: Device = "cpu",
    executor: Executor | None = None,
    watch: Propose | None = None,
    earlier: Sequence[Earlier] = (),
) -> Outcome:
    """Train a critic for `task` in the run folder `run`; leaves the bundle there if a feasible critic was found.

    `device` says where it is planned, as in `Planner.plan_batch`; the critic is fitted where JAX finds its devices.
    Episodes and fits are done by the `executor`, if there is one, with the same result. `watch` is a policy that a
    `SafetyMonitor` is to watch: the critic learns from its steps as well. `earlier` critics, columns and policies are
    candidates, and kept where they are better.
    """
    if executor is None:
        validate_device(device)
    with run.in_use():
        return _train(Stages(task, settings, run, reporter or Silence(), device, executor), watch, earlier)


def _train(stages: Stages, watch: Propose | None, earlier: Sequence[Earlier]) -> Outcome:
    settings = stages.settings
    gathering, critics = Gathering(stages), Critics(stages)
    judging = Judging(stages, critics)
    evaluations = judging.evaluations
    gathering.walk(watch)
    critic: SafetyCritic | None = None
    excess = math.inf
    stale = rounds = 0
    for round_ in range(settings.max_rounds):
        gathering.gather(round_, critic)
        if round_ == 0 and settings.choose_exploration:
            choose_exploration(stages, gathering.multipliers)
        critic = critics.fit(round_, gathering)
        before = best_feasible(evaluations)
        # A first critic has seen little, and the next is often feasible as it is.
        early = round_ == 0 and settings.max_rounds > 1
        for accounting in settings.accountings[:1] if early else settings.accountings:
            judging.judge(round_, critic, accounting)
            if best_feasible(evaluations) is not None:
                break
        rounds = round_ + 1
        best = best_feasible(evaluations)
        if best is None:
            nearest = least_excess(evaluations, stages.budget, stages.cost_scale)
            improved = nearest < min(NEARER * excess, excess - SLIGHT)
            excess = nearest
        else:
            improved = before is None or best["reward_mean"] > before["reward_mean"] + before["reward_se"]
        stale = 0 if improved else stale + 1
        if stale >= settings.patience:
            break
    record = own = confirmed(evaluations, judging.confirm, settings.confirmations)
    kept = None if own is None else Kept.trained(stages, critics, own)
    worlds = 0 if own is None else own["attempt"]  # that all others play as well
    for number, one in enumerate(earlier):
        if (other := Kept.of_earlier(one)) is not None:
            played = judging.earlier(number, other.critic, other.pruning, other.search, worlds)
            if judging.beats(played, record):
                kept, record = other, played
    untrained = judging.untrained(worlds) if settings.untrained else None
    pays = untrained is None or not judging.beats(untrained, record)
    kept = kept if pays else None
    frontier = build_frontier(stages, kept, earlier)
    looked_feasible = best_feasible(evaluations) is not None
    if kept is None and pays and not frontier.columns:
        return Outcome(None, None, rounds, looked_feasible, untrained)
    bundle = assemble(stages, gathering, kept, record, frontier, rounds, pays=pays)
    bundles.save(bundle, stages.run.path)
    origin = None if kept is None or kept.origin is None else kept.origin.name
    judged = origin is None and (own is not None or not pays) and evaluations
    timidity = explain_timidity(stages, gathering, critics, evaluations, own) if judged else None
    return Outcome(bundle, record, rounds, looked_feasible, untrained, pays, origin, timidity)
