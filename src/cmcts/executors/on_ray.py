"""On a Ray cluster: Ray finds free cores, moves the work there and says what was lost; lost units are done again.

Faults are normal. A worker or node that dies, an object that is lost, a unit that runs past its limit: the unit is
tried elsewhere, and as its result depends on nothing but itself, the run ends with the same numbers. Only a unit that
fails for a reason of its own ends the run, and so does one that was lost too often: it may be what kills its workers.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sized
from typing import Any

from cmcts.devices import Device, cores
from cmcts.errors import ClusterWarning, InvalidInput, expect, users_stack_level
from cmcts.executors.sources import pack
from cmcts.executors.tally import Tally
from cmcts.executors.units import Halted, R, U, UnitFailed, Work, failure
from cmcts.extras import require_extra

QUEUED = 2  # units on their way for each that is done at once: the next one is there when a worker is free
LOSSES = 20  # a unit that was lost so often is given up
LOOK_SECONDS = 2.0  # between two looks at how large the cluster is
KEPT_PARCELS = 32  # in the object store
OBJECT_STORE_BYTES = 200_000_000  # of a cluster that is started here: planners and critics are small


class Ray:
    """Does units on a Ray cluster, one core each: `local` starts one here, `auto` finds a running one, or an address.

    `auto` looks at `RAY_ADDRESS` first. With device "cuda" each unit gets a GPU as well; with "auto" if there are any.
    A unit that takes more than `unit_seconds` is tried elsewhere. To be used in a `with` statement; a cluster that was
    not started here goes on. Where `ray.init` was called before, that cluster is used.
    """

    def __init__(self, address: str = "auto", *, device: Device = "cpu", unit_seconds: float = 3600.0) -> None:
        require_extra("ray", "--ray")
        expect(bool(address), "local, auto or the address of a Ray cluster", address)
        expect(unit_seconds > 0, "unit_seconds > 0", unit_seconds)
        self.address, self.device, self.unit_seconds = address, device, unit_seconds
        self.gpu = False
        self.tally = Tally(nodes=0)
        self._parcels: OrderedDict[str, Any] = OrderedDict()  # references by the digest of what they refer to
        self._processors: dict[str, str] = {}  # a node for each type that has been seen
        self._said: set[str] = set()
        self._halts = 0
        self._looked = 0.0
        self._lock = threading.RLock()
        self._ours = False

    def __enter__(self) -> Ray:
        import ray

        from cmcts.executors import worker

        if not ray.is_initialized():
            _connect(self.address)
            self._ours = True
            # Ray tells standard output of every worker that died, among our results; the tally counts them.
            ray._private.worker._worker_logs_enabled = False
        elif self.address not in ("local", "auto", joined := ray.get_runtime_context().gcs_address):
            raise InvalidInput(
                f"expected a process that has joined no other Ray cluster than {self.address}, got one at {joined}"
            )
        self._ray = ray
        self.gpu = self.device != "cpu" and ray.cluster_resources().get("GPU", 0) >= 1
        if self.device == "cuda" and not self.gpu:
            self.__exit__()
            raise InvalidInput('expected nodes with a GPU in the Ray cluster for device "cuda", got none')
        self._library = worker.library()
        self._sources = ray.put(pack())
        # What is lost is tried again here, where it is counted and can be seen.
        self._remote = ray.remote(num_cpus=1, num_gpus=int(self.gpu), max_retries=0)(worker.do)
        self._look()
        return self

    def __exit__(self, *error: object) -> None:
        self._parcels.clear()
        if self._ours:
            self._ray.shutdown()

    @property
    def slots(self) -> int:
        """How many units are done at once, which changes as nodes come and go."""
        self._look()
        return max(self.tally.slots, 1)

    @property
    def threads(self) -> int | None:
        """One: Ray gives each unit a core."""
        return 1

    def halt(self) -> None:
        """Let all that is under way in other threads raise `Halted`."""
        self._halts += 1

    def run(self, work: Work[U, R], units: Iterable[U]) -> Iterator[tuple[U, R]]:
        """Units with their results as they arrive."""
        from ray import cloudpickle
        from ray.exceptions import RayError, RayTaskError

        parcel = cloudpickle.dumps(work)
        name = hashlib.sha256(parcel).hexdigest()
        halts, waiting, again = self._halts, iter(units), list[tuple[U, int]]()
        flying: dict[Any, tuple[U, int]] = {}  # what was lost how often before
        self.tally.expect(len(units) if isinstance(units, Sized) else 0)
        try:
            while True:
                while not flying or self.tally.flying < QUEUED * self.slots:
                    following = again.pop() if again else next(((unit, 0) for unit in waiting), None)
                    if following is None:
                        break
                    sent = (self._sources, self._put(name, parcel), name, following[0], self.unit_seconds)
                    flying[self._remote.remote(*sent, self._library)] = following
                    self.tally.submitted()
                if not flying:
                    return
                for reference in self._arrived(list(flying)):
                    unit, losses = flying.pop(reference)
                    try:
                        reply = self._ray.get(reference)
                    except RayTaskError as error:
                        self.tally.dropped(1)
                        raise self._own_failure(work, unit, error) from None
                    except RayError as error:
                        self._lost(work, unit, losses + 1, name, error)
                        again.append((unit, losses + 1))
                        continue
                    self._take_note(reply)
                    self.tally.arrived(work.describe(unit), reply.seconds, reply.node)
                    yield unit, reply.result
                if halts != self._halts:
                    raise Halted("stopped, because another job of the same run has ended with an error")
        finally:
            for reference in flying:
                self._ray.cancel(reference, force=True)
            self.tally.dropped(len(flying))

    def _arrived(self, references: list[Any]) -> list[Any]:
        """Those that are there, after waiting for one; none if that takes more than a moment."""
        first, rest = self._ray.wait(references, timeout=1.0)
        more = self._ray.wait(rest, num_returns=len(rest), timeout=0)[0] if first and rest else []
        return [*first, *more]

    def _put(self, name: str, parcel: bytes) -> Any:
        """The work in the object store, once for all its units and for later works that are the same."""
        with self._lock:
            if name not in self._parcels:
                self._parcels[name] = self._ray.put(parcel)
                while len(self._parcels) > KEPT_PARCELS:  # units that are on their way keep theirs
                    self._parcels.popitem(last=False)
            self._parcels.move_to_end(name)
            return self._parcels[name]

    def _lost(self, work: Work[U, R], unit: U, losses: int, name: str, error: Exception) -> None:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        if losses >= LOSSES:
            self.tally.dropped(1)
            raise UnitFailed(
                f"{work.describe(unit)}: lost {losses} times with its worker, or not done within "
                f"{self.unit_seconds:g} seconds; the last time: {type(error).__name__}: {reason}"
            )
        self.tally.lost(work.describe(unit), f"{type(error).__name__}: {reason}")
        with self._lock:
            self._parcels.pop(name, None)  # it may be what was lost

    def _own_failure(self, work: Work[U, R], unit: U, error: Any) -> Exception:
        cause = error.cause
        if isinstance(cause, ModuleNotFoundError) or "No module named" in str(cause):
            words = str(cause).split("No module named")[-1].split("\n")[0].strip()
            return InvalidInput(
                f"expected a module {words} on every node of the Ray cluster, got none: nodes need the same "
                "packages as this machine (pip install 'cmcts[ray]', with [train] to train)"
            )
        return failure(work, unit, cause)

    def _take_note(self, reply: Any) -> None:
        """Say once what workers warn of, and name nodes whose processors are not alike."""
        for category, text in reply.warnings:
            self._say(category, text)
        if self._processors.setdefault(reply.cpu, reply.node) == reply.node and len(self._processors) > 1:
            nodes = ", ".join(f"{node} ({processor})" for processor, node in sorted(self._processors.items()))
            self._say(
                ClusterWarning,
                f"expected nodes with one type of processor, got {nodes}: code is compiled for each, and the last "
                "digits of a result can depend on where it was computed",
            )

    def _say(self, category: type[Warning], text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            warnings.warn(text, category, stacklevel=users_stack_level())

    def _look(self) -> None:
        """How many nodes there are, and how many units they do at once."""
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._looked = time.monotonic()
                alive = [node for node in self._ray.nodes() if node["Alive"]]
                slots = sum(int(node["Resources"].get("GPU" if self.gpu else "CPU", 0)) for node in alive)
                self.tally.size(len(alive), slots)


def _connect(address: str) -> None:
    """Start a cluster of this machine's cores, or join one that runs."""
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of a cluster that we start
        os.environ.setdefault("RAY_worker_niceness", "0")  # its workers come before others as this process would
        with warnings.catch_warnings():
            # JAX, where it is loaded, warns of forks; Ray's are followed by a new program at once.
            warnings.simplefilter("ignore", RuntimeWarning)
            ray.init(
                address="local",
                num_cpus=cores(),
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                **quiet,
            )
        return
    found = os.environ.get("RAY_ADDRESS")
    named = found if address == "auto" and found else address
    try:
        if named != "auto":
            _knock(named)
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"RAY_ADDRESS {found}" if named != address else address
        raise InvalidInput(
            f"expected a Ray cluster at {where} (`ray start --head` starts one, --ray local does without), got none "
            f"that can be used: {' '.join(str(error).split())[:200]}"
        ) from None


def _knock(address: str) -> None:
    """Raise an `OSError` where nobody listens; Ray would wait for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
