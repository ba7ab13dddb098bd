"""Safe planning with Monte Carlo Tree Search."""
