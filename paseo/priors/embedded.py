"""The embedded flow prior: x̂₀ = x − t·u(x, t), with u the small U-Net's velocity."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from paseo.errors import MissingWeights
from paseo.priors.net import FlowUNet
from paseo.schedule import Flow, Schedule


class EmbeddedPrior(nn.Module):
    """E[z | x_t = x] by the flow network; gradients flow through x where a method asks for them."""

    def __init__(self, net: FlowUNet, schedule: Schedule | None = None, digest: str = "") -> None:
        super().__init__()
        self.net = net.eval().requires_grad_(False)
        self.schedule: Schedule = schedule or Flow()
        self.hash = digest
        self.multiple = 2 ** len(net.shrink)  # the latent's sides are halved this often on the way down

    def x0(self, x: Tensor, t: float) -> Tensor:
        time = torch.full((x.shape[0],), t, dtype=x.dtype, device=x.device)
        return x - t * self.net(x, time)

    @classmethod
    def load(cls, folder: Path) -> EmbeddedPrior:
        """From a folder with `prior.safetensors` and the entry "prior" of `config.json`."""
        from safetensors.torch import load_file

        path = folder / "prior.safetensors"
        if not path.is_file():
            raise MissingWeights(
                f"{path.name} is missing in {folder}. Reinstall the package or train one with `paseo train "
                "prior`."
            )
        config = json.loads((folder / "config.json").read_text())["prior"]
        net = FlowUNet(**config["net"])
        net.load_state_dict({k: v.to(torch.float32) for k, v in load_file(path).items()})
        return cls(net, Flow(config.get("shift", 1.0)), hashlib.sha256(path.read_bytes()).hexdigest())
