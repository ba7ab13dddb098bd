"""Files that are whole or not there: written aside, flushed to disk, renamed; and read only if they are plain files."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from cmcts.errors import InvalidInput

PART = ".part"  # what is still being written, or was when its process was killed


def write_atomically(path: Path, content: bytes) -> None:
    """Write aside, under a name that nobody can foresee, flush, rename; a failure leaves the old file as it was."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from None


def read_plain(path: Path, limit: int) -> bytes:
    """The content of a plain file of at most `limit` bytes; devices, pipes and the like have no size to go by."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would be to wait for its other end
            raise InvalidInput(f"expected {path} to be a plain file, got something else")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > limit:
                raise InvalidInput(f"expected {path} to have at most {limit} bytes, got {status.st_size}")
            content = file.read(limit + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > limit:
        raise InvalidInput(f"expected {path} to have at most {limit} bytes, got more")
    return content


def is_part(path: Path) -> bool:
    """Whether a file has the name of one that `write_atomically` was writing; nobody else's files have."""
    return re.fullmatch(rf"\..+\.[0-9a-f]{{16}}{re.escape(PART)}", path.name) is not None


def remove_parts(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder of ours and below it."""
    for part in filter(is_part, folder.rglob(f".*{PART}")):
        part.unlink(missing_ok=True)
