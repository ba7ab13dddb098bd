"""The safety critic: what every action will still cost, and how sure that is.

ensemble.py   an ensemble of small perceptrons as a kernel
support.py    where it has data, and where it only guesses
identity.py   what a critic was made for: the model's sizes, parameters and code
weights.py    its layers as named arrays, as they lie in files
values.py     reward and costs to go at any price, read at the leaves of a search
columns.py    the policies of a frontier, with every episode that they were measured by
policies.py   tables of exact policies, as files and bundles keep them
bundle.py     a trained critic and frontier, and all that is needed to deploy them, in a few small files
shipped/      the bundles that come with the library
"""

from cmcts.critic.ensemble import SafetyCritic, ensemble, immediate_costs_only

__all__ = ["SafetyCritic", "ensemble", "immediate_costs_only"]
