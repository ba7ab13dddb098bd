"""What a frontier is built from, and what its budget means. Nothing here needs JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cmcts.errors import expect

Keep = Literal["mean", "chance"]
KEEPS: tuple[Keep, ...] = get_args(Keep)


@dataclass(frozen=True)
class FrontierSettings:
    """How the columns of a frontier are found and measured."""

    columns: int = 24
    """Columns to try at most; 0 builds no frontier."""
    iterations: int = 4096
    """Simulations a decision of a column that has a price and no critic."""
    screening_episodes: int = 100
    """Episodes that show whether a column can matter at all."""
    choosing_episodes: int = 300
    """Episodes, with those, of every column that can: they say which columns are kept, and which to mix."""
    confirming_episodes: int = 600
    """Episodes on fresh worlds of every column that is kept: they say how much of each."""

    def __post_init__(self) -> None:
        expect(isinstance(self.columns, int) and self.columns >= 0, "columns >= 0", self.columns)
        expect(isinstance(self.iterations, int) and self.iterations >= 1, "iterations >= 1", self.iterations)
        for name in ("screening_episodes", "choosing_episodes", "confirming_episodes"):
            count = getattr(self, name)
            expect(isinstance(count, int) and count >= 2, f"{name} >= 2", count)
        fits = self.screening_episodes <= self.choosing_episodes
        expect(fits, f"screening_episodes <= {self.choosing_episodes}, the choosing ones", self.screening_episodes)
