"""RockSample's optimum: beliefs are too many to list, but bounds on the optimum can be proven, and mostly meet."""
