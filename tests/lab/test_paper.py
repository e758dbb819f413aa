"""Published figures and settings against the paper's LaTeX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from latex import TASKS, number, source, table, task_of
from published import TABLES

from paseo.errors import BadInput
from paseo.lab.paper import names, published
from paseo.samplers import method as find_method
from paseo.samplers.weight import THRESHOLD
from paseo.settings.presets import preset
from paseo.train.operator import OperatorTraining

COLUMNS = ("inner_steps", "cg_budget", "relaxation", "damping", "operator_noise")
LETTERS = {
    "P": "inner_steps",
    "C": "cg_budget",
    "rho": "relaxation",
    "lambda": "damping",
    "r": "operator_noise",
}


@pytest.fixture(scope="module")
def tex() -> str:
    return source()


def test_every_subject_is_compared() -> None:
    assert sorted(TABLES) == names()


@pytest.mark.parametrize("name", TABLES)
def test_figures(name: str, tex: str) -> None:
    printed, kept = TABLES[name](tex), published(name)
    assert set(kept) == set(printed)
    for key, figures in printed.items():
        assert kept[key] == pytest.approx(figures, rel=1e-9, abs=1e-12), key


def test_unknown_subject() -> None:
    with pytest.raises(BadInput, match="there are anchors"):
        published("nothing")


def hyperparameters(tex: str) -> dict[tuple[str, str], list[float]]:
    """(data/model, task) → steps, P, C, ρ, λ, r, CFG."""
    found: dict[tuple[str, str], list[float]] = {}
    model = "ffhq/rv51"
    for row in table(tex, "tab:hyperparameters-ffhq")[1:]:
        model = "ffhq/sd35" if "SD3.5" in row[0] else model
        if len(row) == 7 and (task := task_of(row[0])):
            found[model, task] = [28, *(number(c) or 0.0 for c in row[1:])]
    for row in table(tex, "tab:hyperparameters-coco")[1:]:
        if len(row) == 9 and (task := task_of(row[0])):
            steps, nfe, *rest = (number(c) or 0.0 for c in row[1:])
            assert nfe == 2 * steps - 3
            found["coco/sd35", task] = [steps, *rest]
    return found


def test_presets(tex: str) -> None:
    printed = hyperparameters(tex)
    assert len(printed) == 15
    for (model, task), (steps, *values, guidance) in printed.items():
        p = preset(model, task)
        assert p.sampler.steps == steps
        assert [getattr(p.sampler, name) for name in COLUMNS] == values, (model, task)
        assert p.guidance == guidance
        assert (p.sampler.anchor, p.sampler.cg_tolerance) == ("arc", 1e-5)
        assert p.sampler.perturb_prior
        assert p.sampler.perturb_measurement
        assert p.sampler.weight == ("soft" if task == "inpaint" else "ones")


def test_presets_of_dagger(tex: str) -> None:
    """Only what the table names differs, and the anchor."""
    models = iter(("ffhq/rv51", "ffhq/sd35", "coco/sd35"))
    model, seen = "", 0
    for row in table(tex, "tab:paseo-dagger-settings")[1:]:
        if len(row) != 3:
            continue
        model = next(models) if row[0] else model
        task = task_of(row[1]) or ""
        base, dagger = (vars(preset(model, task, m).sampler) for m in ("paseo", "paseo-dagger"))
        changed = {name: value for name, value in dagger.items() if value != base[name]}
        printed: dict[str, object] = {"anchor": "fresh"}
        printed |= {"weight": "fixed"} if "fixed" in row[2] else {}
        for letter, before, after in re.findall(r"(\w+):([\d.]+)to([\d.]+)", row[2]):
            assert base[LETTERS[letter]] == float(before)
            printed[LETTERS[letter]] = float(after)
        assert changed == printed, (model, task)
        seen += 1
    assert seen == 15


def test_schedules_and_prompts(tex: str) -> None:
    flat = re.sub(r"\s+", " ", tex)
    assert "RV-v5.1 uses this schedule for all tasks." in flat  # ddpm
    assert r"throughout FFHQ and for COCO inpainting. On COCO, SR $\times4$ uses" in flat
    face = re.search(
        r"prompt ``([^']+)'' for FFHQ and ``([^']+)'' for COCO, except for COCO SR \$\\times8\$", flat
    )
    assert face
    for task in TASKS:
        assert preset("ffhq/rv51", task).sampler.eta == "ddpm"
        assert preset("ffhq/sd35", task).sampler.eta == "square"
        eta = {"inpaint": "square", "sr4": "sqrt"}.get(task, "ddpm")
        assert preset("coco/sd35", task).sampler.eta == eta
        assert preset("coco/sd35", task).sampler.start == ("mean" if task == "sr4" else "proxy")
        assert preset("ffhq/rv51", task).prompt == preset("ffhq/sd35", task).prompt == face.group(1)
        assert preset("coco/sd35", task).prompt == (None if task == "sr8" else face.group(2))


def in_section(tex: str, label: str) -> str:
    """The text of a competitor's section."""
    start = tex.index(f"\\label{{{label}}}")
    return re.sub(r"\s+", " ", tex[start : tex.index("\\subsection", start)])


