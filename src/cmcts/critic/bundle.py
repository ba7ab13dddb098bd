"""The bundle: a trained critic and all that is needed to deploy it, in a folder of small files.

    bundle.json          task, sizes, search and pruning settings, budget, training figures, digests of the other files
    critic.safetensors   weights.0, biases.0, ... float32; a bundle may do without
    support.safetensors  where the critic has data (support.py); one that was trained before 0.2 does not say
    columns.safetensors  the policies of a frontier and all their episodes (columns.py), if there is one
    values.safetensors   reward and costs to go, for those of them that judge leaves by them (values.py)
    policies.safetensors the exact policies among them, as tables, each array's name after its policy's digest

Loading executes nothing and needs neither JAX nor the training code. Everything is checked first: a file that is
damaged, too large, or made for another task is refused with the reason.

Format 2 adds to format 1, which still loads: a scale of each cost, discounts of the reward and of each cost, a critic
that may be missing, and further parts by name and version. A part that this library does not know is refused, because
whoever wrote it did not mean to plan without.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.critic import columns as column_arrays
from cmcts.critic import policies as policy_arrays
from cmcts.critic import support as support_arrays
from cmcts.critic import values as value_arrays
from cmcts.critic.columns import Column
from cmcts.critic.ensemble import SafetyCritic, ensemble, immediate_costs_only
from cmcts.critic.identity import changed_code, model_digest
from cmcts.critic.policies import Policies
from cmcts.critic.support import Support
from cmcts.critic.values import LeafValues
from cmcts.critic.weights import Layers, from_arrays, sizes, to_arrays
from cmcts.errors import InvalidInput, ModelWarning, expect, users_stack_level
from cmcts.files import read_plain, write_atomically
from cmcts.model.interface import Model
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings

FORMAT = 2
CRITIC_FILE, BUNDLE_FILE = "critic.safetensors", "bundle.json"
COLUMNS_FILE, SUPPORT_FILE, VALUES_FILE = "columns.safetensors", "support.safetensors", "values.safetensors"
POLICIES_FILE, POLICIES_VERSION = "policies.safetensors", 1
MAX_ARRAY_BYTES, MAX_POLICIES_BYTES, MAX_BUNDLE_BYTES = 64 << 20, 1 << 30, 1 << 20
DOES_NOT_PAY = "does not pay"  # training figure "critic", where pruning by immediate costs was found better than one
SHIPPED = Path(__file__).parent / "shipped"
# Names of parts, with their files and the versions that are read here.
PARTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "columns": (COLUMNS_FILE, tuple(range(1, column_arrays.VERSION + 1))),
    "policies": (POLICIES_FILE, (POLICIES_VERSION,)),
    "support": (SUPPORT_FILE, (support_arrays.VERSION,)),
    "values": (VALUES_FILE, (value_arrays.VERSION,)),
}


@dataclass(frozen=True, eq=False)
class Bundle:
    """A critic with the settings it was found best with."""

    task: str
    model_digest: str
    feature_description: str
    layers: Layers | None  # per layer [E, inputs, outputs] and [E, outputs]; None if there is no critic
    cost_count: int
    search: SearchSettings
    pruning: PruningSettings
    budget: tuple[float, ...]
    training: Mapping[str, Any]
    library: str
    cost_scale: tuple[float, ...] = ()
    """What counts as a large cost, one number a constraint: tolerances are shares of it. None means 1 each."""
    support: Support | None = None
    """Where the critic has data; None if that is not known."""
    columns: tuple[Column, ...] = ()
    """The policies of a frontier, measured in the training world; none if there is no frontier."""
    values: LeafValues | None = None
    """Reward and costs to go, if some column judges leaves by them."""
    policies: Policies = field(default_factory=dict)
    """The tables of exact policies that columns play, by their digests."""
    code: Mapping[str, str] = field(default_factory=dict)
    """Digests of the model's functions, as `code_digests` has them; none of bundles that were written before 0.2."""

    def __post_init__(self) -> None:
        scale = self.cost_scale or (1.0,) * self.cost_count
        expect(len(scale) == self.cost_count and min(scale) > 0, f"{self.cost_count} cost scales > 0", scale)
        object.__setattr__(self, "cost_scale", scale)

    @cached_property
    def critic(self) -> SafetyCritic | None:
        """The ensemble, ready for a planner; built once, because that checks and packs every weight."""
        if self.layers is None:
            return None
        weights, biases = zip(*self.layers, strict=True)
        return ensemble(weights, biases, self.cost_count, self.cost_scale, self.support)

    @property
    def nothing_feasible(self) -> bool:
        """Whether its training found nothing that keeps every episode within the budget: no critic, and immediate
        costs alone neither.
        """
        return self.layers is None and self.training.get("critic") != DOES_NOT_PAY

    def critic_for(self, model: Model) -> SafetyCritic:
        """The critic, or one that knows immediate costs only if there is none; refuses a model it was not made for.

        A model of the same sizes and parameters but other code is warned about: `ModelWarning`.
        """
        critic = immediate_costs_only(model, self.cost_scale) if self.critic is None else self.critic
        critic.validate_for(model)
        if self.values is not None:
            self.values.validate_for(model)
        if self.model_digest != model_digest(model):
            raise InvalidInput(
                f"the bundle was trained for task {self.task!r}, whose model differs from {model.name!r} here"
            )
        if changed := changed_code(self.code, model):
            warnings.warn(
                f"the bundle was trained for task {self.task!r} with another {', '.join(changed)} than model "
                f"{model.name!r} has now (cmcts {self.library}): train it again if that changes the problem",
                ModelWarning,
                stacklevel=users_stack_level(),
            )
        return critic


