"""Draws layers.svg: the packages of the library as layers, and who really imports whom.

The layers are those of the import-linter contract in pyproject.toml, the imports are what grimp finds in the code.

python docs/images/layers.py
"""

from __future__ import annotations

import json
import tomllib
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import grimp
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from cmcts.envs.charts import INK
from cmcts.report.figures import COLOURS

ROOT = Path(__file__).parents[2]
LEANS, EXCEPTION, MODULES, BAND = COLOURS["cmcts"], COLOURS["cc-mcp"], COLOURS["penalized"], "#eef2f1"


def contract() -> tuple[list[list[str]], set[tuple[str, str]]]:
    """The layers, last first, each a list of rooms; and the pairs of rooms whose imports the contract lets pass."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(entry for entry in contracts if entry["type"] == "layers")
    rooms = [[room_of(name.strip()) for name in layer.split("|")] for layer in layers["layers"]]
    passed = (arrow.split(" -> ") for arrow in layers.get("ignore_imports", []))
    return rooms, {(room_of(importer), room_of(imported)) for importer, imported in passed}


def room_of(module: str) -> str:
    """`cmcts.planning.agent` lies in `planning`."""
    return module.removeprefix("cmcts").lstrip(".").partition(".")[0]


def found(rooms: list[str]) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """How many modules each room has, and how many imports lead from room to room, by the code."""
    graph = grimp.build_graph("cmcts", exclude_type_checking_imports=True)
    packages = {f"cmcts.{room}" for room in rooms if graph.find_children(f"cmcts.{room}")}
    modules = dict.fromkeys(rooms, 0)
    imports: dict[tuple[str, str], int] = {}
    for module in sorted(graph.modules):
        room = room_of(module)
        if room not in modules:
            continue
        if module not in packages and not graph.find_children(module):  # a package's own file only lists and exports
            modules[room] += 1
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            other = room_of(imported)
            if other in modules and other != room:
                imports[room, other] = imports.get((room, other), 0) + 1
    return modules, imports


def drawn() -> dict[str, object]:
    """All that the picture shows but the size of its dots, to see whether it is up to date."""
    layers, passed = contract()
    modules, imports = found([room for layer in layers for room in layer])
    return {
        "layers": layers,
        "passed": sorted(map(list, passed)),
        "modules": modules,
        "imports": sorted(map(list, imports)),
    }


def main() -> None:
    """One row and one column a room; a dot where the row's room imports from the column's."""
    layers, passed = contract()
    rooms = [room for layer in layers for room in layer]
    modules, imports = found(rooms)
    place = {room: index for index, room in enumerate(rooms)}
    count, left = len(rooms), -8.9
    figure, axes = plt.subplots(figsize=(9.0, 6.9), facecolor="white")
    edges = [0]
    for layer in layers:
        edges.append(edges[-1] + len(layer))
    for number, (top, bottom) in enumerate(pairwise(edges)):
        if number % 2 == 0:
            axes.add_patch(Rectangle((left, top - 0.5), count - 0.5 - left, bottom - top, color=BAND, lw=0, zorder=0))
    for k in range(count):  # the stairs: a room may lean on what is to the right of its own step
        axes.add_patch(Rectangle((k - 0.5, k - 0.5), 1, 1, facecolor="#cfd8d6", edgecolor="none", zorder=1))
    for room, k in place.items():
        axes.text(-4.55, k, room, ha="right", va="center", fontsize=10.5, color=INK, fontweight="bold")
        axes.text(k, -0.75, room, rotation=55, ha="left", va="bottom", fontsize=9.5, color=INK, rotation_mode="anchor")
        for square in range(modules[room]):
            x, y = -4.2 + 0.27 * (square % 14), k - 0.13 + 0.27 * (square // 14)
            y = k if modules[room] <= 14 else y
            axes.add_patch(Rectangle((x, y - 0.1), 0.19, 0.2, color=MODULES, lw=0, zorder=2))
    most = max(imports.values())
    for (importer, imported), number in imports.items():
        area = 18 + 130 * (number / most) ** 0.5
        if (importer, imported) in passed:
            axes.scatter(place[imported], place[importer], s=95, color=EXCEPTION, marker="D", zorder=3)
        else:
            axes.scatter(place[imported], place[importer], s=area, color=LEANS, zorder=3)
    marks = [
        Line2D([], [], marker="s", color="none", markerfacecolor=MODULES, markeredgecolor="none", markersize=6),
        Line2D([], [], marker="o", color="none", markerfacecolor=LEANS, markeredgecolor="none", markersize=9),
        Line2D([], [], marker="D", color="none", markerfacecolor=EXCEPTION, markeredgecolor="none", markersize=8),
    ]
    labels = [
        "a module",
        "the row imports from the column;\na larger dot, more imports",
        "the one import against the order,\nwhich the contract lets pass" if len(passed) == 1 else "against the order",
    ]
    axes.legend(marks, labels, loc="lower left", bbox_to_anchor=(0.3, 0.005), frameon=False, fontsize=9.5,
                labelcolor=INK, labelspacing=0.9)  # fmt: skip
    axes.annotate("", (left + 0.35, count - 0.6), (left + 0.35, -0.4), arrowprops={"arrowstyle": "-|>", "color": INK})
    axes.text(left + 0.1, count / 2 - 0.5, "leans on", rotation=90, ha="right", va="center", fontsize=9.5, color=INK)
    axes.set(xlim=(left - 0.9, count + 1.6), ylim=(count - 0.35, -3.7), aspect="equal")
    axes.axis("off")
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99)
    save(figure, Path(__file__).with_suffix(".svg"))


def save(figure: plt.Figure, path: Path) -> None:
    """The same bytes for the same picture, with what it shows in its description."""
    plt.rcParams["svg.hashsalt"] = path.name
    figure.savefig(path, metadata={"Date": None, "Creator": None, "Description": json.dumps(drawn())})


if __name__ == "__main__":
    main()
