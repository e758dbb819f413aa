"""Energy of the draws per frequency band, with the gain of the operator in each (the paper's table beside
lincheck).

As `lincheck`, on the blur alone: the exact solve and C = 5, with the fresh and the arc anchor, truths drawn
by the sampler. The exact solve adds energy where the blur keeps almost nothing.
"""

from __future__ import annotations

from paseo.lab.paper import figure
from paseo.lab.reproduce.calibration import BANDS, Evidence
from paseo.lab.reproduce.findings import PaperFinding
from paseo.lab.reproduce.lincheck import Options, cases, make_prior, make_sampler
from paseo.lab.reproduce.lincheck_findings import Budget
from paseo.lab.reproduce.result import Report
from paseo.lab.text import Value
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur
from paseo.priors.covariance import radial_frequency
from paseo.samplers.anchor import Anchor

__all__ = ["Options", "run"]

RULES: tuple[tuple[Anchor, Budget], ...] = (("fresh", "exact"), ("fresh", 5), ("arc", "exact"), ("arc", 5))
HEADER = ("band", "where", "blur keeps", *(f"{anchor} C={c}" for anchor, c in RULES))


def run(o: Options) -> Report:
    sampler, prior = make_sampler(o), make_prior(o)
    found: dict[tuple[Anchor, Budget], Evidence] = {}
    for case in cases(o, sampler, prior, "blur", "sampler"):
        for rule in RULES:
            drawn = case.rule(sampler, *rule)(prior, case.problem(), Noise(case.seeds))
            more = case.judge(drawn)
            found[rule] = found[rule] + more if rule in found else more
    kept = gains(o.size)
    lines: list[list[Value]] = []
    for band in BANDS:
        lines.append([band, "here", kept[band], *(found[rule].band(band)[0] for rule in RULES)])
        printed = [figure("bands", band, anchor, str(c), column="ratio") for anchor, c in RULES]
        gain = figure("bands", band, "operator", "gain", column="ratio")
        lines.append([band, "paper sd35", gain, *printed])
    exact = [found[rule].band("finest")[0] for rule in RULES if rule[1] == "exact"]
    few = [found[rule].band("finest")[0] for rule in RULES if rule[1] == 5]
    statement = "Where the blur keeps least, the exact solve has more energy than five iterations."
    here = f"{min(exact):.2f} to {max(exact):.2f} against {min(few):.2f} to {max(few):.2f}"
    says = [PaperFinding(statement, "14.5 to 18.7 against 0.92 to 1.19", here, min(exact) > max(few))]
    title = (
        f"Energy per band ÷ the truth's: {o.images} images × {o.draws} draws, {o.channels}×{o.size}×{o.size}"
    )
    return Report(title, HEADER, lines, says, {"images": o.images, "draws": o.draws})


def gains(size: int) -> dict[str, float]:
    """band → mean gain of the blur over the band's frequencies."""
    transfer = LatentBlur.gaussian((size, size)).transfer.abs()
    f = radial_frequency(size, size)
    return {name: transfer[(f >= low) & (f < high)].mean().item() for name, (low, high) in BANDS.items()}
