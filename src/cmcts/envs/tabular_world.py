"""A model of tables as a world that draws itself: its states on a circle, and where each action may lead."""

from __future__ import annotations

import math

from cmcts.model.tabular import TabularParams
from cmcts.model.worlds import ModelWorld

RADIUS, MARGIN = 100.0, 24.0


class TabularWorld(ModelWorld):
    """A world that follows a model of tables."""

    metadata = {"render_modes": ["svg"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's convention

    def render(self) -> str | None:
        """States by number; lines lead to what may follow, and are marked with the action that leads there."""
        if self.render_mode != "svg":
            return None
        params: TabularParams = self.model.params
        count, here = len(params.rewards), int(self._state[0])
        middle = RADIUS + MARGIN
        places = [
            (middle + RADIUS * math.sin(2 * math.pi * k / count), middle - RADIUS * math.cos(2 * math.pi * k / count))
            for k in range(count)
        ]
        size = f"0 0 {2 * middle:g} {2 * middle:g}"
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img" aria-label="states">']
        ink, ground = "var(--map-ink, #264653)", "var(--map-ground, #f4f1ea)"
        for action in range(self.model.action_count if here < count else 0):
            for successor in sorted(set(params.successors[here, action].tolist())):
                line = f"M{_point(places[here])}L{_point(places[successor])}"
                parts.append(f'<path data-action="{action}" d="{line}" fill="none" stroke-width="3"/>')
        for number, (x, y) in enumerate(places):
            fill, word = (ink, ground) if number == here else (ground, ink)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="{fill}" stroke="{ink}"/>')
            parts.append(
                f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="middle" fill="{word}">{number}</text>'
            )
        return "".join([*parts, "</svg>"])


def _point(place: tuple[float, float]) -> str:
    return f"{place[0]:.1f} {place[1]:.1f}"
