"""Compiled code on disk: damaged, cut short, not to be written, or without a folder, a search goes on."""

import importlib.util
import warnings

import numba
import pytest

from cmcts.compilation.disk import cache_on_disk
from cmcts.errors import CacheWarning

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


@pytest.fixture(scope="module", autouse=True)
def beside_the_source():
    """Each folder has a cache of its own, wherever the other tests keep theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "CACHE_DIR", "")
        yield


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A folder with a compiled function in its cache."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / "twice.py").write_text("def twice(x):\n    return 2.0 * x\n")
    assert fresh(folder)(3.0) == 6.0
    return folder


@pytest.fixture
def folder(warm, tmp_path):
    """A copy of it, for one test to damage."""
    import shutil

    shutil.copytree(warm, tmp_path / "copy", copy_function=shutil.copy2)
    return tmp_path / "copy"


def fresh(folder):
    """The function as a process sees it that has not compiled it yet."""
    spec = importlib.util.spec_from_file_location("twice", folder / "twice.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cache_on_disk(numba.njit(module.twice))


def files(folder, suffix):
    found = sorted((folder / "__pycache__").glob(f"*.{suffix}"))
    assert found
    return found


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_a_second_process_compiles_nothing(folder):
    function = fresh(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(3.0) == 6.0
    assert hits(function) == 1


@pytest.mark.parametrize("suffix", ["nbc", "nbi"])
@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "flipped"])
def test_a_damaged_file_is_compiled_anew_and_replaced(folder, suffix, damage):
    for file in files(folder, suffix):
        content = bytearray(file.read_bytes())
        if damage == "flipped":
            content[len(content) // 2] ^= 0x10
        changed = {"cut": content[: len(content) // 2], "empty": b"", "noise": b"\x80" * 4096, "flipped": content}
        file.write_bytes(bytes(changed[damage]))
    function = fresh(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert function(3.0) == 6.0
    assert hits(function) == 0, "what is damaged is not run"
    assert {warning.category for warning in caught} <= {CacheWarning}
    assert len(caught) >= 1 or suffix == "nbi", "an index that merely looks old is no news"
    again = fresh(folder)
    assert again(3.0) == 6.0 and hits(again) == 1


def test_a_disk_that_is_full_stops_nothing(folder, monkeypatch):
    for file in files(folder, "nbc"):
        file.unlink()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cmcts.compilation.disk._VouchedFile._save_data", full)
    with pytest.warns(CacheWarning, match="No space left on device.*the next process compiles anew"):
        assert fresh(folder)(3.0) == 6.0


def test_an_index_that_can_be_neither_read_nor_replaced_is_left_alone(folder, monkeypatch):
    for file in files(folder, "nbi"):
        file.write_bytes(b"noise")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cmcts.compilation.disk._VouchedFile._save_index", full)
    with pytest.warns(CacheWarning, match="compiling it anew"):
        assert fresh(folder)(3.0) == 6.0


def test_without_a_folder_every_process_compiles(folder, monkeypatch):
    def nowhere(*_):
        raise RuntimeError("no locator available")

    monkeypatch.setattr("cmcts.compilation.disk.FunctionCache.__init__", nowhere)
    with pytest.warns(CacheWarning, match="NUMBA_CACHE_DIR"):
        function = fresh(folder)
    assert function(3.0) == 6.0
