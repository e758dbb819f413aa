"""The embedded flow prior: x̂₀ = x − t·u(x, t), with u the small U-Net's velocity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paseo.errors import BadInput, MissingWeights
from paseo.priors.local_net import LocalUNet
from paseo.priors.net import FlowUNet
from paseo.schedule import Flow, Schedule
from paseo.weights import build, damaged, part_of

MAPS = 22  # of float32 at the finest level live at the network's peak


def velocity_net(config: Mapping[str, Any]) -> FlowUNet | LocalUNet:
    """The network that a config describes: `"kind": "local"` is the translation-equivariant one."""
    options = {name: value for name, value in config.items() if name != "kind"}
    kind = config.get("kind", "global")
    if kind == "local":
        return LocalUNet(**options)
    if kind == "global":
        return FlowUNet(**options)
    raise BadInput(
        f"config.json names a prior of the kind {kind!r}; this version knows 'global' and 'local'."
    )


class EmbeddedPrior(nn.Module):
    """E[z | x_t = x] by the flow network; gradients flow through x where a method asks for them."""

    def __init__(self, net: FlowUNet | LocalUNet, schedule: Schedule | None = None, digest: str = "") -> None:
        super().__init__()
        self.net = net.eval().requires_grad_(False)
        self.schedule: Schedule = schedule or Flow()
        self.hash = digest
        self.multiple = 2 ** len(net.shrink)  # the latent's sides are halved this often on the way down

    @property
    def receptive_field(self) -> int | None:
        """Cells to each side that are seen; None for a network that sees the whole picture and where it
        is.
        """
        return self.net.receptive_field if isinstance(self.net, LocalUNet) else None

    @property
    def cell_bytes(self) -> int:
        """Peak memory per latent cell, measured (see paseo.memory): so many maps of the finest width."""
        return int(MAPS * 4 * self.net.stem.out_channels)

    @property
    def dtype(self) -> torch.dtype:
        """Of the network; states keep theirs."""
        return self.net.stem.weight.dtype

    def x0(self, x: Tensor, t: float) -> Tensor:
        time = torch.full((x.shape[0],), t, dtype=x.dtype, device=x.device)
        return x - t * self.net(x.to(self.dtype), time).to(x.dtype)

    @classmethod
    def load(cls, folder: Path) -> EmbeddedPrior:
        """From a folder with `prior.safetensors` and the entry "prior" of `config.json`."""
        path = folder / "prior.safetensors"
        if not path.is_file():
            raise MissingWeights(
                f"{path.name} is missing in {folder}. Reinstall the package or train one with `paseo train "
                "prior`."
            )
        config, sums = part_of(folder, "prior")
        with damaged(folder / "config.json"):
            schedule = Flow(float(config.get("shift", 1.0)))
        net, digest = build(lambda: velocity_net(config["net"]), path, sums)
        return cls(net, schedule, digest)
