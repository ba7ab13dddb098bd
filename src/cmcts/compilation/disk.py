"""Compiled code on disk, by Numba's own cache, in a way that a bad disk cannot stop a planner.

Numba trusts what it finds: a file that was cut short raises whatever `pickle` makes of it, machine code with a flipped
bit is run, and a full disk stops a search that is already compiled. Here a data file begins with its own digest; what
does not fit, or cannot be read, is compiled anew, and what cannot be written is used by this process alone. Either is
said once.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from cmcts.errors import CacheWarning, users_stack_level

_DIGEST_BYTES = hashlib.sha256().digest_size


class _VouchedFile(IndexDataCacheFile):  # type: ignore[misc]
    """An index and data files that begin with a digest of the rest."""

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
            raise ValueError(f"{name} is damaged")
        return pickle.loads(content[_DIGEST_BYTES:])  # our own, from this user's cache


class SteadyCache(FunctionCache):  # type: ignore[misc]
    """What Numba asks for compiled code, and gives it to."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _VouchedFile(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature, or None if there is none that can be used."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a damaged pickle may raise anything
            self._say(f"cannot read compiled code from {self.cache_path} ({error}): compiling it anew")
        try:
            self.flush()
        except OSError:
            self.disable()  # an index that can be neither read nor replaced
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code for the next process, if there is a place for it."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self._say(f"cannot keep compiled code in {self.cache_path} ({error}): the next process compiles anew")

    def _say(self, message: str) -> None:
        warnings.warn(message, CacheWarning, stacklevel=users_stack_level())


def cache_on_disk(dispatcher: Any) -> Any:
    """Let a dispatcher read and write compiled code on disk; without a folder to write to, it does without."""
    try:
        dispatcher._cache = SteadyCache(dispatcher.py_func)
    except (RuntimeError, OSError) as error:
        warnings.warn(
            f"no folder for compiled code ({error}): every process compiles anew; NUMBA_CACHE_DIR names one",
            CacheWarning,
            stacklevel=users_stack_level(),
        )
    return dispatcher
