"""A fit by an executor is the fit itself, and gives the same bits on machines with other numbers of cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from cmcts.executors import Here
from cmcts.training.fitting import fit_on
from cmcts.training.learning import Batch, fit
from cmcts.training.settings import CriticSettings

SETTINGS = CriticSettings(hidden=(8,), steps=20, batch=16)


def batch(rows=64, features=6, actions=3):
    rng = np.random.default_rng(0)
    return Batch(
        features=rng.normal(size=(rows, features)).astype(np.float32),
        actions=rng.integers(0, actions, rows).astype(np.int32),
        costs=rng.random((rows, 1)).astype(np.float32),
        next_features=rng.normal(size=(rows, features)).astype(np.float32),
        next_actions=rng.integers(0, actions, rows).astype(np.int32),
        next_legal=np.ones((rows, actions), bool),
        continues=np.ones(rows, np.float32),
    )


def test_an_executor_fits_the_same_critic():
    heard = []
    alone, loss = fit(batch(), SETTINGS, 3, (0.9,), 5)
    arrays, there = fit_on(Here(1), batch(), SETTINGS, 3, (0.9,), 5, lambda *news: heard.append(news))
    assert there == loss and heard == [(20, loss)]
    for one, other in zip(alone, arrays, strict=True):
        for here, elsewhere in zip(one, other, strict=True):
            np.testing.assert_array_equal(here, elsewhere)


ON_CORES = """
import hashlib, os, sys
os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: int(sys.argv[1])]))
from test_fitting import CriticSettings, batch, fit
arrays, _ = fit(batch(5000, 60, 13), CriticSettings(steps=200), 13, (0.95,), 3)
print(hashlib.sha256(b"".join(part.tobytes() for layer in arrays for part in layer)).hexdigest())
"""


@pytest.mark.slow  # two processes that load JAX and compile
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2, reason="needs two cores")
def test_a_fit_on_one_core_has_the_bits_of_a_fit_on_two():
    folder = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    digests = [
        subprocess.run(
            [sys.executable, "-c", ON_CORES, cores], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for cores in ("1", "2")
    ]
    assert digests[0] == digests[1] != ""
