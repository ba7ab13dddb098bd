"""How a model's functions reach a cached, compiled kernel, and how the same kernel runs uncompiled.

A kernel that took functions as arguments would never hit Numba's on-disk cache, and one that read them from module
globals would hit it stale. So each *content* gets a Numba type of its own: an opaque type whose name carries a digest
of all code reachable from the functions and of the library's kernel sources. Calling `kernel(model, ...)` then

* finds the compiled kernel on disk in a fresh process when nothing changed,
* misses and recompiles when the model, a helper it calls, or a kernel of the library was edited,
* and inside the kernel `model.step` resolves at compile time to the user's function, so LLVM can inline it.

Rules that go with it: only entry points whose arguments include such an object are cached (anything below is
`@kernel`, or it could be cached stale); sizes and probabilities belong in `params`, where a change costs nothing.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
import types as python_types
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit, types
from numba.core.dispatcher import Dispatcher
from numba.extending import NativeValue, models, overload_attribute, register_model, unbox

from cmcts.compilation.disk import cache_on_disk
from cmcts.compilation.inner import InnerCompiler

# Modules whose functions are identified by name and version; everything else is followed into its code.
_TRUSTED = {"numpy": np.__version__, "numba": numba.__version__, "math": "", "cmath": "", "builtins": ""}

Function = Callable[..., Any]

LIBRARY = Path(__file__).parents[1]  # the folder of the whole library

# Kernels allocate nothing, so they need no reference counts (`_nrt=False`): with them the search is 2.5 times slower.
# `forceinline` spares calls with a tree of twenty arrays as their argument: another factor of 4.
# Numba writes two wrappers for each function, one for calls from Python and one for calls through a pointer. What only
# other kernels call needs neither, and compiles a third faster without; to call it from Python is to crash.
kernel = njit(_nrt=False, forceinline=True, no_cfunc_wrapper=True)
_INNER: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, "pipeline_class": InnerCompiler}
inner_kernel = njit(_nrt=False, forceinline=True, **_INNER)
entry_point = njit(_nrt=False, nogil=True, **_INNER)  # see `compiled_for`


def _library_digest() -> bytes:
    """Hash of every library source that holds a kernel."""
    sources = (path.read_bytes() for path in sorted(LIBRARY.rglob("*.py")))
    return hashlib.sha256(
        b"".join(source for source in sources if b"@kernel" in source or b"@entry_point" in source)
    ).digest()


_LIBRARY_DIGEST = _library_digest()


def python_function(function: Function) -> Function:
    """The plain Python function behind a jitted one."""
    return getattr(function, "py_func", function)


def digest(functions: Iterable[Function]) -> str:
    """A hash of all code and constants that can be reached from `functions`, and of the library's kernels."""
    hasher = hashlib.sha256(_LIBRARY_DIGEST)
    seen: set[int] = set()
    for function in functions:
        _hash(python_function(function), hasher, seen)  # it is compiled anew: its own options do not matter
    return hasher.hexdigest()[:20]


def _hash(value: Any, hasher: Any, seen: set[int]) -> None:
    if isinstance(value, Dispatcher):
        # `fastmath`, `boundscheck` and the like change what the same source computes.
        _tag(hasher, "options", repr(sorted((name, repr(option)) for name, option in value.targetoptions.items())))
        value = python_function(value)
    if isinstance(value, python_types.FunctionType):
        if value.__module__.partition(".")[0] in _TRUSTED:
            _tag(hasher, "trusted", value.__module__, value.__qualname__)
        elif id(value) not in seen:
            seen.add(id(value))
            _hash_function(value, hasher, seen)
        return
    if isinstance(value, enum.Enum):
        _tag(hasher, "member", type(value).__qualname__, value.name)
        _hash(value.value, hasher, seen)
    elif isinstance(value, enum.EnumMeta):
        for name in sorted(value.__members__):
            _hash(value.__members__[name], hasher, seen)
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        _tag(hasher, "constant", type(value).__name__, repr(value))
    elif isinstance(value, np.ndarray) and value.dtype != object:
        _tag(hasher, "array", value.dtype.str, repr(value.shape))
        hasher.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, (tuple, list, set, frozenset)):
        _tag(hasher, "sequence", type(value).__name__, str(len(value)))
        for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
            _hash(item, hasher, seen)
    elif type(value) is dict:
        _tag(hasher, "dictionary", str(len(value)))
        for pair in value.items():
            _hash(pair, hasher, seen)
    elif isinstance(value, partial):
        _tag(hasher, "partial")
        _hash((value.func, value.args, value.keywords), hasher, seen)
    elif isinstance(value, (type, python_types.BuiltinFunctionType, np.ufunc, python_types.ModuleType)):
        _tag(hasher, "named", getattr(value, "__module__", "") or "", getattr(value, "__qualname__", value.__name__))
    else:
        # Nothing is known about this object's content: never reuse compiled code that saw it.
        _tag(hasher, "unknown", secrets.token_hex(16))


