"""Compiled code is reused when nothing changed and never when something did; what cannot be compiled still plans."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import pickle
import shutil
import subprocess
import sys
import types
import warnings
from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

import cmcts
import models
from cmcts.compilation import content as compilation
from cmcts.compilation.content import compiled_for, digest, uncompiled
from cmcts.compilation.portable import portable
from cmcts.critic.ensemble import SafetyCritic, immediate_costs_only
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.errors import ModelError
from cmcts.model.interface import KERNEL_FUNCTIONS
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.random import next_uint64, stream, uniform
from cmcts.search.kernels import run
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from conftest import compiled_only
from models import random_table, table_model

# The digest, in this process.

HELPERS = """
def far(x):
    return x + FAR
FAR = 1000.0
"""
SOURCE = """
TABLE = np.array([10.0, 20.0])
BONUS = 1.0
PAIR = (1, (2.5, "three"))

@njit
def near(x):
    return x + 100.0

def step(x, default=5):
    inner = [k for k in (1, 2)]
    return BONUS + TABLE[0] + near(x) + helpers.far(x) + tools.deep.deeper(x) + PAIR[0] + Move.EAST.value + inner[0]
"""


class Move(enum.Enum):
    EAST = 1
    WEST = 2


class OtherMove(enum.Enum):
    EAST = 3
    WEST = 2


OtherMove.__qualname__ = "Move"


def build(source=SOURCE, helpers=HELPERS, deep="def deeper(x):\n    return 7.0\n", **changes):
    """A function that reaches code and constants in every way, made from text."""

    def module(name, text):
        made = types.ModuleType(name)
        exec(text, made.__dict__)
        return made

    namespace = {"np": np, "njit": njit, "helpers": module("helpers", helpers), "tools": types.ModuleType("tools")}
    namespace["tools"].deep = module("tools.deep", deep)
    namespace["deep_again"] = namespace["tools"]
    namespace["tools"].deep.tools = namespace["tools"]  # modules may know each other
    namespace |= {"__name__": "made", "Move": Move}
    exec(source, namespace)
    namespace |= changes
    return namespace["step"]


def test_equal_content_has_an_equal_digest():
    assert digest([build()]) == digest([build()])
    assert digest([njit(build())]) == digest([build()]), "decorating changes nothing"


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param(lambda: build(SOURCE.replace("BONUS +", "2 * BONUS +")), id="the function"),
        pytest.param(lambda: build(SOURCE.replace("default=5", "default=6")), id="a default"),
        pytest.param(lambda: build(SOURCE.replace("for k in (1, 2)", "for k in (1, 3)")), id="an inner constant"),
        pytest.param(lambda: build(SOURCE.replace("100.0", "200.0")), id="an njit helper"),
        pytest.param(
            lambda: build(SOURCE.replace("@njit", "@njit(fastmath=True)")), id="a helper's options", marks=compiled_only
        ),
        pytest.param(lambda: build(SOURCE.replace("default=5", "*, default=5")), id="a default that is keyword-only"),
        pytest.param(lambda: build(helpers=HELPERS.replace("x + FAR", "x - FAR")), id="module.helper"),
        pytest.param(lambda: build(helpers=HELPERS.replace("1000.0", "2000.0")), id="a constant of module.helper"),
        pytest.param(lambda: build(deep="def deeper(x):\n    return 8.0\n"), id="package.module.helper"),
        pytest.param(lambda: build(BONUS=2.0), id="a constant"),
        pytest.param(lambda: build(BONUS=1), id="the type of a constant"),
        pytest.param(lambda: build(BONUS=np.float32(1.0)), id="the precision of a constant"),
        pytest.param(lambda: build(TABLE=np.array([10.0, 20.5])), id="an array"),
        pytest.param(lambda: build(TABLE=np.array([10.0, 20.0], np.float32)), id="an array's type"),
        pytest.param(lambda: build(TABLE=np.array([[10.0, 20.0]])), id="an array's shape"),
        pytest.param(lambda: build(PAIR=(1, (2.5, "four"))), id="a nested tuple"),
        pytest.param(lambda: build(Move=OtherMove), id="an enumeration"),
    ],
)
def test_edited_content_has_another_digest(edited):
    assert digest([edited()]) != digest([build()])


def test_closures_are_part_of_the_content():
    def make(k):
        def inner(x):
            return x + k

        return inner

    assert digest([make(1)]) == digest([make(1)])
    assert digest([make(1)]) != digest([make(2)])


def test_what_cannot_be_looked_into_is_never_reused():
    assert digest([build(BONUS=object())]) != digest([build(BONUS=object())])
    shared = object()
    assert digest([build(BONUS=shared)]) != digest([build(BONUS=shared)])


def test_the_librarys_kernels_are_part_of_every_digest(monkeypatch):
    before = digest([build()])
    monkeypatch.setattr(compilation, "_LIBRARY_DIGEST", b"other sources")
    assert digest([build()]) != before


def test_every_kernel_file_is_hashed(tmp_path, monkeypatch):
    package = Path(cmcts.__file__).parent
    shutil.copytree(package, tmp_path / "cmcts", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compilation, "LIBRARY", tmp_path / "cmcts")
    original = compilation._library_digest()
    kernels = ("kernels", "tree", "pruning", "workspace")
    others = ("random", "critic/ensemble", "model/tabular", "envs/rocksample/model", "envs/safe_gridworld/model")
    for name in (*(f"search/{kernel}" for kernel in kernels), *others):
        path = tmp_path / "cmcts" / f"{name}.py"
        text = path.read_text()
        path.write_text(text + "\n# edited\n")
        assert compilation._library_digest() != original, name
        path.write_text(text)
    assert compilation._library_digest() == original


def test_twins_run_without_numba():
    with np.errstate(over="ignore"):
        ours, theirs = stream(3), stream(3)
        assert [uncompiled(uniform)(ours) for _ in range(5)] == [uniform(theirs) for _ in range(5)]
    twin = uncompiled(uniform)
    assert isinstance(twin.__globals__["next_uint64"], types.FunctionType)
    assert twin.__globals__["next_uint64"].__code__ is compilation.python_function(next_uint64).__code__
    assert uncompiled(uniform) is twin


# The on-disk cache, in fresh processes.

USER_MODEL = """
from typing import NamedTuple
import numpy as np
from numba import njit
import helpers
from cmcts.model.interface import Model

