"""Sepsis in intensive care: the best treatments for any amount of fluid, beside what clinicians did.

Needs `pip install 'cmcts[zoo]'`. For research, not for medical practice.

python examples/sepsis.py
cmcts evaluate icu-sepsis --policy runs/clinicians.safetensors --episodes 2000
cmcts train    icu-sepsis --out runs/icu-sepsis
"""

from pathlib import Path

import cmcts
from cmcts.tasks import solve_task
from cmcts.zoo.icu_sepsis import clinicians

task = cmcts.make("icu-sepsis")


def main() -> None:
    doctors = clinicians(task)
    (fluid,) = doctors.costs
    Path("runs").mkdir(exist_ok=True)
    doctors.save(Path("runs/clinicians.safetensors"))
    print(f"clinicians: {doctors.reward:.4f} survive, with {fluid:.3f} of fluid")
    for share in (1.0, 0.75, 0.5, 0.4):
        best = solve_task(task, [share * fluid])
        print(f"{share:.0%} of their fluid: {best.reward_lower:.4f} can survive")


if __name__ == "__main__":
    main()
