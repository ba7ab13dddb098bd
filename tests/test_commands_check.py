"""`cmcts check`: what is right, what is wrong and what is slow, and ten broken models whose fault it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cmcts import cli
from conftest import compiled_only

EXAMPLES = Path(__file__).parent.parent / "examples"
WHOLE = (EXAMPLES / "compiled_model.py").read_text()


def check(capsys, *arguments):
    status = cli.main(["check", *map(str, arguments)])
    return status, capsys.readouterr().out


def broken(tmp_path, old, new):
    assert old in WHOLE
    # Uncompiled: a fault is found without compiling, and twenty compilations would take minutes.
    text = WHOLE.replace(old, new).replace("1, 2, 1)\n", "1, 2, 1, compilable=False)\n")
    (tmp_path / "mine.py").write_text(text)
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("costs[0] = 1.0 if", "costs[0] = -1.0 if", r"step: expected costs >= 0, got \[-1.0\] for action 1"),
        ("return (10.0 if home", "return (float('nan') if home", "step: expected a finite reward, got nan"),
        ("next_state[0] = state[0]", "next_state[1] = state[0]", "step: raised IndexError: .* in state"),
        ("next_state[0] = state[0]", "state[0] = state[0]", "step: expected (state to be left alone|a next state)"),
        (
            "uniform(rng) < params",
            "__import__('random').random() < params",
            "step: expected the same result from the sa",
        ),
        ("out[0], out[1] = 0, 1", "out[0], out[1] = 0, 2", "legal_actions: expected actions from 0 to 1, got 2 in"),
        ("    return 2\n", "    return 0\n", "legal_actions: expected at least one legal action, got none"),
        ("out[0] = state[0] / params.length", "pass", "features: expected features of 1 numbers, got 0 written"),
        (
            "def start(params, rng, state)",
            "def start(rng, state)",
            r"start: expected 3 arguments as in start\(params, ",
        ),
        (
            "step, legal_actions, features, start, 1",
            "None, legal_actions, features, start, 1",
            ".*function step, got None",
        ),
    ],
    ids=["cost", "reward", "error", "in place", "dice", "range", "none", "features", "arguments", "missing"],
)
def test_ten_broken_models_are_told_what_is_wrong(capsys, tmp_path, old, new, message):
    status, out = check(capsys, f"{broken(tmp_path, old, new)}:model", "--states", 40)
    assert status == 1
    wrong = [line for line in out.splitlines() if line.startswith("wrong  ")]
    assert any(re.match(f"wrong  {message}", line) for line in wrong), out
    assert "speed" not in out


def test_an_environment_is_right_and_slow(capsys):
    status, out = check(capsys, f"{EXAMPLES}/six_tuple.py:task", "--states", 20, "--seconds", 0.05)
    assert status == 0
    assert "right  model 'WetCorridor': 2 actions, 1 cost, states of 3 numbers, 2 features" in out
    assert "right  task 'six-tuple': budget 0.1, both worlds" in out
    assert "slow   a Gymnasium environment is not compiled; planning works, hundreds of times slower" in out
    assert re.search(r"speed  [\d,]+ simulations a second on one core", out)


@compiled_only
def test_what_keeps_a_model_from_compiling_is_said(capsys):
    status, out = check(capsys, f"{EXAMPLES}/plain_python.py:model", "--states", 20, "--seconds", 0.05)
    assert status == 0
    assert re.search(r"slow   Numba cannot compile params: .*dict.*; planning works, hundreds of times slower", out)


def test_a_compiled_model_takes_at_most_forty_lines(capsys):
    assert len(WHOLE.splitlines()) <= 40
    status, out = check(capsys, f"{EXAMPLES}/compiled_model.py:task", "--states", 20, "--seconds", 0.05)
    assert (status, "slow" in out, "wrong" in out) == (0, False, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("real_world=lambda: ModelWorld(other)", "real_world: expected 2 actions, as in the model, got Discrete(5)"),
        ("training_world=Free", 'training_world: expected info["cost"], got keys []'),
        ("training_world=lambda: 1 / 0", "training_world: raised ZeroDivisionError: division by zero"),
        ("real_world=Moody", "real_world: expected the same episode after a reset with the same seed, got two"),
    ],
)
def test_worlds_are_checked_too(capsys, tmp_path, change, message):
    text = (
        WHOLE.replace("1, 2, 1)\n", "1, 2, 1, compilable=False)\n")
        + f"""
import random
from cmcts.model.worlds import ModelWorld
from dataclasses import replace

other = replace(model, action_count=5)


class Free(ModelWorld):
    def __init__(self):
        super().__init__(model)

    def step(self, action):
        return *super().step(action)[:4], {{}}


class Moody(Free):
    def step(self, action):
        return *super().step(action)[:4], {{"cost": random.random()}}


task = replace(task, {change})
"""
    )
    (tmp_path / "mine.py").write_text(text)
    status, out = check(capsys, f"{tmp_path}/mine.py:task", "--states", 20)
    assert (status, f"wrong  {message}" in out) == (1, True), out


def test_what_cannot_be_loaded_is_wrong(capsys):
    status, out = check(capsys, "nowhere.py:model")
    assert (status, out.startswith("wrong  cannot read ")) == (1, True)
    status, out = check(capsys, f"{EXAMPLES}/compiled_model.py:Params")
    assert status == 1 and "Params() raised TypeError" in out


@pytest.mark.parametrize("command", ["plan", "evaluate", "train"])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    return 2\n", "    return 3\n", "legal_actions: "),
        ("out[0], out[1] = 0, 1", "out[0], out[1] = 0, 2", "legal_actions: expected actions from 0 to 1, got 2"),
        ("return (10.0 if home else -1.0), home", "return 1.0", "step: "),
    ],
    ids=["count", "range", "one value"],
)
def test_a_broken_model_is_refused_before_it_reaches_a_kernel(
    capsys, tmp_path, monkeypatch, command, old, new, message
):
    """In a compiled search, an index out of range is somebody else's memory."""
    monkeypatch.chdir(tmp_path)
    mine = f"{broken(tmp_path, old, new)}:task"
    assert cli.main([command, mine]) == 2
    error = capsys.readouterr().err
    assert message in error and f"see cmcts check {mine}" in error