BONUS = 1.0
TABLE = np.array([10.0, 20.0])

class Params(NamedTuple):
    scale: float

@njit
def near(x):
    return x + 100.0

def step(params, state, action, rng, next_state, costs):
    parts = np.zeros(3)  # a model may allocate
    parts[0] = BONUS + TABLE[action]
    parts[1] = near(0.0)
    parts[2] = helpers.far(0.0)
    next_state[0] = state[0] + 1.0
    costs[0] = 0.5
    return params.scale * parts.sum(), True

def legal_actions(params, state, out):
    out[0] = 0
    out[1] = 1
    return 2

def features(params, state, out):
    out[0] = state[0]

def start(params, rng, state):
    state[0] = 0.0

model = Model("user", Params(1.0), step, legal_actions, features, start, state_size=1, action_count=2, feature_count=1)
"""
USER_HELPERS = """
from numba import njit

@njit
def far(x):
    return x + 1000.0
"""
PROBE = """
import json, sys, warnings
warnings.simplefilter("error")
import cmcts
from cmcts.search import kernels
from cmcts.compilation.content import compiled_for
from cmcts.planning import deadlines
from cmcts.planning.planners import PenalizedMCTS
from usermodel import model

if "--type" in sys.argv:
    print(json.dumps(str(model._numba_type_)))
    sys.exit()

def answer(model):
    planner = PenalizedMCTS(model, 0.0)
    decision = planner.plan([0.0], 1.0, iterations=20, keep_tree=True)
    run = compiled_for(kernels.run_until, model, planner.critic)
    return decision, run

