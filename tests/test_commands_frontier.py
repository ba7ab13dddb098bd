"""The commands with a frontier: which planner plays, what its budget means, and what is said about it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cmcts
from cmcts.cli import main
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.columns import Column, ColumnSettings, Sample
from cmcts.critic.identity import model_digest
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.optimum import least_optimum, solve_training

NAME = "random-absorbing-3"
TASK = cmcts.make(NAME)
SEARCH = SearchSettings(discount=0.9, exploration=1.0, horizon=12, iterations=16)


def column(price, reward, cost):
    """A column with made-up figures: a command must not care where they come from."""
    costs = cost + np.linspace(-0.01, 0.01, 60)[:, None]
    sample = Sample(reward + np.linspace(-1.0, 1.0, 60), np.maximum(costs, 0.0))
    return Column(ColumnSettings((price,), SEARCH), sample, sample)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("frontier")
    bundle = Bundle(
        task=NAME,
        model_digest=model_digest(TASK.model),
        feature_description="",
        layers=None,
        cost_count=1,
        search=SEARCH,
        pruning=PruningSettings(),
        budget=(0.3,),
        training={},
        library="0",
        columns=(column(4.0, 0.5, 0.1), column(1.0, 1.5, 0.5), column(0.0, 2.0, 1.0)),
    )
    bundles.save(bundle, path)
    return str(path)


def said(capsys, *arguments):
    assert main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def test_the_frontier_plays_by_default_under_the_bundle_s_budget(capsys, folder):
    out = said(capsys, "plan", NAME, "--critic", folder, "--json")
    assert (out["planner"], out["keep"]) == ("frontier", "mean")
    assert "budget kept on average: 50" in out["note"] and "lambda 4" in out["note"]
    assert out["column"] in ("lambda 4, 16 simulations", "lambda 1, 16 simulations")
    out = said(capsys, "evaluate", NAME, "--critic", folder, "--episodes", "20", "--json")
    assert (out["planner"], out["budget"], out["iterations"]) == ("frontier", [0.3], None)


def test_what_the_budget_means_chooses_the_planner(capsys, folder):
    assert said(capsys, "plan", NAME, "--critic", folder, "--keep", "episode", "--json")["planner"] == "cmcts"
    out = said(
        capsys, "evaluate", NAME, "--critic", folder, "--keep", "chance", "--share", "0.1", "--budget", "0.5",
        "--episodes", "20", "--json",
    )  # fmt: skip
    assert out["keep"] == "chance" and "at most 10 % of the episodes over it" in out["note"]
    out = said(capsys, "evaluate", NAME, "--critic", folder, "--compare", "cmcts", "--episodes", "20", "--json")
    assert set(out["comparisons"]) == {"cmcts"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "chance"], "expected --share DELTA with --keep chance"),
        (["--share", "0.1"], "expected --share DELTA with --keep chance"),
        (["--keep", "episode", "--planner", "frontier"], "expected --keep episode with planner cmcts, got it with"),
        (["--keep", "mean", "--planner", "cc-mcp"], "expected --keep mean with planner frontier, got it with cc-mcp"),
        (["--penalty", "1"], "expected --penalty with planner penalized alone, got it with frontier"),
        (["--exploration", "1"], "expected --exploration with another planner than frontier"),
    ],
)
def test_options_that_contradict_each_other_are_refused(capsys, folder, options, message):
    assert main(["plan", NAME, "--critic", folder, *options]) == 2
    assert message in capsys.readouterr().err


def test_a_frontier_that_is_not_there_is_asked_for_by_name(capsys):
    assert main(["plan", NAME, "--planner", "frontier"]) == 2
    assert f"expected a frontier, which `cmcts train {NAME}` builds, got none that ships" in capsys.readouterr().err
    assert main(["plan", NAME, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["planner"] == "cmcts"


def test_a_budget_outside_the_range_is_named(capsys, folder):
    note = said(capsys, "plan", NAME, "--critic", folder, "--budget", "0.01", "--json")["note"]
    assert "warning: expected a budget that some mixture of the columns is sure to keep, got [0.01]" in note
    assert "the thriftiest column is used" in note
    note = said(capsys, "plan", NAME, "--critic", folder, "--budget", "9", "--json")["note"]
    assert "warning: expected a budget of at most 1" in note


def test_play_draws_its_column_and_says_what_was_kept(capsys, folder):
    assert main(["play", NAME, "--critic", folder, "--budget", "0.5"]) == 0
    out = capsys.readouterr().out
    assert "planner frontier" in out and "budget kept on average" in out and "drawn for this episode: lambda" in out


def test_the_table_and_the_figure(capsys, folder, tmp_path):
    figure = tmp_path / "curve.svg"
    out = said(capsys, "frontier", NAME, "--critic", folder, "--episodes", "4", "--out", str(figure), "--json")
    budgets = [point["budget"][0] for point in out["points"]]
    assert budgets == sorted(budgets) and len(budgets) == 11 and 0.3 in budgets
    rewards = [point["reward_mean"] for point in out["points"]]
    assert rewards == sorted(rewards), "more budget never earns less"
    assert all(point["cost_bounds"][0] <= point["budget"][0] + 1e-6 for point in out["points"])
    assert all(point["optimum"] is not None for point in out["points"])
    assert set(out["rivals"]) == {"cmcts", "cc-mcp"}
    assert figure.read_bytes().startswith(b"<?xml")
    assert main(["frontier", NAME, "--critic", folder, "--episodes", "0"]) == 0
    table = capsys.readouterr().out
    assert "training world, budget kept on average" in table and "mixture" in table


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "episode"], "expected --keep mean or chance, got episode"),
        (["--out", "curve.txt"], "expected --out to end with .png, .svg or .pdf"),
        (["--episodes", "1"], "expected episodes >= 2, or 0, got 1"),
        (["--budget", "0.01"], "each limit by itself needs at least"),
    ],
)
def test_mistakes_are_explained(capsys, folder, options, message):
    assert main(["frontier", NAME, "--critic", folder, *options]) == 2
    assert message in capsys.readouterr().err


def test_each_budget_says_what_share_of_its_worth_is_bought(capsys, folder):
    points = said(capsys, "frontier", NAME, "--critic", folder, "--json")["points"]
    least = least_optimum(TASK, solve_training).reward_upper
    for point in points[1:]:
        best = solve_training(TASK, point["budget"]).reward_upper
        assert point["bought"] == pytest.approx((point["reward_mean"] - least) / (best - least))
    assert main(["frontier", NAME, "--critic", folder]) == 0
    assert " best  share " in capsys.readouterr().out
