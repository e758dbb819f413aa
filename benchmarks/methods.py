"""What every method costs per step, with one set of networks: seconds, peak memory, bytes that autograd keeps.

    python benchmarks/methods.py [--arch embedded | sd15 | sd35 | tiny-sd15 | tiny-sd35] [--side 128] [--steps 2] [--json FILE]

Networks have random weights: cost does not depend on what they have learned. Step sizes are small enough to stay finite.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch

from paseo.bench.method_cost import measure_methods
from paseo.files import write_json
from paseo.operators.net import OperatorNet
from paseo.samplers import METHODS

GENTLE: dict[str, dict[str, Any]] = {
    "silo": {"scale": 0.1},
    "resample": {"guidance": 1e-6},
    "psld": {"guidance": 0.1, "gluing": 0.01},
    "gml-dps": {"guidance": 0.1, "goodness": 0.01},
    "ldps": {"guidance": 0.1},
    "daps": {"step_size": 1e-9},
    "red-diff": {"lr": 0.01},
    "flow-dps": {"step_size": 0.01},
    "flow-chef": {"step_size": 0.01},
    "pnp-flow": {"lr": 1e-6},
}


def networks(arch: str, side: int) -> tuple[Any, Any]:
    """A prior and a codec of one architecture, with random weights."""
    if arch == "embedded":
        from paseo.codecs.embedded import EmbeddedCodec
        from paseo.codecs.net import AutoencoderNet
        from paseo.priors.embedded import EmbeddedPrior
        from paseo.priors.net import FlowUNet

        return EmbeddedPrior(FlowUNet()), EmbeddedCodec(AutoencoderNet())
    from paseo.bench.networks import build_rig

    rig = build_rig(arch, dtype=torch.float32, device=torch.device("cpu"), side=side)  # ty: ignore[invalid-argument-type]
    return rig.prior(1.0), rig.codec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="embedded", choices=["embedded", "sd15", "sd35", "tiny-sd15", "tiny-sd35"])
    parser.add_argument("--side", type=int, default=128, help="pixels")
    parser.add_argument("--steps", type=int, default=2, help="steps of each run")
    parser.add_argument("--methods", default=",".join(METHODS), help="names with commas")
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args()
    torch.manual_seed(0)
    prior, codec = networks(given.arch, given.side)
    operator = OperatorNet(codec.channels).eval().requires_grad_(False)
    report = measure_methods(
        prior,
        codec,
        operator,
        side=given.side,
        steps=given.steps,
        methods=given.methods.split(","),
        settings=GENTLE,
        say=lambda text: print(text, file=sys.stderr),
    )
    print(f"{given.arch}, {report.text()}")
    if given.json:
        write_json(given.json, {"arch": given.arch, **report.as_json()})


if __name__ == "__main__":
    main()
