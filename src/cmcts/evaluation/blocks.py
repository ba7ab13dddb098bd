"""Episodes as units of work: a few of them each, done by whoever has time, and kept as they arrive.

Episode i of a seed is the same episode wherever it is run, so neither the executor nor the size of a block shows in the
result, but for the times that decisions took.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cmcts import json_settings
from cmcts.devices import Device
from cmcts.errors import InvalidInput, expect
from cmcts.evaluation.episodes import (
    LOCKSTEP,
    LOCKSTEP_ON_GPU,
    EpisodePolicy,
    Episodes,
    Transitions,
    remembering,
    run_episodes,
)
from cmcts.executors import Executor, Here, Work
from cmcts.files import read_plain, remove_parts, write_atomically
from cmcts.planning.agent import Agent
from cmcts.planning.planner import Planner

BLOCKS_A_SLOT = 8  # few enough to cost nothing, enough that nobody waits long for the last one
LARGEST = 64  # episodes of a block on a cluster: what is lost with a worker, and what a person waits for a sign of life
MAX_CONFIG_BYTES, MAX_BLOCK_BYTES = 1 << 20, 1 << 32

Played = tuple[Episodes, Transitions]


class Block(NamedTuple):
    """Some episodes of a seed."""

    seed: int
    first: int
    episodes: int

    def __str__(self) -> str:
        return f"episodes {self.first} to {self.first + self.episodes - 1} of seed {self.seed}"


@dataclass(frozen=True)
class _Player:
    """What all blocks share."""

    planner: Planner | EpisodePolicy
    make_world: Callable[..., Any]
    budget: tuple[float, ...]
    settings: dict[str, Any]

    def play(self, block: Block) -> Played:
        return run_episodes(
            self.planner,
            self.make_world,
            self.budget,
            episodes=block.episodes,
            seed=block.seed,
            first_episode=block.first,
            **self.settings,
        )

    def planners(self) -> tuple[Planner, ...]:
        return (self.planner,) if isinstance(self.planner, Planner) else getattr(self.planner, "planners", ())

    def prepare(self) -> None:
        """One step of an episode, which compiles all that episodes need."""
        for planner in self.planners():
            agent = Agent(planner, self.budget, iterations=1)
            start = planner.model.start_state()
            agent.act(start)
            agent.observe(np.zeros(planner.model.cost_count))
            agent.arrive(start)

    def content(self) -> str:
        kernels = [getattr(part, "_numba_type_", "") for p in self.planners() for part in (p.model, p.critic)]
        return " ".join(sorted({str(kernel) for kernel in kernels}))


def episodes_on(
    executor: Executor | None,
    planner: Planner | EpisodePolicy,
    make_world: Callable[..., Any],
    budget: ArrayLike,
    *,
    episodes: int,
    seed: int,
    first_episode: int = 0,
    threads: int | None = None,
    device: Device = "cpu",
    on_steps: Callable[[int, int], None] | None = None,
    kept: KeptBlocks | None = None,
    **settings: Any,
) -> Played:
    """`run_episodes` by an executor, in blocks; without one, in this process as it is.

    `on_steps(decisions, finished)` then hears of whole blocks. Blocks that are `kept` are not played again.
    """
    if executor is None and kept is None:
        return run_episodes(
            planner,
            make_world,
            budget,
            episodes=episodes,
            seed=seed,
            first_episode=first_episode,
            threads=threads,
            device=device,
            on_steps=on_steps,
            **settings,
        )
    expect(isinstance(episodes, int) and episodes >= 1, "episodes >= 1", episodes)
    limits = tuple(planner.model.validate_costs(budget, "budget").tolist())
    if executor is None:
        executor = Here(threads)
    if settings.get("plans_a_state") is not None:
        # One memory for all blocks, and one for all that a worker does: which plans there are depends on no block.
        settings["plans_a_state"] = remembering(settings["plans_a_state"], seed, first_episode)
    player = _Player(planner, make_world, limits, {**settings, "device": device, "threads": executor.threads})
    work = Work(player.play, f"model {planner.model.name}", player.prepare, player.content())
    parts = {} if kept is None else kept.find(seed, first_episode, episodes)
    if on_steps and parts:
        on_steps(sum(len(steps) for _, steps in parts.values()), sum(block.episodes for block in parts))
    size = block_size(executor.slots, episodes, device)
    units = [
        Block(seed, begin, min(size, end - begin))
        for start, end in _gaps(parts, first_episode, first_episode + episodes)
        for begin in range(start, end, size)
    ]
    for block, played in executor.run(work, units):
        if kept is not None:
            kept.add(block, played)
        parts[block] = played
        if on_steps:
            on_steps(len(played[1]), block.episodes)
    ordered = [parts[block] for block in sorted(parts)]
    return Episodes.concatenate([played for played, _ in ordered]), _joined([steps for _, steps in ordered])


def block_size(slots: int, episodes: int, device: Device = "cpu") -> int:
    """How many episodes go into a block: all that go in lockstep for a single slot, fewer if there are others."""
    most = LARGEST if device == "cpu" else LOCKSTEP_ON_GPU
    if slots == 1:
        return max(most, LOCKSTEP)
    return max(1, min(most, episodes // (BLOCKS_A_SLOT * slots)))


def _gaps(parts: dict[Block, Played], first: int, end: int) -> Iterator[tuple[int, int]]:
    """What lies between blocks that are there, as (from, to)."""
    for block in sorted(parts):
        if first < block.first:
            yield first, block.first
        first = block.first + block.episodes
    if first < end:
        yield first, end


def _joined(parts: Sequence[Transitions]) -> Transitions:
    columns = [field.name for field in dataclasses.fields(Transitions)]
    return Transitions(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


class KeptBlocks:
    """A folder of blocks that are done, so that a killed evaluation goes on where it stopped.

    `config.json` says what is evaluated, and `SEED-FIRST-EPISODES.safetensors` holds one block.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder = folder
        file, config = folder / "config.json", json_settings.dump(about, indent=2)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_parts(folder)
            if not file.exists():
                if any(folder.iterdir()):
                    raise InvalidInput(f"expected a new or empty folder, or one of an evaluation, got {folder}")
                write_atomically(file, config)
        except OSError as error:
            raise InvalidInput(f"cannot use {folder}: {error.strerror or error}") from None
        begun = json_settings.parse(read_plain(file, MAX_CONFIG_BYTES))
        now = json_settings.parse(config)
        if begun != now:
            changed = sorted(name for name in {*now, *begun} if now.get(name) != begun.get(name))
            raise InvalidInput(
                f"expected a folder begun with {changed[0]} {now.get(changed[0])!r}, got {folder} with "
                f"{begun.get(changed[0])!r}; use another folder"
            )

    def add(self, block: Block, played: Played) -> None:
        """Keep a block."""
        from safetensors.numpy import save

        episodes, steps = played
        arrays = {f"episodes.{name}": np.ascontiguousarray(column) for name, column in vars(episodes).items()}
        arrays |= {f"steps.{name}": np.ascontiguousarray(column) for name, column in vars(steps).items()}
        write_atomically(self.folder / f"{block.seed}-{block.first}-{block.episodes}.safetensors", save(arrays))

    def find(self, seed: int, first: int, episodes: int) -> dict[Block, Played]:
        """The blocks within these episodes that were kept; of two that overlap, the earlier one."""
        names = [path.stem.split("-") for path in self.folder.glob(f"{seed}-*-*.safetensors")]
        found: dict[Block, Played] = {}
        end = first + episodes
        for block in sorted(Block(*map(int, name)) for name in names):
            if first <= block.first and block.first + block.episodes <= end:
                found[block] = self._load(block)
                first = block.first + block.episodes
        return found

    def _load(self, block: Block) -> Played:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        path = self.folder / f"{block.seed}-{block.first}-{block.episodes}.safetensors"
        try:
            arrays = load(read_plain(path, MAX_BLOCK_BYTES))
            episodes = Episodes(**{f.name: arrays[f"episodes.{f.name}"] for f in dataclasses.fields(Episodes)})
            steps = Transitions(**{f.name: arrays[f"steps.{f.name}"] for f in dataclasses.fields(Transitions)})
        except (SafetensorError, KeyError, ValueError) as error:
            raise InvalidInput(f"{path} is damaged ({error}); delete it, and its episodes are played again") from None
        return episodes, steps
