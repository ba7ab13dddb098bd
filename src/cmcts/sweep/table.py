"""From a TOML file to rows: every combination of tasks, planners, settings and seeds, each once.

tasks = ["rocksample-5-7", "my_project.py:task"]
planners = ["cmcts", "cc-mcp"]
seeds = 10                      # 0 to 9, or a list
episodes = 200                  # for each row

[settings]                      # of the planners; a list stands for one row each
iterations = [128, 512, 2048]

[training]                      # with this table a critic and a frontier are trained for each task and seed
iterations = 256
"""

from __future__ import annotations

import hashlib
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from cmcts import json_settings
from cmcts.errors import InvalidInput, expect, near
from cmcts.files import read_plain
from cmcts.tasks.task import Task
from cmcts.training.settings import TrainingSettings

PlannerName = Literal["frontier", "cmcts", "cc-mcp", "threshold-uct", "penalized"]
MAX_FILE_BYTES = 1 << 20

# The settings that can be varied, and the planners that they mean something to.
SETTINGS: dict[str, tuple[PlannerName, ...]] = {
    "iterations": ("cmcts", "cc-mcp", "threshold-uct", "penalized", "frontier"),
    "budget": ("cmcts", "cc-mcp", "threshold-uct", "penalized", "frontier"),
    "exploration": ("cmcts", "cc-mcp", "threshold-uct", "penalized"),
    "penalty": ("penalized",),
    "keep": ("frontier",),
    "share": ("frontier",),
}
TRAINED = ("cmcts", "frontier")

Values = tuple[tuple[str, Any], ...]  # names with their values, in the file's order


@dataclass(frozen=True)
class Training:
    """A critic and a frontier to be trained before the rows that use them."""

    task: str
    settings: Values
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return _name(self.task, self.seed, self.settings)

    def settings_for(self, task: Task) -> TrainingSettings:
        """The task's own settings with those of the sweep, by the sweep's seed."""
        values: dict[str, Any] = asdict(TrainingSettings.for_task(task, seed=self.seed))
        for name, value in self.settings:
            *parts, last = name.split(".")
            inner = values
            for part in parts:
                inner = inner[part]
            inner[last] = value
        try:
            return json_settings.convert(values, TrainingSettings)
        except InvalidInput as error:
            raise InvalidInput(f"[training] for {self.task}: {error}") from None


@dataclass(frozen=True)
class Row:
    """Episodes of one planner in one task, by one seed."""

    task: str
    planner: PlannerName
    settings: Values
    seed: int
    training: Training | None

    @property
    def name(self) -> str:
        """The name of its record."""
        return _name(self.task, self.seed, self.planner, self.settings, self.training)

    @property
    def values(self) -> dict[str, Any]:
        """What tells it apart from other rows of its task and planner, but for the seed."""
        trained = {} if self.training is None else {f"training.{name}": v for name, v in self.training.settings}
        return {**dict(self.settings), **trained}


@dataclass(frozen=True)
class Sweep:
    """What is in the file."""

    tasks: list[str]
    planners: list[PlannerName] = field(default_factory=lambda: list[PlannerName](["cmcts", "cc-mcp"]))
    seeds: int | list[int] = 5
    episodes: int = 200
    world: Literal["real", "training"] = "real"
    settings: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("tasks", "planners"):
            values = getattr(self, name)
            expect(len(values) >= 1 and len(set(values)) == len(values), f"{name} once each, at least one", values)
        expect(len(self.seed_list) >= 1 and min(self.seed_list) >= 0, "seeds >= 0, at least one", self.seeds)
        expect(self.episodes >= 2, "episodes >= 2", self.episodes)
        for name in self.settings:
            if name not in SETTINGS:
                known = ", ".join(SETTINGS)
                raise InvalidInput(f"expected [settings] out of {known}, got {name}{near(name, SETTINGS)}")
        options = json_settings.flat(TrainingSettings())
        for name in _flat(self.training or {}):
            if name not in options or name == "seed":
                raise InvalidInput(f"expected [training] with settings of cmcts train, got {name}{near(name, options)}")

    @classmethod
    def read(cls, path: Path) -> Sweep:
        """The sweep of a file; what is wrong with it is said with its name."""
        try:
            raw = tomllib.loads(read_plain(path, MAX_FILE_BYTES).decode())
            return json_settings.convert(raw, cls)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, InvalidInput) as error:
            raise InvalidInput(f"{path}: {error}") from None

    @property
    def seed_list(self) -> list[int]:
        """The seeds one by one."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def rows(self) -> list[Row]:
        """All of them; a setting that means nothing to a planner makes no rows of its own."""
        found: dict[Row, None] = {}
        for task, planner, settings in itertools.product(self.tasks, self.planners, _products(self.settings, {})):
            own = tuple((name, value) for name, value in settings if planner in SETTINGS[name])
            for training, seed in itertools.product(self._trainings(planner), self.seed_list):
                trained = None if training is None else Training(task, training, seed)
                found[Row(task, planner, own, seed, trained)] = None
        return list(found)

    def _trainings(self, planner: PlannerName) -> list[Values] | list[None]:
        if self.training is None or planner not in TRAINED:
            return [None]
        return list(_products(_flat(self.training), json_settings.flat(TrainingSettings())))


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def _products(values: Mapping[str, Any], usual: Mapping[str, Any]) -> Iterator[Values]:
    """Every combination; a list stands for several values, unless the usual value is itself a list."""
    choices = []
    for name, value in values.items():
        several = isinstance(value, list) and (
            not isinstance(usual.get(name), tuple) or any(isinstance(part, list) for part in value)
        )
        choices.append([(name, _hashable(one)) for one in (value if several else [value])])
    yield from itertools.product(*choices)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _name(task: str, seed: int, *about: Any) -> str:
    """A name to read, and a digest of all that it stands for."""
    plain = re.sub(r"[^\w.+-]+", "-", Path(task).name)
    words = [plain, *(word for word in about if isinstance(word, str)), f"seed{seed}"]
    return "_".join([*words, hashlib.sha256(repr((task, seed, about)).encode()).hexdigest()[:10]])


def shown(value: Any) -> str:
    """A value for names and labels."""
    if isinstance(value, tuple):
        return "-".join(map(shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
