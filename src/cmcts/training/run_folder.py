"""A run folder: one training that can be killed at any moment and resumed.

    config.json        the resolved configuration; written once
    history.jsonl      one line for each finished stage, in order
    *.safetensors      what a stage produced: transitions, critics

A stage is finished when its line stands in the history, with the digests of the arrays that were written before it: a
bit that has flipped since is found when they are read. Files are written aside and renamed, so that a reader sees all
of a file or none, and one process at a time trains in a folder. Stages are functions of the configuration and of
earlier stages, so a resumed run repeats at most the stage it was killed in and ends with the same bits.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.errors import InvalidInput, expect
from cmcts.files import is_part, read_plain, remove_parts, write_atomically

CONFIG, HISTORY, LOCK = "config.json", "history.jsonl", "lock"
MAX_CONFIG_BYTES, MAX_ARRAY_BYTES = 1 << 20, 1 << 32
UNSEALED = "0.1."  # releases that wrote no digests; of anything newer, a missing one is damage


class RunFolder:
    """The files of one run: its configuration, its history, and the arrays of its stages."""

    def __init__(self, path: Path, config: dict[str, Any], history: list[dict[str, Any]]) -> None:
        self.path, self.config, self.history = path, config, history
        self._digests = {name: digest for record in history for name, digest in record.get("files", {}).items()}
        self._written: dict[str, str] = {}  # digests of files whose stage is not finished

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> RunFolder:
        """Begin a new run in a folder that is new or empty."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            # A run that was killed before it had begun left a half-written configuration, and nothing else.
            if not all(is_part(entry) and entry.name.startswith(f".{CONFIG}.") for entry in path.iterdir()):
                raise InvalidInput(f"expected an empty folder for a new run, got {path}; use --resume to continue it")
            remove_parts(path)
        except OSError as error:
            raise InvalidInput(f"cannot use {path} as a run folder: {error.strerror or error}") from None
        content = json_settings.sealed(json_settings.parse(json_settings.dump(config)))
        write_atomically(path / CONFIG, json_settings.dump(content, indent=2))
        return cls(path, config, [])

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run that was begun before; a line that was being written when it was killed is dropped."""
        try:
            raw = json_settings.parse(read_plain(path / CONFIG, MAX_CONFIG_BYTES))
            sealed = not isinstance(raw, dict) or not str(raw.get("library", "")).startswith(UNSEALED)
            config = json_settings.unsealed(raw, CONFIG, always=sealed)
        except InvalidInput as error:
            raise InvalidInput(f"expected a run folder with a {CONFIG}, got {path} ({error})") from None
        history_path = path / HISTORY
        lines = history_path.read_bytes().split(b"\n") if history_path.exists() else []
        history = []
        for number, line in enumerate(lines):
            if not line:
                continue
            try:
                record = json_settings.unsealed(json_settings.parse(line), HISTORY, always=sealed)
                expect(isinstance(record, dict) and "stage" in record, "the record of a stage", record)
                history.append(record)
            except InvalidInput:
                if number < len(lines) - 1:
                    raise InvalidInput(f"line {number + 1} of {history_path} is damaged") from None
        run = cls(path, config, history)
        if lines and lines[-1]:
            write_atomically(history_path, b"".join(_line(record) for record in history))
        return run

    def find(self, stage: str) -> dict[str, Any] | None:
        """The record of a stage, or None if it is not finished."""
        return next((record for record in self.history if record["stage"] == stage), None)

    def finish(self, stage: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Append a stage's record; its arrays must be saved by now. Returns it as it will be read again."""
        files = {"files": self._written} if self._written else {}
        line = _line({"stage": stage, **record, **files})
        try:
            with (self.path / HISTORY).open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InvalidInput(f"cannot write {self.path / HISTORY}: {error.strerror or error}") from None
        self._digests |= self._written
        self._written = {}
        # What was written is what a resumed run will read: go on from that.
        self.history.append(json_settings.unsealed(json.loads(line), HISTORY))
        return self.history[-1]

    def save(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the arrays of a stage to a file of the run."""
        from safetensors.numpy import save

        content = save({key: np.ascontiguousarray(value) for key, value in arrays.items()})
        path = self._inside(name)
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, content)
        self._written[name] = hashlib.sha256(content).hexdigest()

    def load(self, name: str) -> dict[str, NDArray[Any]]:
        """Read the arrays of a stage from a file of the run."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        path = self._inside(name)
        content = read_plain(path, MAX_ARRAY_BYTES)
        expected = self._digests.get(name, self._written.get(name))
        if expected is not None and hashlib.sha256(content).hexdigest() != expected:
            raise InvalidInput(f"{path} is damaged: it is not what was written; delete it and its line in {HISTORY}")
        try:
            return dict(load(content))
        except (SafetensorError, ValueError) as error:
            raise InvalidInput(f"cannot read {path}: {error}") from None

    def _inside(self, name: str) -> Path:
        """Where a file of the run is; a link inside the folder would lead out of it."""
        path = self.path / name
        for step in (path, *path.parents[: len(Path(name).parts) - 1]):
            if step.is_symlink():
                raise InvalidInput(f"expected a plain file or folder in the run, got a link: {step}")
        return path

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Have the folder to oneself; two trainings in one would both write its history."""
        try:
            import fcntl
        except ImportError:  # Windows: nothing keeps a second process out
            yield
            return
        path = self._inside(LOCK)
        with path.open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInput(f"expected a run that nobody trains, got {self.path}: a process is at it") from None
            remove_parts(self.path)
            yield


def _line(record: dict[str, Any]) -> bytes:
    """A record as it stands in the history."""
    return json_settings.dump(json_settings.sealed(json_settings.parse(json_settings.dump(record)))) + b"\n"
