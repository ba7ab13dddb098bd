"""Modules that have moved: the paths of release 0.1 work for one more release, and say where to look now."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from cmcts.errors import users_stack_level

# Old module under `cmcts`, and where its names are now.
MOVED: dict[str, tuple[str, ...]] = {
    "agent": ("planning.agent",),
    "bundle": ("critic.bundle",),
    "check": ("model.check",),
    "check_task": ("tasks.check",),
    "columns": ("exact.column_generation",),
    "dataset": ("training.dataset",),
    "decision": ("planning.decision",),
    "figures": ("report.figures",),
    "finite": ("exact.finite",),
    "learning": ("training.learning", "training.settings"),
    "loading": ("tasks.references",),
    "memo": ("search.workspace",),
    "mixtures": ("planning.mixtures",),
    "monitor": ("planning.monitor",),
    "multipliers": ("training.multipliers",),
    "optimum": ("tasks.optimum",),
    "pages": ("report.html",),
    "planners": ("planning.planners",),
    "pruning": ("search.pruning",),
    "random_models": ("exact.random_problems", "model.tabular", "exact.finite"),
    "rocksample_beliefs": ("exact.rocksample.beliefs",),
    "rocksample_bounds": ("exact.rocksample.bounds",),
    "rocksample_one_reading": ("exact.rocksample.one_reading",),
    "rocksample_values": ("exact.rocksample.values",),
    "runs": ("training.run_folder", "files"),
    "selection": ("training.selection",),
    "session": ("search.session",),
    "simulator": ("model.from_env",),
    "snapshots": ("model.snapshots",),
    "statistics": ("evaluation.statistics",),
    "tables": ("report.tables",),
    "training_settings": ("training.settings", "training.paper"),
    "tree": ("search.tree",),
    "workspace": ("search.workspace",),
    "envs.rocksample_energy": ("envs.rocksample.energy",),
    "envs.rocksample_energy_world": ("envs.rocksample.energy_world",),
    "envs.rocksample_leak": ("envs.rocksample.leak",),
    "envs.rocksample_world": ("envs.rocksample.world",),
    "envs.safe_gridworld_world": ("envs.safe_gridworld.world",),
}


class _Moved(ModuleType):
    """Stands where a module was; its names are looked up where they are now."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for place in MOVED[self.__name__.removeprefix("cmcts.")]:
                module = importlib.import_module(f"cmcts.{place}")
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _Finder(MetaPathFinder, Loader):
    """Finds modules by the names they had in release 0.1."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """A spec for a module that has moved; None for every other name, which is left to the other finders."""
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "cmcts" and name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Warn that the module has moved, and make the stand-in for it."""
        places = " and ".join(f"cmcts.{place}" for place in MOVED[spec.name.removeprefix("cmcts.")])
        warnings.warn(
            f"{spec.name} has moved to {places}, and its old name goes with release 0.3",
            DeprecationWarning,
            stacklevel=users_stack_level(),
        )
        return _Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing has to be run: the stand-in looks its names up when they are asked for."""


def install() -> None:
    """Make the modules of release 0.1 importable by their old names."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
