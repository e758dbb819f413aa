"""The package as a user meets it: light to import, typed, and without what must not be there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import paseo

HEAVY = {
    "torch",
    "numpy",
    "PIL",
    "diffusers",
    "transformers",
    "accelerate",
    "matplotlib",
    "optuna",
    "scipy",
    "safetensors",
}


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running `code`."""
    script = f"{code}\nimport sys, json\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_loads_nothing_heavy() -> None:
    assert not modules_after("import paseo; paseo.__version__") & HEAVY


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["restore", "--help"], ["demo", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from paseo.apps.cli.main import main
sys.argv = ["paseo", *{arguments}]
try:
    main()
except SystemExit as stop:
    assert not stop.code"""
    assert not modules_after(code) & HEAVY


@pytest.mark.parametrize(
    "code",
    [
        "import paseo; assert callable(paseo.restore); import paseo.street; assert callable(paseo.restore)",
        "from paseo.street import Restored; import paseo; assert paseo.Restored is Restored",
        "import paseo; assert paseo.reproduce.run and paseo.presets.preset and paseo.bench",
        "from paseo import *; assert PASEO().steps == 28 and callable(restore)",
        "import paseo; assert paseo.linalg.cg and paseo.samplers.PASEO is paseo.PASEO",
    ],
)
def test_names_mean_the_same_in_every_order_of_import(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", paseo.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(paseo, name) is not None
    assert name in dir(paseo)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = paseo.nothing


def test_version_is_the_projects() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert project["version"] == paseo.__version__


def test_the_package_is_typed() -> None:
    assert (Path(paseo.__file__).parent / "py.typed").is_file()


def test_constraints_name_torch_first_and_exactly() -> None:
    lines = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins[0] == "torch==2.13.0"
    assert all("==" in line for line in pins)
    assert not any(line.lower().startswith(("torchvision", "lpips==")) for line in pins)
