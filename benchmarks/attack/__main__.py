"""Attack the library as a hostile or unlucky user would: `make attack`, or `python benchmarks/attack --quick`.

Every attack is cut into blocks, each a function of its seed. What a block found is written to `runs/attack` when it is
done, so an attack that was interrupted goes on where it stopped. Blocks run in processes of their own: a crash is seen
by the exit code, a hang by the clock. In the end the table of docs/reliability.md is written anew (not with --quick).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from attacks import ATTACKS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- attacks -->\n", "<!-- end -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few minutes: one small block of each")
    parser.add_argument("--only", choices=sorted(ATTACKS), help="one attack")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "attack", help="what was found so far")
    parser.add_argument("--block", nargs=3, help=argparse.SUPPRESS)  # name, seed, tries: the process of one block
    options = parser.parse_args()
    if options.block:
        name, seed, tries = options.block
        print(json.dumps(ATTACKS[name].run(int(seed), int(tries))))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, attack in ATTACKS.items():
        if options.only in (None, name):
            found[name] = _attack(name, options.out, options.quick)
            print(f"{attack.what}: {_shown(found[name])}", flush=True)
    if not options.quick and options.only is None:
        _write_page(found)
    return 0 if all(outcome["bad"] == 0 for outcome in found.values()) else 1


def _attack(name: str, out: Path, quick: bool) -> dict[str, Any]:
    """All blocks of an attack, those of earlier days from their files."""
    attack = ATTACKS[name]
    blocks, tries = (1, attack.quick) if quick else (attack.blocks, attack.tries)
    total: dict[str, Any] = {"tries": 0, "bad": 0, "outcomes": {}, "notes": []}
    for seed in range(blocks):
        file = out / f"{name}-{seed}-{tries}.json"
        if not file.exists():
            began = time.perf_counter()
            result = _block(name, seed, tries, attack.limit)
            file.write_text(json.dumps(result))
            took = time.perf_counter() - began
            print(f"  {name} {seed + 1}/{blocks}: {_shown(result)} in {took:.0f} s", file=sys.stderr, flush=True)
        result = json.loads(file.read_text())
        total["tries"] += result["tries"]
        total["bad"] += result["bad"]
        total["notes"] += result["notes"]
        for outcome, count in result["outcomes"].items():
            total["outcomes"][outcome] = total["outcomes"].get(outcome, 0) + count
    return total


def _block(name: str, seed: int, tries: int, limit: float) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).parent), "--block", name, str(seed), str(tries)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"tries": tries, "bad": 1, "outcomes": {"hung": 1}, "notes": [f"block {seed} hung"]}
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1:] or [""]
        note = f"block {seed} ended with {done.returncode}: {why[0][:200]}"
        return {"tries": tries, "bad": 1, "outcomes": {"crashed": 1}, "notes": [note]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _shown(result: dict[str, Any]) -> str:
    outcomes = ", ".join(f"{name} {count:,}" for name, count in sorted(result["outcomes"].items()))
    notes = "; ".join(result["notes"][:3])
    return f"{result['tries']:,} tried, {result['bad']} bad ({outcomes})" + (f": {notes}" if notes else "")


def _write_page(found: dict[str, dict[str, Any]]) -> None:
    rows = [
        "| what was tried | how often | what happened | lost, crashed, hung or silently wrong |",
        "| --- | --- | --- | --- |",
    ]
    for name, result in found.items():
        outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(result["outcomes"].items()))
        rows.append(f"| {ATTACKS[name].what} | {result['tries']:,} | {outcomes} | {result['bad']} |")
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(head + BEGIN + "\n".join(rows) + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    sys.exit(main())
