"""The bundle: a trained critic and all that is needed to deploy it, in two small files.

    critic.safetensors   weights.0, biases.0, ... float32
    bundle.json          task, sizes, search and pruning settings, budget, training figures, digests

Loading executes nothing and needs neither JAX nor the training code. Everything is checked first: a file that is
damaged, too large, or made for another task is refused with the reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cmcts import json_settings
from cmcts.critic.ensemble import SafetyCritic, ensemble
from cmcts.critic.weights import Layers, from_arrays, sizes, to_arrays
from cmcts.errors import InvalidInput, expect
from cmcts.files import write_atomically
from cmcts.model.interface import Model
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings

FORMAT = 1
CRITIC_FILE, BUNDLE_FILE = "critic.safetensors", "bundle.json"
MAX_CRITIC_BYTES, MAX_BUNDLE_BYTES = 64 << 20, 1 << 20
SHIPPED = Path(__file__).parent / "shipped"


@dataclass(frozen=True, eq=False)
class Bundle:
    """A critic with the settings it was found best with."""

    task: str
    model_digest: str
    feature_description: str
    layers: Layers  # per layer [E, inputs, outputs] and [E, outputs]
    cost_count: int
    search: SearchSettings
    pruning: PruningSettings
    budget: tuple[float, ...]
    training: Mapping[str, Any]
    library: str

    @cached_property
    def critic(self) -> SafetyCritic:
        """The ensemble, ready for a planner; built once, because that checks and packs every weight."""
        weights, biases = zip(*self.layers, strict=True)
        return ensemble(weights, biases, self.cost_count)

    def validate_for(self, model: Model) -> None:
        """Refuse a bundle that was made for another model."""
        self.critic.validate_for(model)
        if self.model_digest != model_digest(model):
            raise InvalidInput(
                f"the bundle was trained for task {self.task!r}, whose model differs from {model.name!r} here"
            )


def model_digest(model: Model) -> str:
    """Names the problem a critic was made for: a hash of the planning model's parameters and sizes."""
    hasher = hashlib.sha256(repr((model.name, model.state_size, model.action_count, model.cost_count)).encode())
    if hasattr(model.params, "_fields"):
        for name, value in zip(model.params._fields, model.params, strict=True):
            _hash_part(name, value, hasher)
    else:
        _hash_part("params", getattr(model.params, "identity", model.params), hasher)
    return hasher.hexdigest()


def _hash_part(name: str, value: Any, hasher: Any) -> None:
    """Numbers by their bits; a plain model's other parameters by their parts, and what has none by its type."""
    if isinstance(value, dict):
        for key in sorted(value, key=repr):
            _hash_part(f"{name}.{key!r}", value[key], hasher)
        return
    try:
        array = np.ascontiguousarray(value)
    except ValueError:  # parts of different lengths
        array = np.zeros(0, object)
    if array.dtype != object:
        hasher.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        hasher.update(array.tobytes())
    elif isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            _hash_part(f"{name}.{index}", part, hasher)
    elif isinstance(value, (set, frozenset)):
        hasher.update(f"{name}:{sorted(map(repr, value))}".encode())
    else:
        hasher.update(f"{name}:{type(value).__module__}.{type(value).__qualname__}".encode())


