"""The attacks: what each does in one block, and how many blocks there are. `__main__` runs them."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]


@dataclass(frozen=True)
class Attack:
    """`run(seed, tries)` tells how often it tried, how much of that went wrong, and what happened."""

    what: str
    run: Callable[[int, int], dict[str, Any]]
    blocks: int
    tries: int
    quick: int
    limit: float = 1800.0  # seconds of a block


def result(outcomes: Counter[str], notes: list[str]) -> dict[str, Any]:
    """What a block found; notes are about what went wrong."""
    return {"tries": sum(outcomes.values()), "bad": len(notes), "outcomes": outcomes, "notes": notes[:5]}


def kill_at(folder: Path, operation: int, dice: random.Random) -> None:
    """From now on this process dies at its n-th operation on files of a folder, sometimes in the middle of a write."""
    count = 0

    def die(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event in ("open", "os.rename", "os.mkdir", "os.remove") and str(folder) in str(arguments[0]):
            count += 1
            if count == operation:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    flush = os.fsync

    def torn(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count == operation:
            os.ftruncate(descriptor, dice.randrange(os.fstat(descriptor).st_size + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        flush(descriptor)

    os.fsync = torn


def contents(folder: Path) -> dict[str, bytes]:
    """All that a folder holds, but for the lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def stub_training(folder: Path) -> None:
    """Writes what a training writes, by the library's own means, and computes nothing."""
    import numpy as np

    from cmcts.critic import bundle
    from cmcts.training.run_folder import CONFIG, RunFolder

    run = RunFolder.open(folder) if (folder / CONFIG).exists() else RunFolder.create(folder, {"task": "stub"})
    with run.in_use():
        for stage in range(4):
            if run.find(f"stage {stage}") is None:
                run.save(f"arrays/{stage}.safetensors", {"numbers": np.arange(50.0) * stage})
                run.finish(f"stage {stage}", {"value": stage / 3})
            assert run.load(f"arrays/{stage}.safetensors")["numbers"][-1] == 49.0 * stage
        bundle.save(_small_bundle(), folder)


def _small_bundle() -> Any:
    import numpy as np

    import cmcts
    from cmcts.critic.bundle import Bundle
    from cmcts.critic.identity import model_digest

    model, dice = cmcts.make("rocksample-4-2").model, np.random.default_rng(0)
    sizes = (model.feature_count, 4, model.action_count)
    layers = tuple(
        (dice.normal(size=(2, a, b)).astype(np.float32), dice.normal(size=(2, b)).astype(np.float32))
        for a, b in pairwise(sizes)
    )
    return Bundle(
        "rocksample-4-2", model_digest(model), model.feature_description, layers, 1,
        cmcts.SearchSettings(), cmcts.PruningSettings(), (1.0,), {"seed": 0}, "0.2.0",
    )  # fmt: skip


