"""Settings come back from JSON as they were, and nothing is guessed."""

from __future__ import annotations

import json

import pytest

from cmcts import json_settings
from cmcts.errors import InvalidInput
from cmcts.search.pruning import PruningSettings
from cmcts.tasks.registry import make
from cmcts.training.paper import paper_settings
from cmcts.training.settings import TrainingSettings


@pytest.mark.parametrize("task", ["safe-gridworld", "rocksample-5-7"])
def test_settings_come_back_as_they_were(task):
    for settings in (TrainingSettings.for_task(make(task), seed=3), paper_settings(make(task))):
        raw = json_settings.parse(json_settings.dump(settings, indent=2))
        assert json_settings.convert(raw, TrainingSettings, complete=True) == settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "expected known names only, got surprise"),
        ({"search": {"surprise": 1}}, "expected known names only, got search.surprise"),
        ({"seed": "0"}, "seed: expected int, got str"),
        ({"seed": True}, "seed: expected int, got bool"),
        ({"search": {"stratified": "false"}}, "search.stratified: expected bool, got str"),
        ({"search": {"horizon": 3.5}}, "search.horizon: expected int | null, got float"),
        ({"search": 3}, "search: expected object, got int"),
        ({"search": {"discount": 2}}, "search: expected a discount above 0 and at most 1, got 2.0"),
        ({"search": {"cost_discounts": [1, "1"]}}, "search.cost_discounts[1]: expected float, got str"),
        ({"tolerances": [0.1, None]}, "tolerances[1]: expected float, got null"),
        ({"accountings": ["owed"]}, "accountings[0]: invalid enum value 'owed'"),
        ({"patience": -1}, "expected patience >= 0, got -1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change, message):
    with pytest.raises(InvalidInput) as refused:
        json_settings.convert(change, TrainingSettings)
    assert str(refused.value) == message


def test_missing_names_take_their_defaults_unless_all_are_needed():
    assert json_settings.convert({"tolerance": 0.25}, PruningSettings) == PruningSettings(tolerance=0.25)
    with pytest.raises(InvalidInput, match="expected a value for accounting, got none"):
        json_settings.convert({"tolerance": 0.25}, PruningSettings, complete=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"b": 1, "b": 2}}', "expected every name once, got 'b' twice"),
        ('{"a": NaN}', "expected finite numbers, got NaN"),
        ("{", "expected valid JSON, got something else"),
        ("[" * 100_000, "expected valid JSON, got something else"),
    ],
)
def test_doubtful_files_are_refused(text, message):
    with pytest.raises(InvalidInput) as refused:
        json_settings.parse(text)
    assert str(refused.value) == message
    with pytest.raises(InvalidInput, match="expected finite numbers, the only ones that JSON knows"):
        json_settings.dump({"a": float("inf")})


def test_json_is_what_everybody_writes():
    value = {"b": [1, 2.5, None], "a": "ä"}
    assert json_settings.dump(value, indent=2) == json.dumps(value, indent=2).encode()
