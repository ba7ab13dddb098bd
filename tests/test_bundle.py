"""A bundle comes back as it was, and nothing else is accepted for one."""

import dataclasses
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cmcts import cli
from cmcts.commands.planner_options import default_critic
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.identity import model_digest
from cmcts.critic.support import Support
from cmcts.errors import BudgetWarning, InvalidInput
from cmcts.planning.planners import CMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make

GOLDEN = Path(__file__).parent / "golden"
PART = {"version": 1, "file": "support.safetensors", "sha256": "0" * 64}


def sample_bundle(task="rocksample-5-7", hidden=(8, 6)):
    model = make(task).model
    rng = np.random.default_rng(0)
    sizes = [model.feature_count, *hidden, model.action_count]
    layers = tuple(
        (rng.normal(size=(3, a, b)).astype(np.float32), rng.normal(size=(3, b)).astype(np.float32))
        for a, b in pairwise(sizes)
    )
    return Bundle(
        task=task,
        model_digest=model_digest(model),
        feature_description=model.feature_description,
        layers=layers,
        cost_count=1,
        search=SearchSettings(exploration=5.0, iterations=1024),
        pruning=PruningSettings(tolerance=0.02),
        budget=(1.0,),
        training={"seed": 0, "reward_mean": 11.0},
        library="0.1.0",
    )


def test_a_critic_says_where_it_has_data(tmp_path):
    bundle = sample_bundle()
    model = make(bundle.task).model
    points = np.zeros((2, model.feature_count), np.float32)
    visits = np.full((2, model.action_count), 9, np.uint16)
    support = Support(points, visits, np.ones(model.feature_count, np.float32), 0.25)
    bundles.save(dataclasses.replace(bundle, support=support), tmp_path)
    loaded = bundles.load(tmp_path, model)
    assert loaded.critic.support.radius == 0.25
    assert CMCTS.load(tmp_path).plan(model.start_state(), 1.0, iterations=1).nothing_safe, "the start is no such point"
    path = tmp_path / bundles.SUPPORT_FILE
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidInput, match=r"expected support\.safetensors with digest"):
        bundles.load(tmp_path)
    path.unlink()
    with pytest.raises(InvalidInput, match="cannot read"):
        bundles.load(tmp_path)


@pytest.fixture
def folder(tmp_path):
    bundles.save(sample_bundle(), tmp_path)
    return tmp_path


def test_a_bundle_comes_back_as_it_was(folder):
    model = make("rocksample-5-7").model
    loaded, original = bundles.load(folder, model), sample_bundle()
    for (weights, biases), (saved_weights, saved_biases) in zip(loaded.layers, original.layers, strict=True):
        np.testing.assert_array_equal(weights, saved_weights)
        np.testing.assert_array_equal(biases, saved_biases)
    for name in ("task", "search", "pruning", "budget", "training", "model_digest"):
        assert getattr(loaded, name) == getattr(original, name)
    planner = CMCTS.load(folder)
    assert planner.pruning == PruningSettings(tolerance=0.02)
    assert planner.search.exploration == 5.0


def test_a_folder_of_the_users_wins_over_a_critic_that_ships(tmp_path, monkeypatch, capsys):
    """Everywhere; a name asks for what ships only where there is no folder of that name."""
    monkeypatch.chdir(tmp_path)
    ships = CMCTS.load("rocksample-5-7").search
    assert ships.exploration != 5.0
    assert (
        cli.main(["plan", "rocksample-5-7", "--critic", "rocksample-5-7", "--keep", "episode", "--iterations", "8"])
        == 0
    )
    assert "critic: trained, ships with cmcts" in capsys.readouterr().out
    bundles.save(sample_bundle(), Path("rocksample-5-7"))
    for name in ("rocksample-5-7", Path("./rocksample-5-7"), tmp_path / "rocksample-5-7"):
        assert CMCTS.load(name).search.exploration == 5.0
    assert default_critic(make("rocksample-5-7"), Path("rocksample-5-7")).search.exploration == 5.0
    assert default_critic(make("rocksample-5-7")).search == ships, "a task's name is no folder"
    Path("safe-gridworld").mkdir()
    with pytest.raises(InvalidInput, match=r"where `cmcts train` has finished.*got 'safe-gridworld'"):
        CMCTS.load("safe-gridworld")
    with pytest.raises(InvalidInput, match="one of the critics that ship"):
        CMCTS.load("../rocksample-5-7")