decision, run = answer(model)
scaled, again = answer(model.with_params(scale=3.0))
in_time = PenalizedMCTS(model, 0.0).plan([0.0], 1.0, seconds=1.0)
print(json.dumps({
    "package": cmcts.__file__,
    "value": decision.reward_values[0],
    "first reward": [float(x) for x in sorted(decision.tree.reward[1:3])][0],
    "scaled": scaled.reward_values[0],
    "hits": sum(run.stats.cache_hits.values()),
    "misses": sum(run.stats.cache_misses.values()),
    "compiled": len(run.signatures),
    "same dispatcher": again is run,
    "ended by its own clock": deadlines.CLOCK is None or in_time.iterations > 1,
    "type": str(model._numba_type_),
}))
"""


class Sandbox:
    """A copy of the package, a user's model beside it, and a cache of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(cmcts.__file__).parent, path / "library" / "cmcts", ignore=ignore)
        (path / "user").mkdir()
        self.write("user/usermodel.py", USER_MODEL)
        self.write("user/helpers.py", USER_HELPERS)
        self.write("probe.py", PROBE)
        self.write("script.py", USER_MODEL + PROBE.replace("from usermodel import model\n", ""))

    def write(self, name, text):
        (self.path / name).write_text(text)

    def edit(self, name, old, new):
        text = (self.path / name).read_text()
        assert text.count(old) == 1, (name, old)
        self.write(name, text.replace(old, new))

    def output(self, script, *options):
        environment = os.environ | {
            "PYTHONPATH": f"{self.path / 'library'}{os.pathsep}{self.path / 'user'}",
            "NUMBA_CACHE_DIR": str(self.path / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",  # an edit within the same second must not be hidden by old bytecode
        }
        result = subprocess.run(
            [sys.executable, str(self.path / script), *options],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def model_type(self):
        """The name that the compiled search is kept under, without compiling."""
        return self.output("probe.py", "--type")

    def probe(self, script="probe.py"):
        answer = self.output(script)
        assert answer["package"].startswith(str(self.path)), "the copy must be the one that runs"
        assert answer["compiled"] == 1, "other parameters must not compile again"
        assert answer["same dispatcher"]
        assert answer["ended by its own clock"], "whose address is another one in every process"
        assert answer["scaled"] == 3 * answer["value"]
        return answer


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    return Sandbox(tmp_path_factory.mktemp("sandbox"))


def expect_compiled(answer, value):
    assert answer["value"] == value
    assert (answer["hits"], answer["misses"]) == (0, 1)


def expect_cached(answer, value):
    assert answer["value"] == value
    assert (answer["hits"], answer["misses"]) == (1, 0)


@pytest.mark.slow  # a minute of cold compilations; the digest that it rests on is tested above
@compiled_only
def test_the_cache_is_hit_by_fresh_processes_and_missed_after_edits(sandbox):
    """Each digit of the value 1111 comes from another place. A model that allocates compiles, without a warning."""
    first = sandbox.probe()
    expect_compiled(first, 1111.0)
    second = sandbox.probe()
    expect_cached(second, 1111.0)
    assert second["type"] == first["type"], "the digest must not depend on the process"

    sandbox.edit("user/helpers.py", "x + 1000.0", "x + 2000.0")
    helped = sandbox.model_type()
    assert helped != first["type"], "another name, so nothing is found under it"

    # tree.py holds kernels but no entry point: Numba itself would not notice this edit.
    sandbox.edit("library/cmcts/search/tree.py", "tree.reward[node] = reward\n", "tree.reward[node] = reward + 0.25\n")
    edited = sandbox.probe()
    expect_compiled(edited, 2111.0)
    assert edited["first reward"] == 2111.25
    assert edited["type"] not in (first["type"], helped)

    sandbox.edit("library/cmcts/search/tree.py", "tree.reward[node] = reward + 0.25\n", "tree.reward[node] = reward\n")
    sandbox.edit("user/helpers.py", "x + 2000.0", "x + 1000.0")
    expect_cached(sandbox.probe(), 1111.0)


def test_params_of_a_script_travel_in_a_class_that_every_process_has():
    kind = namedtuple("Params", ["length", "risk"])
    kind.__module__ = "__main__"
    carried = portable(kind(6.0, 0.5))
    assert (carried.length, carried.risk) == (6.0, 0.5)
    assert type(portable(kind(1.0, 0.1))) is type(carried)
    assert type(pickle.loads(pickle.dumps(carried))) is type(carried), "found by its name alone"
    kind.__module__ = "elsewhere"
    own = kind(6.0, 0.5)
    assert portable(own) is own
    assert portable(None) is None


@compiled_only
@pytest.mark.slow
def test_the_cache_is_hit_by_a_script_that_defines_its_model(sandbox):
    """The class of its params is in `__main__`, another one in every process."""
    expect_compiled(sandbox.probe("script.py"), 1111.0)
    expect_cached(sandbox.probe("script.py"), 1111.0)


@compiled_only
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "value"),
    [
        ("user/usermodel.py", "return params.scale * parts.sum()", "return params.scale * (parts.sum() + 1e4)", 11111),
        ("user/usermodel.py", "x + 100.0", "x + 200.0", 1211),
        ("user/helpers.py", "x + 1000.0", "x + 2000.0", 2111),
        ("user/usermodel.py", "[10.0, 20.0]", "[20.0, 20.0]", 1121),
        ("user/usermodel.py", "BONUS = 1.0", "BONUS = 2.0", 1112),
        (
            "library/cmcts/search/kernels.py",
            "value = work.path_rewards[step] +",
            "value = 2.0 * work.path_rewards[step] +",
            2222,
        ),
    ],
    ids=["model", "njit helper", "another module's", "array", "constant", "search kernel"],
)
def test_other_edits_miss_the_cache(sandbox, name, old, new, value):
    sandbox.probe()  # so that there is something stale to be hit
    sandbox.edit(name, old, new)
    try:
        answer = sandbox.probe()
    finally:
        sandbox.edit(name, new, old)
    assert (answer["value"], answer["hits"], answer["misses"]) == (value, 0, 1)
    expect_cached(sandbox.probe(), 1111.0)