@dataclass(frozen=True)
class _Discounts:
    reward: float
    costs: tuple[float, ...]


@dataclass(frozen=True)
class _Critic:
    feature_count: int
    hidden: tuple[int, ...]
    members: int
    action_count: int
    sha256: str


@dataclass(frozen=True)
class _Part:
    version: int
    file: str
    sha256: str


@dataclass(frozen=True)
class _Description:
    """What bundle.json holds."""

    format: int
    library: str
    task: str
    model_digest: str
    feature_description: str
    cost_count: int
    budget: tuple[float, ...]
    cost_scale: tuple[float, ...]
    discounts: _Discounts
    search: SearchSettings
    pruning: PruningSettings
    critic: _Critic | None
    parts: dict[str, _Part]
    training: dict[str, Any]
    code: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = self.cost_count
        expect(count >= 1, "cost_count >= 1", count)
        expect(len(self.budget) == count and min(self.budget) >= 0, f"{count} budgets >= 0", self.budget)
        expect(len(self.cost_scale) == count, f"{count} cost scales > 0", self.cost_scale)
        expect(len(self.discounts.costs) == count, f"{count} discounts of costs", self.discounts.costs)
        meant = (self.search.discount, self.search.discounts_of_costs(count))
        said = (self.discounts.reward, self.discounts.costs)
        expect(said == meant, f"discounts {meant}, as in the settings of the search", said)
        for name, part in self.parts.items():
            expect(name in PARTS, f"parts out of {', '.join(PARTS)}", name)
            file, versions = PARTS[name]
            known = " or ".join(map(str, versions))
            expect(part.version in versions, f"part {name!r} of a version that is known here ({known})", part.version)
            expect(part.file == file, f"part {name!r} in {file}", part.file)
        expect("support" not in self.parts or self.critic is not None, "a critic, whose support it is", None)


@dataclass(frozen=True)
class _Format1:
    """What bundle.json held in release 0.1."""

    format: int
    library: str
    task: str
    model_digest: str
    feature_description: str
    feature_count: int
    hidden: tuple[int, ...]
    members: int
    action_count: int
    cost_count: int
    budget: tuple[float, ...]
    discount: float
    iterations: int
    search: dict[str, Any]
    pruning: dict[str, Any]
    training: dict[str, Any]
    critic_sha256: str


