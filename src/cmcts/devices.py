"""Where searches run: on the CPU or on a GPU, and why not there. Nothing of numba-cuda is imported unasked.

With `NUMBA_ENABLE_CUDASIM=1` numba-cuda simulates a GPU, thread by thread in plain Python: for tests without one.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Literal, get_args

from cmcts.errors import InvalidInput, expect
from cmcts.extras import require_extra

Device = Literal["cpu", "cuda", "auto"]  # auto: the GPU if there is one and a batch is worth it
DEVICES: tuple[Device, ...] = get_args(Device)


def validate_device(device: object) -> None:
    """Refuse what is no device, and a GPU where none can be used: one sentence says what is missing."""
    expect(device in DEVICES, f"device to be one of {DEVICES}", device)
    if device == "cuda":
        require_extra("gpu", 'device "cuda"')
        if reason := gpu_fault():
            raise InvalidInput(f'expected an NVIDIA GPU for device "cuda", got none that can be used: {reason}')


@cache
def gpu_fault() -> str:
    """Why no search can run on a GPU here; empty if one can."""
    if find_spec("numba_cuda") is None:
        return "numba-cuda is not installed"
    from numba import cuda

    if cuda.is_available():
        return ""
    error = str(cuda.cuda_error() or "CUDA finds no device")
    return " ".join(error.replace("Error at driver init:", "").strip(" :\n").split())


def is_simulated() -> bool:
    """Whether numba-cuda simulates a GPU."""
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def cores() -> int:
    """How many cores this process may use: fewer than there are in a container, or where it is bound to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
