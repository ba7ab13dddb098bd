"""A run folder: one training that can be killed at any moment and resumed.

    config.json        the resolved configuration; written once
    history.jsonl      one line for each finished stage, in order
    *.safetensors      what a stage produced: transitions, critics

A stage is finished when its line stands in the history; its arrays were written before. Files are written aside and
renamed, so that a reader sees all of a file or none. Stages are functions of the configuration and of earlier stages,
so a resumed run repeats at most the stage it was killed in and ends with the same bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.errors import InvalidInput
from cmcts.files import write_atomically

CONFIG, HISTORY = "config.json", "history.jsonl"


class RunFolder:
    """The files of one run: its configuration, its history, and the arrays of its stages."""

    def __init__(self, path: Path, config: dict[str, Any], history: list[dict[str, Any]]) -> None:
        self.path, self.config, self.history = path, config, history

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> RunFolder:
        """Begin a new run in a folder that is new or empty."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise InvalidInput(f"expected an empty folder for a new run, got {path}; use --resume to continue it")
        except OSError as error:
            raise InvalidInput(f"cannot use {path} as a run folder: {error.strerror or error}") from None
        write_atomically(path / CONFIG, json_settings.dump(config, indent=2))
        return cls(path, config, [])

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run that was begun before; a line that was being written when it was killed is dropped."""
        try:
            config = json_settings.parse((path / CONFIG).read_bytes())
        except (OSError, InvalidInput) as error:
            raise InvalidInput(f"expected a run folder with a {CONFIG}, got {path} ({error})") from None
        history_path = path / HISTORY
        lines = history_path.read_bytes().split(b"\n") if history_path.exists() else []
        history = []
        for number, line in enumerate(lines):
            if not line:
                continue
            try:
                history.append(json.loads(line))
            except ValueError:
                if number < len(lines) - 1:
                    raise InvalidInput(f"line {number + 1} of {history_path} is damaged") from None
        run = cls(path, config, history)
        if lines and lines[-1]:
            write_atomically(history_path, b"".join(json_settings.dump(record) + b"\n" for record in history))
        return run

    def find(self, stage: str) -> dict[str, Any] | None:
        """The record of a stage, or None if it is not finished."""
        return next((record for record in self.history if record["stage"] == stage), None)

    def finish(self, stage: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Append a stage's record; its arrays must be saved by now. Returns it as it will be read again."""
        line = json_settings.dump({"stage": stage, **record})
        try:
            with (self.path / HISTORY).open("ab") as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InvalidInput(f"cannot write {self.path / HISTORY}: {error.strerror or error}") from None
        # What was written is what a resumed run will read: go on from that.
        self.history.append(json.loads(line))
        return self.history[-1]

    def save(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the arrays of a stage to a file of the run."""
        from safetensors.numpy import save

        (self.path / name).parent.mkdir(exist_ok=True)
        write_atomically(self.path / name, save({key: np.ascontiguousarray(value) for key, value in arrays.items()}))

    def load(self, name: str) -> dict[str, NDArray[Any]]:
        """Read the arrays of a stage from a file of the run."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(self.path / name))
        except (OSError, SafetensorError) as error:
            raise InvalidInput(f"cannot read {self.path / name}: {error}") from None