def test_competitors_step_sizes(tex: str) -> None:
    """Printed step sizes in the order of the tasks: SR×4, SR×8, blur, JPEG."""
    printed = {
        "flow-dps": ("sec:comp-flowdps", r"\$10\$ \(SR and blur\) and \$60\$ \(JPEG\)", (10, 10, 10, 60)),
        "flow-chef": ("sec:comp-flowchef", r"\$7.2\$ .*\$1.8\$ .*\$57.6\$", (7.2, 1.8, 7.2, 57.6)),
        "pnp-flow": ("sec:comp-pnpflow", r"\$1.5\$ .*\$9.88\$ .*\$0.1\$ .*\$0.4\$", (1.5, 9.88, 0.1, 0.4)),
        "daps": (
            "sec:comp-daps",
            r"5\\times10\^\{-6\}.*1.1\\times10\^\{-3\}.*3\\times10",
            (5e-6, 1.1e-3, 3e-5, 3e-5),
        ),
        "red-diff": ("sec:comp-reddiff", r"\$1.6\$ .*\$3.2\$ .*\$0.8\$", (1.6, 1.6, 3.2, 0.8)),
    }
    for method, (label, pattern, values) in printed.items():
        assert re.search(pattern, in_section(tex, label)), method
        found = [preset("coco/sd35", task, method).sampler for task in ("sr4", "sr8", "blur", "jpeg")]
        name = "lr" if method in ("pnp-flow", "red-diff") else "step_size"
        assert [getattr(s, name) for s in found] == list(values), method


def test_competitors_silo(tex: str) -> None:
    pairs = re.search(r"scale and flow-shift pairs \$([^$]+)\$", in_section(tex, "sec:comp-silo"))
    assert pairs
    printed = [tuple(map(float, p)) for p in re.findall(r"\(([\d.]+),([\d.]+)\)", pairs.group(1))]
    found = [preset("ffhq/sd35", task, "silo").sampler for task in TASKS]
    assert [(s.scale, s.shift) for s in found] == printed


def test_competitors_budgets() -> None:
    """79 calls on FFHQ, and what the table lists on COCO; DAPS spends three per step."""
    for task in TASKS:
        for (kind, t, method), row in published("coco").items():
            if (kind, t) == ("full", task) and (task, method) != ("jpeg", "psld"):
                sampler = preset("coco/sd35", task, method).sampler
                assert row["nfe"] - sampler.nfe == (1 if method == "daps" else 0)
                assert isinstance(sampler, (find_method("paseo" if "paseo" in method else method)).cls)
        for method in ("silo", "resample", "gml-dps", "ldps"):
            assert preset("ffhq/sd35", task, method).sampler.nfe == 79


def test_weights_below_a_fifth_are_removed(tex: str) -> None:
    found = re.search(r"weights below \$([\d.]+)\$ times the\s+largest weight", tex)
    assert found
    assert float(found.group(1)) == THRESHOLD


def test_training_noise(tex: str) -> None:
    found = re.search(r"s\\sim\\mathcal\{U\}\(0,([\d.]+)\)", tex)
    assert found
    assert float(found.group(1)) == OperatorTraining(task="sr4", data=Path("x"), out=Path("y")).noise
