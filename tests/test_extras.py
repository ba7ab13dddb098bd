"""A plain installation says in one line what it lacks, before anything is done."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cmcts import cli
from cmcts.errors import InvalidInput
from cmcts.extras import require_extra

JAX = ("jax", "optax", "equinox")
NEEDS = "needs JAX, Optax and Equinox, got none of them here: pip install 'cmcts[train]'"


@pytest.fixture
def plain(monkeypatch, tmp_path):
    """As after `pip install cmcts`, in an empty folder."""
    for name in (*JAX, "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "rocksample-5-7"],
        ["train", "rocksample-5-7", "--out", "mine"],
        ["train", "--resume", "nowhere"],
        ["demo"],
        ["reproduce", "--quick"],
    ],
)
def test_commands_that_train_say_what_to_install(plain, capsys, arguments):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"cmcts: cmcts {arguments[0]} {NEEDS}\n")
    assert list(plain.iterdir()) == []


def test_a_table_in_parquet_is_refused_before_an_episode_is_run(plain, capsys):
    assert cli.main(["evaluate", "rocksample-5-7", "--table", "t.parquet"]) == 2
    expected = "cmcts: expected pyarrow to write Parquet (pip install 'cmcts[parquet]'), got none\n"
    assert capsys.readouterr() == ("", expected)


def test_what_is_there_is_not_asked_for_again(monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(InvalidInput, match=r"^this needs JAX, Optax and Equinox, got no Optax here: pip install"):
        require_extra("train", "this")


def test_importing_the_trainer_says_it_too():
    """In a process where nothing has been imported yet, as an `ImportError` that scripts may expect."""
    script = f"""
import sys
for name in {JAX!r}:
    sys.modules[name] = None
from cmcts.training import TrainingSettings
TrainingSettings()
try:
    from cmcts.training import train
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == f"cmcts.training.train {NEEDS}\n"