def save(bundle: Bundle, folder: Path) -> None:
    """Write the critic, then the description that vouches for it."""
    from safetensors.numpy import save as to_bytes

    content = to_bytes(to_arrays(bundle.layers))
    widths = sizes(bundle.layers)
    description = {
        "format": FORMAT,
        "library": bundle.library,
        "task": bundle.task,
        "model_digest": bundle.model_digest,
        "feature_description": bundle.feature_description,
        "feature_count": widths[0],
        "hidden": widths[1:-1],
        "members": bundle.layers[0][0].shape[0],
        "action_count": widths[-1] // bundle.cost_count,
        "cost_count": bundle.cost_count,
        "budget": list(bundle.budget),
        "discount": bundle.search.discount,
        "iterations": bundle.search.iterations,
        "search": asdict(bundle.search),
        "pruning": asdict(bundle.pruning),
        "training": dict(bundle.training),
        "critic_sha256": hashlib.sha256(content).hexdigest(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot use {folder} for a bundle: {error.strerror or error}") from None
    write_atomically(folder / CRITIC_FILE, content)
    write_atomically(folder / BUNDLE_FILE, json_settings.dump(description, indent=2) + b"\n")


def load(folder: str | Path, model: Model | None = None) -> Bundle:
    """Read and check a bundle, from a folder or by the name of one that ships; with a model, also that it fits."""
    path = find(folder)
    text = _read(path / BUNDLE_FILE, MAX_BUNDLE_BYTES)
    content = _read(path / CRITIC_FILE, MAX_CRITIC_BYTES)
    try:
        bundle = _parse(json_settings.parse(text), content)
        bundle.critic  # noqa: B018  building it checks shapes and numbers once more, together
    except InvalidInput as error:
        raise InvalidInput(f"cannot use the bundle {path}: {error}") from None
    if model is not None:
        bundle.validate_for(model)
    return bundle


def _read(path: Path, limit: int) -> bytes:
    try:
        size = path.stat().st_size
        if size > limit:
            raise InvalidInput(f"expected {path} to have at most {limit} bytes, got {size}")
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "format": int,
    "library": str,
    "task": str,
    "model_digest": str,
    "feature_description": str,
    "feature_count": int,
    "hidden": list,
    "members": int,
    "action_count": int,
    "cost_count": int,
    "budget": list,
    "discount": (int, float),
    "iterations": int,
    "search": dict,
    "pruning": dict,
    "training": dict,
    "critic_sha256": str,
}


def _parse(raw: Any, content: bytes) -> Bundle:
    expect(isinstance(raw, dict), f"{BUNDLE_FILE} to hold an object", type(raw).__name__)
    for name, kind in _FIELDS.items():
        value = raw.get(name)
        expect(isinstance(value, kind) and not isinstance(value, bool), f"a valid field {name!r}", value)
    expect(raw["format"] == FORMAT, f"format {FORMAT}", raw["format"])
    expect(re.fullmatch(r"[0-9a-f]{64}", raw["critic_sha256"]) is not None, "a SHA-256 digest", raw["critic_sha256"])
    digest = hashlib.sha256(content).hexdigest()
    expect(digest == raw["critic_sha256"], f"{CRITIC_FILE} with digest {raw['critic_sha256'][:12]}...", digest[:12])
    layers = _layers(content)
    members, widths = layers[0][0].shape[0], sizes(layers)
    described = [raw["feature_count"], *raw["hidden"], raw["action_count"] * raw["cost_count"]]
    expect(raw["cost_count"] >= 1 and widths == described, f"a critic of layers {widths}, as it is", described)
    expect(raw["members"] == members, f"a critic of {members} members, as it is", raw["members"])
    budget = raw["budget"]
    numbers = all(isinstance(b, (int, float)) and not isinstance(b, bool) and 0 <= b < np.inf for b in budget)
    expect(numbers and len(budget) == raw["cost_count"], f"{raw['cost_count']} budgets >= 0", budget)
    expect(raw["iterations"] >= 1, "iterations >= 1", raw["iterations"])
    search = json_settings.convert({**raw["search"], "iterations": raw["iterations"]}, SearchSettings)
    expect(search.discount == raw["discount"], "one discount throughout", (search.discount, raw["discount"]))
    return Bundle(
        task=raw["task"],
        model_digest=raw["model_digest"],
        feature_description=raw["feature_description"],
        layers=layers,
        cost_count=raw["cost_count"],
        search=search,
        pruning=json_settings.convert(raw["pruning"], PruningSettings),
        budget=tuple(float(b) for b in budget),
        training=raw["training"],
        library=raw["library"],
    )


def _layers(content: bytes) -> Layers:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    try:
        arrays = from_bytes(content)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"{CRITIC_FILE} is damaged: {error}") from None
    return from_arrays(arrays)


def shipped(task: str) -> Path | None:
    """The folder of the bundle that ships with the library for a task, if there is one."""
    return SHIPPED / task if task in _names() else None


def find(name_or_folder: str | Path) -> Path:
    """The folder of a bundle. One that exists wins; only a name without a folder asks for a critic that ships."""
    path = Path(name_or_folder)
    if not path.is_dir():
        path = shipped(str(path)) or path
    if not (path / BUNDLE_FILE).is_file():
        raise InvalidInput(
            f"expected a folder where `cmcts train` has finished, or one of the critics that ship "
            f"({', '.join(_names())}), got {str(name_or_folder)!r}"
        )
    return path


def _names() -> list[str]:
    return sorted(entry.name for entry in SHIPPED.iterdir() if (entry / BUNDLE_FILE).is_file())