def kills(seed: int, tries: int) -> dict[str, Any]:
    """Forked stub trainings, killed at a random operation on a file again and again, must end with the same bytes."""
    dice, outcomes, notes = random.Random(seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as place:
        whole, folder = Path(place, "whole"), Path(place, "killed")
        stub_training(whole)
        while outcomes["killed and resumed"] < tries:
            if not folder.exists():
                killed = 0
            child = os.fork()
            if child == 0:
                kill_at(folder, dice.randrange(1, 60), dice)
                code = 1
                try:
                    stub_training(folder)
                    code = 0
                finally:
                    os._exit(code)
            dice.random()
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                killed += 1
                outcomes["killed and resumed"] += 1
                continue
            if os.WEXITSTATUS(status) != 0 or contents(folder) != contents(whole):
                notes.append(f"seed {seed}: after {killed} kills the folder is another, or refused")
            shutil.rmtree(folder)
    return result(outcomes, notes)


REAL = {
    "iterations": 8, "steps-per-multiplier": 60, "walk-steps": 200, "max-rounds": 1, "evaluation-episodes": 200,
    "critic.steps": 100, "frontier.columns": 0,
}  # fmt: skip
VICTIM = """
import random, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from attacks import kill_at
from cmcts.cli import main
kill_at(Path({folder!r}), {operation}, random.Random({operation}))
sys.exit(main({arguments!r}))
"""


def real_kills(seed: int, tries: int) -> dict[str, Any]:
    """The command `cmcts train`, killed at operations on files, ends with the bundle of an undisturbed run."""
    dice, outcomes, notes = random.Random(seed), Counter[str](), []
    bundle = ("bundle.json", "critic.safetensors", "support.safetensors")
    with tempfile.TemporaryDirectory() as place:
        whole, folder = Path(place, "whole"), Path(place, "killed")

        def train(where: Path, operation: int) -> int:
            begun = (where / "config.json").exists()
            new = ["rocksample-3-2", "--out", str(where), *(f"--{name}={value}" for name, value in REAL.items())]
            arguments = ["train", *(["--resume", str(where)] if begun else new)]
            code = VICTIM.format(here=str(HERE), folder=str(where), operation=operation, arguments=arguments)
            return subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, timeout=900).returncode

        if train(whole, 10**9) not in (0, 1):
            notes.append("the undisturbed training failed")
        while outcomes["killed and resumed"] < tries and not notes:
            code = train(folder, dice.randrange(2, 40))
            if code == -signal.SIGKILL:
                outcomes["killed and resumed"] += 1
                continue
            same = all((folder / name).read_bytes() == (whole / name).read_bytes() for name in bundle)
            if code not in (0, 1) or not same:
                notes.append(f"seed {seed}: ended with {code}, and another bundle than undisturbed")
            shutil.rmtree(folder)
    return result(outcomes, notes)


def corrupted(content: bytes, dice: random.Random) -> bytes:
    """A file after a bad day: bits flipped, cut off, a piece lost, doubled, or overwritten."""
    data, how = bytearray(content), dice.randrange(5)
    begin, length = dice.randrange(len(data)), dice.randrange(1, 40)
    if how == 0:
        for _ in range(dice.choice((1, 1, 1, 8))):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif how == 1:
        del data[begin:]
    elif how == 2:
        del data[begin : begin + length]
    elif how == 3:
        data[begin:begin] = data[begin : begin + length]
    else:
        data[begin : begin + length] = dice.randbytes(length)
    return bytes(data)


def corruption(seed: int, tries: int) -> dict[str, Any]:
    """A damaged bundle or run folder is refused by name, or what it says is what was written."""
    import numpy as np

    from cmcts.critic import bundle
    from cmcts.errors import InvalidInput
    from cmcts.training.run_folder import RunFolder

    dice, outcomes, notes = random.Random(seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "run")
        stub_training(folder)
        right, run = bundle.load(folder), RunFolder.open(folder)
        names = sorted(name for name in contents(folder))
        for k in range(tries):
            path = folder / dice.choice(names)
            before = path.read_bytes()
            path.write_bytes(corrupted(before, dice))
            try:
                now, again = bundle.load(folder), RunFolder.open(folder)
                arrays = [again.load(f"arrays/{stage}.safetensors")["numbers"] for stage in range(len(again.history))]
                same = (now.search, now.pruning, now.budget) == (right.search, right.pruning, right.budget)
                same = same and all((a[0] == b[0]).all() for a, b in zip(now.layers, right.layers, strict=True))
                records = [(run.config, again.config), *zip(run.history, again.history, strict=False)]
                # A digest whose own name is damaged is one more name, and what it stood for is as it was.
                same = same and all(new.items() >= old.items() for old, new in records)
                same = same and all((row == np.arange(50.0) * stage).all() for stage, row in enumerate(arrays))
                lost = len(run.history) - len(again.history)
                outcomes["said what was written" if lost == 0 else "what was cut off is done again"] += 1
                if not same:
                    notes.append(f"seed {seed}, try {k}: {path.name} is damaged, and nobody noticed")
            except InvalidInput:
                outcomes["refused by name"] += 1
            except Exception as error:
                notes.append(f"seed {seed}, try {k}: {path.name}: {type(error).__name__}: {error}"[:200])
                outcomes["raw error"] += 1
            path.write_bytes(before)
    return result(outcomes, notes)


