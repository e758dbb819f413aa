"""What a prompt becomes: token embeddings, the pooled vector of SDXL and SD3, and the same for the negative
prompt.

Embeddings can be kept in a file, so that the text encoders (T5 alone weighs 9 GB) need not be loaded again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from paseo.errors import BadInput, NotFinite, PaseoError
from paseo.files import atomic
from paseo.setting import values_of
from paseo.weights import damaged, read_weights


@dataclass(frozen=True, eq=False)
class Conditioning:
    """Embeddings of one prompt, or of one prompt per image."""

    prompt: Tensor  # (1 or B, tokens, width)
    pooled: Tensor | None = None  # (1 or B, width), SDXL and SD3
    negative: Tensor | None = None  # as `prompt`; None where no guidance is wanted
    negative_pooled: Tensor | None = None

    def __post_init__(self) -> None:
        for name, value in self.parts().items():
            ndim = 2 if name.endswith("pooled") else 3
            if value.ndim != ndim:
                raise BadInput(
                    f"{name} embeddings must have {ndim} axes, (prompts, …), got the shape "
                    f"{tuple(value.shape)}."
                )
        if self.negative is not None and self.negative.shape[1:] != self.prompt.shape[1:]:
            raise BadInput(
                f"Prompt and negative prompt embeddings differ: {tuple(self.prompt.shape)} and "
                f"{tuple(self.negative.shape)}."
            )
        if (self.pooled is None) != (self.negative_pooled is None) and self.negative is not None:
            raise BadInput(
                "Pooled embeddings are needed for both the prompt and the negative prompt, or for neither."
            )

    def parts(self) -> dict[str, Tensor]:
        """The embeddings that are there, by name."""
        return {name: value for name, value in values_of(self).items() if value is not None}

    def check_finite(self) -> None:
        """Text encoders overflow in float16 now and then."""
        for name, value in self.parts().items():
            if not torch.isfinite(value).all():
                raise NotFinite(
                    f"The {name} embeddings hold NaN or infinite values. Encode the prompt in bfloat16 "
                    "or float32."
                )

    def map(self, change: Callable[[Tensor], Tensor]) -> Conditioning:
        """The same change to every part."""
        return Conditioning(**{name: change(value) for name, value in self.parts().items()})

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Conditioning:
        return self.map(lambda v: v.to(device=device, dtype=dtype))

    def for_batch(self, count: int) -> Conditioning:
        """One row per image: a single prompt is shared, several must match the batch."""
        for value in (self.prompt, self.negative):
            if value is not None and len(value) not in (1, count):
                raise BadInput(
                    f"{len(value)} prompts were given for {count} images: give one for all, or one for each."
                )
        return self.map(lambda v: v if len(v) == count else v.expand(count, *v.shape[1:]))

    def repeat(self, times: int) -> Conditioning:
        """Each row `times` in a row, for several draws of each image."""
        return self.map(lambda v: v if len(v) == 1 else v.repeat_interleave(times, dim=0))

    def positive(self) -> Conditioning:
        return replace(self, negative=None, negative_pooled=None)

    def both(self) -> Conditioning:
        """Negative rows, then positive ones, as one batch."""
        if self.negative is None:
            raise BadInput("These embeddings have no negative part; encode them with guidance on.")
        pooled = (
            None
            if self.pooled is None or self.negative_pooled is None
            else torch.cat([self.negative_pooled, self.pooled])
        )
        return Conditioning(torch.cat([self.negative, self.prompt]), pooled)

    def save(self, path: str | Path) -> Path:
        """As safetensors, whole or not at all."""
        from safetensors.torch import save

        parts = {name: value.detach().cpu().contiguous() for name, value in self.parts().items()}
        with atomic(path) as file:
            file.write(save(parts))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Conditioning:
        try:
            parts, _ = read_weights(Path(path))
        except PaseoError as error:
            raise BadInput(f"{path} holds no prompt embeddings: {error}") from error
        known = {f.name for f in fields(cls)}
        if "prompt" not in parts or not parts.keys() <= known:
            raise BadInput(
                f"{path} holds {', '.join(sorted(parts))}; prompt embeddings have {', '.join(sorted(known))}."
            )
        with damaged(path):
            return cls(**parts)
