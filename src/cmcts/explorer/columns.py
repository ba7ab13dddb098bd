"""Arrays as compressed text that a page can hold: one block of bytes, which a browser reads as typed arrays."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {"f4": np.float32, "i4": np.int32, "u2": np.uint16, "u1": np.uint8}  # as the page's script knows them


def pack(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Arrays by name as JSON: their kinds and lengths, and all numbers, compressed, in base64.

    Wide numbers go first: a typed array must begin at a multiple of its width.
    """
    flat = {name: np.ascontiguousarray(array).reshape(-1) for name, array in arrays.items()}
    kinds = {name: next(kind for kind, dtype in KINDS.items() if array.dtype == dtype) for name, array in flat.items()}
    order = sorted(flat, key=lambda name: -flat[name].itemsize)
    # No time stamp: the same arrays are the same text.
    content = gzip.compress(b"".join(flat[name].tobytes() for name in order), compresslevel=6, mtime=0)
    return {
        "columns": [[name, kinds[name], len(flat[name])] for name in order],
        "data": base64.b64encode(content).decode(),
    }
