"""Which device plans, and what is said where there is no GPU."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numba import config

import cmcts
from cmcts import cli, devices
from cmcts.commands.bench import random_ensemble
from cmcts.compilation.content import uncompiled
from cmcts.critic.ensemble import _average, _average_in_step, _dense, _dense_in_step
from cmcts.errors import InvalidInput
from cmcts.extras import MissingExtra
from cmcts.planning import gpu
from cmcts.planning.planners import PenalizedMCTS

TASK = cmcts.make("rocksample-5-7")
NO_EXTRA = "device \"cuda\" needs numba-cuda, got no numba-cuda here: pip install 'cmcts[gpu]'"


def planner():
    return PenalizedMCTS(TASK.model, 1.0, TASK.search)


@pytest.fixture
def no_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    devices.gpu_fault.cache_clear()
    yield
    devices.gpu_fault.cache_clear()


@pytest.fixture
def no_gpu(monkeypatch):
    """numba-cuda is there, and no GPU."""
    monkeypatch.setattr(devices, "require_extra", lambda extra, who: None)
    monkeypatch.setattr(devices, "gpu_fault", lambda: "the driver is too old")


def test_an_unknown_device_is_refused():
    with pytest.raises(InvalidInput, match=r"expected device to be one of \('cpu', 'cuda', 'auto'\), got 'tpu'"):
        planner().plan_batch([TASK.model.start_state()], [1.0], iterations=1, rngs=[0], device="tpu")


def test_without_the_extra_it_is_said_how_to_get_it(no_extra):
    with pytest.raises(MissingExtra) as error:
        planner().plan_batch([TASK.model.start_state()], [1.0], iterations=1, rngs=[0], device="cuda")
    assert str(error.value) == NO_EXTRA


@pytest.mark.parametrize(
    "arguments",
    [["evaluate", "rocksample-5-7"], ["bench"], ["train", "rocksample-5-7"], ["reproduce", "--quick"],
     ["frontier", "rocksample-5-7"]],
)  # fmt: skip
def test_commands_say_it_in_one_line_before_anything_is_done(no_extra, capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*arguments, "--device", "cuda"]) == 2
    assert capsys.readouterr().err == f"cmcts: {NO_EXTRA}\n"
    assert not list(tmp_path.iterdir())


def test_without_a_gpu_the_reason_is_said(no_gpu):
    with pytest.raises(InvalidInput, match=r'expected an NVIDIA GPU for device "cuda", got none .*: the driver is too'):
        devices.validate_device("cuda")


def test_auto_takes_the_cpu_where_there_is_no_gpu(no_extra):
    states, rngs = np.tile(TASK.model.start_state(), (3, 1)), [0, 1, 2]
    assert devices.gpu_fault() == "numba-cuda is not installed"
    ours = planner().plan_batch(states, [1.0] * 3, iterations=20, rngs=rngs)
    theirs = planner().plan_batch(states, [1.0] * 3, iterations=20, rngs=rngs, device="auto")
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.reward_values, other.reward_values)


def test_auto_takes_the_gpu_for_batches_that_are_worth_it(monkeypatch):
    monkeypatch.setattr(gpu, "gpu_fault", lambda: "")
    monkeypatch.setattr(gpu, "cores", lambda: 4)
    worth = 4 * gpu.LANES_A_CORE
    assert gpu.goes_to_gpu(planner(), "auto", worth, None) == (not config.DISABLE_JIT)
    assert not gpu.goes_to_gpu(planner(), "auto", worth - 1, None)
    assert not gpu.goes_to_gpu(planner(), "auto", worth, 0.1)
    assert not gpu.goes_to_gpu(planner(), "cpu", worth, None)


def test_nothing_of_numba_cuda_is_imported_unasked():
    code = "import sys, cmcts, cmcts.cli, cmcts.evaluation; print([m for m in sys.modules if 'cuda' in m])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed in ("[]\n", "['_numba_cuda_redirector']\n")


def test_the_gpus_way_through_a_layer_gives_the_cpus_sums_to_the_bit():
    critic = random_ensemble(TASK.model, members=2, hidden=(13, 9))
    features = TASK.model.feature_vector(TASK.model.start_state(0))
    sums = []
    for dense in (_dense, uncompiled(_dense_in_step)):
        scratch = np.zeros((4, critic.scratch_width), np.float32)
        scratch[0, : len(features)] = features
        for layer in range(3):
            dense(critic.params, layer, 1, scratch, layer % 2, layer < 2)
        sums.append(scratch[1, : TASK.model.action_count])
    np.testing.assert_array_equal(*sums)
    assert np.abs(sums[0]).min() > 0.0


def test_members_are_averaged_to_the_same_bits_on_a_gpu():
    outputs = np.random.default_rng(0).normal(size=(3, 24)).astype(np.float32)
    found = []
    for average in (_average, uncompiled(_average_in_step)):
        scratch, mean, sigma = np.zeros((4, 32), np.float32), *np.zeros((2, 19), np.float32)
        for member in range(3):
            scratch[member % 2, :24] = outputs[member]
            average(scratch, member % 2, member, 3, mean, sigma)
        found.append((mean, sigma))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0][1], outputs[:, :19].std(axis=0), rtol=1e-5)
