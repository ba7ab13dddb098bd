"""Users' own modules as one file that other machines can import.

A task of `my_project.py:task` is functions in a module that only this process has read, from a file that only this
machine has. What a worker needs is every module that was imported from outside of the installation, under the name it
has here. They are packed into a zip file, which Python can import from. Files that a module reads besides its own are
not packed: those have to be on the workers, or in an installed package.
"""

from __future__ import annotations

import hashlib
import io
import os
import site
import stat
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType

from cmcts.compilation.content import LIBRARY
from cmcts.errors import InvalidInput
from cmcts.files import write_atomically

_BEGINNING = (1980, 1, 1, 0, 0, 0)  # the same content is the same file, whenever it is packed


def pack() -> bytes:
    """A zip file of the modules that users brought to this process; empty if there are none."""
    modules = {_path_in_zip(name, module): Path(str(module.__file__)) for name, module in _users_modules()}
    if not modules:
        return b""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, path in sorted(modules.items()):
            file.writestr(zipfile.ZipInfo(name, _BEGINNING), path.read_bytes())
    return content.getvalue()


def unpack(content: bytes) -> None:
    """Let this process import what was packed."""
    if not content:
        return
    path = own_folder() / f"sources-{hashlib.sha256(content).hexdigest()[:20]}.zip"
    if str(path) not in sys.path:
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)
        sys.path.insert(0, str(path))


def own_folder() -> Path:
    """A folder for temporary files that nobody else can have written: code is run from there."""
    folder = Path(tempfile.gettempdir()) / f"cmcts-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or not stat.S_ISDIR(status.st_mode):
        raise InvalidInput(f"expected {folder} to be this user's own, got one that others can write or read")
    return folder


def _users_modules() -> list[tuple[str, ModuleType]]:
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str) and file.endswith(".py") and _is_users(Path(file).resolve()):
            found.append((name, module))
    return found


def _is_users(path: Path) -> bool:
    installed = [*site.getsitepackages(), site.getusersitepackages(), *map(sysconfig.get_path, ("stdlib", "purelib"))]
    installed += [str(LIBRARY), sys.prefix]
    # Packages that lie elsewhere because a `.pth` file says so are installed as well, wherever the workers have them.
    installed += [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    return path.is_file() and not any(path.is_relative_to(Path(folder).resolve()) for folder in installed)


def _path_in_zip(name: str, module: ModuleType) -> str:
    folder = name.replace(".", "/")
    return f"{folder}/__init__.py" if hasattr(module, "__path__") else f"{folder}.py"
