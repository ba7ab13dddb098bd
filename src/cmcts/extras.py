"""What a plain installation lacks: who needs an extra says so in one sentence, before anything is done."""

from __future__ import annotations

from importlib.util import find_spec

from cmcts.errors import InvalidInput

# Modules of each extra, by the names people know them under.
EXTRAS = {
    "train": {"jax": "JAX", "optax": "Optax", "equinox": "Equinox"},
    "gpu": {"numba_cuda": "numba-cuda"},
    "ray": {"ray": "Ray"},
    "zoo": {"icu_sepsis": "icu-sepsis", "minigrid": "MiniGrid", "highway_env": "highway-env"},
}


class MissingExtra(InvalidInput, ImportError):
    """Something needs packages that are not installed; the message says which, and how to get them."""


def require_extra(extra: str, who: str, only: str | None = None) -> None:
    """Raise `MissingExtra` unless all packages of an extra can be imported, or the `only` module that is needed of it.

    Nothing is imported to find out.
    """
    names = EXTRAS[extra] if only is None else {only: EXTRAS[extra][only]}
    missing = [name for module, name in names.items() if find_spec(module) is None]
    if missing:
        *others, last = names.values()
        needed = f"{', '.join(others)} and {last}" if others else last
        got = "none of them" if others and len(missing) == len(names) else f"no {' and no '.join(missing)}"
        raise MissingExtra(f"{who} needs {needed}, got {got} here: pip install 'cmcts[{extra}]'")
