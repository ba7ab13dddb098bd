"""Files that are whole or not there: written aside, flushed to disk, renamed."""

from __future__ import annotations

import os
from pathlib import Path

from cmcts.errors import InvalidInput


def write_atomically(path: Path, content: bytes) -> None:
    """Write aside, flush to disk, rename; a failure leaves the old file as it was."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from None