@compiled_only
@pytest.mark.slow
def test_the_cache_survives_another_model_that_is_gone(sandbox):
    """Signatures in a cache mention the class of `params`; a class that cannot be imported must not matter."""
    sandbox.probe()
    text = (sandbox.path / "user" / "usermodel.py").read_text()
    sandbox.write(
        "user/othermodel.py",
        text.replace("class Params", "class OtherParams").replace("Params(1.0)", "OtherParams(1.0)"),
    )
    sandbox.write("probe.py", PROBE.replace("from usermodel", "from othermodel"))
    try:
        assert sandbox.probe()["misses"] == 1
    finally:
        (sandbox.path / "user" / "othermodel.py").unlink()
        sandbox.write("probe.py", PROBE)
    expect_cached(sandbox.probe(), 1111.0)


# Models that Numba cannot compile.


class DictParams(NamedTuple):
    table: dict


def python_step(params, state, action, rng, next_state, costs):
    return models.step(params.table["params"], state, action, rng, next_state, costs)


def python_legal_actions(params, state, out):
    return models.legal_actions(params.table["params"], state, out)


def python_features(params, state, out):
    models.features(params.table["params"], state, out)


def python_rollout_action(params, state, rng):
    return models.rollout_action(params.table["params"], state, rng)


def python_expected_costs(params, state, action, out):
    models.expected_costs(params.table["params"], state, action, out)


def dict_model(twin, decorate=lambda function: function):
    """`twin`, with a dictionary in its parameters."""
    return dataclasses.replace(
        twin,
        name="dictionary",
        params=DictParams({"params": twin.params}),
        step=decorate(python_step),
        legal_actions=decorate(python_legal_actions),
        features=decorate(python_features),
        rollout_action=decorate(python_rollout_action),
        expected_costs=decorate(python_expected_costs),
    )


def same_decision(one, other):
    assert one.action == other.action
    assert one.visits.tolist() == other.visits.tolist()
    assert one.reward_values.tolist() == other.reward_values.tolist()
    assert one.cost_values.tolist() == other.cost_values.tolist()
    assert one.pruned.tolist() == other.pruned.tolist()


