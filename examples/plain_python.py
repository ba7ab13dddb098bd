"""A model that Numba cannot compile, because its map is a dictionary of words: it plans all the same, only slower.

cmcts train    examples/plain_python.py:task --out runs/plain-python
cmcts evaluate examples/plain_python.py:task --critic runs/plain-python
"""

import cmcts

# From each place, where its roads lead, and the chance of a fine (cost 1) on each.
TOWN = {
    "depot": {"ring road": 0.0, "old town": 0.3},
    "ring road": {"bridge": 0.0, "old town": 0.3},
    "old town": {"market": 0.3, "bridge": 0.0},
    "bridge": {"station": 0.0, "market": 0.3},
    "station": {"market": 0.0},
    "market": {},
}
PLACES = list(TOWN)


def roads(state):
    return list(TOWN[PLACES[int(state[0])]].items())


def start(params, rng, state):
    state[0] = PLACES.index("depot")


def legal_actions(params, state, out):
    count = len(roads(state))
    out[:count] = range(count)
    return count


def step(params, state, action, rng, next_state, costs):
    place, fine = roads(state)[action]
    next_state[0] = PLACES.index(place)
    costs[0] = float(cmcts.random.uniform(rng) < fine)
    return (10.0 if place == "market" else -1.0), place == "market"


def features(params, state, out):
    out[:] = 0.0
    out[int(state[0])] = 1.0


model = cmcts.Model("town", TOWN, step, legal_actions, features, start, 1, 2, len(PLACES))
task = cmcts.Task(
    "plain-python",
    model,
    budget=0.1,
    search=cmcts.SearchSettings(horizon=8, iterations=32),
    training_iterations=32,
)