def _hash_function(function: python_types.FunctionType, hasher: Any, seen: set[int]) -> None:
    code = function.__code__
    names = _hash_code(code, hasher, seen)
    _hash(function.__defaults__, hasher, seen)
    for name, default in sorted((function.__kwdefaults__ or {}).items()):
        _tag(hasher, "default", name)
        _hash(default, hasher, seen)
    for cell in function.__closure__ or ():
        _hash(cell.cell_contents, hasher, seen)
    _hash_names(names, function.__globals__, hasher, seen, modules=set())


def _hash_names(names: set[str], namespace: Mapping[str, Any], hasher: Any, seen: set[int], modules: set[int]) -> None:
    """Whatever code that looks up `names` can reach from a namespace."""
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        _tag(hasher, "name", name)
        if isinstance(value, python_types.ModuleType) and value.__name__.partition(".")[0] not in _TRUSTED:
            # `tools.helpers.distance(...)` leaves all its words in `names`: follow those that each module knows.
            if id(value) not in modules:
                modules.add(id(value))
                _hash_names(names, vars(value), hasher, seen, modules)
        else:
            _hash(value, hasher, seen)


def _hash_code(code: python_types.CodeType, hasher: Any, seen: set[int]) -> set[str]:
    """Feed a code object to the hash and return the names it looks up."""
    _tag(hasher, "code", repr(code.co_names), repr(code.co_varnames[: code.co_argcount]))
    hasher.update(code.co_code)
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            names |= _hash_code(constant, hasher, seen)
        else:
            _hash(constant, hasher, seen)
    return names


def _tag(hasher: Any, *words: str) -> None:
    hasher.update("\x1f".join(words).encode() + b"\x1e")


class ContentType(types.Opaque):  # type: ignore[misc]
    """The Numba type of one content: its name carries the digest."""

    def __init__(self, label: str) -> None:
        super().__init__(f"cmcts[{label}]")


register_model(ContentType)(models.OpaqueModel)