def _upgraded(raw: dict[str, Any]) -> dict[str, Any]:
    """A description of format 1 as one of format 2: all costs on the scale of 1, one discount for all."""
    old = json_settings.convert(raw, _Format1)
    same = ("library", "task", "model_digest", "feature_description", "cost_count", "budget", "pruning", "training")
    sizes_ = ("feature_count", "hidden", "members", "action_count")
    return {
        **{name: raw[name] for name in same},
        "format": FORMAT,
        "cost_scale": [1.0] * len(old.budget),
        "discounts": {"reward": old.discount, "costs": [old.discount] * len(old.budget)},
        "search": {**old.search, "iterations": old.iterations},
        "critic": {**{name: raw[name] for name in sizes_}, "sha256": old.critic_sha256},
        "parts": {},
    }


def save(bundle: Bundle, folder: Path) -> None:
    """Write the critic, columns and leaf values that there are, then the description that vouches for them."""
    from safetensors.numpy import save as to_bytes

    critic = content = None
    if bundle.layers is not None:
        content = to_bytes(to_arrays(bundle.layers))
        features, *hidden, outputs = sizes(bundle.layers)
        critic = _Critic(
            feature_count=features,
            hidden=tuple(hidden),
            members=bundle.layers[0][0].shape[0],
            action_count=outputs // bundle.cost_count,
            sha256=hashlib.sha256(content).hexdigest(),
        )
    contents: dict[str, bytes] = {}
    if bundle.columns:
        contents["columns"] = to_bytes(column_arrays.to_arrays(bundle.columns))
    if bundle.support is not None:
        contents["support"] = to_bytes(support_arrays.to_arrays(bundle.support))
    if bundle.values is not None:
        contents["values"] = to_bytes(value_arrays.to_arrays(bundle.values))
    if bundle.policies:
        named = {
            f"{digest}.{name}": array for digest, arrays in bundle.policies.items() for name, array in arrays.items()
        }
        contents["policies"] = to_bytes(named)
    size, most = len(contents.get("policies", b"")), MAX_POLICIES_BYTES
    expect(size <= most, f"exact policies of at most {most} bytes together", size)
    parts = {
        name: _Part(PARTS[name][1][-1], PARTS[name][0], hashlib.sha256(part).hexdigest())
        for name, part in contents.items()
    }
    discounts = _Discounts(bundle.search.discount, bundle.search.discounts_of_costs(bundle.cost_count))
    description = _Description(
        format=FORMAT,
        library=bundle.library,
        task=bundle.task,
        model_digest=bundle.model_digest,
        feature_description=bundle.feature_description,
        cost_count=bundle.cost_count,
        budget=bundle.budget,
        cost_scale=bundle.cost_scale,
        discounts=discounts,
        search=bundle.search,
        pruning=bundle.pruning,
        critic=critic,
        parts=parts,
        training=dict(bundle.training),
        code=dict(bundle.code),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot use {folder} for a bundle: {error.strerror or error}") from None
    if content is not None:
        write_atomically(folder / CRITIC_FILE, content)
    for name, part in contents.items():
        write_atomically(folder / PARTS[name][0], part)
    vouched = json_settings.sealed(json_settings.parse(json_settings.dump(description)))
    write_atomically(folder / BUNDLE_FILE, json_settings.dump(vouched, indent=2) + b"\n")


def load(folder: str | Path, model: Model | None = None) -> Bundle:
    """Read and check a bundle, from a folder or by the name of one that ships; with a model, also that it fits."""
    path = find(folder)
    try:
        raw = json_settings.parse(read_plain(path / BUNDLE_FILE, MAX_BUNDLE_BYTES))
        described = _describe(raw)
        bundle = Bundle(
            task=described.task,
            model_digest=described.model_digest,
            feature_description=described.feature_description,
            layers=None if described.critic is None else _layers(path / CRITIC_FILE, described.critic, described),
            cost_count=described.cost_count,
            search=described.search,
            pruning=described.pruning,
            budget=described.budget,
            training=described.training,
            library=described.library,
            cost_scale=described.cost_scale,
            support=_support(path / SUPPORT_FILE, described),
            columns=_columns(path / COLUMNS_FILE, described),
            values=_values(path / VALUES_FILE, described),
            policies=_policies(path / POLICIES_FILE, described),
            code=described.code,
        )
        for column in bundle.columns:
            known = not column.settings.policy or column.settings.policy in bundle.policies
            expect(known, "the exact policy that a column plays", column.settings.policy)
        bundle.critic  # noqa: B018  building it checks shapes and numbers once more, together
    except InvalidInput as error:
        raise InvalidInput(f"cannot use the bundle {path}: {error}") from None
    if model is not None:
        bundle.critic_for(model)
    return bundle


def _describe(raw: Any) -> _Description:
    expect(isinstance(raw, dict), f"{BUNDLE_FILE} to hold an object", type(raw).__name__)
    vouched, raw = raw, {name: value for name, value in raw.items() if name != "check"}
    form = raw.get("format")
    expect(form in (1, FORMAT) and not isinstance(form, bool), f"format 1 or {FORMAT}", form)
    described = json_settings.convert(_upgraded(raw) if form == 1 else raw, _Description)
    json_settings.unsealed(vouched, BUNDLE_FILE)  # last: what is wrong with a field is the better message
    return described


def _arrays(path: Path, sha256: str, most_bytes: int = MAX_ARRAY_BYTES) -> dict[str, Any]:
    """The arrays of a file that has this digest."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    content = read_plain(path, most_bytes)
    digest = hashlib.sha256(content).hexdigest()
    expect(digest == sha256, f"{path.name} with digest {sha256[:12]}...", digest[:12])
    try:
        return dict(from_bytes(content))
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"{path.name} is damaged: {error}") from None


def _columns(path: Path, described: _Description) -> tuple[Column, ...]:
    part = described.parts.get("columns")
    if part is None:
        return ()
    columns = column_arrays.from_arrays(_arrays(path, part.sha256), described.cost_count)
    guarded = any(column.settings.guard == "critic" for column in columns)
    expect(described.critic is not None or not guarded, "a critic, which guards a column", None)
    valued = any(column.settings.values for column in columns)
    expect("values" in described.parts or not valued, "leaf values, which a column judges leaves by", None)
    return columns


def _policies(path: Path, described: _Description) -> Policies:
    part = described.parts.get("policies")
    if part is None:
        return {}
    policies: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in _arrays(path, part.sha256, MAX_POLICIES_BYTES).items():
        digest, _, of_it = name.partition(".")
        policies.setdefault(digest, {})[of_it] = array
    return policy_arrays.checked(policies, described.cost_count)


def _values(path: Path, described: _Description) -> LeafValues | None:
    part = described.parts.get("values")
    if part is None:
        return None
    values = value_arrays.from_arrays(_arrays(path, part.sha256))
    count = len(values.price_units)
    expect(count == described.cost_count, f"leaf values of {described.cost_count} constraints", count)
    return values


def _support(path: Path, described: _Description) -> Support | None:
    part, critic = described.parts.get("support"), described.critic
    if part is None or critic is None:
        return None
    return support_arrays.from_arrays(_arrays(path, part.sha256), critic.feature_count, critic.action_count)


def _layers(path: Path, critic: _Critic, described: _Description) -> Layers:
    layers = from_arrays(_arrays(path, critic.sha256))
    members, widths = layers[0][0].shape[0], sizes(layers)
    said = [critic.feature_count, *critic.hidden, critic.action_count * described.cost_count]
    expect(widths == said, f"a critic of layers {widths}, as it is", said)
    expect(critic.members == members, f"a critic of {members} members, as it is", critic.members)
    return layers


def holds_columns(folder: Path) -> bool:
    """Whether a bundle says that it holds the columns of a frontier; only `load` checks that it does."""
    raw = json_settings.parse(read_plain(folder / BUNDLE_FILE, MAX_BUNDLE_BYTES))
    parts = raw.get("parts") if isinstance(raw, dict) else None
    return isinstance(parts, dict) and "columns" in parts


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
