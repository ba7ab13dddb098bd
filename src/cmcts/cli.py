"""The command line: `cmcts COMMAND ...`, made from the dataclasses in `cmcts.commands`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import tyro

from cmcts.commands.bench import Bench
from cmcts.commands.check import Check
from cmcts.commands.demo import Demo
from cmcts.commands.evaluate import Evaluate
from cmcts.commands.plan import Plan
from cmcts.commands.play import Play
from cmcts.commands.reproduce import Reproduce
from cmcts.commands.solve import Solve
from cmcts.commands.tasks import Tasks
from cmcts.commands.train import Train
from cmcts.errors import InvalidInput, ModelError

# Each has a method `run`, which returns the exit status, or None for success.
COMMANDS: dict[str, Any] = {
    "tasks": Tasks,
    "check": Check,
    "plan": Plan,
    "play": Play,
    "train": Train,
    "evaluate": Evaluate,
    "reproduce": Reproduce,
    "demo": Demo,
    "solve": Solve,
    "bench": Bench,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 0 for success, 2 for what the user can put right, 130 for Ctrl-C."""
    try:
        command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="cmcts",
            description="Safe planning with Monte Carlo Tree Search.",
            args=arguments,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        status = int(command.run() or 0)
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