@pytest.mark.parametrize("decorate", [lambda function: function, njit], ids=["plain", "decorated with njit"])
def test_a_model_that_cannot_be_compiled_plans_with_one_warning(decorate):
    twin = table_model(random_table(3, constraints=2))
    model = dict_model(twin, decorate)
    search = SearchSettings(horizon=10, thrifty_rollouts=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        planner = CMCTS(model, immediate_costs_only(model), search)
        decisions = [planner.plan([0.0, 0.0], [1.0, 1.0], iterations=100, rng=seed) for seed in range(3)]
        batch = planner.plan_batch(np.zeros((2, 2)), np.ones((2, 2)), iterations=100, rngs=[0, 1])
    expected = [
        CMCTS(twin, immediate_costs_only(twin), search).plan([0.0, 0.0], [1.0, 1.0], iterations=100, rng=seed)
        for seed in range(3)
    ]
    for ours, theirs in zip([*decisions, *batch], [*expected, *expected[:2]], strict=True):
        same_decision(ours, theirs)
    if compilation.numba.config.DISABLE_JIT:
        assert caught == []
        return
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 1, messages
    assert messages[0].startswith(
        "model 'dictionary' cannot be compiled and plans uncompiled, hundreds of times slower (params: "
    )
    assert "use only numbers and NumPy arrays in params" in messages[0]
    assert "decorate the helpers they call with numba.njit" in messages[0]
    assert caught[0].category is UserWarning
    assert caught[0].filename == __file__  # the line that planned, not one of the library's


@compiled_only
def test_a_critic_that_cannot_be_compiled_plans_with_one_warning():
    twin = table_model(random_table(3))
    costs = {"low": 0.0, "high": 9.0}

    def predict(params, features, scratch, mean, sigma):
        sigma[:] = 0.0
        mean[:] = costs["low"]
        mean[1] = costs["high"]

    critic = SafetyCritic(predict, None, twin.feature_count, twin.action_count)
    planner = CMCTS(twin, critic, SearchSettings(horizon=10))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decisions = [planner.plan([0.0, 0.0], 1.0, iterations=50, rng=seed) for seed in range(2)]
        batch = planner.plan_batch(np.zeros((2, 2)), np.ones(2), iterations=50, rngs=[0, 1])
    assert all(decision.pruned[1] == decision.legal[1] for decision in decisions)
    for ours, theirs in zip(batch, decisions, strict=True):
        same_decision(ours, theirs)
    (warning,) = caught
    assert str(warning.message).startswith("a search with this critic cannot be compiled and plans uncompiled")
    assert "(predict: " in str(warning.message)
    assert warning.filename == __file__


class ListParams(NamedTuple):
    weights: list
    table: models.TableParams


def prints(params, state, action, rng, next_state, costs):
    print(f"{action:d}", end="")
    return models.step(params, state, action, rng, next_state, costs)


def catches(params, state, action, rng, next_state, costs):
    try:
        return models.step(params, state, action, rng, next_state, costs)
    except KeyError as error:
        raise ValueError from error


def opens(params, state, out):
    with pytest.MonkeyPatch.context():
        return models.legal_actions(params, state, out)


@compiled_only
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"step": prints}, r"step: format spec in f-strings not supported"),
        ({"step": catches}, r"step: Multiple argument raise is not supported"),
        ({"legal_actions": opens}, r"legal_actions: Unsupported context manager in use"),
        ({"params": ListParams([1.0], random_table(3))}, r"params\.weights is a reflected list"),
    ],
    ids=["f-string", "exception", "with", "list"],
)
def test_the_warning_names_the_culprit(change, fault, capsys):
    twin = table_model(random_table(3))
    search = SearchSettings(horizon=10)
    model = dataclasses.replace(twin, **change)
    if "params" in change:
        unwrap = lambda function: lambda params, *rest: function(params.table, *rest)  # noqa: E731
        functions = {name: unwrap(getattr(twin, name)) for name in KERNEL_FUNCTIONS}
        model = dataclasses.replace(model, **functions)
    with pytest.warns(UserWarning, match=rf"uncompiled, hundreds of times slower \({fault}"):
        decision = PenalizedMCTS(model, 1.0, search).plan([0.0, 0.0], 1.0, iterations=50)
    assert not model.compiles
    assert twin.compiles, "only the changed copy cannot be compiled"
    same_decision(decision, PenalizedMCTS(twin, 1.0, search).plan([0.0, 0.0], 1.0, iterations=50))


def raises(params, state, action, rng, next_state, costs):
    if action >= 0:
        raise OverflowError("too much")
    return 0.0, False


@pytest.mark.slow
def test_an_error_that_the_model_raises_is_passed_on(recwarn):
    model = dataclasses.replace(table_model(random_table(3)), step=raises)
    with pytest.raises(ModelError, match="too much"):
        PenalizedMCTS(model, 1.0).plan([0.0, 0.0], 1.0, iterations=5)
    assert model.compiles
    assert len(recwarn) == 0


@compiled_only
def test_equal_models_share_compiled_code():
    one, other = rocksample_model(5, 7), rocksample_model(11, 11)
    assert one._numba_type_ == other._numba_type_
    critic = immediate_costs_only(one)
    assert compiled_for(run, one, critic) is compiled_for(run, other, immediate_costs_only(other))
    assert compiled_for(run, one, critic) is not compiled_for(run, table_model(random_table(0)), critic)


@compiled_only
def test_settings_do_not_change_the_compiled_signature():
    """Whole numbers where fractions are expected must not cost another compilation."""
    model = table_model(random_table(3))
    critic = immediate_costs_only(model)
    PenalizedMCTS(model, 1.0, SearchSettings(horizon=10)).plan([0, 0], 1.0, iterations=5)
    before = len(compiled_for(run, model, critic).signatures)
    search = SearchSettings(exploration=1, widening_factor=1, widening_power=1)
    CMCTS(model, critic, search, PruningSettings(sigma_max=1, tolerance=0)).plan([0, 0], 1, iterations=np.int64(5))
    assert len(compiled_for(run, model, critic).signatures) == before


def test_keyword_only_defaults_are_part_of_the_content():
    keyword = SOURCE.replace("default=5", "*, default=5")
    assert digest([build(keyword)]) == digest([build(keyword)])
    assert digest([build(keyword)]) != digest([build(keyword.replace("default=5", "default=6"))])
