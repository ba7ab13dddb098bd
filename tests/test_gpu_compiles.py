"""The search compiles for a GPU where there is none: a simulated one runs plain Python, and would not notice."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from numba import typeof

from cmcts.compilation.gpu import GpuKernel
from cmcts.devices import is_simulated
from cmcts.random import stream
from cmcts.search import lanes
from test_gpu import TABLE, batch, planners, text_step

HOPPER = (9, 0)  # compute capability


class Compiled(Exception):
    """Instead of a launch."""


@pytest.fixture
def no_card(monkeypatch):
    """Memory is plain, and what would be launched is only compiled."""
    from numba import cuda

    def compiled(kernel, blocks, threads, *arguments):
        signature = tuple(typeof(argument) for argument in arguments)
        code, _ = cuda.compile(kernel._kernel.py_func, signature, device=False, cc=HOPPER, abi="numba")
        raise Compiled(code)

    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: SimpleNamespace(compute_capability=HOPPER))
    monkeypatch.setattr(GpuKernel, "launch", compiled)
    return lambda: monkeypatch.setattr(lanes, "is_simulated", lambda: True)


needs_compiler = pytest.mark.skipif(
    find_spec("numba_cuda") is None or find_spec("nvidia") is None or is_simulated(), reason="needs cmcts[gpu]"
)


@pytest.mark.extras
@needs_compiler
@pytest.mark.parametrize("name", ["cmcts expected", "cc-mcp two costs", "energy", "timed", "priced"])
def test_a_planner_compiles_for_a_gpu(no_card, name):
    planner = planners()[name]
    searches = planner.lanes
    no_card()
    states, budgets = batch(planner, 2)
    rngs = stream(0).repeat(2)[:, None]
    with pytest.raises(Compiled) as code:
        searches.search(states, budgets, budgets, rngs, 5)
    assert ".visible .entry" in str(code.value)
    assert planner.model.compile_fault(gpu=True) == planner.critic.compile_fault(gpu=True) == ""


@pytest.mark.extras
@needs_compiler
def test_what_does_not_compile_for_a_gpu_is_named(no_card):
    from dataclasses import replace

    assert replace(TABLE, step=text_step).compile_fault(gpu=True).startswith("step: ")
