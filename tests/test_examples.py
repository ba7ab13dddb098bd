"""The tasks in examples/: trained by the normal command, they keep their budgets and come close to the optimum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cmcts import cli

pytest.importorskip("jax")

EXAMPLES = Path(__file__).parent.parent / "examples"
BRIEF = ["--evaluation-episodes", "200", "--max-rounds", "1", "--tolerances", "0", "--steps-per-multiplier", "300"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compiled_model", "plain_python", "six_tuple", "frozen_lake", "cliff_walking"])
def test_an_example_keeps_its_budget_and_nearly_reaches_the_optimum(capsys, tmp_path, name):
    task, run = f"{EXAMPLES}/{name}.py:task", str(tmp_path / "run")
    assert cli.main(["train", task, "--out", run, *BRIEF]) == 0
    capsys.readouterr()
    regret = ["--regret"] if name in ("frozen_lake", "cliff_walking") else []
    assert cli.main(["evaluate", task, "--critic", run, "--episodes", "500", "--json", *regret]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["cost_mean"] <= summary["budget"][0] + 1e-9
    if regret:
        assert summary["regret"] <= 0.1 * abs(summary["optimum_upper"])
