"""ICU-Sepsis: the figures that were computed from its tables elsewhere, and patients that agree with them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cmcts
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import solve
from cmcts.tasks.optimum import least_optimum, solve_task

pytestmark = pytest.mark.extras
if importlib.util.find_spec("icu_sepsis") is None:
    pytest.skip("needs icu-sepsis", allow_module_level=True)

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def task():
    return cmcts.make("icu-sepsis")


@pytest.fixture(scope="module")
def clinicians(task):
    from cmcts.zoo.icu_sepsis import clinicians

    return clinicians(task)


def test_the_package_itself_is_not_imported(task):
    script = "import sys, cmcts; cmcts.make('icu-sepsis'); print({'icu_sepsis', 'gym', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(("budget", "survival"), [(2.556, 0.7946), (1.864, 0.7823), (1.449, 0.7676)])
def test_what_a_budget_of_fluids_buys(task, budget, survival):
    best = solve_task(task, [budget])
    assert best.exact and best.states == 713
    assert best.reward_lower == pytest.approx(survival, abs=5e-5)
    assert best.costs[0] == pytest.approx(budget)


def test_the_ends_of_the_curve(task):
    free = solve_task(task, [np.inf])
    assert (free.reward_lower, free.costs[0]) == (pytest.approx(0.8013, abs=5e-5), pytest.approx(3.94, abs=5e-3))
    least = least_optimum(task)
    assert (least.reward_lower, least.costs[0]) == (pytest.approx(0.7429, abs=5e-5), pytest.approx(1.172, abs=5e-4))


def test_clinicians_are_evaluated_exactly(task, clinicians):
    assert clinicians.reward == pytest.approx(0.7224, abs=5e-5)
    assert clinicians.costs[0] == pytest.approx(3.83, abs=6e-3)
    assert task.budget[0] < clinicians.costs[0] / 2


def test_two_thousand_patients_agree_with_the_exact_figures(task, clinicians):
    seen = run_episodes(clinicians, task.real_world, clinicians.costs, episodes=2000, seed=0)[0].summary()
    assert abs(seen.reward_mean - clinicians.reward) < 3 * seen.reward_se
    assert abs(seen.cost_mean - clinicians.costs[0]) < 3 * seen.cost_se


def test_the_clinicians_policy_travels_as_a_file(task, clinicians, tmp_path):
    clinicians.save(tmp_path / "clinicians")
    again = cmcts.TabularPolicy.load(tmp_path / "clinicians", task.model)
    assert (again.reward, again.costs) == (clinicians.reward, clinicians.costs)


def test_vasopressors_are_the_second_constraint(task):
    from cmcts.zoo.icu_sepsis import clinicians

    both = cmcts.make("icu-sepsis-two")
    assert both.model.action_name(7) == "fluid 1, vasopressor 2"
    fluids_alone, vasopressors_too = (
        solve(enumerate_states(both.model, both.discount), [1.864, limit]) for limit in (np.inf, 0.1)
    )
    assert fluids_alone.reward == pytest.approx(solve_task(task).reward_lower, abs=1e-9)
    assert vasopressors_too.costs == pytest.approx([1.864, 0.1])
    assert vasopressors_too.reward == pytest.approx(0.7817, abs=5e-5)
    assert clinicians(both).costs == pytest.approx((3.835, 0.313), abs=5e-4)


def test_the_model_keeps_its_word(task):
    assert cmcts.check_model(task.model, states=20) == []


def test_the_example_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "sepsis.py")], cwd=tmp_path, capture_output=True, text=True
    )
    assert "clinicians: 0.7224 survive, with 3.835 of fluid\n" in done.stdout, done.stderr
    assert "50% of their fluid: 0.7837 can survive\n" in done.stdout
