"""Many searches side by side on a GPU: one thread a search, by the same kernels as one search on the CPU.

A search on the GPU is a *lane*. Its tree lies in one piece in the card's memory, for neighbouring threads are soon at
different nodes, and a node's row is then read whole. What a search writes to besides (`Workspace`) is the thread's own,
in shared memory where every step of a rollout writes to it, and what never changes is there once. Sizes and switches
are constants of the function that is launched: the compiler leaves out what a planner does not use, unrolls loops, and
a search needs half of the registers. So there is one such function for each kind of planner and size of model, written
here as text, and found on disk the next time (compilation/gpu.py).

Lanes are cut into launches that fit the card; of a tree only its root comes back, unless it is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import uncompiled
from cmcts.compilation.gpu import GpuKernel, with_shape
from cmcts.compilation.portable import portable
from cmcts.devices import is_simulated
from cmcts.errors import InvalidInput, ModelError
from cmcts.search import kernels
from cmcts.search.faults import COUNT, fault_message
from cmcts.search.kernels import Rules
from cmcts.search.session import SearchSession
from cmcts.search.tree import Tree, allocate
from cmcts.search.workspace import Memo, Workspace

MEMORY_SHARE = 0.85  # of what is free on the card; threads need some for themselves
BLOCK = 64  # threads
MEMO_SLOTS = 1 << 10  # of each lane: fewer than a session has, for memory is what there is least of
HOT = ("legal", "rollout_rows")  # what every step of a rollout writes
SHARED_MEMORY = 32 << 10  # bytes that a block may take for them; beyond, they are the threads' own
ITERATIONS_A_LAUNCH = 4096  # so that Ctrl-C is heard in between
ALIGNMENT = 256  # bytes


class Shared(NamedTuple):
    """The part of a workspace that no search writes to, once for all lanes."""

    cost_scale: NDArray[np.float64]  # [M]
    discounts: NDArray[np.float64]  # [H + 2]
    cost_discounts: NDArray[np.float64]  # [H + 2, M]
    price_growth: NDArray[np.float64]  # [H + 2, M]


class Exchange(NamedTuple):
    """What goes to the GPU and comes back, one row a lane: first what only goes, last what only comes back."""

    states: NDArray[np.float64]  # [L, S] where each search begins
    budgets: NDArray[np.float64]  # [L, M]
    doubts: NDArray[np.float64]  # [L, A] of each root, as in the workspace
    multipliers: NDArray[np.float64]  # [L, M]
    rngs: NDArray[np.uint64]  # [L, 1]
    done: NDArray[np.int64]  # [L, 1] simulations
    faults: NDArray[np.float64]  # [L, 3 + S + M]
    roots: Tree  # [L, 1, ...] the root's rows of each tree


class Searched(NamedTuple):
    """What lanes have found, one row a lane."""

    roots: Tree  # [L, ...] the root's rows
    multipliers: NDArray[np.float64]  # [L, M]
    trees: list[Tree]  # [L] whole, or none of them


class _Lane(NamedTuple):
    """What stays on the card."""

    tree: Tree
    memo: Memo


class Lanes:
    """The searches of one planner on the GPU; a session says what it is made of."""

    def __init__(self, session: SearchSession) -> None:
        if session.rules.leaf_values:  # all lanes would have to be told their prices
            raise InvalidInput('expected a search without leaf values on a GPU, got one with them: use device "cpu"')
        self._session, self._model = session, session.model
        # Threads side by side that look something up find it or not, and all wait for those that do not.
        self._rules = session.rules._replace(remember_critic=False)
        self._shared = Shared(*(getattr(session.work, name) for name in Shared._fields))
        model, critic, simulated = session.model, session.critic, is_simulated()
        one = self._tree(1)
        shapes = {name: (-1, *array.shape[1:]) for name, array in one._asdict().items() if array.ndim == 2}
        shapes |= {name: getattr(session.work, name).shape for name in HOT}
        namespace = {
            "np": np,
            "Tree": Tree,
            "Workspace": Workspace,
            "Memo": Memo,
            "Rules": Rules,
            "plant": uncompiled(kernels.plant) if simulated else kernels.plant,
            "run": uncompiled(kernels.run) if simulated else kernels.run,
            "model": model.uncompiled if simulated else model,
            "critic": critic.uncompiled if simulated else critic,
            **{f"shaped_{name}": with_shape(*shape) for name, shape in shapes.items()},
        }
        self._kernel = GpuKernel(_source(one, session.work, self._rules), namespace, (model, critic))
        self._constants: tuple[Any, ...] = ()  # on the card

    def _tree(self, nodes: int) -> Tree:
        model = self._model
        return allocate(nodes, model.state_size, model.action_count, model.cost_count, critic=self._rules.use_critic)

    def _lane(self, nodes: int) -> _Lane:
        """The arrays of one lane, for their shapes."""
        memo = self._session.work.memo
        asked = self._rules.guarded_rollout or self._rules.expected_accounting
        slots = MEMO_SLOTS if asked else 1
        memo = memo._replace(**{name: getattr(memo, name)[:slots] for name in ("used", "states", "mean", "sigma")})
        return _Lane(self._tree(nodes), memo)

    def _exchange(self) -> Exchange:
        work, size, constraints = self._session.work, self._model.state_size, self._model.cost_count
        begun = (np.empty(size), np.empty(constraints), work.doubt, np.empty(constraints), np.empty(1, np.uint64))
        return Exchange(*begun, np.empty(1, np.int64), work.fault, self._tree(1))

    def bytes_per_lane(self, iterations: int) -> int:
        """What one search of so many simulations takes of the card's memory."""
        return _size(self._exchange(), 1) + _size(self._lane(iterations + 1), 1)

    def search(
        self,
        states: NDArray[np.float64],
        budgets: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        rngs: NDArray[np.uint64],
        iterations: int,
        *,
        keep_trees: bool = False,
    ) -> Searched:
        """Search from every row of `states` [L, S]; advances `rngs` [L, 1], raises what the first lane did wrong."""
        parts = []
        with _CARD.lock:
            room = lanes_that_fit(self.bytes_per_lane(iterations), _CARD.available())
            for begin in range(0, len(states), room):
                rows = slice(begin, begin + room)
                part = self._launch(states[rows], budgets[rows], multipliers[rows], rngs[rows], iterations, keep_trees)
                parts.append(part)
        if len(parts) == 1:
            return parts[0]
        joined = (np.concatenate(arrays) for arrays in zip(*(part.roots for part in parts), strict=True))
        trees = [tree for part in parts for tree in part.trees]
        return Searched(Tree._make(joined), np.concatenate([part.multipliers for part in parts]), trees)

    def _launch(
        self,
        states: NDArray[np.float64],
        budgets: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        rngs: NDArray[np.uint64],
        iterations: int,
        keep_trees: bool,
    ) -> Searched:
        lanes, exchange, lane = len(states), self._exchange(), self._lane(iterations + 1)
        outside = _size(exchange, lanes)
        memory = _CARD.memory(outside + _size(lane, lanes))
        host = np.empty(outside, np.uint8)
        ours: Exchange = _carved(host, exchange, lanes)
        ours.states[:], ours.budgets[:], ours.multipliers[:], ours.rngs[:] = states, budgets, multipliers, rngs
        ours.doubts[:] = self._session.doubts(states)
        ours.done[:] = 0
        kept, sent = _size(exchange[:3], lanes), _size(exchange[:6], lanes)
        _CARD.send(host[:sent], memory)
        theirs: Exchange = _carved(memory[:outside], exchange, lanes)
        tree, memo = _carved(memory[outside:], lane, lanes)
        memo = memo._replace(bits=memo.key.view(np.uint64))  # the same memory, as on the CPU
        if not self._constants:
            params, critic_params = self._session.model.params, self._session.critic.params
            self._constants = tuple(_CARD.copy(portable(part)) for part in (params, critic_params, self._shared))
        blocks = -(-lanes // BLOCK)
        for begin in range(0, iterations, ITERATIONS_A_LAUNCH):
            end = min(begin + ITERATIONS_A_LAUNCH, iterations)
            self._kernel.launch(blocks, BLOCK, begin, end, *self._constants, self._rules, theirs, tree, memo)
            if begin == 0:
                host[sent:] = 0  # a first touch of so much memory takes its time, and the GPU is busy
            _CARD.wait()
        _CARD.fetch(memory[kept:outside], host[kept:])
        self._raise_fault(ours, states, budgets, multipliers, rngs, iterations)
        rngs[:] = ours.rngs
        roots = Tree._make(array[:, 0] for array in ours.roots)
        trees = [self._home(tree, k, int(nodes)) for k, nodes in enumerate(roots.count)] if keep_trees else []
        return Searched(roots, ours.multipliers, trees)

    def _home(self, trees: Tree, lane: int, nodes: int) -> Tree:
        """One lane's tree, with as many rows as it has nodes."""
        whole = (_CARD.to_host(array[lane]) for array in trees)
        return Tree._make(array[:nodes].copy() if len(array) > nodes else array for array in whole)

    def _raise_fault(
        self,
        ours: Exchange,
        states: NDArray[np.float64],
        budgets: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        rngs: NDArray[np.uint64],
        iterations: int,
    ) -> None:
        """What the first lane noted, or raised, as the error that it would be on the CPU."""
        failed = np.flatnonzero((ours.faults[:, 0] != 0.0) | (ours.done[:, 0] != iterations))
        if not len(failed):
            return
        lane = int(failed[0])
        state, fault = states[lane], ours.faults[lane]
        if fault[0] == COUNT and fault[2 + len(state)] == 0 and (fault[1 : 1 + len(state)] == state).all():
            raise InvalidInput(f"expected a state with a legal action, got {state.tolist()}")
        if fault[0]:
            message = fault_message(self._model, fault)
        else:  # one of the model's functions raised an error: the CPU says which
            self._session.begin(state, budgets[lane], multipliers[lane], rngs[lane].copy(), iterations + 1)
            self._session.run(iterations)
            message = f"simulating model {self._model.name!r} raised an error on the GPU, and none on the CPU"
        raise ModelError(f"{message} (search {lane} of the batch, from state {state.tolist()})")


def lanes_that_fit(bytes_per_lane: int, available: int) -> int:
    """How many searches of a size one launch can hold."""
    room = int(MEMORY_SHARE * available) // bytes_per_lane
    if room < 1:
        raise InvalidInput(
            f"expected a search that fits the GPU's memory, {available / 2**30:.1f} GiB free, got one of "
            f'{bytes_per_lane / 2**30:.1f} GiB; plan with fewer iterations, or on device "cpu"'
        )
    return room


class _Card:
    """The GPU's memory, in one piece that all planners take turns with, and what is copied there and back.

    A simulated card is plain memory.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._memory: Any = np.empty(0, np.uint8)

    def available(self) -> int:
        if is_simulated():
            return 1 << 30
        from numba import cuda

        free, _ = cuda.current_context().get_memory_info()
        return int(free) + int(self._memory.size)

    def memory(self, size: int) -> Any:
        """So many bytes, whatever they held before."""
        if self._memory.size < size:
            self._memory = np.empty(0, np.uint8)  # first give back what there is
            if is_simulated():
                self._memory = np.empty(size, np.uint8)
            else:
                from numba import cuda

                cuda.current_context().deallocations.clear()
                self._memory = cuda.device_array(size, np.uint8)
        return self._memory

    def copy(self, values: Any) -> Any:
        """Arrays, alone or in named tuples, on the card; other values as they are."""
        if isinstance(values, tuple):
            parts = [self.copy(value) for value in values]
            return type(values)(*parts) if hasattr(values, "_fields") else tuple(parts)
        if is_simulated() or not isinstance(values, np.ndarray):
            return values
        from numba import cuda

        return cuda.to_device(np.ascontiguousarray(values))

    def send(self, host: NDArray[np.uint8], memory: Any) -> None:
        part = memory[: len(host)]
        if is_simulated():
            part[:] = host
        else:
            part.copy_to_device(host)

    def fetch(self, memory: Any, host: NDArray[np.uint8]) -> None:
        part = memory[: len(host)]
        if is_simulated():
            host[:] = part
        else:
            part.copy_to_host(host)

    def to_host(self, array: Any) -> NDArray[Any]:
        return np.array(array) if is_simulated() else np.asarray(array.copy_to_host())

    def wait(self) -> None:
        if not is_simulated():
            from numba import cuda

            cuda.synchronize()


_CARD = _Card()


def _arrays(template: Any) -> Iterator[NDArray[Any]]:
    for part in template:
        yield from _arrays(part) if isinstance(part, tuple) else (part,)


def _padded(array: NDArray[Any], lanes: int) -> int:
    return -(-array.nbytes * lanes // ALIGNMENT) * ALIGNMENT


def _size(template: Any, lanes: int) -> int:
    """Bytes of a named tuple of arrays, once for every lane."""
    return sum(_padded(array, lanes) for array in _arrays(template))


def _carved(memory: Any, template: Any, lanes: int) -> Any:
    """Named tuples like `template` over plain memory, every array with a first axis of so many lanes."""
    sizes = [_padded(array, lanes) for array in _arrays(template)]
    return _cut(template, lanes, memory, iter(np.cumsum([0, *sizes]).tolist()))


def _cut(part: Any, lanes: int, memory: Any, begins: Iterator[int]) -> Any:
    if isinstance(part, tuple):
        return type(part)(*(_cut(inner, lanes, memory, begins) for inner in part))
    begin = next(begins)
    return memory[begin : begin + part.nbytes * lanes].view(part.dtype).reshape((lanes, *part.shape))


def _short(array: NDArray[Any]) -> np.dtype[Any]:
    """How a thread's own array is kept: actions and nodes need half the memory that they take on the CPU."""
    return np.dtype(np.int32 if array.dtype == np.int64 else array.dtype)


def _column(array: NDArray[Any]) -> NDArray[Any]:
    """A thread's part of shared memory, for its size: odd, so that neighbouring threads are at different banks."""
    return np.empty(array.size | 1, _short(array))


def _source(tree: Tree, work: Workspace, rules: Rules) -> str:
    """The function that is launched, for a planner's own sizes and switches; lanes work on rows of the arrays."""
    shared = {name: _column(getattr(work, name)) for name in HOT}
    if BLOCK * sum(column.nbytes for column in shared.values()) > SHARED_MEMORY:
        shared = {}

    def row(name: str, array: NDArray[Any]) -> str:
        """A lane's part of an array of trees."""
        whole = f"trees.{name}[lane]"
        return f"shaped_{name}({whole})" if array.ndim == 2 else whole

    def room(name: str, array: Any) -> str:
        """A field of the workspace: of all lanes, in the lane's memory, or the thread's own."""
        if name in Shared._fields:
            return f"shared.{name}"
        if name in ("features", "inputs"):  # the same memory
            return "inputs"
        if name == "memo":
            return f"Memo({', '.join(f'memo.{part}[lane]' for part in Memo._fields)})"
        if name in ("fault", "doubt"):
            return f"exchange.{name}s[lane]"
        return name if name in shared else own(array)

    def own(array: NDArray[Any]) -> str:
        aligned = "" if is_simulated() else ", alignment=16"  # a critic reads its scratch memory in fours
        return f"cuda.local.array({array.shape}, np.{_short(array)}{aligned})"

    def share(name: str, column: NDArray[Any]) -> str:
        """A thread's part of an array that all threads of its block have near at hand."""
        whole = f"cuda.shared.array(({BLOCK}, {column.size}), np.{column.dtype})"
        return f"{name} = shaped_{name}({whole}[cuda.threadIdx.x])"

    def setting(name: str, value: Any) -> str:
        """A rule; what is on, off or nothing is a constant."""
        return repr(value) if isinstance(value, bool) or value == 0 else f"rules.{name}"

    def copied(name: str, array: NDArray[Any]) -> str:
        """The root's row to where it comes back from."""
        if array.ndim == 1:
            return f"exchange.roots.{name}[lane, 0] = tree.{name}[0]"
        columns = array.shape[1]
        return f"for k in range({columns}): exchange.roots.{name}[lane, 0, k] = tree.{name}[0, k]"

    arrays: dict[str, NDArray[Any]] = dict(zip(Tree._fields, tree, strict=True))
    newline = "\n        "
    return f"""
def entry(begin, end, params, critic_params, shared, rules, exchange, trees, memo):
    lane = cuda.grid(1)
    if lane < exchange.states.shape[0]:
        tree = Tree({", ".join(row(name, array) for name, array in arrays.items())})
        {newline.join(share(name, column) for name, column in shared.items())}
        inputs = {own(work.inputs)}
        work = Workspace({", ".join(map(room, Workspace._fields, work))})
        own = Rules({", ".join(map(setting, Rules._fields, rules))})
        budget, multipliers = exchange.budgets[lane], exchange.multipliers[lane]
        rng = cuda.local.array(1, np.uint64)
        rng[0] = exchange.rngs[lane, 0]
        if begin == 0:
            plant(tree, exchange.states[lane], own, work, rng)
            for slot in range(work.memo.used.shape[0]):
                work.memo.used[slot] = False
        if work.fault[0] == 0.0 and exchange.done[lane, 0] == begin:  # what has failed stays as it is
            run(model, params, critic, critic_params, tree, budget, multipliers, own, work, rng, begin, end)
            exchange.done[lane, 0] = end
        exchange.rngs[lane, 0] = rng[0]
        {newline.join(copied(name, array) for name, array in arrays.items())}
"""
