"""The project's own files agree: dependencies with imports, locks with constraints, the reference with the
modules.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
MODULE_OF = {"pillow": "PIL", "pyyaml": "yaml", "scikit-image": "skimage"}  # where the names differ
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def declared(requirements: list[str]) -> set[str]:
    """Names of the modules that these requirements bring."""
    names = [canonicalize_name(Requirement(text).name) for text in requirements]
    return {MODULE_OF.get(name, name.replace("-", "_")) for name in names}


def imported(folder: Path) -> set[str]:
    """Top-level packages of others that the files of a folder import, also by `import_module`."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        found.update(re.findall(r"import_module\(\"(\w+)", source))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found - sys.stdlib_module_names - {"paseo", "_typeshed"}  # the last one is for type checkers alone


EXTRAS = {name: declared(needs) for name, needs in PROJECT["optional-dependencies"].items()}
OURS = set().union(
    *(EXTRAS[name] for name in ("plots", "tune", "ray", "ui", "synthetic"))
)  # of `faces` files are read


def test_what_is_imported_is_declared_and_nothing_else() -> None:
    core, used = declared(PROJECT["dependencies"]), imported(ROOT / "paseo")
    assert used - core == OURS - core
    assert core <= used


def pins(path: Path) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", path.read_text(encoding="utf-8"), re.M)
    return {canonicalize_name(name): version for name, version in found}


def test_the_locks_have_the_versions_of_the_constraints_and_a_digest_for_each() -> None:
    locks = [ROOT / "locks" / f"{name}.lock" for name in ("project", "docs", "ui")]
    locked = {name: version for path in locks for name, version in pins(path).items()}
    wanted = pins(ROOT / "constraints.txt")
    assert wanted.pop("torch") == "2.13.0"
    assert locked == wanted
    assert sum(len(pins(path)) for path in locks) == len(locked)  # none twice
    for path in [*locks, ROOT / "locks" / "lpips.lock"]:
        entries = re.split(r"^(?=\S+==)", path.read_text(encoding="utf-8"), flags=re.M)[1:]
        assert entries
        assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


@pytest.mark.parametrize("extra", [None, "plots", "tune", "test", "dev", "docs", "ui", "browser"])
def test_the_constraints_fit_what_is_declared(extra: str | None) -> None:
    wanted = pins(ROOT / "constraints.txt")
    for text in PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]:
        need = Requirement(text)
        assert need.specifier.contains(wanted[canonicalize_name(need.name)]), text


def test_the_checkers_are_pinned() -> None:
    assert all("==" in text for text in PROJECT["optional-dependencies"]["dev"])


def test_our_deprecation_warnings_are_errors() -> None:
    with pytest.raises(DeprecationWarning, match="old"):
        warnings.warn_explicit("old", DeprecationWarning, "base.py", 1, module="paseo.base")
    warnings.warn_explicit("old", DeprecationWarning, "other.py", 1, module="other")  # theirs: ignored


@pytest.mark.parametrize("name", ["presets", "pipeline", "reproduce", "bench"])
def test_a_name_that_moved_says_where(name: str) -> None:
    import paseo

    with pytest.warns(DeprecationWarning, match=rf"paseo\.{name} is now paseo\.\w+\.{name}"):
        assert getattr(paseo, name).__name__.endswith(name)


def public_modules() -> set[str]:
    """A room with `__all__` speaks for its files; of one without, each file is public. The command line, the
    page and the demo are used by other ways than Python.
    """
    found: set[str] = set()
    skipped = {"apps/cli", "apps/ui", "apps/demo"}

    def visit(folder: Path) -> None:
        for path in sorted(folder.iterdir()):
            where = path.relative_to(ROOT / "paseo").as_posix()
            if path.suffix == ".py" and not path.name.startswith("_") and folder.name != "apps":
                found.add(f"paseo/{where}".removesuffix(".py").replace("/", "."))
            elif (path / "__init__.py").is_file() and where not in skipped:
                if "__all__" in (path / "__init__.py").read_text(encoding="utf-8"):
                    found.add(f"paseo/{where}".replace("/", "."))
                else:
                    visit(path)

    visit(ROOT / "paseo")
    return found