def test_a_bundle_plans_with_its_own_iterations():
    planner = CMCTS.load("safe-gridworld")
    assert planner.plan(planner.model.start_state(), 0.0).iterations == planner.search.iterations == 512


def test_a_load_reads_and_builds_once(folder, monkeypatch):
    built, read = [], []
    monkeypatch.setattr(bundles, "ensemble", lambda *a, make=bundles.ensemble: built.append(1) or make(*a))
    monkeypatch.setattr(
        bundles, "read_plain", lambda path, limit, read_=bundles.read_plain: read.append(1) or read_(path, limit)
    )
    CMCTS.load(folder)
    assert (len(built), len(read)) == (1, 2), "one critic, two files"


def test_a_critic_of_another_task_is_refused(folder):
    with pytest.raises(InvalidInput, match=r"expected a critic with feature_count 18 .* got one with 16"):
        bundles.load(folder, make("rocksample-7-8").model)
    with pytest.raises(InvalidInput, match="was trained for task 'rocksample-5-7', whose model differs"):
        bundles.load(folder, make("rocksample-5-7-d30").model)


def change(folder, **fields):
    """As somebody would who means it, and removes the digest of what stood there."""
    path = folder / bundles.BUNDLE_FILE
    raw = json.loads(path.read_text()) | fields
    raw.pop("check", None)
    path.write_text(json.dumps(raw))


def test_a_flipped_bit_in_a_description_is_found(folder):
    path = folder / bundles.BUNDLE_FILE
    content = path.read_bytes()
    assert content.count(b'"tolerance": 0.02') == 1
    path.write_bytes(content.replace(b'"tolerance": 0.02', b'"tolerance": 0.03'))
    with pytest.raises(InvalidInput, match=r"bundle\.json is damaged: it is not what was written"):
        bundles.load(folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": 3}, "expected format 1 or 2, got 3"),
        ({"format": True}, "expected format 1 or 2, got True"),
        ({"budget": [-1.0]}, "expected 1 budgets >= 0"),
        ({"budget": [1.0, 2.0]}, "expected 1 budgets >= 0"),
        ({"cost_scale": [0.0]}, r"expected 1 cost scales > 0, got \(0.0,\)"),
        ({"cost_scale": []}, r"expected 1 cost scales > 0, got \(\)"),
        ({"discounts": {"reward": 0.5, "costs": [0.95]}}, r"expected discounts \(0.95, \(0.95,\)\)"),
        ({"discounts": {"reward": 0.95, "costs": [0.5]}}, r"expected discounts \(0.95, \(0.95,\)\)"),
        ({"discounts": {"reward": 0.95, "costs": [0.95, 0.95]}}, "expected 1 discounts of costs"),
        ({"cost_count": -1}, "expected cost_count >= 1"),
        ({"task": 7}, "task: expected str, got int"),
        ({"surprise": 7}, "expected known names only, got surprise"),
        ({"pruning": {"tolerance": -1.0}}, "expected tolerance >= 0"),
        ({"pruning": {"cost_floor": "false"}}, "cost_floor: expected bool, got str"),
        ({"search": {"discount": 0.95, "surprise": 1}}, "expected known names only, got search.surprise"),
        ({"parts": {"frontier": PART}}, "expected parts out of columns, policies, support, values, got 'frontier'"),
        ({"parts": {"values": {**PART, "version": 2}}}, r"part 'values' of a version that is known here \(1\), got 2"),
        (
            {"parts": {"support": {**PART, "version": 2}}},
            r"part 'support' of a version that is known here \(1\), got 2",
        ),
        ({"parts": {"support": {**PART, "file": "x"}}}, "expected part 'support' in support.safetensors, got 'x'"),
        ({"parts": {"support": {"version": "1"}}}, "parts.*version: expected int, got str"),
    ],
)
def test_a_changed_description_is_refused_with_the_reason(folder, fields, message):
    change(folder, **fields)
    with pytest.raises(InvalidInput, match=message):
        bundles.load(folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden": [9, 6]}, r"expected a critic of layers \[16, 8, 6, 12\], as it is, got \[16, 9, 6, 12\]"),
        ({"hidden": ["x"]}, r"critic.hidden\[0\]: expected int, got str"),
        ({"members": 2}, "expected a critic of 3 members, as it is, got 2"),
        ({"members": True}, "critic.members: expected int, got bool"),
        ({"sha256": "0" * 64}, "with digest 000000000000"),
    ],
)
def test_a_critic_that_is_not_the_one_described_is_refused(folder, fields, message):
    change(folder, critic=json.loads((folder / bundles.BUNDLE_FILE).read_text())["critic"] | fields)
    with pytest.raises(InvalidInput, match=message):
        bundles.load(folder)


