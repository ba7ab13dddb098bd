"""A run folder survives whatever happens to the process that writes it."""

import json

import numpy as np
import pytest

from cmcts.errors import InvalidInput
from cmcts.files import write_atomically
from cmcts.training.run_folder import RunFolder


def test_records_and_arrays_come_back(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"seed": 1})
    run.save("critics/000.safetensors", {"w": np.arange(6, dtype=np.float32).reshape(2, 3)})
    run.finish("fit 0", {"loss": 0.25})
    again = RunFolder.open(tmp_path / "run")
    assert again.config == {"seed": 1}
    record = again.find("fit 0")
    assert list(record.pop("files")) == ["critics/000.safetensors"], "with its digest"
    assert record == {"stage": "fit 0", "loss": 0.25}
    assert again.find("fit 1") is None
    np.testing.assert_array_equal(again.load("critics/000.safetensors")["w"], [[0, 1, 2], [3, 4, 5]])


def test_a_line_cut_short_is_dropped_and_the_rest_kept(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.finish("a", {"x": 1})
    run.finish("b", {"x": 2})
    history = tmp_path / "run" / "history.jsonl"
    history.write_bytes(history.read_bytes()[:-5])
    again = RunFolder.open(tmp_path / "run")
    assert again.find("a") and again.find("b") is None
    again.finish("b", {"x": 3})
    assert [json.loads(line)["x"] for line in history.read_text().splitlines()] == [1, 3]


def test_damage_in_the_middle_is_an_error(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.finish("a", {"x": 1})
    run.finish("b", {"x": 2})
    history = tmp_path / "run" / "history.jsonl"
    history.write_text("{broken\n" + history.read_text())
    with pytest.raises(InvalidInput, match=r"line 1 of .*history.jsonl is damaged"):
        RunFolder.open(tmp_path / "run")


def test_a_folder_in_use_is_not_overwritten(tmp_path):
    (tmp_path / "precious").write_text("data")
    with pytest.raises(InvalidInput, match="expected an empty folder for a new run"):
        RunFolder.create(tmp_path, {})
    assert (tmp_path / "precious").read_text() == "data"


def test_not_a_run_folder(tmp_path):
    with pytest.raises(InvalidInput, match=r"expected a run folder with a config.json"):
        RunFolder.open(tmp_path)


def test_an_unwritable_place_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot use"):
        RunFolder.create(tmp_path / "file" / "run", {})


def test_a_failed_write_keeps_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cmcts.training.run_folder.os.fsync", no_space)
    with pytest.raises(InvalidInput, match="No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
