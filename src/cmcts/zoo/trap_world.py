"""Gold and traps as a world that draws itself; `traps.py` has the rules."""

from __future__ import annotations

from cmcts.envs.drawing import SvgGrid
from cmcts.model.worlds import ModelWorld
from cmcts.zoo.traps import MOVES, TRAP, WALL


class TrapWorld(ModelWorld):
    """A world that follows a model of gold and traps."""

    metadata = {"render_modes": ["ansi", "svg"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's convention

    def render(self) -> str | None:
        """The map as it is in files, with A for the agent, and only the gold that is left."""
        params = self.model.params
        width, height = params.squares.shape
        x, y, left = (int(number) for number in self._state)
        if self.render_mode == "ansi":
            rows = [[self._symbol(column, row, left) for column in range(width)] for row in reversed(range(height))]
            rows[height - 1 - y][x] = "A"
            return "\n".join(" ".join(row) for row in rows)
        if self.render_mode == "svg":
            grid = SvgGrid(width, height, "gold and traps")
            drawn = {"#": ("ink", ""), "x": ("danger", "trap"), "g": ("goal", "gold")}
            for column in range(width):
                for row in range(height):
                    symbol = self._symbol(column, row, left)
                    if symbol in drawn:
                        grid.square(column, row, *drawn[symbol])
            grid.agent(x, y)
            for action, (dx, dy) in enumerate(MOVES):
                grid.target(action, x + dx, y + dy)
            return grid.text()
        return None

    def _symbol(self, x: int, y: int, left: int) -> str:
        params = self.model.params
        piece = int(params.gold[x, y])
        if piece >= 0 and left >> piece & 1 == 1:
            return "g"
        return {WALL: "#", TRAP: "x"}.get(int(params.squares[x, y]), ".")