def golden_layers():
    """What the golden files were made with."""
    rng = np.random.default_rng(11)
    return tuple(
        (rng.normal(size=(2, a, b)).astype(np.float32), rng.normal(size=(2, b)).astype(np.float32))
        for a, b in ((6, 4), (4, 7))
    )


@pytest.mark.parametrize(("name", "scale"), [("format-1", 1.0), ("format-2", 2.5)])
def test_bundles_of_all_formats_load_as_they_were_saved(name, scale, tmp_path):
    loaded = bundles.load(GOLDEN / name, make("rocksample-3-2").model)
    for (weights, biases), (saved_weights, saved_biases) in zip(loaded.layers, golden_layers(), strict=True):
        np.testing.assert_array_equal(weights, saved_weights)
        np.testing.assert_array_equal(biases, saved_biases)
    described = json.loads((GOLDEN / name / bundles.BUNDLE_FILE).read_text())
    for part in ("search", "pruning"):  # settings that came later have their defaults
        assert described[part].items() <= dataclasses.asdict(getattr(loaded, part)).items()
    assert (loaded.search.exploration, loaded.search.horizon, loaded.search.iterations) == (3.0, 40, 96)
    assert (loaded.pruning.tolerance, loaded.pruning.accounting) == (0.02, "expected")
    assert (loaded.task, loaded.budget, loaded.cost_scale) == ("rocksample-3-2", (0.75,), (scale,))
    assert loaded.training == {"seed": 11, "reward_mean": 7.5}
    planner = CMCTS.load(GOLDEN / name)
    assert planner.critic.cost_scale == (scale,)
    assert planner.plan(planner.model.start_state(), loaded.budget).iterations == 96
    bundles.save(loaded, tmp_path)
    again = bundles.load(tmp_path)
    for field in dataclasses.fields(Bundle):
        if field.name != "layers":
            assert getattr(again, field.name) == getattr(loaded, field.name)
    assert (tmp_path / bundles.CRITIC_FILE).read_bytes() == (GOLDEN / name / bundles.CRITIC_FILE).read_bytes()


def test_a_bundle_without_a_critic_knows_immediate_costs_only(capsys):
    folder = GOLDEN / "format-2-without-critic"
    assert [file.name for file in folder.iterdir()] == [bundles.BUNDLE_FILE]
    with pytest.warns(BudgetWarning):
        planner = CMCTS.load(folder)
    mean, sigma = planner.critic(planner.model.feature_vector(planner.model.start_state()))
    assert not mean.any() and not sigma.any() and planner.critic.cost_scale == (2.5,)
    assert planner.plan(planner.model.start_state(), 0.5).pruned.any(), "a measurement costs 1"
    assert cli.main(["plan", "rocksample-3-2", "--critic", str(folder), "--iterations", "8"]) == 0
    assert "prunes only what exceeds the budget at once" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InvalidInput, match="whose model differs"):
        bundles.load(folder, make("rocksample-4-2").model)


