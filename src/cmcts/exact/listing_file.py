"""Tables that were made once, on disk: what `Model.tabulate(..., cache=FILE)` has found, whole or half done.

One file of arrays, and loading it executes nothing. It carries a digest of what was tabulated: the environment's
content, class and source, the functions that read it, samples and seed. A file with another digest is made anew.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.compilation.content import digest
from cmcts.critic.identity import model_digest
from cmcts.errors import InvalidInput, expect
from cmcts.exact.expansion import Way
from cmcts.files import read_plain, write_atomically
from cmcts.model.interface import KERNEL_FUNCTIONS, Model

if TYPE_CHECKING:
    from cmcts.exact.tabulate import Listing

FORMAT = 1
MAX_BYTES = 1 << 32


@dataclass(frozen=True)
class _Description:
    format: int
    digest: str
    expanded: int
    seconds: float
    ways: dict[Way, int]
    start_way: str
    sha256: str
    """Of all arrays: it finds damage."""


def digest_of(model: Model, samples: int, seed: int) -> str:
    """Names what was tabulated, and how; what cannot be told apart gets a digest that is never found again."""
    functions = [getattr(model, name) for name in KERNEL_FUNCTIONS]
    functions += [function for function in (model.outcomes, model.starts) if function is not None]
    hasher = hashlib.sha256(repr((FORMAT, samples, seed, model_digest(model))).encode())
    if hasattr(model.params, "fingerprint"):  # an environment
        sources, options, content = model.params.fingerprint()
        functions += options
        hasher.update(repr(content).encode())
        for source in sources:
            hasher.update(source)
    hasher.update(digest(functions).encode())
    return hasher.hexdigest()


def save(path: Path, digest: str, listing: Listing) -> None:
    """Write what has been found so far."""
    from safetensors.numpy import save

    whole = [outcome for outcome in listing.outcomes if outcome[0] < listing.expanded]  # Ctrl-C may come in between
    outcomes = [list(part) for part in zip(*whole, strict=True)] or [[] for _ in range(6)]
    kinds = (np.int64, np.int64, np.float64, np.int64, np.float64, np.float64)
    names = ("state", "action", "chance", "successor", "reward", "costs")
    found_by = list(zip(*listing.found_by, strict=True))
    arrays: dict[str, NDArray[Any]] = {
        "rows": np.array(listing.rows),
        "parent": np.array(found_by[0], np.int64),
        "by_action": np.array(found_by[1], np.int64),
        "draw": np.array(found_by[2], np.uint64),
        "start": np.array(list(listing.start), np.int64),
        "start_chance": np.array(list(listing.start.values())),
        "features": np.array(listing.features[: listing.expanded], np.float32).reshape(listing.expanded, -1),
        "guesses": np.array(listing.guesses[: listing.expanded], np.int64).reshape(listing.expanded, -1),
    }
    for name, part, kind in zip(names, outcomes, kinds, strict=True):
        arrays[name] = np.array(part, kind)
    ways = dict(listing.ways)
    described = _Description(
        FORMAT, digest, listing.expanded, listing.seconds, ways, listing.start_way, _sha256(arrays)
    )
    arrays["description"] = np.frombuffer(json_settings.dump(asdict(described)), np.uint8)
    write_atomically(path, save(arrays))


def load(path: Path, digest: str, listing: Listing) -> None:
    """Fill a listing with what a file holds; one of another problem, or none, leaves it empty."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not path.exists():
        return
    content = read_plain(path, MAX_BYTES)
    try:
        arrays = dict(load(content))
        raw = json_settings.parse(arrays.pop("description").tobytes())
        described = json_settings.convert(raw, _Description, complete=True)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"expected {path} to hold tables, got something else: {error}") from None
    if (described.format, described.digest) != (FORMAT, digest):
        return
    if described.sha256 != _sha256(arrays):
        raise InvalidInput(f"expected {path} as it was written, got a damaged file: remove it")
    try:
        _fill(listing, described, arrays)
    except (InvalidInput, KeyError) as error:
        raise InvalidInput(f"cannot use {path}: {error}") from None


def _sha256(arrays: dict[str, NDArray[Any]]) -> str:
    hasher = hashlib.sha256()
    for name in sorted(arrays):
        hasher.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return hasher.hexdigest()


def _fill(listing: Listing, described: _Description, arrays: dict[str, NDArray[Any]]) -> None:
    """Take over what was read. All numbers are checked first: compiled functions will index tables with them."""
    states, size, expanded = len(arrays["rows"]), listing.model.state_size, described.expanded
    count = len(arrays["state"])
    shapes = {"rows": (states, size), "parent": (states,), "by_action": (states,), "draw": (states,)}
    shapes |= dict.fromkeys(("state", "action", "chance", "successor", "reward"), (count,))
    shapes |= {"costs": (count, listing.model.cost_count), "features": (expanded, listing.model.feature_count)}
    for name, shape in shapes.items():
        expect(arrays[name].shape == shape, f"{name} of shape {shape}", arrays[name].shape)
    expect(0 <= expanded <= states <= listing.limit, f"at most {listing.limit} states", states)
    actions = listing.model.action_count
    bounds = {"state": (0, expanded), "action": (0, actions), "successor": (-1, states), "parent": (-1, states)}
    bounds |= {"by_action": (0, actions), "start": (0, states), "guesses": (0, actions)}
    for name, (least, beyond) in bounds.items():
        inside = ((arrays[name] >= least) & (arrays[name] < beyond)).all()
        expect(bool(inside), f"{name} from {least} to {beyond - 1}", "others")
    sound = all(np.isfinite(arrays[name]).all() for name in ("chance", "reward", "costs", "features", "start_chance"))
    expect(bool(sound), "finite numbers", "others")
    listing.rows = list(arrays["rows"])
    listing.numbers = {row.tobytes(): number for number, row in enumerate(listing.rows)}
    listing.found_by = list(
        zip(arrays["parent"].tolist(), arrays["by_action"].tolist(), arrays["draw"].tolist(), strict=True)
    )
    listing.start = dict(zip(arrays["start"].tolist(), arrays["start_chance"].tolist(), strict=True))
    listing.expanded, listing.seconds = expanded, described.seconds
    listing.ways |= described.ways
    listing.start_way = described.start_way
    listing.features, listing.guesses = list(arrays["features"]), arrays["guesses"].tolist()
    columns = (arrays[name].tolist() for name in ("state", "action", "chance", "successor", "reward", "costs"))
    listing.outcomes = [(*row[:5], tuple(row[5])) for row in zip(*columns, strict=True)]