def test_the_reference_has_every_public_module() -> None:
    text = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("api.md", "api-lab.md"))
    listed = re.findall(r"automodule:: (\S+)", text)
    assert len(listed) == len(set(listed))
    assert sorted(public_modules() - set(listed)) == []
    assert all(
        (ROOT / m.replace(".", "/")).is_dir() or (ROOT / f"{m.replace('.', '/')}.py").is_file()
        for m in listed
    )


def test_the_reference_has_every_public_name() -> None:
    import paseo

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    errors = {name for name in paseo.__all__ if name in dir(paseo.errors)}  # listed with their module
    names = set(paseo.__all__) - errors - {"__version__"}
    assert sorted(name for name in names if not re.search(rf":: paseo\.{name}$", text, re.M)) == []


def test_workflows_call_targets_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert len(WORKFLOWS) == 3
    for path in WORKFLOWS:
        flow = yaml.safe_load(path.read_text(encoding="utf-8"))
        jobs = flow["jobs"].values()
        matrix = [t for job in jobs for t in job.get("strategy", {}).get("matrix", {}).get("target", [])]
        called = [
            word
            for job in jobs
            for step in job["steps"]
            if (run := step.get("run", "")).startswith("make ")
            for word in run.split()[1:]
            if word.replace("-", "").isalpha() and word != "matrix.target"
        ]
        assert set(called) | set(matrix) <= targets
    assert "make lint\nmake test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_ends_that_are_tested_are_the_ends_that_are_declared() -> None:
    flow = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text(encoding="utf-8"))
    lowest, newest = flow["jobs"]["versions"]["strategy"]["matrix"]["include"]
    assert PROJECT["requires-python"] == f">={lowest['python']}"
    assert f"torch>={lowest['torch'].removeprefix('torch==').removesuffix('.0')}" in PROJECT["dependencies"]
    pythons = [c.split(" :: ")[-1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert (pythons[0], pythons[-1]) == (lowest["python"], newest["python"])


def test_the_citation_agrees_with_the_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
    assert all(url.startswith(PROJECT["urls"]["Repository"]) for url in PROJECT["urls"].values())


def test_the_card_says_where_its_pictures_come_from() -> None:
    card = (ROOT / "paseo/models/faces-128/README.md").read_text(encoding="utf-8")
    assert not re.search(r"^license: apache-2.0$", card, re.M)
    assert all(word in card for word in ("StyleGAN2", "FFHQ", "restricts commercial use"))


def test_no_page_installs_us_from_the_index() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "paseo").rglob("*.py")]
    shown = [p.name for p in pages if re.search(r"pip install '?paseo", p.read_text(encoding="utf-8"))]
    assert shown == []


TORCHVISION = {  # enough of it for the imports of transformers and diffusers
    "__init__.py": '__version__ = "0.28.0"\n',
    "io.py": "def __getattr__(name):\n    return object\n",
    "ops.py": "def __getattr__(name):\n    return object\n",
    "transforms/__init__.py": (
        "import enum\n\n"
        "class InterpolationMode(enum.Enum):\n"
        "    NEAREST = 'nearest'\n    NEAREST_EXACT = 'nearest-exact'\n    BILINEAR = 'bilinear'\n"
        "    BICUBIC = 'bicubic'\n    BOX = 'box'\n    HAMMING = 'hamming'\n    LANCZOS = 'lanczos'\n\n"
        "def __getattr__(name):\n    return object\n"
    ),
    "transforms/functional.py": "def __getattr__(name):\n    return object\n",
    "transforms/v2/__init__.py": "def __getattr__(name):\n    return object\n",
    "transforms/v2/functional.py": "def __getattr__(name):\n    return object\n",
}


def test_pipelines_load_where_torchvision_is_installed(tmp_path: Path) -> None:
    """transformers and diffusers take other ways when it is there; ours must not depend on which."""
    for name, source in TORCHVISION.items():
        path = tmp_path / "torchvision" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    code = (
        "import torchvision; from paseo.testing import tiny_pipeline; from paseo.hub.doctor import diagnose\n"
    )
    code += "import paseo; paseo.PaseoPipeline; tiny_pipeline('sd'); tiny_pipeline('sd3')\n"
    code += "assert all(c.status != 'fault' for c in diagnose()), diagnose()"
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
