"""The operator network as a diffusers model: save_pretrained, from_pretrained, push_to_hub, a component of a
pipeline.

Same parameters, same files as `paseo.operators.store`; kept apart because importing diffusers takes seconds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config  # noqa: TID253 (this file is the diffusers face)
from diffusers.models.modeling_utils import ModelMixin  # noqa: TID253
from torch import nn

from paseo.operators.config import NoiseUnit, OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import CONFIG, OTHER_WEIGHTS, WEIGHTS, load_operator


class OperatorModel(ModelMixin, OperatorNet, ConfigMixin):
    """H_ψ with a diffusers face; `config` is the `OperatorConfig` as a dictionary."""

    config_name = CONFIG
    _supports_gradient_checkpointing = False
    _no_split_modules = ("Block",)

    @register_to_config
    def __init__(
        self,
        channels: int,
        latent_space: str = "",
        vae_hash: str = "",
        degradation: str = "",
        degradation_params: dict[str, Any] | None = None,
        noise_range: tuple[float, float] = (0.0, 0.02),
        noise_unit: NoiseUnit = "unit",
        residual: tuple[float, ...] = (),
        training: dict[str, Any] | None = None,
    ) -> None:
        nn.Module.__init__(self)
        params, training = dict(degradation_params or {}), dict(training or {})
        spec = OperatorConfig(
            channels, latent_space, vae_hash, degradation, params, noise_range, noise_unit, residual, training
        )
        OperatorNet.__init__(self, spec)
        # what ModelMixin.__init__ sets; calling it would start the chain again
        self._gradient_checkpointing_func = None

    @classmethod
    def from_net(cls, net: OperatorNet) -> Self:
        """The same operator with the diffusers face; the weights are copied."""
        model = cls(**net.spec.to_dict())
        model.load_state_dict(net.state_dict())
        parameter = next(net.parameters())
        return nn.Module.to(model, parameter.device, parameter.dtype).train(
            net.training
        )  # without a warning of ModelMixin.to

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str] | None, **kwargs: Any
    ) -> Self:
        """As in diffusers; a local folder whose weights are named model.safetensors is read too."""
        folder = Path(pretrained_model_name_or_path or "") / kwargs.get("subfolder", "")
        if (
            (folder / CONFIG).is_file()
            and any((folder / name).is_file() for name in OTHER_WEIGHTS)
            and not (folder / WEIGHTS).is_file()
        ):
            return cls.from_net(load_operator(folder)).to(dtype=kwargs.get("dtype") or torch.float32)
        return super().from_pretrained(pretrained_model_name_or_path, **kwargs)
