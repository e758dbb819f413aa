"""Every table of the paper, read from its LaTeX, as `paseo.lab.paper.published` gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from latex import METHODS, TASKS, number, numbers, plain, table, task_of

Key = tuple[str, ...]
Figures = dict[Key, dict[str, float]]
FIVE = ("psnr", "lpips", "kid", "seconds", "gib")
PRIORS = {"RV-v5.1": "rv51", "SD3.5": "sd35", "SD3.5-medium": "sd35"}
ANCHOR_NAMES = {"Denoiser": "denoiser", "Arc": "arc", "Perturbedprior": "fresh"}
WEIGHT_NAMES = {"Hardmask": "mask", "Learnedweight": "soft", "Fixedweight": "fixed"}


def zipped(columns: tuple[str, ...], cells: list[str]) -> dict[str, float]:
    pairs = zip(columns, map(number, cells), strict=True)
    return {name: value for name, value in pairs if value is not None}


def by_prior(rows: list[list[str]], columns: int) -> Iterator[tuple[str, list[str]]]:
    """Rows below a cell that names the prior."""
    prior = ""
    for row in (r for r in rows if len(r) >= columns):
        prior = PRIORS.get(row[0], prior)
        if prior:
            yield prior, row[1:]


def ffhq(tex: str) -> Figures:
    found: Figures = {}
    task = ""
    for row in table(tex, "tab:ffhq-models-full")[2:]:
        if len(row) < 12:
            continue
        task = task_of(row[0]) or task
        for prior, cells in (("rv51", row[2:7]), ("sd35", row[7:12])):
            if cells[0] != "n/a":
                found[prior, task, METHODS[row[1]]] = zipped(FIVE, cells)
    return found


def coco(tex: str) -> Figures:
    found: Figures = {}
    kinds = (
        ("matched", "tab:coco-models-arc", FIVE[1:]),
        ("full", "tab:coco-models-arc-full", ("nfe", *FIVE)),
    )
    for kind, label, columns in kinds:
        task = ""
        for row in table(tex, label)[1:]:
            if len(row) < 3:
                continue
            task = task_of(row[0]) or task
            found[kind, task, METHODS[row[1]]] = zipped(columns, row[2:])
    return found


def jacobian(tex: str) -> Figures:
    found: Figures = {}
    panels = (
        (0, 7, ("r", "value", "value_again", "cosine", "cosine_again")),
        (1, 6, ("magnitude", "adjoint", "norm", "condition")),
    )
    for panel, width, columns in panels:
        for prior, row in by_prior(table(tex, "tab:jacobian", panel), width):
            found.setdefault((prior, task_of(row[0]) or ""), {}).update(zipped(columns, row[1:]))
    return found


def tractable(tex: str) -> Figures:
    groups = {"1.": "ideal", "2.": "approximate", "Fre": "fresh bridge noise", "Fix": "fixed bridge noise"}
    found: Figures = {}
    group = ""
    for row in table(tex, "tab:tractable")[1:]:
        group = next((name for start, name in groups.items() if row[0].startswith(start)), group)
        figures = zipped(("mean_error", "cov_error", "coverage", "spread"), row[1:]) if len(row) == 5 else {}
        if figures:
            rule = row[0].replace("CGC=", "CG C=").replace("exactsolve", "exact solve").replace("rho", "ρ")
            level = re.search(r"beta=([\d.]+)", rule)
            found[group, f"β={float(level.group(1)):g}" if level else rule] = figures
    return found


def lincheck(tex: str) -> Figures:
    """Key: block, operator, rule, C; the sweep has 64 images, the others 100."""
    columns = ("spread", "tv", "finest", "lpips", "real_spread", "real_lpips")
    found: Figures = {}
    block, anchor = "", ""
    for row in (r for r in table(tex, "tab:lincheck")[2:] if len(r) == 7):
        block = {"1": "mask", "2": "compare", "3": "sweep"}.get(row[0].partition(".")[0], block)
        if not (figures := zipped(columns, row[1:])):
            anchor = "arc" if "Arc" in row[0] else "fresh"
            continue
        if block == "mask":
            rule = next(a for part, a in RULES.items() if part in row[0])
            found[block, "mask", rule, "1"] = figures
            continue
        rule = anchor if block == "sweep" else next(a for part, a in RULES.items() if part in row[0])
        budget = re.search(r"C=(\d+)", row[0])
        found[block, "blur", rule, budget.group(1) if budget else "exact"] = figures
    return found


RULES = {"DING": "ding", "beta=1": "fresh", "arc": "arc", "denoiser": "denoiser"}


def bands(tex: str) -> Figures:
    found: Figures = {}
    for row in table(tex, "tab:lincheck-bands")[2:]:
        if len(row) != 6:
            continue
        band = row[0].partition("(")[0]
        found[band, "operator", "gain"] = {"ratio": number(row[1]) or 0.0}
        for key, cell in zip(
            (("fresh", "exact"), ("fresh", "5"), ("arc", "exact"), ("arc", "5")), row[2:], strict=True
        ):
            found[(band, *key)] = dict(zip(("ratio", "low", "high"), numbers(cell), strict=True))
    return found


def anchors(tex: str) -> Figures:
    names = ("arc", "denoiser", "linear", "noisy", "fresh")
    rows = table(tex, "tab:anchor-ablation")[2:]
    return {(prior, task_of(row[0]) or ""): zipped(names, row[1:]) for prior, row in by_prior(rows, 7)}


def ofat(tex: str) -> Figures:
    letters = {
        "count": "P",
        "budget": "C",
        "rho": "rho",
        "scaler": "r",
        "lambda": "lambda",
        "Fresh": "perturb",
    }
    found: Figures = {}
    for prior, label in (("rv51", "tab:ofat-rv"), ("sd35", "tab:ofat-sd35")):
        letter = ""
        for row in (r for r in table(tex, label)[1:] if len(r) == 7):
            figures = zipped(TASKS, row[2:])
            if "Reference" in row[0]:
                found[prior, "reference"] = figures
            elif figures:
                level = row[1].replace("bxi_yonly", "y-only").replace("bxi_zonly", "z-only")
                found[prior, f"{letter}={level}"] = figures
            else:
                letter = next((short for part, short in letters.items() if part in row[0]), letter)
    return found


def one_iteration(tex: str) -> Figures:
    before, after = ("rho", "c", "lpips", "lpips_one"), ("seconds", "seconds_one", "reduction", "speedup")
    found: Figures = {}
    for row in (r for r in table(tex, "tab:cg-cost-quality") if len(r) == 12 and task_of(r[0])):
        change = dict(zip(("delta", "low", "high"), numbers(row[5]), strict=True))
        rest = zipped((*after, "gib", "gib_one"), row[6:])
        found[(task_of(row[0]) or "",)] = {**zipped(before, row[1:5]), **change, **rest}
    return found


def steps(tex: str) -> Figures:
    found: Figures = {}
    for prior, row in by_prior(table(tex, "tab:pareto")[2:], 14):
        for i, k in enumerate(("14", "28", "56", "112")):
            key = (prior, task_of(row[0]) or "", k)
            found[key] = zipped(("lpips", "psnr", "seconds"), row[1 + 3 * i : 4 + 3 * i])
    return found


def cg(tex: str) -> Figures:
    rows = table(tex, "tab:cg")[2:]
    names = ("solves", "mean", "median", "above")
    return {(prior, row[0]): zipped(names, row[1:]) for prior, row in by_prior(rows, 6)}


def draws(tex: str) -> Figures:
    found: Figures = {}
    for prior, row in by_prior(table(tex, "tab:draws", 0)[2:], 5):
        spread = dict(
            zip(("std", "std_hole", "std_visible"), numbers(row[2].replace("(", " ")), strict=False)
        )
        quality = dict(zip(("lpips", "lpips_std"), map(float, row[3].split("pm")), strict=True))
        found[prior, task_of(row[0]) or ""] = {"ratio": float(row[1]), **spread, **quality}
    for prior, row in by_prior(table(tex, "tab:draws", 1)[2:], 4):
        found[prior, task_of(row[0]) or ""].update(zipped(("error", "worst"), row[1:]))
    return found


def inpaint(tex: str) -> Figures:
    columns = ("psnr", "lpips", "lpips_hole", "kid", "seconds")
    groups, found = iter((("rv51", 7), ("sd35", 3), ("coco", 2))), Figures()
    prior, left = "", 0
    for row in (r for r in table(tex, "tab:inpaint-variants") if len(r) == 8 and number(r[3]) is not None):
        if not left:
            prior, left = next(groups)
        left -= 1
        weight = WEIGHT_NAMES[row[2].removesuffix("^dagger")]
        found[prior, f"{ANCHOR_NAMES[row[1]]}+{weight}"] = zipped(columns, row[3:])
    regions = ("whole", "hole crop", "background only", "hole only")
    rows = [r for r in table(tex, "tab:kid-spatial") if len(r) == 5 and number(r[1]) is not None]
    for region, row in zip(regions, rows, strict=True):
        found["region", region, "denoiser"] = zipped(("kid", "fid"), row[1:3])
        found["region", region, "arc"] = zipped(("kid", "fid"), row[3:5])
    return found


def high_nfe(tex: str) -> Figures:
    found: Figures = {}
    for row in (r for r in table(tex, "\\paragraph{\\textsc{SILO} at") if task_of(r[0])):
        found["silo", "999", task_of(row[0]) or ""] = zipped(FIVE, row[1:])
    for row in (r for r in table(tex, "tab:nfe-scaling") if task_of(r[0])):
        task, wins = task_of(row[0]) or "", float(row[1].partition("/")[0])
        few, many = ((row[2], row[5], row[8]), (row[3], row[6], row[9]))
        found["resample", "79", task] = zipped(("psnr", "lpips", "seconds"), list(few))
        found["resample", "999", task] = {
            **zipped(("psnr", "lpips", "seconds"), list(many)),
            "wins": wins,
        }
    for row in (r for r in table(tex, "tab:sd35-1000step") if task_of(r[0])):
        for method, cell in zip(("gml-dps", "ldps", "psld"), row[1:], strict=True):
            if cell != "n/a":
                found[method, "1000", task_of(row[0]) or ""] = zipped(FIVE[:4], cell.split("/"))
    return found


def flow_dps(tex: str) -> Figures:
    found: Figures = {}
    for row in (r for r in table(tex, "tab:flowdps-27nfe-coco200") if task_of(r[0])):
        task = task_of(row[0]) or ""
        for method, cells in (("flow-dps", row[1:7:2]), ("paseo", row[2:7:2])):
            values = [float(v) for cell in cells for v in cell.split("pm")]
            names = ("psnr", "psnr_std", "lpips", "lpips_std", "seconds", "seconds_std")
            found[task, method] = dict(zip(names, values, strict=True))
        found[task, "paseo"] |= {"wins": float(row[7].partition("/")[0]), "speedup": number(row[8]) or 0.0}
    return found


def text(tex: str) -> Figures:
    """Figures that stand in sentences."""
    flat = re.sub(r"\s+", " ", tex)

    def after(pattern: str) -> list[float]:
        found = re.search(pattern, flat)
        assert found, pattern
        return [float(plain(g)) for g in found.groups()]

    n = r"\$?([\d.]+)\$?"
    observed = after(rf"sampler score {n}, {n}, {n}, {n}, and {n} for SR")
    affine = after(rf"affine operator fits the latent measurement {n}--{n}")
    affine = affine or after(r"measurement \$([\d.]+)\$--\$([\d.]+)\$\\,dB")
    rv = after(rf"\\textsc{{DING}} attains {n}\\,dB and {n} LPIPS under RV")
    sd = after(rf"RV-v5.1 and {n}\\,dB and {n} under SD3.5")
    seen = after(rf"ceiling in both cases, {n}\\,dB with the four-channel latent and {n}\\,dB")
    sd_leak, rv_leak, sd_most, rv_most = after(
        r"differ by \$([\d.]+)\\%\$ in relative \$\\ell_1\$ under SD3.5 and \$([\d.]+)\\%\$ under RV-v5.1, "
        r"with maximum per-cell deviations of \$([\d.]+)\$ and \$([\d.]+)\$"
    )
    found: Figures = {("observation", t): {"kid": v} for t, v in zip(TASKS, observed, strict=True)}
    found["affine", "worse"] = dict(zip(("low_db", "high_db"), affine, strict=True))
    found["ding", "rv51"] = {"psnr_hole": rv[0], "lpips_hole": rv[1], "psnr_visible": seen[0]}
    found["ding", "sd35"] = {"psnr_hole": sd[0], "lpips_hole": sd[1], "psnr_visible": seen[1]}
    found["leak", "rv51"] = {"relative_l1": rv_leak / 100, "most": rv_most}
    found["leak", "sd35"] = {"relative_l1": sd_leak / 100, "most": sd_most}
    return found


TABLES: dict[str, Callable[[str], Figures]] = {
    "ffhq": ffhq,
    "coco": coco,
    "jacobian": jacobian,
    "tractable": tractable,
    "lincheck": lincheck,
    "bands": bands,
    "anchors": anchors,
    "ofat": ofat,
    "one-iteration": one_iteration,
    "steps": steps,
    "cg": cg,
    "draws": draws,
    "inpaint": inpaint,
    "high-nfe": high_nfe,
    "flow-dps": flow_dps,
    "text": text,
}