def test_a_training_that_found_nothing_feasible_says_so(tmp_path, recwarn):
    """Without a critic because none keeps the budget is not the same as because immediate costs alone do better."""
    task, bundle = make("rocksample-5-7"), dataclasses.replace(sample_bundle(), layers=None, training={"seed": 0})
    bundles.save(bundle, tmp_path / "nothing")
    bundles.save(dataclasses.replace(bundle, training={"critic": bundles.DOES_NOT_PAY}), tmp_path / "unpaid")
    assert CMCTS.load(tmp_path / "unpaid") and not recwarn.list
    with pytest.warns(BudgetWarning, match="found no critic that keeps the budget: .* was not found to keep it either"):
        CMCTS.load(tmp_path / "nothing")
    assert default_critic(task, tmp_path / "unpaid").origin.startswith("none paid")
    assert default_critic(task, tmp_path / "nothing").origin.endswith("at once, which was not found to keep the budget")


def test_a_name_that_is_given_twice_is_refused(folder):
    path = folder / bundles.BUNDLE_FILE
    path.write_text(path.read_text().replace('"budget":', '"budget": [9.0], "budget":', 1))
    with pytest.raises(InvalidInput, match="expected every name once, got 'budget' twice"):
        bundles.load(folder)


def test_oversized_missing_and_foreign_files_are_refused(folder, tmp_path_factory):
    with pytest.raises(InvalidInput, match=r"where `cmcts train` has finished, or one of the critics that ship"):
        bundles.load(folder / "nowhere")
    (folder / bundles.BUNDLE_FILE).write_bytes(b" " * (bundles.MAX_BUNDLE_BYTES + 1))
    with pytest.raises(InvalidInput, match="to have at most"):
        bundles.load(folder)
    (folder / bundles.BUNDLE_FILE).write_text("[1, 2]")
    with pytest.raises(InvalidInput, match="to hold an object, got 'list'"):
        bundles.load(folder)
    (folder / bundles.BUNDLE_FILE).write_text("not json")
    with pytest.raises(InvalidInput, match="expected valid JSON"):
        bundles.load(folder)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    spoiled = sample_bundle()
    spoiled.layers[1][0][0, 0, 0] = np.nan
    bundles.save(spoiled, tmp_path)
    with pytest.raises(InvalidInput, match="expected finite weights in layer 1"):
        bundles.load(tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.sampled_from([bundles.BUNDLE_FILE, bundles.CRITIC_FILE]))
def test_any_damage_is_refused_or_harmless(folder, data, which):
    """Cut a file short, or change a byte of it: it is refused by name, or what it says is unchanged."""
    bundles.save(sample_bundle(), folder)
    path = folder / which
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:position]
    else:
        content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    try:
        loaded = bundles.load(folder)
    except InvalidInput:
        return
    # Only the description can change and still be a bundle; the weights are under its digest.
    assert which == bundles.BUNDLE_FILE
    np.testing.assert_array_equal(loaded.layers[0][0], sample_bundle().layers[0][0])


def test_loading_and_planning_need_neither_jax_nor_gymnasium(folder):
    script = f"""
import sys
from itertools import pairwise
from cmcts import CMCTS
planner = CMCTS.load({str(folder)!r})
decision = planner.plan(planner.model.start_state(), 1.0, iterations=8)
assert decision.visits.sum() == 7
loaded = [name for name in ("jax", "equinox", "optax", "gymnasium", "matplotlib") if name in sys.modules]
assert not loaded, loaded
assert "cmcts.training.loop" not in sys.modules and "cmcts.training.learning" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
