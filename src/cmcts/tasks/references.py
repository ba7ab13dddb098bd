"""Users' objects by name: `my_project.py:task`, `package.module:task`, or what an installed package registered.

A package registers a task in its own `pyproject.toml`:

    [project.entry-points."cmcts.tasks"]
    my-task = "my_package.tasks:my_task"
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from cmcts.errors import InvalidInput, near

GROUP = "cmcts.tasks"

_FILES: dict[tuple[str, int, int], ModuleType] = {}  # by path, time and size: an edited file is run again


def is_reference(name: str) -> bool:
    """Whether a name says where an object is, rather than what a task is called."""
    return ":" in name or name.endswith(".py")


def absolute(reference: str) -> str:
    """The same reference from whatever folder it is read."""
    place, _, attribute = reference.rpartition(":")
    return f"{Path(place).resolve()}:{attribute}" if place.endswith(".py") else reference


def load_object(reference: str) -> Any:
    """The object that `FILE.py:NAME` or `MODULE:NAME` names; a function that is not a class instance is not called."""
    place, _, attribute = reference.rpartition(":")
    if not place or not attribute:
        raise InvalidInput(f"expected FILE.py:NAME or MODULE:NAME, such as my_project.py:task, got {reference!r}")
    module = _file(Path(place)) if place.endswith(".py") else _module(place)
    try:
        # `pkgutil.resolve_name` would not do for files: one with a dash in its name is no module to it.
        return attrgetter(attribute)(module)
    except AttributeError:
        public = sorted(name for name in vars(module) if not name.startswith("_"))
        hint = near(attribute, public)
        raise InvalidInput(f"expected {place} to define {attribute!r}, got only {', '.join(public)}{hint}") from None


def load_made(reference: str, kinds: tuple[type, ...]) -> Any:
    """The same, which must be of one of these kinds or a function without arguments that returns one."""
    found = load_object(reference)
    if not isinstance(found, kinds) and callable(found):
        with _blamed(f"{reference}()"):
            found = found()
    return of_kind(found, kinds, reference)


def of_kind(found: Any, kinds: tuple[type, ...], reference: str) -> Any:
    """What was found, if it is of one of these kinds; else `InvalidInput` says what it is."""
    if not isinstance(found, kinds):
        names = " or ".join(f"a {kind.__name__}" for kind in kinds)
        shown = f": {found!r}" if isinstance(found, (int, float, str)) else ""
        raise InvalidInput(
            f"expected {reference} to be {names}, or a function that returns one, got {type(found).__name__}{shown}"
        )
    return found


def registered() -> dict[str, EntryPoint]:
    """The tasks that installed packages bring, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def load_registered(point: EntryPoint, kinds: tuple[type, ...]) -> Any:
    """A registered object, or the result of a registered function."""
    with _blamed(f"the registered task {point.name!r} ({point.value})"):
        found = point.load()
        if not isinstance(found, kinds) and callable(found):
            found = found()
    return of_kind(found, kinds, point.value)


def _file(path: Path) -> ModuleType:
    try:
        path = path.resolve()
        status = path.stat()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    key = (str(path), status.st_mtime_ns, status.st_size)
    if key not in _FILES:
        # A name that is the same in every process, so that compiled code is found again, and nobody else's.
        name = f"cmcts_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise InvalidInput(f"expected a Python file, got {path}")
        module = importlib.util.module_from_spec(spec)
        _search_in(path.parent)
        sys.modules[name] = module
        with _blamed(str(path)):
            spec.loader.exec_module(module)
        _FILES[key] = module
    return _FILES[key]


def _module(name: str) -> ModuleType:
    _search_in(Path.cwd())
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise InvalidInput(f"expected a module that can be imported from here, got {name!r}")
    with _blamed(f"module {name}"):
        return importlib.import_module(name)


def _search_in(folder: Path) -> None:
    """Let a user's file import its neighbours, as Python does for the script it runs."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@contextlib.contextmanager
def _blamed(what: str) -> Iterator[None]:
    """An error in a user's code, as one line that says where."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except SyntaxError as error:
        raise InvalidInput(f"{what} is not valid Python: line {error.lineno}: {error.msg}") from error
    except BaseException as error:  # also SystemExit: a script that ends itself is no task
        library = str(Path(__file__).parents[1])
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<", library))]
        where = f", {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
        message = " ".join(str(error).split())
        raise InvalidInput(f"{what} raised {type(error).__name__}: {message}{where}") from error
