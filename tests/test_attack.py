"""The attacks themselves: a few of each cheap kind, and that they would notice."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path

import pytest

from cmcts import json_settings


@pytest.fixture(scope="module")
def attacks():
    path = Path(__file__).parents[1] / "benchmarks" / "attack" / "attacks.py"
    spec = importlib.util.spec_from_file_location("attacks", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["attacks"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need processes that are forked")
def test_stub_trainings_survive_kills(attacks):
    found = attacks.kills(seed=1, tries=8)
    assert found == {"tries": 8, "bad": 0, "outcomes": {"killed and resumed": 8}, "notes": []}


def test_damage_is_noticed(attacks):
    found = attacks.corruption(seed=1, tries=40)
    assert (found["tries"], found["bad"]) == (40, 0), found["notes"]
    assert found["outcomes"]["refused by name"] >= 30


def test_damage_that_is_not_noticed_would_be(attacks, monkeypatch):
    """Without digests, flipped bits in numbers pass."""
    monkeypatch.setattr(
        json_settings, "unsealed", lambda values, name, always=False: {k: v for k, v in values.items() if k != "check"}
    )
    assert attacks.corruption(seed=1, tries=150)["bad"] > 0


def test_damage_changes_a_file_in_every_way(attacks):
    content, dice = bytes(range(200)), random.Random(0)
    lengths = {len(attacks.corrupted(content, dice)) for _ in range(50)}
    assert min(lengths) < 150 and max(lengths) > 200 and 200 in lengths
