"""Figures show the numbers they were given."""

from __future__ import annotations

import dataclasses

import pytest
from matplotlib import pyplot

from cmcts.evaluation.episodes import Summary
from cmcts.report.figures import comparison
from cmcts.tasks.registry import make


def summary(reward, costs, rate):
    """Of which only these are drawn."""
    nothing = dict.fromkeys(field.name for field in dataclasses.fields(Summary))
    drawn = {"reward_mean": reward, "reward_se": 0.1, "cost_means": costs, "violation_rate": rate}
    return Summary(**nothing | drawn | {"cost_ses": [0.01 for _ in costs]})


@pytest.mark.parametrize(
    ("task", "costs", "titles"),
    [
        ("rocksample-4-2", ([0.5], [0.75]), ["discounted cost"]),
        ("rocksample-4-2-energy", ([0.5, 0.9], [0.75, 1.1]), ["discounted measurements", "discounted energy"]),
    ],
)
def test_a_panel_for_each_cost(task, costs, titles):
    summaries = {"cmcts": summary(10.0, costs[0], 0.0), "cc-mcp": summary(8.0, costs[1], 0.25)}
    figure = comparison(make(task), summaries, optimum=12.0)
    shown = {axes.get_title(): [bar.get_height() for bar in axes.patches] for axes in figure.axes}
    assert shown == {
        "discounted reward": [10.0, 8.0],
        **{title: [costs[0][m], costs[1][m]] for m, title in enumerate(titles)},
        "episodes over budget [%]": [0.0, 25.0],
    }
    dashed = [[line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] for axes in figure.axes]
    assert dashed == [[12.0], *([1.0] for _ in titles), []]
    pyplot.close(figure)
