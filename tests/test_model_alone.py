"""The model runs where neither Dex nor an agent framework is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
TAKES_A_TURN = ("tests/__init__.py", "tests/rules/__init__.py", "tests/rules/samples.py")

IMPORT_ALL = """
import dex_agents_model
from importlib import import_module
from pkgutil import walk_packages

for module in walk_packages(dex_agents_model.__path__, "dex_agents_model."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
"""


@frozen
class Home:
    """A folder with the model and an environment that holds only what the model requires."""

    path: Path

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's interpreter; nothing leads it to what is installed elsewhere."""
        return subprocess.run(
            [str(self.path / "env" / "bin" / "python"), *arguments],
            cwd=self.path,
            env={name: v for name, v in os.environ.items() if not name.startswith("PYTHON")},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("alone"))
    venv.create(home.path / "env", with_pip=True)
    lock = str(ROOT / "requirements" / "model.txt")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    installed = home.python(*pip, "--require-hashes", "--requirement", lock)
    assert installed.returncode == 0, installed.stderr
    for package in ("dex_agents_model", "dex_agents_dex", "dex_agents_pydantic_ai"):
        shutil.copytree(ROOT / package, home.path / package)
    (home.path / "tests" / "rules").mkdir(parents=True)
    for name in (*TAKES_A_TURN, "tests/model_alone_script.py"):
        shutil.copy(ROOT / name, home.path / name)
    return home


@pytest.mark.parametrize("package", ["dex", "grpc", "pydantic_ai"])
def test_model__is_alone(home: Home, package: str) -> None:
    tried = home.python("-c", f"import {package}")

    assert tried.stderr.endswith(f"ModuleNotFoundError: No module named '{package}'\n")


@pytest.mark.parametrize(
    ("package", "extra"),
    [("dex_agents_dex", "dex"), ("dex_agents_pydantic_ai", "pydantic-ai")],
)
def test_other_packages__say_which_extra_they_need(home: Home, package: str, extra: str) -> None:
    tried = home.python("-c", f"import {package}")

    assert tried.stderr.endswith(f": install dex-agent-sessions with its extra '{extra}'\n")


def test_model__imports_every_module(home: Home) -> None:
    imported = home.python("-W", "error", "-c", IMPORT_ALL)

    assert (imported.returncode, imported.stderr) == (0, "")


def test_model__takes_a_turn(home: Home) -> None:
    ran = home.python("-W", "error", "-m", "tests.model_alone_script")

    assert (ran.stderr, ran.stdout.splitlines()) == (
        "",
        [
            "StartAgentSession -> RunModel",
            "RunModel asks for CallModel",
            "RunModel -> CallTool, ResumeTurn",
            "CallTool asks for ExecuteTool",
            "CallTool -> EndBranch",
            "ResumeTurn -> RunModel",
            "RunModel -> AwaitUserMessage",
        ],
    )
