"""What the paper reports (D. Parthasarathy et al., arXiv:2305.16209), where it gives numbers.

Its curves are published as pictures only; these are its tables, captions and legends. Its RockSample planner sees the
hidden rock values (see `cmcts.envs.rocksample.leak`).
"""

from __future__ import annotations

# Table "planning iterations at equivalent reward levels": (iterations, discounted reward), None where not achieved.
EQUAL_REWARD: dict[str, dict[str, tuple[int, float] | None]] = {
    "rocksample-5-7": {"cc-mcp": (2**20, 13.72), "cmcts": (2**10, 13.93)},
    "rocksample-7-8": {"cc-mcp": (2**20, 9.83), "cmcts": (2**10, 11.0)},
    "rocksample-11-11": {"cc-mcp": (2**20, 5.26), "cmcts": (2**10, 7.14)},
    "rocksample-15-15": {"cc-mcp": None, "cmcts": (2**8, 14.29)},
}

# Figure "state visitations": (iterations, share of episodes with a violation).
SAFE_GRIDWORLD: dict[str, tuple[int, float]] = {"cmcts": (2**9, 0.0), "cc-mcp": (2**20, 0.11)}

EPISODES = 100
