"""Draws decision.svg: a decision's way through the rooms, as one call of `plan` really took it.

The search runs uncompiled, so that Python's profiler sees every call. What calls what is drawn as it was seen; only
private helpers and the rooms that everything leans on are left out.

python docs/images/decision.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from cmcts.envs.charts import INK
from cmcts.report.figures import COLOURS

ITERATIONS = 64
FOUNDATIONS = ("compilation", "errors", "random")  # called from everywhere
LANES = ("planning", "search", "critic", "model", "envs")
COLOUR = dict(zip(LANES, (COLOURS["cmcts"], COLOURS["cc-mcp"], COLOURS["penalized"], INK, "#6c757d"), strict=True))
HEADING = {"envs": "envs, or yours"}
BAND, GREY = "#f3f6f5", "#5c6b70"

# Runs in a process of its own: whether Numba compiles is settled when it is imported.
TRACED = f"""
import json, sys
import cmcts

planner = cmcts.CMCTS.load("safe-gridworld")
state = planner.model.start_state()
calls = {{}}

def function(frame):
    names = frame.f_code.co_qualname.split(".")
    if names[-1] == "__init__":  # a dataclass's is made somewhere else
        names = [type(frame.f_locals["self"]).__name__]
    # `uncompiled` is there only for a search that is not compiled.
    hidden = names[-1] == "uncompiled" or any(name.startswith(("_", "<")) for name in names)
    return None if hidden else (frame.f_globals["__name__"], ".".join(names))

def note(frame, event, argument):
    if event != "call" or not frame.f_globals.get("__name__", "").startswith("cmcts."):
        return
    called, caller = function(frame), frame.f_back
    while caller is not None:
        if caller.f_globals.get("__name__", "").startswith("cmcts.") and function(caller):
            break
        caller = caller.f_back
    if called:
        call = (function(caller) if caller else None, called)
        calls[call] = calls.get(call, 0) + 1

sys.setprofile(note)
planner.plan(state, budget=0.0, iterations={ITERATIONS})
sys.setprofile(None)
print(json.dumps([[caller, called, count] for (caller, called), count in calls.items()]))
"""


class Row(NamedTuple):
    """One call of the picture."""

    room: str
    file: str
    function: str
    count: int
    parent: int  # the row that calls it; -1 for the first
    indent: int  # calls since the room was entered


def trace() -> list[tuple[tuple[str, str] | None, tuple[str, str], int]]:
    """(caller, called, how often) in the order of the first call; each a module and a function in it."""
    run = subprocess.run(
        [sys.executable, "-c", TRACED],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        (tuple(caller) if caller else None, tuple(called), count) for caller, called, count in json.loads(run.stdout)
    ]


def rows() -> list[Row]:
    """The calls as a tree, depth first; what was shown before is not followed again."""
    calls = trace()
    shown: list[Row] = []
    followed: set[tuple[str, str]] = set()

    def show(called: tuple[str, str], count: int, parent: int, indent: int) -> None:
        _, room, *path = called[0].split(".")
        shown.append(Row(room, "/".join(path), called[1].rpartition(".")[2], count, parent, indent))
        number = len(shown) - 1
        if called not in followed:
            followed.add(called)
            for caller, callee, times in calls:
                next_room = callee[0].split(".")[1]
                if caller == called and callee != called and next_room not in FOUNDATIONS:
                    show(callee, times, number, indent + 1 if next_room == room else 0)

    for caller, called, count in calls:
        if caller is None:
            show(called, count, -1, 0)
    return shown


def drawn() -> list[list[str]]:
    """Who calls whom in the picture, to see whether it is up to date."""
    tree = rows()
    names = [f"{row.room}/{row.file}:{row.function}" for row in tree]
    return [[names[row.parent] if row.parent >= 0 else "", name] for row, name in zip(tree, names, strict=True)]


def main() -> None:
    """A lane a room, a row a call, in the order in which they happen."""
    tree = rows()
    lanes = [*LANES, *sorted({row.room for row in tree} - set(LANES))]
    widths = dict.fromkeys(lanes, 1.2)
    for row in tree:
        text = 0.07 * len(row.function) + 0.054 * len(note(tree, row))
        widths[row.room] = max(widths[row.room], 0.15 * row.indent + text + 0.38)
    left, edge = {}, 0.0
    for lane in lanes:
        left[lane] = edge
        edge += widths[lane] + 0.12
    step = 0.235
    figure, axes = plt.subplots(figsize=(edge + 0.1, step * len(tree) + 0.85), facecolor="white")
    bottom = step * (len(tree) - 0.3)
    for lane in lanes:
        colour = pale(COLOUR.get(lane, INK))
        axes.add_patch(Rectangle((left[lane], -0.3), widths[lane], bottom + 0.35, color=BAND, lw=0, zorder=0))
        axes.add_patch(Rectangle((left[lane], -0.7), widths[lane], 0.4, color=colour, lw=0, zorder=0))
        centre, passed = left[lane] + widths[lane] / 2, files(tree, lane)
        axes.text(centre, -0.58, HEADING.get(lane, lane), ha="center", va="center", color="black", fontsize=10,
                  fontweight="bold")  # fmt: skip
        below = f"{passed[0]}.py" if len(passed) == 1 else f"{len(passed)} files"
        axes.text(centre, -0.41, below, ha="center", va="center", color="black", fontsize=8)
    points = [(left[row.room] + 0.12 + 0.15 * row.indent, step * k) for k, row in enumerate(tree)]
    phases = next(k for k, row in enumerate(tree) if row.function == "simulate")
    for row, (x, y) in zip(tree, points, strict=True):
        if row.parent >= 0:
            from_x, from_y = points[row.parent]
            line = pale(COLOUR.get(tree[row.parent].room, INK))
            axes.plot([from_x, from_x, x], [from_y, y, y], color=line, lw=1.2, zorder=1, solid_joinstyle="round")
        axes.scatter(x, y, s=30, color=COLOUR.get(row.room, INK), zorder=3)
        weight = "bold" if row.parent in (-1, phases) else "normal"
        label = axes.text(x + 0.09, y, row.function, va="center", fontsize=9.5, color=INK, fontweight=weight, zorder=4)
        label.set_bbox({"facecolor": BAND, "edgecolor": "none", "pad": 0.6})
        axes.annotate(note(tree, row), (1, 0.45), xycoords=label, va="center", fontsize=7.8, color=GREY, zorder=4)
    axes.set(xlim=(-0.05, edge), ylim=(bottom + 0.12, -0.76))
    axes.axis("off")
    figure.subplots_adjust(0, 0, 1, 1)
    path = Path(__file__).with_suffix(".svg")
    plt.rcParams["svg.hashsalt"] = path.name
    figure.savefig(path, metadata={"Date": None, "Creator": None, "Description": json.dumps(drawn())})


def files(tree: list[Row], lane: str) -> list[str]:
    """The files of a room that were passed through."""
    return sorted({row.file for row in tree if row.room == lane})


def note(tree: list[Row], row: Row) -> str:
    """How often, and in which file, where that is not clear from the heading or from the caller."""
    caller = tree[row.parent] if row.parent >= 0 else None
    entered = caller is None or (caller.room, caller.file) != (row.room, row.file)
    often = f" \N{MULTIPLICATION SIGN}{row.count}" if row.count > 1 else ""
    return often + (f"  {row.file}.py" if entered and len(files(tree, row.room)) > 1 else "")


def pale(colour: str) -> tuple[float, ...]:
    """The same colour, half as strong on white."""
    return tuple(0.45 + 0.55 * part for part in to_rgb(colour))


if __name__ == "__main__":
    main()
