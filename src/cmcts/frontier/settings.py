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

    columns: int = 60
    """Columns to try at most; 0 builds no frontier."""
    search_factors: tuple[int, ...] = (1, 4)
    """Multiples of the task's own simulations a decision, smallest first, for columns that have a price and no critic:
    a larger one is tried for budgets near the task's, if the one before it paid."""
    screening_episodes: int = 100
    """Episodes that show whether a column can matter at all."""
    choosing_episodes: int = 800
    """Episodes, with those, of every column that can: they say which columns are kept, and which to mix. Of long
    episodes and of long searches fewer, here and below."""
    confirming_episodes: int = 400
    """Episodes on fresh worlds of every column that is kept: they say how much of each."""
    margin: float = 0.02
    """Blocks of as many more are played, by whichever column leaves the most doubt, until the task's budget, half of it
    and twice as much are kept with a margin of at most this share; at most three times as many as there are columns."""

    values: bool = True
    """Learn leaf values, reward and costs to go: from what is best at each price where the states can be listed, or, if
    the model has no rollout policy of its own, from what the first priced columns earn and pay. Judge leaves by them if
    that pays."""
    value_steps: int = 6000
    """Gradient steps of their fit; five times as many where there is but one, to what is best."""
    value_doubt: float = 0.1
    """A rollout is averaged in where they disagree by more than this share of the spread of rewards to go."""

    def __post_init__(self) -> None:
        expect(isinstance(self.columns, int) and self.columns >= 0, "columns >= 0", self.columns)
        rising = self.search_factors == tuple(sorted(set(self.search_factors)))
        sound = len(self.search_factors) >= 1 and self.search_factors[0] >= 1 and rising
        expect(sound, "search_factors >= 1, smallest first", self.search_factors)
        for name in ("screening_episodes", "choosing_episodes", "confirming_episodes"):
            count = getattr(self, name)
            expect(isinstance(count, int) and count >= 2, f"{name} >= 2", count)
        expect(self.margin > 0, "margin > 0", self.margin)
        expect(isinstance(self.value_steps, int) and self.value_steps >= 1, "value_steps >= 1", self.value_steps)
        expect(self.value_doubt >= 0, "value_doubt >= 0", self.value_doubt)
        fits = self.screening_episodes <= self.choosing_episodes
        expect(fits, f"screening_episodes <= {self.choosing_episodes}, the choosing ones", self.screening_episodes)
