"""Safe Gridworld: rules and planning model, world, chart."""
