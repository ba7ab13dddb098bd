"""The wheel that is released, installed without extras in an environment of its own: what users get by pip."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHIPPED = sorted(path.name for path in (ROOT / "src/cmcts/critic/shipped").iterdir() if path.is_dir())

pytestmark = pytest.mark.extras


class Installation:
    """A virtual environment and an empty folder to work in, away from the sources."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.environment, self.folder = environment, folder

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """One of its programs; no path leads back to the sources."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA_CACHE"))}
        program = self.environment / "bin" / command[0]
        return subprocess.run([str(program), *command[1:]], cwd=self.folder, env=kept, capture_output=True, text=True)

    def output(self, *command: str) -> str:
        """What a program prints; it must succeed."""
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, *pip, "wheel", "--no-deps", "-w", str(folder / "dist"), str(ROOT)], check=True)
    (wheel,) = (folder / "dist").glob("cmcts-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "environment")], check=True)
    (folder / "elsewhere").mkdir()
    installation = Installation(folder / "environment", folder / "elsewhere")
    installation.output("python", *pip, "install", "-c", str(ROOT / "constraints.txt"), str(wheel))
    return installation


def test_the_wheel_is_what_is_imported_and_brings_no_extra(installed):
    lines = installed.output(
        "python",
        "-c",
        "import cmcts, importlib.util\n"
        "print(cmcts.__file__)\n"
        "print([name for name in ('jax', 'optax', 'equinox', 'pyarrow', 'pytest') if importlib.util.find_spec(name)])",
    ).splitlines()
    assert Path(lines[0]).is_relative_to(installed.environment)
    assert lines[1] == "[]"


def test_the_critics_that_ship_are_inside(installed):
    assert "safe-gridworld" in SHIPPED
    load = f"import cmcts\nfor name in {SHIPPED!r}:\n    print(name, cmcts.CMCTS.load(name).model.cost_count)"
    budgets = installed.output("python", "-c", load)
    assert budgets.split() == [word for name in SHIPPED for word in (name, "1")]


def test_it_plans_plays_solves_and_evaluates(installed):
    plan = installed.output("cmcts", "plan", "safe-gridworld", "--iterations", "64")
    assert "frontier: trained, ships with cmcts" in plan and "64 simulations" in plan
    refuse = installed.output("cmcts", "plan", "safe-gridworld", "--keep", "episode", "--iterations", "64")
    assert "critic: trained, ships with cmcts" in refuse
    play = installed.output("cmcts", "play", "safe-gridworld", "--iterations", "64")
    assert re.search(r"after \d+ steps", play) and "discounted reward" in play
    assert re.search(r"reward +55\.696", installed.output("cmcts", "solve", "safe-gridworld"))
    assert "avoid-136, budget 0.15" in installed.output("cmcts", "solve", "avoid-136")  # its map is inside
    evaluate = installed.output("cmcts", "evaluate", "safe-gridworld", "--episodes", "4", "--iterations", "64")
    assert re.search(r"reward +-?\d+\.\d+", evaluate) and re.search(r"over budget +\d of 4 episodes", evaluate)


def test_its_pages_are_whole(installed):
    installed.output("cmcts", "explore", "safe-gridworld", "--iterations", "64", "--out", "page.html")
    page = (installed.folder / "page.html").read_text()
    assert "--chosen-ground" in page and "class TreeModel" in page and page.endswith("</html>\n")


@pytest.mark.parametrize("command", [["train", "safe-gridworld"], ["demo"], ["reproduce"]], ids=lambda words: words[0])
def test_what_needs_an_extra_says_which_before_it_does_anything(installed, command):
    done = installed.run("cmcts", *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"cmcts: .*needs .*pip install 'cmcts\[train\]'.*\n", done.stderr), done.stderr
    assert not (installed.folder / "runs").exists()
