"""Run folders and planners on a bad day: kills, flipped bits, links, a second process, odd files and odd names."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import cmcts
from cmcts.cli import main
from cmcts.errors import InvalidInput
from cmcts.files import read_plain, remove_parts, write_atomically
from cmcts.training.run_folder import CONFIG, HISTORY, RunFolder


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"task": "t"})
    folder.save("data/one.safetensors", {"numbers": np.arange(4.0)})
    folder.finish("first", {"value": 1})
    return folder


def test_a_kill_while_the_configuration_is_written_leaves_a_folder_that_can_be_begun(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".config.json.0123456789abcdef.part").write_bytes(b'{"ta')
    RunFolder.create(folder, {"task": "t"})
    assert sorted(path.name for path in folder.iterdir()) == ["config.json"]
    with pytest.raises(InvalidInput, match="expected an empty folder for a new run"):
        RunFolder.create(folder, {"task": "t"})


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "below").mkdir()
    ours = (".a.0123456789abcdef.part", "below/.b.fedcba9876543210.part")
    theirs = [".download.part", ".kept", "kept.part"]
    for name in (*ours, *theirs):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InvalidInput, match="expected an empty folder"):
        RunFolder.create(tmp_path, {"task": "t"})
    assert all((tmp_path / name).exists() for name in (*ours, *theirs)), "a folder that is refused is left alone"
    remove_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == theirs


def test_a_flipped_bit_is_found_before_it_is_trained_on(run):
    np.testing.assert_array_equal(RunFolder.open(run.path).load("data/one.safetensors")["numbers"], np.arange(4.0))
    path = run.path / "data/one.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for folder in (run, RunFolder.open(run.path)):
        with pytest.raises(InvalidInput, match=r"one\.safetensors is damaged: it is not what was written"):
            folder.load("data/one.safetensors")


def test_a_flipped_bit_in_history_or_configuration_is_found(run):
    for name, said, message in ((HISTORY, b'"value": 1', "line 1 of .* is damaged"), (CONFIG, b'"t"', "is damaged")):
        path = run.path / name
        content = path.read_bytes()
        assert content.count(said) == 1
        path.write_bytes(content.replace(said, said[:-1] + bytes([said[-1] ^ 2])))
        with pytest.raises(InvalidInput, match=message if name == HISTORY else "expected a run folder"):
            RunFolder.open(run.path)
        path.write_bytes(content)
    assert RunFolder.open(run.path).history == run.history


def test_a_run_of_before_digests_still_loads(run):
    history, config = run.path / HISTORY, run.path / CONFIG
    record = json.loads(history.read_text())
    del record["files"], record["check"]
    history.write_text(json.dumps(record) + "\n")
    config.write_text(json.dumps({"task": "t", "library": "0.1.0"}))
    assert len(RunFolder.open(run.path).load("data/one.safetensors")["numbers"]) == 4
    config.write_text(json.dumps({"task": "t", "library": "0.2.0"}))
    with pytest.raises(InvalidInput, match=r"config\.json is damaged: it has no 'check'"):
        RunFolder.open(run.path)


def test_links_inside_a_run_are_not_followed(run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (run.path / "data").rename(elsewhere)
    (run.path / "data").symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match="got a link"):
        run.load("data/one.safetensors")
    with pytest.raises(InvalidInput, match="got a link"):
        run.save("data/two.safetensors", {"numbers": np.zeros(1)})


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
def test_a_second_process_is_kept_out(run):
    attempt = (
        "import sys; from pathlib import Path; from cmcts.training.run_folder import RunFolder\n"
        "from cmcts.errors import InvalidInput\n"
        "try:\n    with RunFolder.open(Path(sys.argv[1])).in_use(): print('in')\n"
        "except InvalidInput as error: print(error)"
    )
    command = [sys.executable, "-c", attempt, str(run.path)]
    with run.in_use():
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "expected a run that nobody trains" in out
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "in\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_pipes_and_devices_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "bundle.json")
    with pytest.raises(InvalidInput, match="to be a plain file"):
        read_plain(tmp_path / "bundle.json", 10)
    with pytest.raises(InvalidInput, match=r"expected a folder where `cmcts train` has finished|plain file"):
        cmcts.CMCTS.load(tmp_path)
    with pytest.raises(InvalidInput, match="to be a plain file"):
        read_plain(tmp_path.joinpath("/dev/zero"), 10)
    (tmp_path / "long").write_bytes(b"12345678901")
    with pytest.raises(InvalidInput, match="at most 10 bytes, got 11"):
        read_plain(tmp_path / "long", 10)


def test_names_of_files_that_are_being_written_cannot_be_foreseen(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("pathlib.Path.replace", lambda self, target: seen.append(self.name))
    write_atomically(tmp_path / "a", b"")
    write_atomically(tmp_path / "a", b"")
    assert len(set(seen)) == 2 and all(name.startswith(".a.") and name.endswith(".part") for name in seen)


@pytest.mark.parametrize("send", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy])
def test_planners_travel(send):
    planner = cmcts.CMCTS.load("rocksample-5-7")
    state = planner.model.start_state()
    before = planner.plan(state, 1.0, iterations=32, rng=1)
    after = send(planner).plan(state, 1.0, iterations=32, rng=1)
    np.testing.assert_array_equal(before.visits, after.visits)


CHATTY = """
import cmcts
print("a task that talks")
model = cmcts.make("random-dense-1").model
import dataclasses
model = dataclasses.replace(model, action_names=("turn[left]", "[bold]go[/bold]", "stop"), cost_names=("[red]risk",))
task = cmcts.Task("chatty", model, budget=1.0, search=cmcts.SearchSettings(discount=0.9, horizon=12, iterations=16))
"""


def test_a_task_that_prints_does_not_break_json(tmp_path, capsys):
    (tmp_path / "chatty.py").write_text(CHATTY)
    assert main(["plan", f"{tmp_path}/chatty.py:task", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["task"] == "chatty"
    assert "a task that talks" in captured.err


def test_names_are_text_and_no_markup(tmp_path, capsys):
    (tmp_path / "chatty.py").write_text(CHATTY)
    assert main(["plan", f"{tmp_path}/chatty.py:task"]) == 0
    out = capsys.readouterr().out
    assert "turn[left]" in out and "[bold]go[/bold]" in out and "[red]risk" in out
    assert main(["evaluate", f"{tmp_path}/chatty.py:task", "--episodes", "3"]) == 0
    assert "[red]risk" in capsys.readouterr().out
