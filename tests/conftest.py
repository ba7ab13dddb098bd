from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A first example may compile for many seconds; the same examples every time keep failures reproducible.
settings.register_profile("cmcts", deadline=None, derandomize=True)
settings.load_profile("cmcts")

compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
compiled_only = pytest.mark.skipif(not compiled, reason="about compiled code; NUMBA_DISABLE_JIT is set")
