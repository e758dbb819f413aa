"""Two operators of one network, blended: the weights θ_A + share · (θ_B − θ_A), with A's stored errors.

    python benchmarks/blend.py OLD NEW OUT --share 0.8     four fifths of a further training: less overfitted
    python benchmarks/blend.py OLD NEW OUT --share -0.15   a step back from where a further training leads

A share between 0 and 1 averages. A negative one gives a smoother operator than OLD where NEW was trained on
from it: JPEG is a staircase, and the more of its steps an operator has learned, the worse its derivative
(docs/beyond.md, "An operator can be trained too long").
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from paseo.errors import BadInput
from paseo.operators.net import OperatorNet
from paseo.operators.store import load_operator, save_operator

LOW, HIGH = -1.0, 2.0


def blend(a: OperatorNet, b: OperatorNet, share: float) -> OperatorNet:
    """a, moved towards b by `share` of the way."""
    if not LOW <= share <= HIGH:
        raise BadInput(f"--share {share}: expected a number from {LOW:g} to {HIGH:g}.")
    own, other = a.state_dict(), b.state_dict()
    if {k: v.shape for k, v in own.items()} != {k: v.shape for k, v in other.items()}:
        raise BadInput("The two operators are different networks: only weights of one shape can be blended.")
    if a.spec.degradation != b.spec.degradation or a.spec.vae_hash != b.spec.vae_hash:
        raise BadInput("The two operators belong to different degradations or autoencoders.")
    a.load_state_dict({k: v + share * (other[k] - v) for k, v in own.items()})
    steps = b.spec.training.get("steps")
    a.spec = replace(a.spec, training=a.spec.training | {"blended": {"share": share, "other_steps": steps}})
    return a


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, help="folder of operator A")
    parser.add_argument("new", type=Path, help="folder of operator B")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--share", type=float, required=True, help="0 is A, 1 is B")
    args = parser.parse_args()
    net = blend(load_operator(args.old), load_operator(args.new), args.share)
    save_operator(net, args.out, half=True)


if __name__ == "__main__":
    main()
