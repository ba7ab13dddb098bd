"""Worlds: where actions count. Importing this module makes the library's worlds known to Gymnasium.

    import gymnasium, cmcts.worlds
    world = gymnasium.make("cmcts/RockSample-v0", n=7, m=8)

`ModelWorld` follows a model's own functions; `EnvWorld` is an environment of the user's, read as `Model.from_env` does,
and `ObservedWorld` the same for a model that was learnt, whose state is the observation alone.
"""

from __future__ import annotations

from cmcts.envs import register
from cmcts.model.worlds import EnvWorld, ModelWorld, ObservedWorld

__all__ = ["EnvWorld", "ModelWorld", "ObservedWorld"]

register()
