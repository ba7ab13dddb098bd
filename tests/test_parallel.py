"""Results from several processes: the same as without, errors included, and nobody left behind."""

from __future__ import annotations

import os
import time

import pytest

from cmcts.errors import ModelError
from cmcts.planning.parallel import forked_map


@pytest.mark.parametrize("processes", [1, 2, 3, 9])
def test_results_are_in_order_and_from_so_many_processes(processes):
    results = forked_map(lambda k: (k * k, os.getpid()), 7, processes)
    assert [square for square, _ in results] == [k * k for k in range(7)]
    assert len({pid for _, pid in results}) == min(processes, 7)
    assert forked_map(lambda k: k, 0, processes) == []


@pytest.mark.parametrize("culprit", [0, 1])
def test_an_error_is_raised_here(culprit):
    def fail(k):
        if k == culprit:
            raise ModelError(f"number {k}")
        return k

    with pytest.raises(ModelError, match=f"number {culprit}"):
        forked_map(fail, 2, 2)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # no child is left


def test_an_error_that_cannot_be_pickled_is_told_in_words():
    class Local(Exception):
        pass

    def fail(k):
        if k == 1:
            raise Local("of its own kind")

    with pytest.raises(ModelError, match="Local: of its own kind"):
        forked_map(fail, 2, 2)


def test_a_killed_process_is_noticed():
    with pytest.raises(ModelError, match="a planning process was killed"):
        forked_map(lambda k: os._exit(9) if k == 1 else k, 2, 2)


def test_an_error_ends_what_others_are_still_doing(tmp_path):
    """A child that fails at once is heard of before the parent's share is done, and the other way round."""
    for culprit in (0, 1):
        done = tmp_path / f"culprit-{culprit}"
        done.mkdir()

        def work(k, culprit=culprit, done=done):
            if k == culprit:
                raise ModelError(f"number {k}")
            time.sleep(0.05)
            (done / str(k)).touch()
            return k

        with pytest.raises(ModelError, match=f"number {culprit}"):
            forked_map(work, 200, 2)
        assert len(list(done.iterdir())) < 50, "the other process went on with its share of 100"
