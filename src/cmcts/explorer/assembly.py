"""A decision or an episode as a page.

>>> import cmcts
>>> task = cmcts.make("safe-gridworld")
>>> planner = cmcts.CMCTS.load("safe-gridworld")
>>> decision = planner.plan(task.model.start_state(), task.budget, iterations=64, keep_tree=True)
>>> page = explore(decision)
>>> b"</html>" in page.content
True
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmcts.errors import expect
from cmcts.explorer.decisions import decision_data
from cmcts.explorer.episodes import Episode, episode_data
from cmcts.explorer.page import Page, page
from cmcts.explorer.pictures import Album
from cmcts.explorer.truth import Truth, truth
from cmcts.model.interface import Model
from cmcts.planning.decision import Decision
from cmcts.version import __version__

MAX_NODES = 200_000  # of all trees on a page together


def explore(what: Decision | Episode, path: str | Path | None = None) -> Page:
    """A page that shows what is behind a decision or an episode, in one HTML file that needs no network.

    Written to `path` if there is one. A decision shows its tree if it was planned with `keep_tree=True`; an episode
    comes from `cmcts.explorer.record`.
    """
    expect(isinstance(what, Decision | Episode), "a Decision or an Episode", type(what).__name__)
    made = page(decision_page(what) if isinstance(what, Decision) else episodes_page([what], truth(what.task)))
    if path is not None:
        made.write(Path(path))
    return made


def decision_page(decision: Decision) -> dict[str, Any]:
    """The data of a page with a decision alone: an episode of one step, in a world that is not known."""
    model = decision.model
    step = {"decision": decision_data(decision, MAX_NODES)}
    episode = {"name": "", "budget": decision.budget.tolist(), "steps": [step], "end": None}
    return {"about": _about(model.name), "model": _names(model), "pictures": [], "episodes": [episode]}


def episodes_page(
    episodes: Sequence[Episode], known: Truth | None, *, command: str = "", note: str = ""
) -> dict[str, Any]:
    """The data of a page with episodes of one task, whose truth may be known; the first is the one that is shown."""
    first, album = episodes[0], Album()
    limit = node_limit([size for episode in episodes for size in episode.tree_sizes])
    shown = [episode_data(episode, album, limit, known) for episode in episodes]
    task = first.task
    words = _about(task.name, description=task.description, seed=first.seed, command=command, note=note)
    return {"about": words, "model": _names(task.model), "pictures": album.pages, "episodes": shown}


def node_limit(sizes: Sequence[int]) -> int:
    """How many nodes of each tree a page shows, so that all have room: small trees leave theirs to large ones."""
    room, left = MAX_NODES, len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return max(1, room // left)
        room, left = room - size, left - 1
    return MAX_NODES


def _about(task: str, **words: Any) -> dict[str, Any]:
    """What a reader needs to make the page again."""
    return {"version": __version__, "task": task, "description": "", "seed": None, "command": "", "note": ""} | words


def _names(model: Model) -> dict[str, Any]:
    return {
        "actions": [model.action_name(action) for action in range(model.action_count)],
        "costs": [model.cost_name(m) for m in range(model.cost_count)],
    }
