"""RockSample(n, m) with a measurement budget: rules and planning model, world, variants, chart."""