@unbox(ContentType)
def _unbox(typ: Any, obj: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


CONTENTS: dict[str, Mapping[str, Function]] = {}  # functions by the name of their content's type
_ATTRIBUTES: set[str] = set()


def content_type(label: str, functions: Mapping[str, Function], params: object) -> ContentType:
    """The Numba type of an object whose attributes are `functions`; equal contents share one type.

    The class of `params` is part of the content: what is cached for it can only be read where it can be imported.

    Set it as `_numba_type_` on a Python object that has the same attributes, and that object can be handed to a
    kernel, compiled or not.
    """
    kinds = ",".join(f"{kind.__module__}.{kind.__qualname__}" for kind in _classes(params))
    typ = ContentType(f"{label}@{digest(functions.values())}:{','.join(functions)}({kinds})")
    CONTENTS.setdefault(typ.name, {name: _jitted(function) for name, function in functions.items()})
    for name in functions:
        if name not in _ATTRIBUTES:
            _ATTRIBUTES.add(name)
            _forward(name)
    return typ


def _classes(params: object) -> list[type]:
    """The class of `params`, and those of named tuples in it."""
    inner = params if isinstance(params, tuple) else ()
    return [type(params), *(kind for part in inner if hasattr(part, "_fields") for kind in _classes(part))]


def _jitted(function: Function) -> Function:
    if isinstance(function, Dispatcher) and function.py_func.__module__.partition(".")[0] == "cmcts":
        return function
    return _checked(python_function(function))


# Users' functions may allocate: options that are not set here would be inherited from the kernel that calls them. And
# they may be wrong: an index out of range must be an error, not somebody else's memory.
_USERS_OPTIONS = {
    "_nrt": True,
    "forceinline": True,
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
    "boundscheck": True,
}
_CALLED_FROM_PYTHON = {"boundscheck": True}
_CHECKED: dict[tuple[Function, int], Function] = {}


def _checked(source: Function, options: dict[str, bool] = _USERS_OPTIONS) -> Function:
    """A user's function compiled with bounds checked, and so the `njit` helpers that it finds among its globals."""
    key = (source, id(options))
    if key not in _CHECKED:
        _CHECKED[key] = njit(**options)(source)  # for helpers that call themselves, or each other
        twin = _with_other_helpers(source, _users_dispatcher, partial(_checked, options=options))
        _CHECKED[key] = njit(**options)(twin)
    return _CHECKED[key]


_PLAIN: dict[Function, Function] = {}


def plain(function: Function) -> Function:
    """A user's function as plain Python, its `njit` helpers compiled with bounds checked.

    Numba's own way would call the helpers as they are, and an index out of range would read somebody else's memory.
    """
    source = python_function(function)
    if not isinstance(source, python_types.FunctionType):
        return source
    if source not in _PLAIN:
        if source.__module__.partition(".")[0] == "cmcts":
            return source
        compiled = partial(_checked, options=_CALLED_FROM_PYTHON)
        _PLAIN[source] = _with_other_helpers(source, _users_dispatcher, compiled)
    return _PLAIN[source]


def around(make: Callable[[Function], Function], function: Function) -> Function:
    """The function that `make` writes around one of a model's, for kernels; `plain` finds it around the plain one.

    `make` must keep what it is given in a closure, which the digest follows.
    """
    wrapped: Function = kernel(make(_jitted(function)))
    _PLAIN[python_function(wrapped)] = make(plain(function))
    return wrapped


def _users_dispatcher(value: Any) -> bool:
    return isinstance(value, Dispatcher) and value.py_func.__module__.partition(".")[0] not in {*_TRUSTED, "cmcts"}


def _forward(name: str) -> None:
    @overload_attribute(ContentType, name)  # Numba compares signatures: no annotations here
    def resolve(content):
        function = CONTENTS[content.name].get(name)
        return None if function is None else lambda content: function


_ENTRIES: dict[tuple[Function, str], Function] = {}


def compiled_for(entry: Function, *contents: Any) -> Function:
    """An entry point as a dispatcher of its own for these contents, with its own index in the on-disk cache.

    Numba keeps one index a function, and reading it imports every class that a signature in it mentions. In a shared
    index, one model whose module cannot be imported here would keep all others from being loaded.
    """
    names = "|".join(content._numba_type_.name for content in contents)
    if (entry, names) not in _ENTRIES:
        source = python_function(entry)
        clone = python_types.FunctionType(source.__code__, source.__globals__, source.__name__)
        clone.__module__ = source.__module__
        clone.__qualname__ = f"{source.__name__}_{hashlib.sha256(names.encode()).hexdigest()[:16]}"
        compiled = cache_on_disk(njit(_nrt=False, nogil=True, no_cfunc_wrapper=True)(clone))
        # Threads may come here at once: all must get the same dispatcher, or each would compile its own.
        _ENTRIES.setdefault((entry, names), compiled)
    return _ENTRIES[entry, names]


_TWINS: dict[Function, Function] = {}


def uncompiled(kernel: Function) -> Function:
    """The plain-Python twin of a kernel: the same source, with every library kernel it calls replaced by its twin.

    It runs the models that Numba cannot compile. Functions outside the library are left as they are.
    """
    source = python_function(kernel)
    if not isinstance(source, python_types.FunctionType):
        return source
    if source not in _TWINS:
        _TWINS[source] = _with_other_helpers(source, _librarys_dispatcher, uncompiled)
    return _TWINS[source]


def _librarys_dispatcher(value: Any) -> bool:
    return isinstance(value, Dispatcher) and value.py_func.__module__.partition(".")[0] == "cmcts"


def _with_other_helpers(source: Any, concerned: Callable[[Any], bool], other: Callable[[Function], Function]) -> Any:
    """A copy of a function in whose globals each helper that is `concerned` is replaced by its `other` version."""
    namespace = dict(source.__globals__)
    twin = python_types.FunctionType(
        source.__code__, namespace, source.__name__, source.__defaults__, source.__closure__
    )
    twin.__kwdefaults__ = source.__kwdefaults__
    twin.__module__, twin.__qualname__ = source.__module__, source.__qualname__
    for name in _names(source.__code__):
        if concerned(namespace.get(name)):
            namespace[name] = other(python_function(namespace[name]))
    return twin


def _names(code: python_types.CodeType) -> set[str]:
    """The names that a function looks up, in its inner functions as well."""
    inner = (constant for constant in code.co_consts if isinstance(constant, python_types.CodeType))
    return set(code.co_names).union(*map(_names, inner))