def garbage(compiled: bool) -> Callable[[int, int], dict[str, Any]]:
    """Models and critics that break their contract in a random function, in a state that no first look reaches."""

    def run(seed: int, tries: int) -> dict[str, Any]:
        sys.path.insert(0, str(ROOT / "tests"))
        import numpy as np

        import test_garbage as models
        from cmcts.errors import InvalidInput, ModelError

        dice, outcomes, notes = random.Random(seed), Counter[str](), []
        for _ in range(tries):
            function, value = dice.choice(models.CASES)
            planner, rollout = dice.choice(["cmcts", "ccmcp", "penalized"]), dice.choice(["uniform", "directed"])
            thrifty = dice.choice([{}, {"thrifty_rollouts": True}, {"guarded_rollouts": True}])
            accounting = dice.choice(["paid", "expected"])
            broken = models.broken_planner(function, value, planner, rollout, thrifty, accounting, compiled)
            unasked = models.UNASKED.get(function.partition(":")[0], lambda *_: False)
            innocent = unasked(planner, rollout, broken._rules().thrifty_rollout)
            try:
                decision = broken.plan([0.0], 1.0, iterations=300, rng=dice.randrange(1000))
                outcomes["not asked"] += 1
                if not innocent or not np.isfinite(decision.reward_values).all():
                    notes.append(f"{function} = {value}, {planner}, {rollout}: a decision like any other")
            except (ModelError, InvalidInput):
                outcomes["an error that names it"] += 1
            except Exception as error:
                notes.append(f"{function} = {value}: {type(error).__name__}: {error}"[:200])
        return result(outcomes, notes)

    return run


def decisions(seed: int, tries: int) -> dict[str, Any]:
    """Decisions with random budgets along random walks: legal, finite, the same once more, and no memory lost."""
    import numpy as np

    import cmcts
    from cmcts.evaluation.walks import walk

    dice, outcomes, notes = np.random.default_rng(seed), Counter[str](), []
    tasks = ("safe-gridworld", "rocksample-5-7", "rocksample-7-8")
    name = tasks[seed % len(tasks)]
    task, planner = cmcts.make(name), cmcts.CMCTS.load(name)
    walked = walk(task.model, task.real_world, seed, 2000).states
    after_warm_up = 0
    for begin in range(0, tries, 2000):
        states = walked[dice.permutation(len(walked))[: min(2000, tries - begin)]]
        budgets, rngs = dice.choice([0.0, 0.05, 0.5, 1.0, 2.0], len(states)), range(begin, begin + len(states))
        made = planner.plan_batch(states, budgets, iterations=16, rngs=rngs)
        for decision in made:
            fine = bool(decision.legal[decision.action]) and np.isfinite(decision.reward_values).all()
            outcomes["nothing was safe, and it says so" if decision.nothing_safe else "decided"] += 1
            if not fine or (decision.pruned[decision.action] and not decision.nothing_safe):
                notes.append(f"{name}: decision {decision.action} in {decision.state.tolist()}")
        again = planner.plan(states[0], budgets[0], iterations=16, rng=begin)
        if again.action != made[0].action or (again.visits != made[0].visits).any():
            notes.append(f"{name}: the same seed decided otherwise in {states[0].tolist()}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        after_warm_up = after_warm_up or peak
        if peak > after_warm_up + 100_000:  # kilobytes
            notes.append(f"{name}: memory grew from {after_warm_up} to {peak} KB")
    return result(outcomes, notes)


ATTACKS = {
    "kills": Attack("stub trainings killed at operations on files, or within one", kills, 10, 100, 60),
    "real_kills": Attack("`cmcts train` killed at operations on files", real_kills, 5, 10, 2, 3600.0),
    "corruption": Attack("damaged bundles and run folders", corruption, 10, 1000, 500),
    "garbage": Attack("models and critics that break their contract", garbage(False), 10, 190, 60),
    "garbage_compiled": Attack("the same, compiled", garbage(True), 2, 100, 40),
    "decisions": Attack("decisions in states of random walks", decisions, 25, 40_000, 4000),
}
