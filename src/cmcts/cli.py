"""The command line: `cmcts COMMAND ...`, made from the dataclasses in `cmcts.commands`."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any

import tyro

from cmcts.commands.bench import Bench
from cmcts.commands.check import Check
from cmcts.commands.demo import Demo
from cmcts.commands.evaluate import Evaluate
from cmcts.commands.explore import Explore
from cmcts.commands.frontier import ShowFrontier
from cmcts.commands.learn_model import LearnModel
from cmcts.commands.plan import Plan
from cmcts.commands.play import Play
from cmcts.commands.reproduce import Reproduce
from cmcts.commands.solve import Solve
from cmcts.commands.sweep import RunSweep
from cmcts.commands.tasks import Tasks
from cmcts.commands.train import Train
from cmcts.errors import BudgetWarning, CacheWarning, ClusterWarning, InvalidInput, ModelError, ModelWarning

# Each has a method `run`, which returns the exit status, or None for success.
COMMANDS: dict[str, Any] = {
    "tasks": Tasks,
    "check": Check,
    "plan": Plan,
    "play": Play,
    "explore": Explore,
    "learn-model": LearnModel,
    "train": Train,
    "evaluate": Evaluate,
    "frontier": ShowFrontier,
    "sweep": RunSweep,
    "reproduce": Reproduce,
    "demo": Demo,
    "solve": Solve,
    "bench": Bench,
}


def _command(arguments: list[str]) -> Any:
    """The command that is asked for, with its options.

    Those of `train` have defaults that depend on its TASK, which mostly comes first; if it does not, the options are
    read once more.
    """
    if arguments[:1] != ["train"]:
        return _parsed(arguments, Train())
    first = next((argument for argument in arguments[1:2] if not argument.startswith("-")), None)
    known = (first, "--paper" in arguments)
    command = _parsed(arguments, Train.with_defaults(*known))
    if (command.task, command.paper) != known:
        command = _parsed(arguments, Train.with_defaults(command.task, command.paper))
    return command


def _parsed(arguments: list[str], train: Train) -> Any:
    """The command with its options; `train` has the defaults of its own."""
    kinds: list[Any] = [
        Annotated[kind, tyro.conf.subcommand(name, default=train)]
        if kind is Train
        else Annotated[kind, tyro.conf.subcommand(name), tyro.conf.FlagCreatePairsOff]
        for name, kind in COMMANDS.items()
    ]
    parse = partial(
        tyro.cli,
        reduce(or_, kinds),
        prog="cmcts",
        description="Safe planning with Monte Carlo Tree Search.",
        args=arguments,
    )
    if not {"-h", "--help"} & set(arguments):
        try:
            with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
                return parse()
        except SystemExit as stop:
            # What a dataclass refuses is worth our one line. The rest is tyro's to explain.
            _raise_what_was_refused(stop)
    return parse()


def _raise_what_was_refused(stop: BaseException) -> None:
    error: BaseException | None = stop
    while error is not None:
        if isinstance(error, InvalidInput):
            raise InvalidInput(str(error)) from None
        error = error.__context__


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning for people: which line of which file it came from is of no use to them."""
    print(f"cmcts: warning: {message}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 0 for success, 2 for what the user can put right, 130 for Ctrl-C."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            for kind in (BudgetWarning, CacheWarning, ClusterWarning, ModelWarning):
                warnings.simplefilter("default", kind)
            status = int(_command(sys.argv[1:] if arguments is None else list(arguments)).run() or 0)
        sys.stdout.flush()
        return status
    except (InvalidInput, ModelError) as error:
        print(f"cmcts: {error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"cmcts: not enough memory: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cmcts: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; what Python still holds back has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
